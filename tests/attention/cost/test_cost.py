"""What explain predicts of a call is what is counted and measured of it; memory of queries × keys is told once."""

import json
import warnings
from pathlib import Path

import pytest
import torch

import regard
from regard import masks
from regard.attention.call.call import Call
from regard.attention.cost import cost, warning
from regard.attention.cost.warning import warn_of_memory
from regard.attention.parts.normalize import normalizers
from regard.attention.paths import choose
from regard.attention.paths.explicit import Explicit
from regard.errors import SlowPathWarning
from regard.kernels.dot import dot
from regard.kernels.fallback import blocked, query_chunks, windowed
from regard.kernels.linear import linear
from regard.kernels.native import compiler
from tests.paths import without
from tests.plain import run_plain

CASES = Path(__file__).with_name("cost_cases.py")


def cases(what: str, but: tuple[str, ...] = ()) -> list[dict]:
    """Each call of `cost_cases.py`: what was predicted, and what was real."""
    return json.loads(run_plain(f"from tests.attention.cost import cost_cases; cost_cases.main({what!r}, {but!r})"))


def test_operations_are_those_that_torch_counts(monkeypatch):
    """Exact, but where a kernel leaves out what is hidden, or sums without a product."""
    monkeypatch.setenv("REGARD_COMPILE", "0")
    told = {row["name"]: row for row in cases("operations")}
    assert {row["path"] for row in told.values()} == {path.name for path in choose.PATHS} - {
        "native",
        "projected",
        "flex",
        "additive",
        "chunked",
    }
    for name, row in told.items():
        for way in ("forward", "both"):
            ratio = row[f"{way} real"] / row[way]
            if name == "causal":  # the counter counts both halves
                assert 1.99 < ratio < 2.0, row
            elif row["path"] == "linear":
                assert 0.8 < ratio < 1.25, row
            elif row["path"] == "local":  # sums of products, which the counter does not know
                assert row[f"{way} real"] == 0, row
            elif name.startswith("additive") and way == "both":
                assert 0.5 < ratio <= 1.0, row
            else:
                assert ratio == 1.0, row


@pytest.mark.parametrize("loops", ["0", "1"])
def test_memory_is_what_is_measured(monkeypatch, loops):
    """Within a factor of two, beside the pages of torch's own code that a first call reads."""
    monkeypatch.setenv("REGARD_COMPILE", loops)
    # Without loops a backward pass in chunks imports torch's compiler, which is larger than what it holds.
    for row in cases("memory", but=("explicit", "additive, ref") if loops == "1" else ("additive, many",)):
        for way in ("forward", "both"):
            assert row[way] / 2 - 8 < row[f"{way} real"] < 2 * row[way] + 16, row


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def test_nothing_is_computed_and_growth_is_explained(monkeypatch):
    """Without numbers, and as without a compiler. Twice as long: operations by 4, memory by 2."""
    monkeypatch.setattr(dot, "serves", lambda *_: False)
    one, other = (regard.explain(*[meta(2, 8, long, 64)] * 3, cost=True) for long in (32768, 65536))
    assert one.path == "fused"
    assert one.cost.operations == 4 * 2 * 8 * 32768**2 * 64 == one.explicit.operations
    assert one.cost.operations_with_gradients == 14 * 2 * 8 * 32768**2 * 64
    assert one.cost.bytes == 4 * 2 * 8 * 32768 * 64
    assert other.cost.operations == 4 * one.cost.operations
    assert other.cost.bytes_with_gradients == 2 * one.cost.bytes_with_gradients
    assert 3.9 < other.explicit.bytes / one.explicit.bytes <= 4
    assert one.explicit.bytes > 200 * one.cost.bytes
    assert (one.cost.bytes_grow, one.explicit.bytes_grow) == ("positions × width × heads", "queries × keys × heads")
    assert "costs fused: 4,398 (15,393 with gradients) billion operations" in str(one)
    assert "beside explicit" in str(one)


def test_without_cost_nothing_changes():
    told = regard.explain(*[meta(2, 8, 512, 64)] * 3)
    assert told.cost is None and told.explicit is None
    assert "operations" not in str(told)


