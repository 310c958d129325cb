"""What every attention promises whatever its parts: hidden content, empty rows, dtypes, modes, shifts, sizes."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.attend import Attention, attend
from regard.attention.parts.normalize import normalizers
from tests.attention.registered_parts import KEYS, MASKS, NORMALIZERS, SCORES, VALUE_DIM, module, tensors

HIDING = [name for name in MASKS if name != "none"]
BAD = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf, "1e30": 1e30, "random": None}


def grads(attended, direction, inputs):
    found = torch.autograd.grad((attended.context * direction).sum(), inputs, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]


# --- what is masked out cannot touch the answer ---------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax", "sigmoid", "sum", "hard"))
@pytest.mark.parametrize("score", SCORES)
def test_b03_content_that_no_query_attends_to(score, normalizer, bad):
    """B03: padding filled with NaN, inf, 1e30 or noise gives the same answer and gradients, bit for bit or nearly."""
    mask = masks.padding([3, 5])
    made = module(score)
    results = []
    for fill in (0.0, BAD[bad]):
        query, key, value = (tensor.detach().clone() for tensor in tensors(score))
        for tensor in (key, value):
            tensor[0, 3:] = torch.randn_like(tensor[0, 3:]) if fill is None else fill
        inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
        attended = attend(query, key, value, score=made, normalizer=normalizer, mask=mask)
        direction = torch.ones_like(attended.context)
        results.append([attended.context, attended.weights, *grads(attended, direction, [*inputs, *made.parameters()])])
    for clean, filled in zip(*results, strict=True):
        assert filled.isfinite().all()
        torch.testing.assert_close(filled, clean, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("bad", ("nan", "inf", "1e30"))
@pytest.mark.parametrize("score", SCORES)
def test_b03_content_that_only_later_queries_see(score, bad):
    """B03 under a causal mask: what stands in the last key reaches the last query alone."""
    made = module(score)
    results = []
    for fill in (0.0, BAD[bad]):
        query, key, value = (tensor.detach().clone() for tensor in tensors(score))
        key[:, -1, 0] = fill
        value[:, -1, 0] = fill
        inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
        attended = attend(query, key, value, score=made, mask=masks.causal())
        early = attended.context[:, :-1]
        found = torch.autograd.grad(early.sum(), [*inputs, *made.parameters()], allow_unused=True)
        results.append([early, attended.weights[:, :-1], *(g for g in found if g is not None)])
    for clean, filled in zip(*results, strict=True):
        assert filled.isfinite().all()
        torch.testing.assert_close(filled, clean, rtol=1e-12, atol=1e-13)


def test_b03_minimal_input_and_a_query_that_does_see_it_reads_nan():
    x = torch.arange(8.0).reshape(1, 2, 4)
    keep = torch.tensor([[True, False], [True, False]])
    for fill in (torch.nan, torch.inf):
        key, value = x.clone(), x.clone()
        key[0, 1, 0] = fill
        value[0, 1, 0] = fill
        attended = attend(x, key, value, mask=masks.keep(keep))
        torch.testing.assert_close(attended.context, x[:, :1].expand(1, 2, 4))
        seen = attend(x, key, value, mask=masks.keep(torch.tensor([[True, False], [True, True]])))
        torch.testing.assert_close(seen.context[:, 0], x[:, 0])
        assert seen.context[:, 1].isnan().all()
        assert seen.weights[0, 0].tolist() == [1.0, 0.0]


def test_b03_a_nonfinite_query_keeps_its_nan_to_itself():
    query, key, value = tensors("additive")
    made = module("additive")
    mask = masks.padding([3, 5])
    clean = attend(query, key, value, score=made, mask=mask)
    nonfinite = query.detach().clone()
    nonfinite[0, 1, 0] = torch.nan
    nonfinite.requires_grad_()
    attended = attend(nonfinite, key, value, score=made, mask=mask)
    assert attended.context[0, 1].isnan().all()
    rows = torch.tensor([0, 2])
    torch.testing.assert_close(attended.context[0, rows], clean.context[0, rows])
    inputs = [key, value, *made.parameters()]
    ours = torch.autograd.grad(attended.context[0, rows].sum() + attended.context[1].sum(), inputs)
    theirs = torch.autograd.grad(clean.context[0, rows].sum() + clean.context[1].sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64))
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", SCORES)
def test_b01_a_query_that_may_see_nothing_reads_zero(score, normalizer, dtype):
    """B01, B02: weights and context exactly 0, gradients finite, the other rows untouched."""
    query, key, value = tensors(score, dtype=dtype)
    made = module(score, dtype)
    attended = attend(query, key, value, score=made, normalizer=normalizer, mask=masks.padding([5, 0]))
    assert attended.context.dtype == attended.weights.dtype == dtype
    assert (attended.context[1] == 0).all()
    assert (attended.weights[1] == 0).all()
    assert (attended.log_weights[1] == -torch.inf).all()
    assert attended.weights[0].isfinite().all()
    for gradient in grads(attended, torch.ones_like(attended.context), [query, key, value, *made.parameters()]):
        assert gradient.isfinite().all()
        if gradient.shape[0] == 2 and gradient.ndim == 3:
            assert (gradient[1] == 0).all()


@pytest.mark.parametrize("looked", (False, True))
def test_b02_causal_with_left_padding(looked):
    """B02: batch 1, 4 positions, causal, position 0 is padding; gradients equal those of the cut sequence."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(1, 4, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    mask = masks.causal() & masks.padding(keep=torch.tensor([[False, True, True, True]]))
    attended = attend(x, x, x, mask=mask, weights=looked)
    whole = torch.autograd.grad(attended.context[:, 1:].sum(), x)[0]
    cut = x.detach()[:, 1:].requires_grad_()
    alone = attend(cut, cut, cut, mask=masks.causal())
    torch.testing.assert_close(attended.context[:, 1:], alone.context)
    torch.testing.assert_close(whole[:, 1:], torch.autograd.grad(alone.context.sum(), cut)[0])
    assert (whole[:, 0] == 0).all()
    assert (attended.context[:, 0] == 0).all()


