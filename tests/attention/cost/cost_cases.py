"""Calls by every path, what is predicted of them and what is counted or measured. Run in a Python of its own."""

import json
import sys
from pathlib import Path

import torch

import regard
from regard import masks
from tests.counted import Counted

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
from turns import peak_mebibytes  # noqa: E402


def made(shapes, **options):
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
    return (query, key, value), options


def calls(large):
    """By name: three tensors and the options; `large` enough to measure, or small enough to count."""
    torch.manual_seed(0)
    positions, heads, width = (512, 16, 128) if large else (521, 3, 64)
    same = [(2, heads, positions, width)] * 3
    flat = [(1, 2, 2048, 16)] * 3 if large else same
    square = [(1, 4, 1021, 16)] * 3 if large else [(2, 3, 263, 13), (2, 3, 257, 13), (2, 3, 257, 11)]
    grouped = [(1, heads, 1024, 128) if large else (1, 6, 509, 8)]
    grouped += [(1, 2, *grouped[0][2:])] * 2
    lengths = torch.tensor([positions, positions // 3])
    own = [lambda weights: weights]
    pairs = [(1, 2039, 64)] * 3 if large else [(3, 211, 17), (3, 199, 13), (3, 199, 11)]
    few = [(4, 719, 64)] * 3 if large else pairs
    additive = regard.score("additive", query_dim=pairs[0][-1], key_dim=pairs[1][-1], hidden_dim=64 if large else 29)
    general = regard.score("general", query_dim=square[0][-1], key_dim=square[1][-1])
    yield "explicit", made(square, refocus=own)
    yield "explicit, general, sparsemax", made(square, score=general, normalizer="sparsemax")
    yield "explicit, dropout and mask", made(square, refocus=own, dropout=0.1, mask=masks.causal())
    yield "plain", made(same)
    yield "grouped", made(grouped)
    yield "cosine", made(same, score="cosine")
    yield "causal", made(same, mask=masks.causal())
    yield "around", made(flat, mask=masks.around(torch.rand(flat[0][0], flat[0][2]) * 500, 50))
    yield "dropout", made(same, dropout=0.1)
    yield "lengths", made(same, mask=masks.padding(lengths))
    yield "window", made(same, mask=masks.window(30, 3))
    yield "linear", made(same, score="linear", normalizer="sum")
    yield "linear, causal", made(same, score="linear", normalizer="sum", mask=masks.causal())
    yield "additive", made(few, score=additive)
    if large:
        yield "additive, many weights", made([(1, 2053, 64)] * 3, score=additive)
    near = [(2, 2048, 64)] * 3 if large else [(2, 211, 17), (2, 199, 17), (2, 199, 11)]
    yield "local", made(near, mask=masks.around(torch.rand(near[0][:2]) * 150, 50 if large else 5))
    yield "additive, refocused", made(pairs, score=additive, refocus=own)


def call(tensors, options, backward):
    if not backward:
        with torch.no_grad():
            return regard.attend(*tensors, **options).context
    score = options.get("score", "scaled_dot")
    weights = [] if isinstance(score, str) else list(score.parameters())
    return torch.autograd.grad(regard.attend(*tensors, **options).context.sum(), [*tensors, *weights])


def counted(tensors, options, backward):
    with Counted(1, 1) as counter:
        call(tensors, options, backward)
    return counter.operations


def main(what, but=()):
    """Print the rows, without those whose names begin so."""
    torch.set_num_threads(1)
    large = what == "memory"
    rows = []
    for name, (tensors, options) in calls(large):
        if name.startswith(tuple(but)):
            continue
        cost = regard.explain(*tensors, cost=True, **options).cost
        row = {"name": name, "path": cost.path}
        for way, backward in (("forward", False), ("both", True)):
            if large:
                row[way] = (cost.bytes_with_gradients if backward else cost.bytes) / 2**20
                row[f"{way} real"] = peak_mebibytes(lambda: call(tensors, options, backward))  # noqa: B023
            else:
                row[way] = cost.operations_with_gradients if backward else cost.operations
                row[f"{way} real"] = counted(tensors, options, backward)
        rows.append(row)
    print(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1])
