"""The main paths ask of torch what is written down in `counts.json`: so many products, large allocations and copies.

A test without a clock: what grows unnoticed (a copy of the keys, a table of queries × keys) is seen. After a change
that is meant, `python -m tests.attention.test_run_counts --record` writes the numbers down anew, of the paths
that this machine can take; the difference belongs into the change.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plain import plain_environment

HERE = Path(__file__).parent
RECORD = HERE / "counts.json"
WAYS = {"torch": "0", "native": "1"}
"""What REGARD_COMPILE is: without loops, everything is torch's own calls."""


def counts() -> dict[str, dict]:
    """By call and way: the path taken and what it asked for."""
    import torch

    import regard
    from regard import masks
    from tests.counted import Counted

    torch.manual_seed(0)
    torch.set_num_threads(1)
    positions, heads = 263, 3  # not one number of queries, keys, heads and widths like another
    same = [(2, heads, positions, 8)] * 3
    score = regard.score("additive", query_dim=8, key_dim=8, hidden_dim=11)
    lengths = torch.tensor([positions, 101])
    calls = {
        "plain": (same, {}),
        "grouped heads": ([(2, 6, positions, 8), *[(2, heads, positions, 8)] * 2], {}),
        "three axes": ([(6, positions, 8)] * 3, {}),
        "causal": (same, {"mask": masks.causal()}),
        "lower triangle of bools": (same, {"mask": torch.ones(positions, positions).tril().bool()}),
        "all true": (same, {"mask": masks.keep(torch.ones(positions, positions, dtype=torch.bool))}),
        "lengths": (same, {"mask": masks.padding(lengths)}),
        "lengths and causal": (same, {"mask": masks.padding(lengths) & masks.causal()}),
        "window": ([(2, heads, 1031, 8)] * 3, {"mask": masks.window(16, 0)}),
        "dropout": (same, {"dropout": 0.1}),
        "linear": (same, {"score": "linear", "normalizer": "sum"}),
        "linear, causal": (same, {"score": "linear", "normalizer": "sum", "mask": masks.causal()}),
        "cosine": (same, {"score": "cosine"}),
        "additive": (same, {"score": score}),
        "explicit": (same, {"normalizer": "sparsemax"}),
    }
    found = {}
    for name, (shapes, options) in calls.items():
        tensors = [torch.randn(shape).requires_grad_() for shape in shapes]
        every = [*tensors, *(score.parameters() if options.get("score") is score else [])]
        pairs = shapes[0][-2] * shapes[1][-2]
        items = shapes[0][0] * (shapes[0][1] if len(shapes[0]) == 4 else 1)
        found[name] = {"path": regard.explain(*tensors, **options).path}
        regard.attend(*tensors, **options)  # what is made once is not counted
        with Counted(pairs, items) as there:
            context = regard.attend(*tensors, **options).context
        upstream = torch.ones_like(context)
        with Counted(pairs, items) as back:
            torch.autograd.grad(context, every, upstream)
        found[name] |= {"forward": there.record(), "backward": back.record()}
    return found


def counted(way: str) -> dict[str, dict]:
    """`counts` in a Python of its own, where loops are switched on or off."""
    code = "import json, tests.attention.test_run_counts as here; print(json.dumps(here.counts()))"
    environment = plain_environment(REGARD_COMPILE=WAYS[way])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", WAYS)
def test_products_allocations_and_copies_are_those_written_down(way):
    from regard.kernels.native import compiler

    if way == "native" and compiler.compiler() is None:
        pytest.skip("the native loops need a C++ compiler; torch's own calls are counted without one")
    recorded, real = json.loads(RECORD.read_text(encoding="utf-8")), counted(way)
    import torch

    assert set(recorded["ways"][way]) == set(real)
    for name, now in real.items():
        assert now == recorded["ways"][way][name], (
            f"{name}, {way}: written down with torch {recorded['torch']}, counted with {torch.__version__}. If the "
            "difference is meant: python -m tests.attention.test_run_counts --record"
        )


def test_what_is_written_down_is_worth_guarding():
    """No path but the explicit ones forms queries × keys of all heads, and no loop is surrounded by copies."""
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["ways"]
    for way, calls in recorded.items():
        for name, row in calls.items():
            large = row["forward"]["allocations of queries × keys"]["all heads'"]
            assert (large > 0) == (row["path"] in ("explicit", "additive")), (way, name)
            if row["path"] == "native" and name != "cosine":
                assert not row["forward"]["products"] and not row["backward"]["copies"], (way, name)


def test_a_copy_or_a_table_more_is_counted():
    import torch

    from tests.counted import Counted

    with Counted(7 * 5, 2) as seen:
        one = torch.ones(2, 7, 3)
        table = one @ torch.ones(2, 3, 5)
        table.softmax(-1).clone()
        table[0].contiguous()
        table.unsqueeze(0).mul_(2)
        torch.cat([one, one])
    assert seen.record() == {
        "products": {"bmm": 1},
        "copies": {"cat": 1, "clone": 1},
        "allocations of queries × keys": {"one head's": 1, "all heads'": 4},
    }


def record() -> None:
    """Write down what is counted here; ways that this machine has not keep their numbers."""
    import torch

    from regard.kernels.native import compiler

    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"ways": {}}
    ways = [way for way in WAYS if way == "torch" or compiler.compiler() is not None]
    made = {"torch": torch.__version__.split("+")[0], "ways": recorded["ways"] | {way: counted(way) for way in ways}}
    RECORD.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit("python -m tests.attention.test_run_counts --record")
    record()
