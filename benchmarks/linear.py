"""Linear attention, elu + 1, beside torch's scaled_dot_product_attention of the same query, key and value.

    python benchmarks/linear.py [--json] [--quick] [--rounds N] [--only NAME] [--no-memory]

Three sides in turns: softmax attention on torch's fused path (`torch`), `linear_attention` by torch's own calls
(`parts`) and by the loop that a C++ compiler builds (`native`, where there is one). Ratios are those of median
processor times, a side's by the fused path's: lower is faster. The two attentions are different functions, so what
`linear_attention` gives is compared with its own written-out form over the first positions, before anything is timed.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.modules.linear import elu_plus_one, linear_attention
from regard.kernels.linear import linear as kernel
from turns import alone, beside_first, report


class Work(NamedTuple):
    """One row: 8 heads of width 64, or as a toy 2 of width 8."""

    positions: int
    causal: bool
    backward: bool

    @property
    def name(self) -> str:
        kind = "causal" if self.causal else "whole"
        return f"{kind}, T {self.positions}{', with gradients' if self.backward else ''}"


WORKS = tuple(
    Work(positions, causal, backward)
    for causal in (True, False)
    for positions in (1024, 4096, 16384)
    for backward in (False, True)
)
TOY = (Work(131, True, False), Work(131, True, True), Work(131, False, False))
CHECKED = 512
SERVES = kernel.LIBRARY.serves


def written_out(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Katharopoulos 2020, equation 4: all weights, in float64."""
    scores = elu_plus_one(query.double()) @ elu_plus_one(key.double()).mT
    scores = scores.tril() if causal else scores
    return scores / scores.sum(-1, keepdim=True) @ value.double()


def sides(work: Work, toy: bool) -> dict[str, Callable[[], Any]]:
    """All sides of a row, which have given what they should."""
    torch.manual_seed(0)
    shape = (1, 2, work.positions, 8) if toy else (1, 8, work.positions, 64)
    inputs = [torch.randn(shape).requires_grad_(work.backward) for _ in range(3)]
    given = torch.randn(shape)

    def run(call: Callable[..., Tensor], native: bool) -> Callable[[], Any]:
        def side() -> Any:
            kernel.LIBRARY.serves = SERVES if native else lambda kind: False  # type: ignore[method-assign]
            context = call(*inputs)
            return torch.autograd.grad(context, inputs, given) if work.backward else context

        return side

    def ours(*three: Tensor) -> Tensor:
        return linear_attention(*three, causal=work.causal)

    made = {
        "torch": run(lambda *three: F.scaled_dot_product_attention(*three, is_causal=work.causal), True),
        "parts": run(ours, False),
    }
    if SERVES(torch.float32):
        made["native"] = run(ours, True)
    some = [tensor.detach()[..., :CHECKED, :].clone().requires_grad_() for tensor in inputs]
    part = given[..., :CHECKED, :]
    expected = written_out(*some, causal=work.causal)
    slopes = torch.autograd.grad(expected, some, part.double())
    for name in list(made)[1:]:
        kernel.LIBRARY.serves = SERVES if name == "native" else lambda kind: False  # type: ignore[method-assign]
        context = ours(*some)
        found = context, *torch.autograd.grad(context, some, part)
        for one, other in zip(found, (expected, *slopes), strict=True):
            if not (one - other).abs().max() <= 1e-5 * other.abs().max() + 1e-6:
                raise SystemExit(f"{work.name}: {name} and the written-out form differ")
    return made


def compare(work: Work, toy: bool, rounds: int, memory: bool) -> dict[str, Any]:
    return {"work": work.name} | beside_first(sides(work, toy), rounds, memory)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="the rows whose name holds this")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rounds = 1 if options.quick else options.rounds
    selected = [work for work in (TOY if options.quick else WORKS) if options.only in work.name]
    report([alone(compare, work, options.quick, rounds, not options.no_memory) for work in selected], options.json)


if __name__ == "__main__":
    sys.exit(main())
