"""Local attention with a predicted position (Luong 2015, local-p) beside "score all keys, then mask".

    python benchmarks/local.py [--json] [--quick] [--rounds N] [--only NAME] [--no-memory]

Three sides in turns: all keys scored by a bilinear score (or by dot products), then masked, as it is usually written
(`all keys`), regard by torch's own calls (`torch`) and by the loop that a C++ compiler builds (`native`, where there
is one). Radius 10, width 512. Ratios are those of median processor times, a side's by the usual way's: lower is faster.
All must give one context and one set of gradients.
"""

import argparse
import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.modules.local import LocalAttention
from regard.attention.parts.score import General, score
from regard.kernels.local import loops
from turns import alone, beside_first, report


class Sizes(NamedTuple):
    """One row."""

    name: str
    batch: int
    queries: int
    keys: int
    width: int
    radius: float
    bilinear: bool = True


SERVES = loops.LIBRARY.serves
SIZES = (
    Sizes("one step over 1,600 keys", 16, 1, 1600, 512, 10),
    Sizes("one step over 1,600 keys, batch 80", 80, 1, 1600, 512, 10),
    Sizes("200 × 1,600", 16, 200, 1600, 512, 10),
    Sizes("200 × 1,600, dot products", 16, 200, 1600, 512, 10, False),
    Sizes("50 × 50", 16, 50, 50, 512, 10),
    Sizes("50 × 50, batch 80", 80, 50, 50, 512, 10),
)
TOY = (Sizes("toy", 3, 5, 61, 8, 2), Sizes("toy, all keys", 3, 5, 7, 8, 2))


def all_keys(made: LocalAttention, query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
    """Equations 7 to 10, the window as a mask."""
    focus, radius = made.focus, made.focus.radius
    share = torch.sigmoid(torch.tanh(query @ focus.hidden.weight.T) @ focus.vector.weight.T)
    center = lengths[:, None, None] * share
    distance = torch.arange(key.shape[1]) - center
    reach = radius + 8 * torch.finfo(center.dtype).eps * center.abs().clamp_min(1.0)  # the edge keys that regard sees
    seen = (distance.abs() <= reach) & (torch.arange(key.shape[1]) < lengths[:, None, None])
    scores = (query @ made.score.weight if isinstance(made.score, General) else query) @ key.mT
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2)) @ value


def sides(sizes: Sizes, backward: bool) -> dict[str, Callable[[], Any]]:
    """All sides of a row, which give one context and one set of gradients."""
    torch.manual_seed(0)
    batch, queries, keys, width = sizes[1:5]
    asked = score("general", query_dim=width, key_dim=width) if sizes.bilinear else score("dot")
    made = LocalAttention(asked, sizes.radius, "predictive", width)
    inputs = [torch.randn(batch, n, width).requires_grad_(backward) for n in (queries, keys, keys)]
    lengths = keys - torch.arange(batch) % max(1, keys // 2)
    given = torch.randn(batch, queries, width)
    wanted = [*inputs, *made.parameters()]

    def run(call: Callable[[], Tensor], native: bool) -> Callable[[], Any]:
        def side() -> tuple[Tensor, ...]:
            loops.LIBRARY.serves = SERVES if native else lambda kind: False  # type: ignore[method-assign]
            if backward:
                return torch.autograd.grad(call(), wanted, given)
            with torch.no_grad():
                return (call(),)

        return side

    def ours() -> Tensor:
        context = made(*inputs, lengths=lengths).context
        assert context is not None
        return context

    each = {
        "all keys": run(lambda: all_keys(made, *inputs, lengths), True),
        "torch": run(ours, False),
    }
    if SERVES(torch.float32):
        each["native"] = run(ours, True)
    results = {name: side() for name, side in each.items()}
    for name, result in results.items():
        for one, other in zip(result, results["all keys"], strict=True):
            if not (one - other).abs().max() <= 1e-4 * other.abs().max() + 1e-6:
                raise SystemExit(f"{sizes.name}: {name} and the usual way differ")
    return each


def compare(sizes: Sizes, backward: bool, rounds: int, memory: bool) -> dict[str, Any]:
    row = {"row": sizes.name, "sizes": "{}, {} × {}, {}".format(*sizes[1:5])}
    row |= {"pass": "with backward" if backward else "forward"}
    return row | beside_first(sides(sizes, backward), rounds, memory)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="the rows whose name holds this")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rounds = 1 if options.quick else options.rounds
    selected = [sizes for sizes in (TOY if options.quick else SIZES) if options.only in sizes.name]
    each = itertools.product(selected, (False, True))
    report([alone(compare, *one, rounds, not options.no_memory) for one in each], options.json)


if __name__ == "__main__":
    sys.exit(main())