@pytest.mark.parametrize("scale", (1.0, 1e3, 1e6))
@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax", "entmax15", "hard"))
def test_b10_forbidden_weights_are_zero_whatever_the_scores(normalizer, scale):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(1, 3, 8, generator=generator) * scale - 1e6
    keep = torch.tensor([True] * 5 + [False] * 3)
    weights = regard.normalizer(normalizer)(scores, keep.expand(1, 3, 8))
    assert (weights[..., 5:] == 0).all()
    torch.testing.assert_close(weights[..., :5], regard.normalizer(normalizer)(scores[..., :5]))


def test_b10_the_reported_row():
    scores = torch.tensor([[[-110_210.0, -110_200.0, -110_220.0, -110_215.0, -110_202.8, 0.0, 0.0, 0.0]]])
    weights = regard.normalizer("softmax")(scores, torch.tensor([[[True] * 5 + [False] * 3]]))[0, 0]
    torch.testing.assert_close(weights[[1, 4]], torch.tensor([0.942, 0.058]), atol=2e-3, rtol=0)
    assert weights[5:].sum() == 0


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.float16, torch.bfloat16))
@pytest.mark.parametrize("shift", (-1000.0, 1000.0))
@pytest.mark.parametrize("normalizer", [n for n in NORMALIZERS if normalizers.make(n).shift_invariant])
def test_b11_a_constant_added_to_all_scores_changes_nothing(normalizer, shift, dtype):
    made = regard.normalizer(normalizer)
    for keys in (1, 2, 128):
        # whole numbers near 1000 that even bfloat16 holds exactly
        scores = torch.randint(-5, 6, (1, 3, keys), generator=torch.Generator().manual_seed(keys)).to(dtype) * 8
        torch.manual_seed(0)
        plain = made(scores)
        torch.manual_seed(0)
        shifted = made(scores + torch.tensor(shift, dtype=dtype))
        assert shifted.isfinite().all()
        torch.testing.assert_close(shifted.sum(-1), torch.ones_like(shifted.sum(-1)))
        torch.testing.assert_close(shifted, plain, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax", "entmax15"))
def test_b11_the_reported_scores(normalizer, dtype):
    scores = torch.full((1, 1, 128), -5.0)
    scores[..., 0] = 0
    rounded = (scores - 1000).to(dtype)
    weights = regard.normalizer(normalizer)(rounded)[0, 0]
    if normalizer == "softmax":
        torch.testing.assert_close(weights, torch.softmax(rounded[0, 0].double(), -1).float())
    else:
        assert weights[0] == 1 and weights[1:].sum() == 0


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("score", SCORES)
def test_half_precision_is_near_float32(score, dtype):
    query, key, value = (tensor.detach() for tensor in tensors(score, dtype=torch.float32))
    made = module(score, torch.float32)
    for mask in ("none", "causal", "no_keys", "joined"):
        full = attend(query, key, value, score=made, mask=MASKS[mask][0])
        half = attend(*(t.to(dtype) for t in (query, key, value)), score=module(score, dtype), mask=MASKS[mask][0])
        bound = 2e-2 if dtype == torch.bfloat16 else 3e-3
        torch.testing.assert_close(half.context.float(), full.context, atol=bound, rtol=bound)
        torch.testing.assert_close(half.weights.float(), full.weights, atol=bound, rtol=bound)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_b09_half_precision_two_masks_and_large_scores(dtype):
    """B09: a left-padded pair, causal and padding, scores of some hundreds: within 1e-2 of float32."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 4, 16, generator=generator).to(dtype)
    mask = masks.causal() & masks.padding(keep=torch.tensor([[False, True, True, True], [True] * 4]))
    score = regard.score("scaled_dot", scale=25.0)
    half = attend(x, x, x, score=score, mask=mask)
    full = attend(x.float(), x.float(), x.float(), score=score, mask=mask)
    assert half.context.isfinite().all()
    torch.testing.assert_close(half.weights.float(), full.weights, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(half.context.float(), full.context, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("score", SCORES)
def test_autocast_changes_speed_not_meaning(score):
    query, key, value = tensors(score, dtype=torch.float32)
    made = module(score, torch.float32)
    for mask in ("none", "no_keys", "joined"):
        plain = attend(query, key, value, score=made, mask=MASKS[mask][0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = attend(query, key, value, score=made, mask=MASKS[mask][0])
        assert cast.context.dtype == torch.float32
        torch.testing.assert_close(cast.context, plain.context, atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(cast.weights, plain.weights, atol=2e-2, rtol=2e-2)


# --- modes: one answer whatever is asked beside it ------------------------------------------------------------------


@pytest.mark.parametrize("mask", ("none", "causal", "no_keys", "joined"))
@pytest.mark.parametrize("score", ("scaled_dot", "cosine", "additive", "linear"))
def test_b13_modes_agree_bit_for_bit(score, mask):
    """B13, B01: train/eval × grad/no-grad × looked at or not; the context is the same to the last bit."""
    query, key, value = tensors(score, dtype=torch.float32)
    attention = Attention(module(score, torch.float32), dropout=0.0)
    answers = []
    for training in (True, False):
        attention.train(training)
        for grad in (True, False):
            for looked in (True, False):
                with torch.set_grad_enabled(grad):
                    attended = attention(query, key, value, mask=MASKS[mask][0], weights=looked)
                    context = attended.context.detach().clone()
                    assert attended.weights.shape == (2, 3, 5)
                    assert torch.equal(attended.context, context)
                    answers.append((context, attended.weights.detach()))
    for context, weights in answers[1:]:
        assert torch.equal(context, answers[0][0])
        torch.testing.assert_close(weights, answers[0][1], atol=0, rtol=0)


@pytest.mark.parametrize("normalizer", ("sample", "gumbel"))
def test_the_weights_are_the_draw_that_made_the_context(normalizer):
    query, key, value = tensors("scaled_dot")
    attended = attend(query, key, value, normalizer=normalizer)
    torch.testing.assert_close(attended.weights @ value, attended.context)
    chosen = attended.weights.argmax(-1)
    exact = torch.log_softmax(query @ key.transpose(1, 2) / 7**0.5, -1).gather(-1, chosen[..., None])[..., 0]
    torch.testing.assert_close(attended.log_prob, exact)


def test_sampling_follows_the_distribution():
    scores = torch.log(torch.tensor([0.1, 0.2, 0.7])).expand(1, 20_000, 3)
    torch.manual_seed(0)
    for normalizer in ("sample", "gumbel"):
        share = regard.normalizer(normalizer)(scores).mean(1)[0]
        # three standard errors of a share are at most 3 · sqrt(.25 / 20,000) = .0107
        torch.testing.assert_close(share, torch.tensor([0.1, 0.2, 0.7]), atol=0.0107, rtol=0)


def test_b34_dropout_only_in_training_and_never_in_the_weights():
    query, key, value = tensors("scaled_dot", dtype=torch.float32)
    attention = Attention(dropout=0.5)
    torch.manual_seed(0)
    first, second = attention(query, key, value), attention(query, key, value)
    assert not torch.equal(first.context, second.context)
    assert torch.equal(first.weights, second.weights)
    torch.testing.assert_close(first.weights.sum(-1), torch.ones(2, 3))
    torch.nn.Sequential(attention).eval()
    assert torch.equal(attention(query, key, value).context, attention(query, key, value).context)
    torch.testing.assert_close(attention(query, key, value).context, attend(query, key, value).context)


def test_b36_arguments_are_left_alone():
    query, key, value = tensors("location_aware")
    made = module("location_aware")
    previous = torch.softmax(torch.randn(2, KEYS, dtype=torch.float64), -1)
    bias = torch.randn(3, KEYS, dtype=torch.float64)
    keep = torch.rand(3, KEYS) > 0.3
    lengths = torch.tensor([5, 2])
    given = [query, key, value, previous, bias, keep, lengths]
    before = [tensor.detach().clone() for tensor in given]
    attended = attend(
        query, key, value, score=made.bind(previous=previous), bias=bias, mask=masks.keep(keep) & masks.padding(lengths)
    )
    attended.context.sum().backward()
    assert attended.weights is not None
    for tensor, copy in zip(given, before, strict=True):
        assert torch.equal(tensor, copy)


PAIRS = {
    "looked": {"weights": True},
    "dropout": {"dropout": 0.3},
    "bias": {"bias": torch.zeros(4, 4)},
    "refocus": {"refocus": [lambda w: w]},
    "cosine": {"score": "cosine"},
    "sparsemax": {"normalizer": "sparsemax"},
    "heads": {},
}


@pytest.mark.parametrize("one", PAIRS)
@pytest.mark.parametrize("two", PAIRS)
def test_b06_no_option_loses_the_causal_mask(one, two):
    """B06: change the last position; outputs at earlier positions stay, for options taken two at a time."""
    generator = torch.Generator().manual_seed(7)
    shape = (1, 2, 4, 8) if "heads" in (one, two) else (1, 4, 8)
    x = torch.randn(shape, generator=generator)
    changed = x.clone()
    changed[..., -1, :] += 3
    answers = []
    for inputs in (x, changed):
        torch.manual_seed(0)
        answers.append(attend(inputs, inputs, inputs, mask=masks.causal(), **PAIRS[one], **{
            name: value for name, value in PAIRS[two].items() if name not in PAIRS[one]
        }))  # fmt: skip
    torch.testing.assert_close(answers[0].context[..., :-1, :], answers[1].context[..., :-1, :], rtol=0, atol=1e-7)
    assert (answers[0].weights.triu(1) == 0).all()


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "normalizer"), [(score, "softmax") for score in SCORES] + [("additive", one) for one in NORMALIZERS]
)
def test_b15_b42_axes_of_size_zero_and_one(score, normalizer):
    """B15, B42: the shapes follow one formula; no keys read 0."""
    made = module(score)
    for batch in (0, 1, 2):
        for queries in (0, 1, 3):
            for keys in (0, 1, 5):
                query, key, value = tensors(score, batch=batch, queries=queries, keys=keys)
                for mask in (None, masks.causal(), masks.padding([keys] * batch)):
                    attended = attend(query, key, value, score=made, normalizer=normalizer, mask=mask)
                    assert attended.context.shape == (batch, queries, VALUE_DIM)
                    assert attended.weights.shape == (batch, queries, keys)
                    if keys == 0:
                        assert (attended.context == 0).all()


def test_b40_constant_values_are_read_unchanged():
    """B40: with constant values every context equals them; the weights sum to 1 along the keys."""
    for score in SCORES:
        query, key, _ = tensors(score)
        made = module(score)
        for normalizer in NORMALIZERS:
            if normalizers.make(normalizer).sums_to_one:
                value = torch.full((2, KEYS, 2), 3.0, dtype=torch.float64)
                attended = attend(query, key, value, score=made, normalizer=normalizer)
                torch.testing.assert_close(attended.context, torch.full((2, 3, 2), 3.0, dtype=torch.float64))
                torch.testing.assert_close(attended.weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    weights = regard.normalizer("softmax")(torch.tensor([[[0.0, 1, 2], [3, 0, 0]]]))
    expected = torch.tensor([[[0.090, 0.245, 0.665], [0.909, 0.045, 0.045]]])
    torch.testing.assert_close(weights, expected, atol=6e-4, rtol=0)
