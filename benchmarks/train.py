"""Target tokens a second in training, beside JoeyNMT: one model, one set of weights, the same batches, in turns.

    python benchmarks/train.py [--json] [--quick]

A turn is whole updates: a batch is made of ids, the loss and its gradients are computed, clipped and applied by one
and the same kind of AdamW. Before anything is timed both sides must give one loss.
"""

import argparse
import random
import sys
from typing import Any, NamedTuple

import torch
from torch import nn

import joey
from regard.data.batching import TextBatches
from regard.layers.objective import Objective
from regard.models.recurrent import RecurrentTranslator
from regard.models.settings import RecurrentSettings
from regard.training.optimizer import make_optimizer
from regard.training.processes import Processes
from regard.training.settings import TrainingSettings
from regard.training.update import Updater
from turns import in_turns, peak_mebibytes, tell

VARIANTS: dict[str, dict[str, Any]] = {
    "Bahdanau's score, input feeding": {"attention": "additive", "input_feeding": True},
    "Luong's general, no feeding": {"attention": "general", "input_feeding": False},
}
SMOOTHING = 0.1


class Sizes(NamedTuple):
    """Pairs a batch, positions of the longest (marks counted), widths and words."""

    pairs: int
    positions: int
    embedding: int
    hidden: int
    words: int


def translator(chosen: dict[str, Any], sizes: Sizes, dropout: float) -> RecurrentTranslator:
    """A GRU of `hidden` in all, half in each direction of the encoder."""
    settings = RecurrentSettings(
        cell="gru",
        embedding_dim=sizes.embedding,
        encoder_dim=sizes.hidden // 2,
        attention_dim=sizes.hidden,
        readout_dim=sizes.hidden,
        dropout=dropout,
        **chosen,
    )
    torch.manual_seed(0)
    return RecurrentTranslator(settings, sizes.words, sizes.words)


def sentences(sizes: Sizes, batches: int, shortest: int) -> TextBatches:
    """Pairs of random words, lengths even between the shortest and the longest, each side by itself."""
    chance = random.Random(0)

    def words(longest: int) -> list[int]:
        return [chance.randrange(4, sizes.words) for _ in range(chance.randint(shortest, longest))]

    sides = [[words(sizes.positions - 1) for _ in range(sizes.pairs * batches)] for _ in range(2)]
    return TextBatches(*sides, tokens=sizes.pairs * sizes.positions)


def regard_side(
    model: RecurrentTranslator, data: TextBatches, plan: list[list[int]], training: TrainingSettings
) -> Any:
    """Updates as `regard train` makes them."""

    def objective(model: nn.Module, batch: Any) -> Objective:
        outcome: Objective = model(batch, SMOOTHING)
        return outcome

    model.train()
    updater = Updater(model, objective, make_optimizer(model, training), data, Processes(), training)
    return lambda: [updater.update([indices], 1e-4, "benchmark") for indices in plan]


def joey_side(model: Any, data: TextBatches, plan: list[list[int]], training: TrainingSettings) -> Any:
    """Updates as JoeyNMT's trainer makes them, with the same AdamW."""
    model.train()
    optimizer = make_optimizer(model, training)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4

    def update(indices: list[int]) -> None:
        batch = joey.batch_of(data.load(indices))
        total, correct = joey.loss(model, batch)
        loss = batch.normalize(total, normalization="tokens")
        loss.backward()
        loss.item(), correct.item()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        optimizer.zero_grad()

    return lambda: [update(indices) for indices in plan]


def same_loss(chosen: dict[str, Any], sizes: Sizes, data: TextBatches, indices: list[int]) -> None:
    """Refuse to compare what does not compute the same."""
    ours = translator(chosen, sizes, dropout=0.0).eval()
    theirs = joey.model_of(ours, smoothing=0.0).eval()
    with torch.no_grad():
        batch = data.load(indices)
        one, (other, _) = ours.objective(batch).total, joey.loss(theirs, joey.batch_of(batch))
    if not torch.allclose(one, other, rtol=1e-5):
        raise SystemExit(f"the two models differ: loss {float(one)} and {float(other)}")


def compare(name: str, sizes: Sizes, shortest: int, dropout: float, batches: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    chosen = VARIANTS[name]
    data = sentences(sizes, batches, shortest)
    # Batches of as many pairs as asked for, in the order drawn: what bucketing gains is not counted here.
    plan = [list(range(sizes.pairs * number, sizes.pairs * (number + 1))) for number in range(batches)]
    tokens = sum(int(data.load(indices).target_lengths.sum()) for indices in plan)
    same_loss(chosen, sizes, data, plan[0])
    training = TrainingSettings(weight_decay=0.0)
    model = translator(chosen, sizes, dropout)
    sides = {
        "joeynmt": joey_side(joey.model_of(model, SMOOTHING), data, plan, training),
        "regard": regard_side(model, data, plan, training),
    }
    memory = {name: peak_mebibytes(side) for name, side in sides.items()}
    seconds = in_turns(sides, rounds)
    row: dict[str, Any] = {"model": name, "lengths": f"{shortest + 1}-{sizes.positions}", "dropout": dropout}
    for side in sides:
        row[f"{side} tokens/s"] = round(tokens / seconds[side]["processor"])
        row[f"{side} MiB"] = round(memory[side])
    for kind in ("processor", "clock"):
        row[f"ratio, {kind}"] = seconds["joeynmt"][kind] / seconds["regard"][kind]
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=1, help="updates of each side in a round")
    parser.add_argument("--dropout", type=float, default=0.2)
    given = parser.parse_args(arguments)
    sizes = Sizes(5, 7, 11, 26, 31) if given.quick else Sizes(80, 30, 256, 512, 8192)
    batches, rounds = (1, 1) if given.quick else (given.batches, given.rounds)
    torch.set_num_threads(1)
    shortest = (2,) if given.quick else (9, sizes.positions - 1)
    rows = [compare(name, sizes, least, given.dropout, batches, rounds) for name in VARIANTS for least in shortest]
    tell(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