def test_a_causal_or_windowed_call_computes_what_is_seen():
    tensors = [torch.zeros(1, 2, 1024, 8)] * 3
    half = regard.explain(*tensors, mask=masks.causal(), cost=True).cost
    assert half.operations == 2 * 2 * (1024 * 1025 // 2) * 16
    near = regard.explain(*tensors, mask=masks.window(10, 0), cost=True)
    most = {"native": 11 * 1024, "windowed": 1024 * 74}[near.path]
    assert 0.98 * most < near.cost.operations / (2 * 2 * 16) <= most


@pytest.mark.parametrize("mask", [
    masks.causal(), masks.window(3, 1), masks.padding([1000, 7]), masks.document(torch.arange(1024) // 100),
    masks.around(torch.rand(2, 1024), 5), masks.prefix(3), lambda b, h, q, k: (q + k) % 2 == 0,
    masks.keep(torch.rand(1024, 1024) > 0.5), masks.causal() & masks.document(torch.arange(1024) // 9), ~masks.causal(),
], ids=lambda mask: "function" if callable(mask) else str(mask))  # fmt: skip
def test_the_cost_of_any_mask_is_predicted(mask):
    """With content and without; a mask that must be drawn is counted, and only such a one."""
    for tensors in ([torch.zeros(2, 2, 1024, 8)] * 3, [meta(2, 2, 1024, 8)] * 3):
        for options in ({}, {"dropout": 0.1}, {"refocus": [lambda w: w]}):
            told = regard.explain(*tensors, mask=mask, cost=True, **options)
            assert 0 < told.cost.operations <= told.cost.operations_with_gradients
            drawn = "mask" in told.cost.bytes_grow
            assert told.cost.bytes >= 2 * 2 * 1024 * 8 * 4 + (drawn and 10 * 1024)


@pytest.mark.parametrize(("path", "kernel", "constant"), [
    ("blocked", blocked, "BLOCK"), ("chunked", query_chunks, "PART"),
    ("linear", linear, "CHUNK"), ("windowed", windowed, "_ROWS"),
])  # fmt: skip
def test_what_a_kernel_takes_at_once_is_asked_of_the_kernel(monkeypatch, path, kernel, constant):
    """Half as many at once is less memory, or fewer operations, in what is foretold too."""
    monkeypatch.setattr(compiler, "library", lambda name: None)
    monkeypatch.setattr(dot, "serves", lambda *_: False)
    score = regard.score("additive", query_dim=8, key_dim=8, hidden_dim=4)
    options = {
        "blocked": {"dropout": 0.1},
        "chunked": {"score": score},
        "linear": {"score": "linear", "normalizer": "sum", "mask": masks.causal()},
        "windowed": {"mask": masks.window(9, 0)},
    }
    tensors = [torch.zeros(1, 4, 1024, 8)] * 3

    def told():
        explained = regard.explain(*tensors, cost=True, **options[path])
        assert explained.path == path
        return explained.cost.operations + explained.cost.bytes

    before = told()
    monkeypatch.setattr(kernel, constant, getattr(kernel, constant) // 2)
    assert told() < before


def test_normalizers_with_a_memory_of_their_own_are_known_ones():
    assert set(cost._HELD) <= set(normalizers)


def test_the_cost_of_custom_scores_and_normalizers_is_predicted():
    class Mine(regard.attention.parts.score_base.Score):
        def forward(self, query, prepared):
            return query.sum(-1, keepdim=True) + prepared.projected.sum(-1).unsqueeze(-2)

    class Own(regard.attention.parts.normalize.Softmax):
        pass

    tensors = [torch.zeros(2, 3, 5, 8)] * 3
    told = regard.explain(*tensors, score=Mine(), normalizer=Own(), cost=True)
    assert told.cost == told.explicit
    assert told.cost.operations == 2 * 2 * 3 * 25 * 16
    pointer = regard.explain(*tensors[:2], cost=True)
    assert pointer.cost.operations == 2 * 2 * 3 * 25 * 8
    empty = regard.explain(*[torch.zeros(0, 3, 5, 8)] * 3, cost=True)
    assert empty.cost.operations == empty.cost.bytes == 0


# --- no surprise ----------------------------------------------------------------------------------------------------


@pytest.fixture
def untold(monkeypatch):
    monkeypatch.setattr(warning, "_warned", set())


def warned(*shape: int, value: bool = True, **options) -> list[str]:
    """What is said of such a call, which is not made."""
    named = {
        "score": "scaled_dot",
        "normalizer": "softmax",
        "mask": None,
        "bias": None,
        "refocus": None,
        "dropout": 0.0,
    }
    query = meta(*shape)
    call = Call.of(query, query, query if value else None, **{**named, **options})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_memory(choose.choose(call), call, stacklevel=2)
    assert all(one.category is SlowPathWarning for one in caught)
    return [str(one.message) for one in caught]


def explain_path(*shape: int, **options: object) -> str:
    return regard.explain(*[meta(*shape)] * 3, **options).path


def test_the_warning_names_the_argument_and_the_remedy_once(untold, monkeypatch):
    large = (1, 16, 4096, 64)
    [told] = warned(*large, refocus=[lambda weights: weights])
    assert told.startswith("refocus= changes the weights after they are normalised: 1,024 MiB of weights")
    assert "1 × 16 × 4,096 × 4,096" in told and "at the peak with gradients" in told
    assert "some queries at a time" in told
    assert warned(*large, refocus=[lambda weights: weights]) == []
    [told] = warned(*large, refocus=[lambda weights: weights], normalizer="sparsemax")
    assert told.startswith("the normalizer 'sparsemax'")
    assert explain_path(*large, dropout=0.1) == "native" or compiler.compiler() is None
    monkeypatch.setattr(dot, "serves", lambda *_: False)
    with without("blocked"):  # as on a GPU
        [told] = warned(*large, dropout=0.1)
    assert told.startswith("dropout=") and "CPU" in told


def test_what_is_small_wanted_or_not_formed_is_no_surprise(untold):
    own = [lambda weights: weights]
    assert warned(8, 8, 512, 64, refocus=own) == []  # 64 MiB
    assert warned(1, 16, 4096, 64) == []
    assert warned(1, 16, 4096, 64, value=False) == []  # the weights are the answer
    assert warned(1, 16, 4096, 64, mask=masks.causal()) == []
    assert warned(1, 2**14, 64, score="linear", normalizer="sum") == []


def test_additive_weights_are_warned_of_where_no_rows_are_taken(untold):
    score = regard.score("additive", query_dim=8, key_dim=8, hidden_dim=4)
    assert warned(1, 16, 4096, 8, score=score) == []
    [told] = warned(1, 16, 4096, 8, score=score, refocus=[lambda weights: weights])
    assert told.startswith("refocus=")
    [told] = warned(1, 16, 4096, 8, score=score.bind(), normalizer="softmax")
    assert told.startswith("the score is bound")


def test_a_mask_that_is_drawn_is_warned_of_but_not_the_callers_tensor(untold):
    mask = masks.document(torch.zeros(2**14, dtype=torch.long)) & masks.causal()
    [told] = warned(1, 1, 2**14, 8, mask=mask)
    assert told.startswith("mask= is drawn") and "256 MiB of bools" in told
    own = torch.empty(1, 1, 2**14, 2**14, dtype=torch.bool, device="meta")
    assert warned(1, 1, 2**14, 8, mask=masks.keep(own)) == []
    with without("native"):
        assert warned(1, 2, 2**14, 8, mask=masks.padding([9])) == []


def test_every_reason_says_what_to_do():
    """What can keep a call on the path that forms all weights: each but two is mended by something said."""
    query = torch.zeros(2, 3, 0)
    options = {"mask": None, "bias": None, "refocus": [lambda weights: weights], "dropout": 0.1}
    call = Call.of(
        query, query, None, score=regard.score("location", query_dim=0, positions=1), normalizer="hard", **options
    )
    reasons = list(Explicit().holds(call._replace(hooked=True, mapped=True, safe=False)))
    assert len(reasons) == 9
    unmended = [reason for reason in reasons if not any(reason.startswith(words) for words in warning._MENDED)]
    assert unmended == ["there is no value: the weights are the answer", "an axis has size 0"]


def test_the_message_stands_at_the_callers_line():
    """In a Python where no check of shapes stands between a caller and what is called."""
    told = run_plain("""
        import warnings

        import torch

        import regard

        inputs = [torch.empty(1, 16, 4096, 64, device="meta")] * 3
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            regard.attend(*inputs, normalizer="hard")
        print([(one.category.__name__, one.filename, one.lineno) for one in caught])
    """)
    assert told.strip() == "[('SlowPathWarning', '<string>', 11)]"


def test_numbers_are_printed_in_a_unit_that_fits():
    """A small call cost 2.4e-08 billion operations and 0 MiB."""
    told = [
        str(regard.explain(*[meta(*shape)] * 3, refocus=[torch.relu], cost=True))
        for shape in ((1, 2, 3), (2, 8, 99, 64))
    ]
    assert "explicit: 48 (144 with gradients) operations" in told[0] and "bytes at the peak" in told[0]
    assert "explicit: 40.1 (120 with gradients) million operations" in told[1] and "MiB at the peak" in told[1]
