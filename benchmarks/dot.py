"""Dot-product attention beside torch's scaled_dot_product_attention as one would call it: attend chooses the path.

Every row is one call, forward or with its gradients, in float32 unless it says otherwise. Both sides get the same
tensors, and before anything is timed must give the same context (but for dropout, whose draws differ).
"""

import argparse
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard import masks
from turns import alone, in_turns, peak_mebibytes, report

sdpa = F.scaled_dot_product_attention


class Work(NamedTuple):
    """One row: what it is, the inputs, and each side's call of them."""

    name: str
    inputs: Callable[[], list[Tensor]]
    rival: Callable[..., Tensor]
    ours: Callable[..., Tensor]
    backward: bool
    compared: bool = True


def works(positions: int, window: int) -> Iterator[Work]:
    """All rows; what each of them works on is made when it is called.

    Args:
        positions: T of most rows; some are over twice as many.
        window: positions that the sliding window shows before the query's own.
    """
    heads, width = 8, 64

    def plain(
        length: int,
        batch: int = 1,
        dim: int = width,
        kind: torch.dtype = torch.float32,
        change: Callable[[list[Tensor]], list[Tensor]] = list,
    ) -> Callable[[], list[Tensor]]:
        def made() -> list[Tensor]:
            torch.manual_seed(0)
            sizes = (width, width, dim)
            return change([torch.randn(batch, heads, length, size, dtype=torch.float32).to(kind) for size in sizes])

        return made

    def attend(mask: Callable[[], masks.Mask] | None = None, **options: Any) -> Callable[..., Tensor]:
        # One mask for all rounds, as the rival's.
        once = functools.cache(mask) if mask else lambda: None
        return lambda query, key, value, *_: regard.attend(query, key, value, mask=once(), **options).context

    def masked(mask: Callable[[], Tensor]) -> Callable[..., Tensor]:
        once = functools.cache(mask)
        return lambda query, key, value: sdpa(query, key, value, attn_mask=once())

    def both(name: str, *rest: Any, **named: Any) -> Iterator[Work]:
        for backward in (False, True):
            yield Work(f"{name}, with gradients" if backward else name, *rest, backward, **named)

    short, long = positions, 2 * positions
    yield from both(f"plain, T {short}", plain(short), sdpa, attend())
    yield from both(f"causal, T {short}", plain(short), lambda q, k, v: sdpa(q, k, v, is_causal=True),
                    attend(mask=masks.causal))  # fmt: skip
    shared = plain(short, change=lambda given: given[:1] + [tensor[:, ::4].contiguous() for tensor in given[1:]])
    yield from both(f"2 key heads for 8, T {short}", shared, lambda q, k, v: sdpa(q, k, v, enable_gqa=True), attend())
    # A score that is a dot product of prepared sides, beside the plain product of the given ones.
    cosine = regard.score("cosine", strength=8.0)
    yield from both(f"cosine beside plain, T {short}", plain(short), sdpa, attend(score=cosine), compared=False)
    general = regard.score("general", query_dim=width, key_dim=width)
    yield from both(f"general beside plain, T {short}", plain(short), sdpa, attend(score=general), compared=False)
    yield from both(f"general beside all weights, T {short}", plain(short),
                    lambda q, k, v: (q @ general.weight @ k.mT).softmax(-1) @ v, attend(score=general))  # fmt: skip
    for length in (short, long):
        yield from both(f"dropout, T {length}", plain(length), lambda q, k, v: sdpa(q, k, v, dropout_p=0.1),
                        attend(dropout=0.1), compared=False)  # fmt: skip
    biased = plain(short, change=lambda given: [*given, torch.randn(1, heads, short, short)])
    for backward in (False, True):
        yield Work(f"bias that needs a gradient, T {short}{', with gradients' if backward else ''}", biased,
                   lambda q, k, v, b: sdpa(q, k, v, attn_mask=b),
                   lambda q, k, v, b: regard.attend(q, k, v, bias=b).context, backward)  # fmt: skip
    yield from both(f"three axes, T {short}", plain(short, change=lambda given: [tensor[0] for tensor in given]),
                    sdpa, attend())  # fmt: skip
    yield from both(f"last stride not 1, T {short}",
                    plain(short, change=lambda given: [tensor.mT.contiguous().mT for tensor in given]),
                    sdpa, attend())  # fmt: skip
    yield from both(f"values half as wide, T {short}", plain(short, dim=width // 2), sdpa, attend())
    lower = lambda length: torch.ones(length, length, dtype=torch.bool).tril()  # noqa: E731
    yield from both(f"boolean lower triangle, T {2 * long}", plain(2 * long), masked(lambda: lower(2 * long)),
                    attend(lambda: masks.keep(lower(2 * long))))  # fmt: skip
    yield Work(f"mask of bools, all true, beside no mask, T {long}", plain(long), sdpa,
               attend(lambda: masks.keep(torch.ones(long, long, dtype=torch.bool))), False)  # fmt: skip
    for length in (short, long):
        for kind, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
            yield from both(f"{name}, T {length}", plain(length, kind=kind), sdpa, attend())
    for top in (0, 8):
        yield Work(
            f"context and statistics, top {top}, T {long}",
            plain(long),
            sdpa,
            with_statistics(top),
            False,
            compared=False,
        )
    yield Work(f"context and statistics from all weights, T {long}", plain(long), sdpa, weighed, False, compared=False)
    lengths = (torch.linspace(0.1, 0.82, 8) * short).long()  # 46 % full
    keep = (torch.arange(short) < lengths[:, None])[:, None, None]
    for name, of, compared in (("lengths", masks.padding, True), ("ragged", masks.ragged, False)):
        yield from both(f"{name}, 46 % full, T {short}", plain(short, 8), masked(lambda: keep),
                        attend(functools.partial(of, lengths)), compared=compared)  # fmt: skip
    yield from both(f"lengths and causal, T {short}", plain(short, 8), masked(lambda: keep & lower(short)),
                    attend(lambda: masks.padding(lengths) & masks.causal()))  # fmt: skip
    length = 8 * positions

    def near() -> Tensor:
        offset = torch.arange(length)[:, None] - torch.arange(length)
        return (offset >= 0) & (offset <= window)

    yield from both(f"window of {window}, T {length}",
                    plain(length, change=lambda given: [tensor[:, :2] for tensor in given]),
                    masked(near), attend(lambda: masks.window(window, 0)))  # fmt: skip


def with_statistics(top: int) -> Callable[..., Any]:
    """The context, each query's entropy and maximum, what each key received, and the largest weights."""

    def both(query: Tensor, key: Tensor, value: Tensor) -> Any:
        attended = regard.attend(query, key, value, statistics=top)
        return attended.context, attended.statistics(top)

    return both


def weighed(query: Tensor, key: Tensor, value: Tensor) -> Any:
    """The same (without the largest) as one writes it."""
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ value, torch.special.entr(weights).sum(-1), weights.amax(-1), weights.sum(-2)


def sides(work: Work) -> dict[str, Callable[[], Any]]:
    """Both calls, with gradients of everything where the row wants them."""
    learned = work.backward or "needs a gradient" in work.name
    inputs = [tensor.detach().requires_grad_(learned) for tensor in work.inputs()]

    def run(call: Callable[..., Tensor]) -> Callable[[], Any]:
        if not work.backward:
            return lambda: call(*inputs)
        return lambda: torch.autograd.grad(call(*inputs).float().sum(), inputs)

    if work.compared:
        rival, ours = work.rival(*inputs).detach(), work.ours(*inputs).detach()
        error = float((rival.float() - ours.float()).abs().max())
        bound = (1e-5 if rival.dtype == torch.float32 else 2e-2) * max(1.0, float(rival.abs().max()))
        if not error < bound:
            raise SystemExit(f"{work.name}: the two contexts differ by {error}")
    return {"torch": run(work.rival), "regard": run(work.ours)}


def compare(work: Work, rounds: int) -> dict[str, Any]:
    pair = sides(work)
    seconds = in_turns(pair, rounds)
    row: dict[str, Any] = {"work": work.name}
    for name, taken in seconds.items():
        row[f"{name} ms"] = 1000 * taken["processor"]
        row[f"{name} MiB"] = peak_mebibytes(pair[name])
    row["ratio, processor"] = seconds["regard"]["processor"] / seconds["torch"]["processor"]
    row["ratio, clock"] = seconds["regard"]["clock"] / seconds["torch"]["clock"]
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are counted")
    parser.add_argument("--only", default="", help="the rows whose name holds this")
    parser.add_argument("--quick", action="store_true", help="toy size, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON, with the machine's facts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    positions, window, rounds = (260, 16, 1) if options.quick else (512, 128, options.rounds)
    selected = [work for work in works(positions, window) if options.only in work.name]
    report([alone(compare, work, rounds) for work in selected], options.json)


if __name__ == "__main__":
    main()
