"""A tiny Transformer language model to train on several processes. Also a program for `torchrun`.

python -m tests.training.processes.transformer_shared RUN '{"steps": 5, "shard": true}' '{"resume": false}'
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

os.environ["ACCELERATE_USE_CPU"] = "true"

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from regard.layers.transformer.stack import checkpoint_activations  # noqa: E402
from regard.models.transformer.language import TransformerLanguageModel  # noqa: E402
from regard.models.transformer.settings import TransformerLanguageSettings  # noqa: E402
from regard.training.loop import train  # noqa: E402
from regard.training.run.run import RunFolder  # noqa: E402
from regard.training.settings import TrainingSettings  # noqa: E402

PIECES, ITEMS, ROWS = 17, 11, 5


class Batch(NamedTuple):
    ids: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.ids.to(device))


class Walks:
    """Eleven walks x → 3x + 1 (mod 13) in batches of five, five and one: the second process has no row of the third."""

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows

    def plan(self, epoch: int) -> list[list[int]]:
        order = [(7 * item + epoch) % ITEMS for item in range(ITEMS)]
        return [order[start : start + self.rows] for start in range(0, ITEMS, self.rows)]

    def load(self, indices: list[int]) -> Batch:
        walks = [[index] for index in indices]
        for walk in walks:
            for _ in range(6):
                walk.append((3 * walk[-1] + 1) % 13)
        return Batch(torch.tensor(walks) + 4)


def build(seed: int = 3) -> TransformerLanguageModel:
    torch.manual_seed(seed)
    return TransformerLanguageModel(
        TransformerLanguageSettings(dim=10, heads=2, layers=2, position="sinusoidal", dropout=0), PIECES
    )


def objective(model: nn.Module, batch: Batch) -> Any:
    return model(batch.ids)


def loss(model: nn.Module) -> dict[str, float]:
    outcome = objective(model, Walks().load(list(range(ITEMS))))
    return {"loss": (outcome.total / outcome.count).item()}


def run(path: Path, rows: int = ROWS, resume: bool = False, recompute: bool = False, **changes: Any) -> nn.Module:
    plain = {"steps": 6, "learning_rate": 0.01, "warmup_steps": 2, "decay": "none", "log_every": 1, "validate_every": 3}
    model = build()
    if recompute:
        checkpoint_activations(model)
    settings = TrainingSettings(**{**plain, **changes})
    train(RunFolder(path), model, objective, Walks(rows), loss, settings, 5, progress="silent", resume=resume)
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), **json.loads(sys.argv[2]))
