"""Additive attention, `softmax(vᵀ tanh(W q + U k)) V`, beside the broadcast that is usually written for it.

    python benchmarks/additive.py [--json] [--quick] [--rounds N] [--no-memory]

Three sides in turns: the broadcast (`naive`), regard by torch's own calls (`torch`) and by the loop that a C++ compiler
builds (`native`, where there is one). Ratios are those of median processor times, a side's by the broadcast's: lower
is faster. "scores" is what is between the projections and the softmax; "attend" is a whole call, whose projections,
softmax and read all sides make alike. All must give one result and one set of gradients.
"""

import argparse
import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.parts.functional import additive_pairs
from regard.attention.parts.score import Additive
from regard.kernels.additive import additive
from turns import alone, beside_first, report


class Sizes(NamedTuple):
    """One row. With a single query the keys are projected before, as a decoder's are."""

    name: str
    batch: int
    queries: int
    keys: int
    width: int


SIZES = (
    Sizes("self, width 64", 64, 128, 128, 64),
    Sizes("translation", 80, 30, 30, 512),
    Sizes("decode step, 50 keys", 80, 1, 50, 512),
    Sizes("decode step, 30 keys", 80, 1, 30, 512),
    Sizes("pointer", 128, 11, 11, 128),
    Sizes("picture, one word", 64, 1, 256, 128),
    Sizes("one sentence, one word", 1, 1, 20, 128),
)
TOY = (Sizes("toy", 8, 32, 32, 64), Sizes("toy step", 64, 1, 128, 64))

Side = Callable[[], tuple[Tensor, ...]]
SERVES = additive.LIBRARY.serves


def broadcast(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)).matmul(vector)


def in_turn(what: str, sizes: Sizes, backward: bool) -> dict[str, Side]:
    """The sides; "scores" of projected queries and keys, or "attend"."""
    torch.manual_seed(0)
    batch, queries, keys, width = sizes[1:]
    score = Additive(query_dim=width, key_dim=width, hidden_dim=width)
    query, key, value = (torch.randn(batch, n, width, requires_grad=True) for n in (queries, keys, keys))
    ready = score.prepare(key) if queries == 1 else None
    before = key if ready is None else ready.projected
    wanted = [query, before, score.vector]

    def naive() -> Tensor:
        if what == "scores":
            return broadcast(query, before, score.vector)
        projected = key @ score.key_weight.T if ready is None else ready.projected
        return broadcast(query @ score.query_weight.T, projected, score.vector).softmax(-1) @ value

    def ours() -> Tensor:
        if what == "scores":
            return additive_pairs(query, before, score.vector, prepared=ready is not None)
        context = attend(query, key if ready is None else ready, value, score=score).context
        assert context is not None
        return context

    given = torch.randn(batch, queries, keys if what == "scores" else width)

    def measured(make: Callable[[], Tensor], native: bool) -> Side:
        def side() -> tuple[Tensor, ...]:
            additive.LIBRARY.serves = SERVES if native else lambda kind: False  # type: ignore[method-assign]
            with torch.set_grad_enabled(backward):
                made = make()
            return torch.autograd.grad(made, wanted, given) if backward else (made,)

        return side

    sides = {"naive": measured(naive, False), "torch": measured(ours, False)}
    if SERVES(torch.float32):
        sides["native"] = measured(ours, True)
    return sides


def compare(what: str, sizes: Sizes, backward: bool, rounds: int, memory: bool) -> dict[str, Any]:
    made = in_turn(what, sizes, backward)
    results = {name: side() for name, side in made.items()}
    for name, result in results.items():
        for ours, theirs in zip(result, results["naive"], strict=True):
            if not (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max() + 1e-6:
                raise SystemExit(f"{what}, {sizes.name}: {name} and the broadcast differ")
    row = {"what": what, "row": sizes.name, "sizes": "{}, {} × {}, {}".format(*sizes[1:])}
    return row | {"pass": "with backward" if backward else "forward"} | beside_first(made, rounds, memory)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rounds = 1 if options.quick else options.rounds
    selected = itertools.product(("scores", "attend"), TOY if options.quick else SIZES, (False, True))
    report([alone(compare, *each, rounds, not options.no_memory) for each in selected], options.json)


if __name__ == "__main__":
    sys.exit(main())
