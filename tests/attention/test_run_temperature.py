"""Temperature, scale and bias meet on every path: contexts, weights and gradients are the reference's.

The calls are as large as each path asks for. The reference goes pair by pair, so it is asked for some queries alone,
and gradients come from these.
"""

from typing import NamedTuple

import pytest
import torch

import regard
from regard import masks
from regard.kernels.additive import additive, attend as additive_attend
from regard.kernels.dot import dot
from regard.kernels.fallback import query_chunks
from tests.reference.attention import plain_attend

TEMPERATURE, WIDTH, VALUE_WIDTH = 0.37, 5, 3


class Sizes(NamedTuple):
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int


class Mask(NamedTuple):
    """A mask, and its rule: does query q of item b see key k?"""

    given: object
    sees: object


def no_mask(sizes):
    return Mask(None, lambda b, q, k: True)


def causal(sizes):
    return Mask(masks.causal(), lambda b, q, k: k <= q + sizes.keys - sizes.queries)


def lengths(sizes):
    real = [sizes.keys, sizes.keys // 3][: sizes.batch]
    return Mask(masks.padding(real), lambda b, q, k: k < real[b])


def causal_lengths(sizes):
    both = causal(sizes), lengths(sizes)
    return Mask(both[0].given & both[1].given, lambda b, q, k: all(one.sees(b, q, k) for one in both))


def window(sizes):
    place = sizes.keys - sizes.queries
    return Mask(masks.window(3, 2), lambda b, q, k: -3 <= k - (q + place) <= 2)


def drawn(sizes):
    keep = torch.rand(sizes.queries, sizes.keys, generator=torch.Generator().manual_seed(2)) < 0.7
    return Mask(masks.keep(keep), lambda b, q, k: keep[q, k].item())


def bias_of(kind, sizes, dtype=torch.float64):
    if kind == "none":
        return None
    shape = 1, sizes.heads, sizes.queries, sizes.keys
    made = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype)
    return made.requires_grad_(kind == "learned")


