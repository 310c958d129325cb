"""Target tokens a second in training, beside JoeyNMT: one model, one set of weights, the same batches, in turns.

    python benchmarks/train.py [--json] [--quick]

A turn is whole updates: a batch is made of ids, the loss and its gradients are computed, clipped and applied by one
and the same kind of AdamW. Before anything is timed both sides must give one loss.
"""

import argparse
import sys
from typing import Any

import torch

import joey
from regard.data.translation.batches import TextBatches
from regard.training.settings import TrainingSettings
from translators import SMOOTHING, VARIANTS, Sizes, measured, other_side, regard_side, sentences, translator
from turns import report


def joey_side(model: Any, data: TextBatches, plan: list[list[int]], training: TrainingSettings) -> Any:
    """Updates as JoeyNMT's trainer makes them, with the same AdamW."""

    def gradients(indices: list[int]) -> None:
        batch = joey.batch_of(data.load(indices))
        total, correct = joey.loss(model, batch)
        loss = batch.normalize(total, normalization="tokens")
        loss.backward()
        loss.item(), correct.item()

    return other_side(model, plan, training, gradients)


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
    what = {"model": name, "lengths": f"{shortest + 1}-{sizes.positions}", "dropout": dropout}
    return measured(what, tokens, sides, {"joeynmt": "ratio"}, rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=1, help="updates of each side in a round")
    parser.add_argument("--dropout", type=float, default=0.2)
    options = parser.parse_args(arguments)
    sizes = Sizes(5, 7, 11, 26, 31) if options.quick else Sizes(80, 30, 256, 512, 8192)
    batches, rounds = (1, 1) if options.quick else (options.batches, options.rounds)
    torch.set_num_threads(1)
    shortest = (2,) if options.quick else (9, sizes.positions - 1)
    rows = [compare(name, sizes, least, options.dropout, batches, rounds) for name in VARIANTS for least in shortest]
    report(rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
