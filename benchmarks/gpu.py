"""Attention on a GPU beside scaled_dot_product_attention, flex_attention and the naive form, in at most some minutes.

Every row is one call, forward or with its gradients. All sides get the same tensors, and before anything is timed must
give the same context. The GPU's own events take the time; its allocator tells the peak. Where a side has no such call,
does not fit in memory or was not reached in time, a row says "-".
"""

import argparse
import functools
import itertools
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import regard
from regard import masks
from turns import report

SIDES = "regard", "sdpa", "flex", "naive"
WIDTH = 64
BOUND = {torch.float32: 1e-3, torch.bfloat16: 4e-2}
"""How far contexts may lie apart, of the largest number: float32 may be multiplied in TF32 by a side."""


class Work(NamedTuple):
    """One row: what it is, the inputs, and each side's call of them."""

    name: str
    inputs: Callable[[], list[Tensor]]
    sides: dict[str, Callable[..., Tensor]]
    backward: bool


class Over(BaseException):
    """The minutes are over; no Exception, which torch's compiler would take for an error of its own."""


Allows = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def works(sizes: tuple[int, ...], batch: int, heads: int, device: torch.device) -> Iterator[Work]:
    """All rows; what each of them works on is made when it is called.

    Args:
        sizes: positions T; all rows of one size come before those of the next.
        batch: items.
        heads: of each item.
        device: where all of it lies.
    """
    on_gpu = device.type == "cuda"
    dtype = torch.bfloat16 if on_gpu else torch.float32
    compiled = torch.compile(flex_attention, dynamic=True) if on_gpu else flex_attention
    for length in sizes:

        def made(queries: int = length, keys: int = length) -> list[Tensor]:
            torch.manual_seed(0)
            shapes = ((batch, heads, size, WIDTH) for size in (queries, keys, keys))
            return [torch.randn(shape, device=device).to(dtype) for shape in shapes]

        def masked(mask: masks.Mask, allows: Allows, length: int = length) -> dict[str, Callable[..., Tensor]]:
            """All sides; each keeps what it makes of the mask for all rounds, as one would for all layers."""

            @functools.cache
            def blocks() -> Any:
                return create_block_mask(allows, batch, None, length, length, device, _compile=on_gpu)

            @functools.cache
            def table() -> Tensor:
                b, q, k = (torch.arange(size, device=device) for size in (batch, length, length))
                return allows(b[:, None, None, None], b[:1], q[:, None], k).expand(batch, 1, length, length)

            return {
                "regard": lambda q, k, v: regard.attend(q, k, v, mask=mask).context,
                "sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=table()),
                "flex": lambda q, k, v: compiled(q, k, v, block_mask=blocks()),
                "naive": lambda q, k, v: naive(q, k, v, table()),
            }

        plain: dict[str, Callable[..., Tensor]] = {
            "regard": lambda q, k, v: regard.attend(q, k, v).context,
            "sdpa": F.scaled_dot_product_attention,
            "flex": compiled,
            "naive": naive,
        }
        causal = masked(masks.causal(), lambda b, h, q, k: q >= k) | {
            "sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
        }
        window, ids, lengths = length // 8, documents(length, batch, device), padding(length, batch, device)
        rows = {
            "plain": plain,
            "causal": causal,
            f"window of {window}": masked(masks.window(window, 0), within(window)),
            "documents": masked(masks.document(ids), lambda b, h, q, k, ids=ids: ids[b, q] == ids[b, k]),
            "lengths": masked(masks.padding(lengths), lambda b, h, q, k, known=lengths: k < known[b]),
        }
        for (name, sides), backward in itertools.product(rows.items(), (False, True)):
            kept = sides if on_gpu or not backward else {each: sides[each] for each in sides if each != "flex"}
            yield Work(f"{name}, T {length}{', with gradients' if backward else ''}", made, kept, backward)
        yield Work(f"one query, T {length}", functools.partial(made, 1), plain, False)
        for backward in (False, True):
            named = f"additive, T {length // 4}{', with gradients' if backward else ''}"
            yield Work(named, *additive(length // 4, batch, device), backward)


def within(window: int) -> Allows:
    return lambda b, h, q, k: (k <= q) & (k >= q - window)


def documents(length: int, batch: int, device: torch.device) -> Tensor:
    """Ids of documents of an eighth of all positions, begun elsewhere in each item."""
    starts = torch.arange(batch, device=device)[:, None] * 5
    return (torch.arange(length, device=device) + starts) // max(1, length // 8)


def padding(length: int, batch: int, device: torch.device) -> Tensor:
    """Lengths, 46 % of all positions if there are many."""
    return (torch.linspace(0.1, 0.82, batch, device=device) * length).long()


def additive(length: int, batch: int, device: torch.device) -> tuple[Callable[[], list[Tensor]], dict[str, Any]]:
    """Inputs and sides of additive scores, in float32; torch has no call for them."""
    torch.manual_seed(1)
    score = regard.score("additive", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=WIDTH).to(device)

    def made() -> list[Tensor]:
        torch.manual_seed(0)
        return [torch.randn(batch, length, WIDTH, device=device) for _ in range(3)]

    def broadcast(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = F.linear(query, score.query_weight), F.linear(key, score.key_weight)
        pairs = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
        return (pairs @ score.vector).softmax(-1) @ value

    return made, {"regard": lambda q, k, v: regard.attend(q, k, v, score=score).context, "naive": broadcast}


def naive(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Scores, softmax and context as one writes them, with all weights in memory."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return scores.softmax(-1) @ value


# --- how it is measured ---------------------------------------------------------------------------------------------


def milliseconds(run: Callable[[], Any], device: torch.device) -> float:
    """Of one call, by events of the GPU; by the clock where there is none."""
    if device.type != "cuda":
        before = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - before)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def peak_mebibytes(run: Callable[[], Any], device: torch.device) -> float:
    """The most that one call has allocated beyond what is held before it; 0 where there is no GPU."""
    if device.type != "cuda":
        return 0.0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - held) / 2**20


def runs(work: Work) -> dict[str, Callable[[], Any]]:
    """Each side's call, once all have given one context; a side that finds no memory for it is left out."""
    inputs = [tensor.requires_grad_(work.backward) for tensor in work.inputs()]

    def run(call: Callable[..., Tensor]) -> Callable[[], Any]:
        if not work.backward:
            return lambda: call(*inputs)
        return lambda: torch.autograd.grad(call(*inputs).sum(), inputs)

    fitting, ours = {}, None
    for name, call in work.sides.items():
        try:
            with torch.set_grad_enabled(work.backward):
                context = call(*inputs).detach().float()
                run(call)()
        except torch.OutOfMemoryError:
            continue
        ours = context if name == "regard" else ours
        if ours is None:
            raise SystemExit(f"{work.name}: regard finds no memory")
        error, largest = float((context - ours).abs().max()), max(1.0, float(ours.abs().max()))
        if not error < BOUND[inputs[0].dtype] * largest:
            raise SystemExit(f"{work.name}: the contexts of regard and {name} differ by {error}")
        fitting[name] = run(call)
    return fitting


def compare(work: Work, rounds: int, device: torch.device) -> dict[str, Any]:
    """A row: our milliseconds, each other side's by them (above 1: regard is faster), and all peaks."""
    sides = runs(work)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    with torch.set_grad_enabled(work.backward):
        for number in range(rounds + 1):
            # Every other round goes backwards: no side is always the one that follows a certain other.
            for name in list(sides)[:: -1 if number % 2 else 1]:
                spent = milliseconds(sides[name], device)
                if number:
                    taken[name].append(spent)
        peaks = {name: peak_mebibytes(side, device) for name, side in sides.items()}
    medians = {name: statistics.median(each) for name, each in taken.items()}
    row = blank(work) | {"regard ms": medians.pop("regard")}
    row |= {f"{name} ratio": median / row["regard ms"] for name, median in medians.items()}
    return row | {f"{name} MiB": peak for name, peak in peaks.items()}


def blank(work: Work) -> dict[str, Any]:
    """A row without numbers."""
    first, *others = SIDES
    columns = f"{first} ms", *(f"{name} ratio" for name in others), *(f"{name} MiB" for name in SIDES)
    return {"work": work.name} | dict.fromkeys(columns, "-")


def measured(selected: list[Work], rounds: int, seconds: float, device: torch.device) -> list[dict[str, Any]]:
    """The rows; those that are not reached in time have no numbers."""

    def stop(*_: Any) -> None:
        raise Over

    rows: list[dict[str, Any]] = []
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        for work in selected:
            rows.append(compare(work, rounds, device))
    except Over:
        left = len(selected) - len(rows)
        print(f"{seconds / 60:g} minutes are over: {left} of {len(selected)} rows were not measured", file=sys.stderr)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return rows + [blank(work) for work in selected[len(rows) :]]


def main(arguments: list[str] | None = None, device: str = "cuda") -> None:
    """Measure and print; on a processor, which only tests ask for, the numbers say nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds that are counted")
    parser.add_argument("--minutes", type=float, default=7.5, help="after these it stops and prints what it has")
    parser.add_argument("--only", default="", help="the rows whose name holds this")
    parser.add_argument("--quick", action="store_true", help="toy size, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON, with the machine's facts")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: one at least is needed for a median")
    if device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "benchmarks/gpu.py: torch finds no CUDA device here; nothing was measured\n")
    if device == "cuda" and not options.json:
        print(torch.cuda.get_device_name())
    sizes, batch, heads, rounds = ((256,), 2, 2, 1) if options.quick else ((1024, 4096), 4, 16, options.rounds)
    # Each kind of mask is a kernel of its own, on both sides; from its own limit on torch would run them unfused.
    with torch._dynamo.config.patch(recompile_limit=256):
        selected = [work for work in works(sizes, batch, heads, torch.device(device)) if options.only in work.name]
        report(measured(selected, rounds, 60 * options.minutes, torch.device(device)), options.json)


if __name__ == "__main__":
    main()