def tensors(sizes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = (
        (sizes.batch, sizes.heads, sizes.queries, WIDTH),
        (sizes.batch, sizes.key_heads, sizes.keys, WIDTH),
        (sizes.batch, sizes.key_heads, sizes.keys, VALUE_WIDTH),
    )
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def assert_same_as_the_reference(
    path,
    sizes,
    mask,
    bias,
    *,
    name="scaled_dot",
    score=None,
    reason="",
    asked=3,
    looked=True,
    close=None,
    dtype=torch.float64,
    **options,
):
    """Of the first query, the last one and some between.

    Args:
        path: what the call must take.
        told: must stand in the reasons for it.
        asked: how many queries the reference is asked for.
        looked: whether somebody looks at the weights, too.
        close: tolerances, unless those of float64 hold.
    """
    inputs = tensors(sizes, dtype)
    of_bias = bias_of(bias, sizes, dtype)
    given, sees = mask(sizes)
    call = {
        "score": name if score is None else score,
        "normalizer": regard.normalizer("softmax", temperature=TEMPERATURE),
        "mask": given,
        "bias": of_bias,
        **options,
    }
    explained = regard.explain(*inputs, **call)
    assert explained.path == path, explained
    assert reason in str(explained)
    rows = torch.linspace(0, sizes.queries - 1, asked).long()
    attended = regard.attend(*inputs, **call)

    exact = [one.detach().double().requires_grad_() for one in inputs]
    exact_bias = None if of_bias is None else of_bias.detach().double().requires_grad_()
    context, weights = plain_attend(
        exact[0][:, :, rows],
        *exact[1:],
        score=name,
        module=score,
        sees=lambda b, h, q, k: sees(b, int(rows[q]), k),
        bias=None if exact_bias is None else exact_bias[:, :, rows].expand(*sizes[:2], asked, sizes.keys),
        temperature=TEMPERATURE,
    )
    close = close or {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(attended.context[:, :, rows].double(), context, **close)
    if looked:
        torch.testing.assert_close(attended.weights[:, :, rows].double(), weights, **close)
        logs = attended.log_weights[:, :, rows].double()
        torch.testing.assert_close(logs.exp(), weights, **close)
        assert_statistics(attended.statistics(2), rows, weights, close)
        with torch.no_grad():  # and of a call that makes them on its way
            observed = regard.attend(*inputs, statistics=2, **call)
        torch.testing.assert_close(observed.context[:, :, rows].double(), context, **close)
        assert_statistics(observed.statistics(2), rows, weights, close)

    learned = [*inputs, *([of_bias] if bias == "learned" else []), *([] if score is None else score.parameters())]
    wanted = [*exact, *([exact_bias] if bias == "learned" else []), *([] if score is None else score.parameters())]
    direction = torch.randn(context.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    ours = torch.autograd.grad((attended.context[:, :, rows].double() * direction).sum(), learned)
    theirs = torch.autograd.grad((context * direction).sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, **close)


def assert_statistics(reason, rows, weights, close):
    largest = weights.sort(dim=-1, descending=True).values[..., :2]
    torch.testing.assert_close(reason.top_weights[:, :, rows].double(), largest, **close)
    entropy = torch.special.entr(weights).sum(-1)
    torch.testing.assert_close(reason.entropy[:, :, rows].double(), entropy, **close)


# --- dot products ---------------------------------------------------------------------------------------------------

# As many pairs as a path asks for, but few keys: the reference goes through those of a query one by one.
SMALL, MEDIUM, LARGE = Sizes(2, 2, 1, 157, 53), Sizes(2, 2, 1, 1091, 61), Sizes(1, 2, 1, 8009, 131)


def looped(like):
    """The path of a call that a native loop takes where a compiler is."""
    return "native" if dot.serves(like, like, like) else "fused"


@pytest.fixture
def without_loops(monkeypatch):
    monkeypatch.setattr(dot, "serves", lambda *_: False)


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("mask", (no_mask, causal_lengths, window, drawn))
def test_native(mask, bias):
    assert_same_as_the_reference(looped(torch.zeros(1).double()), SMALL, mask, bias)


@pytest.mark.parametrize("name", ("dot", "cosine", "general"))
def test_native_with_another_score(name):
    score = regard.score("general", query_dim=WIDTH, key_dim=WIDTH).double() if name == "general" else None
    assert_same_as_the_reference(looped(torch.zeros(1).double()), SMALL, drawn, "learned", name=name, score=score)


@pytest.mark.parametrize(("dtype", "close"), ((torch.float32, 1e-4), (torch.bfloat16, 0.1)))
def test_native_in_narrower_types(dtype, close):
    tolerance = {"rtol": close, "atol": close}
    path = looped(torch.zeros(1, dtype=dtype))
    assert_same_as_the_reference(path, SMALL, no_mask, "fixed", dtype=dtype, close=tolerance)


def test_native_of_a_million_pairs():
    assert_same_as_the_reference(looped(torch.zeros(1).double()), LARGE, no_mask, "fixed", asked=2)


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("mask", (no_mask, drawn))
def test_fused(without_loops, mask, bias):
    assert_same_as_the_reference("fused", SMALL, mask, bias)


@pytest.mark.parametrize("mask", (no_mask, drawn))
def test_blocked(without_loops, mask):
    assert_same_as_the_reference("blocked", LARGE, mask, "learned", asked=2)


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
def test_ragged(without_loops, bias):
    assert_same_as_the_reference("ragged", MEDIUM, lengths, bias)


def test_ragged_and_causal(without_loops):
    assert_same_as_the_reference("ragged", Sizes(2, 1, 1, 263, 263), causal_lengths, "learned", asked=2)


def test_windowed(without_loops):
    assert_same_as_the_reference("windowed", Sizes(2, 2, 1, 283, 283), window, "none")


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("mask", (no_mask, drawn))
def test_explicit(mask, bias):
    as_they_are = [lambda weights: weights]
    assert_same_as_the_reference("explicit", Sizes(2, 4, 2, 11, 13), mask, bias, refocus=as_they_are)


# --- additive scores ------------------------------------------------------------------------------------------------

HIDDEN = 17


def additive_score(hidden=HIDDEN):
    torch.manual_seed(5)
    return regard.score("additive", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=hidden).double()


@pytest.fixture(params=("in a loop", "by rows"))
def in_parts(request, monkeypatch):
    """Calls of any size as large ones: by the native loop where a compiler is, or some queries at a time."""
    for name in ("_LEAST", "_LEAST_COMPILED"):
        monkeypatch.setattr(additive, name, 1)
    monkeypatch.setattr(additive_attend, "LEAST", 1)
    monkeypatch.setattr(query_chunks, "MANY", 1)
    monkeypatch.setattr(query_chunks, "PART", 25)
    if request.param == "by rows":
        monkeypatch.setattr(additive_attend, "serves", lambda *_: False)


def many_pairs():
    """The path of so many pairs that their weights are not formed at once."""
    return "additive" if additive_attend.serves(torch.zeros(1).double(), 2**30, 1, 1) else "chunked"


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("mask", (no_mask, causal_lengths, drawn))
def test_additive_in_parts(in_parts, mask, bias):
    sizes = Sizes(2, 2, 1, 13, 13)
    score = additive_score(7)
    assert_same_as_the_reference(many_pairs(), sizes, mask, bias, name="additive", score=score)


@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("mask", (causal, drawn))
def test_additive_scores_made_at_once(mask, bias):
    score = additive_score()
    assert_same_as_the_reference(
        "explicit", SMALL, mask, bias, name="additive", score=score, reason="for each pair", asked=2
    )


@pytest.mark.parametrize("loops", (True, False))
def test_additive_of_four_million_pairs(monkeypatch, loops):
    if not loops:
        monkeypatch.setattr(additive_attend, "serves", lambda *_: False)
    sizes = Sizes(1, 1, 1, 32_779, 131)
    score = additive_score(3)
    assert_same_as_the_reference(
        many_pairs(), sizes, no_mask, "fixed", name="additive", score=score, asked=2, looked=False
    )


# --- linear attention -----------------------------------------------------------------------------------------------


def test_linear_attention_has_no_temperature_to_lose_and_refuses_a_bias():
    """Weights that are divided by their sum are the same at any temperature; a bias takes the path that forms them."""
    sizes = Sizes(2, 2, 1, 71, 71)
    query, key, value = tensors(sizes)
    rows = torch.tensor([0, 33, 70])
    for bias, path in ((None, "linear"), (bias_of("fixed", sizes).abs(), "explicit")):
        call = {"score": "linear", "normalizer": regard.normalizer("sum", temperature=TEMPERATURE), "bias": bias}
        call["mask"] = masks.causal()
        assert regard.explain(query, key, value, **call).path == path
        ours = regard.attend(query, key, value, **call).context[:, :, rows]
        theirs, _ = plain_attend(
            query[:, :, rows], key, value, score="linear", normalizer="sum", temperature=TEMPERATURE,
            sees=lambda b, h, q, k: k <= rows[q], bias=None if bias is None else bias[:, :, rows].expand(2, 2, 3, 71),
        )  # fmt: skip
        torch.testing.assert_close(ours, theirs)
        for one, other in zip(
            torch.autograd.grad(ours.sin().sum(), (query, key, value)),
            torch.autograd.grad(theirs.sin().sum(), (query, key, value)),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
