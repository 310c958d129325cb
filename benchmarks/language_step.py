"""Updates a second at nanoGPT's sizes, beside nanoGPT's own model: equal weights, the same windows, in turns.

    curl -O https://raw.githubusercontent.com/karpathy/nanoGPT/master/model.py
    python benchmarks/language_step.py model.py [--json] [--quick]

An update is what each trains by: windows drawn from a text, the loss, its gradient, clipped at 1, and a step of AdamW
(nanoGPT's loop with its own `configure_optimizers`; regard's `Updater`). In every second row both have regard's AdamW.
Before anything is timed both must give one loss. The sizes are those that nanoGPT's README has for a CPU, and those
that it has for its first model on a GPU, with a batch for a CPU (4 windows instead of 64). All takes some two minutes.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.data.language.stream import WindowBatches
from regard.layers.objective import Objective
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings
from regard.training.optimizer import make_optimizer
from regard.training.processes.processes import Processes
from regard.training.settings import TrainingSettings
from regard.training.update import Updater
from turns import in_turns, report


class Sizes(NamedTuple):
    """Of the model and its batches; characters. And how many updates each side makes in a round."""

    layers: int
    heads: int
    dim: int
    context: int
    batch: int
    vocabulary: int
    updates: int


ROWS = {"4 x 128": Sizes(4, 4, 128, 64, 12, 65, 10), "6 x 384": Sizes(6, 6, 384, 256, 4, 65, 2)}
TOY = {"toy": Sizes(2, 2, 8, 5, 3, 11, 2)}
TRAINING = TrainingSettings(learning_rate=1e-3, beta2=0.99, weight_decay=0.1, clip=1.0)


def nanogpt(file: Path, sizes: Sizes) -> Any:
    """NanoGPT's model of these sizes, without biases and dropout as its README has it for a CPU."""
    spec = importlib.util.spec_from_file_location("nanogpt", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file; give nanoGPT's model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt"] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    config = module.GPTConfig(
        block_size=sizes.context,
        vocab_size=sizes.vocabulary,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_embd=sizes.dim,
        dropout=0.0,
        bias=False,
    )
    return module.GPT(config).train()


def same_weights(theirs: Any, sizes: Sizes) -> TransformerLanguageModel:
    """regard's language model with the weights of theirs."""
    settings = TransformerLanguageSettings(
        dim=sizes.dim,
        heads=sizes.heads,
        layers=sizes.layers,
        position="learned",
        context=sizes.context,
        bias=False,
        dropout=0.0,
    )
    ours = TransformerLanguageModel(settings, sizes.vocabulary).train()
    body = theirs.transformer
    pairs = [(ours.embedding, body.wte), (ours.stack.position, body.wpe), (ours.stack.norm, body.ln_f)]
    for block, layer in zip(list(ours.stack.blocks), body.h, strict=True):
        pairs += [(block.attention_norm, layer.ln_1), (block.feed_forward_norm, layer.ln_2)]
        pairs += [(block.attention.inputs, layer.attn.c_attn), (block.attention.output, layer.attn.c_proj)]
        pairs += [(block.feed_forward.inputs, layer.mlp.c_fc), (block.feed_forward.output, layer.mlp.c_proj)]
    with torch.no_grad():
        for mine, given in pairs:
            mine.weight.copy_(given.weight)
    return ours


def their_side(model: Any, data: WindowBatches, plan: list[list[int]], optimizer: torch.optim.Optimizer) -> Any:
    """Updates as nanoGPT's train.py makes them."""

    def update(indices: list[int]) -> None:
        ids = data.load(indices).ids
        _, loss = model(ids[:, :-1], ids[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return lambda: [update(indices) for indices in plan]


def our_side(model: TransformerLanguageModel, data: WindowBatches, plan: list[list[int]]) -> Any:
    """Updates as `regard train` makes them."""

    def objective(model: nn.Module, batch: Any) -> Objective:
        outcome: Objective = model(batch.ids)
        return outcome

    updater = Updater(model, objective, make_optimizer(model, TRAINING), data, Processes(), TRAINING)
    return lambda: [updater.update([indices], 1e-3, "benchmark") for indices in plan]


def compare(file: Path, name: str, sizes: Sizes, own: bool, rounds: int) -> dict[str, Any]:
    """One row of the table.

    Args:
        file: nanoGPT's model.py.
        name: of the row.
        sizes: of the model.
        own: whether theirs has its own optimizer, or regard's.
        rounds: of turns.
    """
    theirs = nanogpt(file, sizes)
    ours = same_weights(theirs, sizes)
    text = np.random.default_rng(0).integers(4, sizes.vocabulary, 10_000)
    data = WindowBatches(text, sizes.context, sizes.batch, seed=0)
    plan = list(data.plan(0))[: sizes.updates]
    with torch.no_grad():
        ids = data.load(plan[0]).ids
        one, found = theirs(ids[:, :-1], ids[:, 1:].contiguous())[1], ours(ids)
    if not torch.allclose(one, found.total / found.count, rtol=1e-5):
        raise SystemExit(f"the two models differ: loss {float(one)} and {float(found.total / found.count)}")
    optimizer = theirs.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu") if own else make_optimizer(theirs, TRAINING)
    sides = {"nanogpt": their_side(theirs, data, plan, optimizer), "regard": our_side(ours, data, plan)}
    seconds = in_turns(sides, rounds)
    row: dict[str, Any] = {"model": name, "optimizer": "each its own" if own else "regard's for both"}
    for side in sides:
        row[f"{side} updates/s"] = len(plan) / seconds[side]["processor"]
    for kind in ("processor", "clock"):
        row[f"ratio, {kind}"] = seconds["nanogpt"][kind] / seconds["regard"][kind]
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="nanoGPT's model.py")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows, rounds = (TOY, 1) if options.quick else (ROWS, options.rounds)
    kinds = [(name, sizes, own) for name, sizes in rows.items() for own in (True, False)]
    report([compare(options.model, *kind, rounds) for kind in kinds], options.json)


if __name__ == "__main__":
    sys.exit(main())
