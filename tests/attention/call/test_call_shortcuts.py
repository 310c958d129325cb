"""What a call looks at only once, or in fewer steps: the same numbers as looking at everything each time."""

import gc
import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import regard
from regard import masks
from regard.attention.call import guard
from regard.attention.call.guard import is_safe_cached
from regard.attention.call.mask_summary import summarize
from regard.attention.modules.multihead import MultiHeadAttention
from regard.attention.parts.functional import _FEW, weigh_pairs
from regard.attention.parts.mask_kinds import Sizes
from regard.attention.parts.normalize import Normalizer, Softmax

KEPT = {
    "all": torch.ones(2, 3, 5, dtype=torch.bool),
    "lengths": (torch.arange(5) < torch.tensor([[[2]], [[5]]])).expand(2, 3, 5),
    "triangle": torch.ones(3, 5, dtype=torch.bool).tril(2),
    "a query that sees nothing": torch.ones(2, 3, 5, dtype=torch.bool).index_fill(1, torch.tensor([1]), False),
}


# --- keys that serve at many calls ----------------------------------------------------------------------------------


def looks(monkeypatch) -> list[torch.Tensor]:
    """Tensors that are looked at from now on."""
    seen, look = [], guard.is_safe
    monkeypatch.setattr(guard, "is_safe", lambda *tensors: (seen.extend(tensors), look(*tensors))[1])
    return seen


def test_prepared_keys_are_checked_once(monkeypatch):
    score = regard.score("additive", query_dim=5, key_dim=7, hidden_dim=3)
    prepared, value = score.prepare(torch.randn(2, 11, 7)), torch.randn(2, 11, 13)
    given = looks(monkeypatch)
    for _ in range(3):
        query = torch.randn(2, 1, 5)
        regard.attend(query, prepared, value, score=score, mask=masks.padding([4, 11]))
    assert [one.shape[-1] for one in given] == [5, 3, 13, 5, 5]


def test_projected_keys_are_checked_once(monkeypatch):
    attention = MultiHeadAttention(6, 2)
    projected = attention.project(torch.randn(2, 11, 6))
    given = looks(monkeypatch)
    for _ in range(3):
        attention(torch.randn(2, 1, 6), projected, mask=masks.padding([4, 11]))
    once = (11, 3), (11, 3)  # keys, which are compared as they are, and values
    each = (1, 6), (1, 3)  # the query, before and after its projection
    assert [tuple(one.shape[-2:]) for one in given] == [each[0], *once, each[1], *each, *each]


def test_what_was_changed_is_checked_again(monkeypatch):
    tensor = torch.randn(7, 3)
    assert is_safe_cached(tensor, None)
    tensor[2, 1] = torch.nan
    given = looks(monkeypatch)
    assert not is_safe_cached(tensor) and not is_safe_cached(tensor) and len(given) == 1
    tensor[2, 1] = 0
    assert is_safe_cached(tensor)
    tensor.set_(torch.full((7, 3), torch.inf))
    assert not is_safe_cached(tensor) and len(given) == 3


def test_what_is_written_during_a_check_is_checked_again(monkeypatch):
    """By another thread, say."""
    tensor, look = torch.randn(7, 3), guard.is_safe

    def looks_while_one_writes(given):
        found = look(given)
        tensor[2, 1] = torch.nan
        return found

    with monkeypatch.context() as patched:
        patched.setattr(guard, "is_safe", looks_while_one_writes)
        assert is_safe_cached(tensor)
    assert not is_safe_cached(tensor)


def test_a_masked_out_nan_that_comes_later_is_kept_from_the_answer():
    prepared = regard.score("scaled_dot").prepare(torch.randn(2, 11, 7))
    query, value, mask = torch.randn(2, 1, 7), torch.randn(2, 11, 13), masks.padding([4, 9])
    before = regard.attend(query, prepared, value, mask=mask).context
    value[:, 9:] = torch.nan
    prepared.projected[:, 10] = torch.inf
    torch.testing.assert_close(regard.attend(query, prepared, value, mask=mask).context, before)


def test_in_inference_mode_everything_is_checked(monkeypatch):
    with torch.inference_mode():
        tensor = torch.randn(7, 3)
        given = looks(monkeypatch)
        assert is_safe_cached(tensor) and is_safe_cached(tensor) and len(given) == 2
        tensor[0] = torch.nan
        assert not is_safe_cached(tensor)


def test_what_is_remembered_dies_with_its_tensor():
    gc.collect()
    before = len(guard._safe._found)
    tensors = [torch.randn(3) for _ in range(7)]
    assert is_safe_cached(*tensors) and len(guard._safe._found) == before + 7
    del tensors
    gc.collect()
    assert len(guard._safe._found) == before


# --- masks of lengths -----------------------------------------------------------------------------------------------


def test_lengths_that_hide_nothing_are_no_mask():
    query, key = torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    assert regard.explain(query, key, key, mask=masks.padding([5, 5])) == regard.explain(query, key, key)
    assert summarize(masks.ragged([5, 5]), Sizes(2, 1, 5, 5)).mask is None
    assert summarize(masks.ragged([5, 4]), Sizes(2, 1, 5, 5)).mask is not None


def test_the_callers_lengths_may_change_after_the_call():
    lengths, score = torch.tensor([4, 2]), regard.score("additive", query_dim=5, key_dim=7, hidden_dim=3)
    for options in ({}, {"score": score}, {"normalizer": "sparsemax"}):
        query, key = torch.randn(2, 3, 5), torch.randn(2, 6, 7 if options.get("score") is score else 5)
        attended = regard.attend(query, key, key, mask=masks.padding(lengths), **options)
        lengths.fill_(6)
        assert not attended.weights[0, :, 4:].any() and not attended.weights[1, :, 2:].any()
        lengths.copy_(torch.tensor([4, 2]))


def test_a_mask_of_inference_mode_is_none_of_training():
    lengths = [3, 6, 2]
    query, key = torch.randn(3, 1, 5), torch.randn(3, 6, 5)
    with torch.inference_mode():
        expected = regard.attend(query, key, key, mask=masks.padding(lengths), normalizer="sparsemax").context
    learned = query.clone().requires_grad_()
    context = regard.attend(learned, key, key, mask=masks.padding(lengths), normalizer="sparsemax").context
    torch.testing.assert_close(context, expected)
    context.sum().backward()
    assert learned.grad.isfinite().all()


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_nobody_who_writes_to_a_drawn_mask_changes_another_call(normalizer):
    """A normalizer of the caller's own is given the mask; the next call must not see what it made of it."""
    query, key, mask = torch.randn(2, 3, 5), torch.randn(2, 6, 5), masks.padding([4, 2])
    expected = regard.attend(query, key, key, mask=mask, normalizer=normalizer).context

    class Blind(Normalizer):
        def forward(self, scores, keep=None):
            return keep.logical_not_().to(scores.dtype)

    regard.attend(query, key, key, mask=mask, normalizer=Blind())
    torch.testing.assert_close(regard.attend(query, key, key, mask=mask, normalizer=normalizer).context, expected)


@pytest.mark.parametrize("queries", [1, 5])
def test_whoever_is_known_to_see_something_does(queries):
    sizes = Sizes(2, 1, queries, 5)
    parts = [masks.causal(), masks.causal("start"), masks.window(0, 1), masks.padding([3, 5]), masks.padding([0, 4])]
    parts += [masks.keep(torch.zeros(queries, 5, dtype=torch.bool))] + [masks.ragged([2, 5])] * (queries == 5)
    summaries = []
    for one, other in itertools.combinations_with_replacement(parts, 2):
        known = summarize(one & other, sizes)
        if known.none_fully_masked():
            summaries.append(known)
            assert known.mask is None or known.mask.draw(sizes, torch.device("cpu")).any(-1).all(), (one, other)
    assert len(summaries) == (2 if queries == 1 else 5)


# --- softmax of few scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("special", [None, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_softmax_of_few_scores_is_that_of_all(keep, temperature, special, kind):
    """Beside the steps of every normalizer; forwards, and the gradient of scores, with and without one."""
    kept, softmax = KEPT[keep], Softmax(temperature)
    scores = torch.randn(2, 3, 5, dtype=kind)
    if special is not None:
        scores[1, 2, 1], scores[0, 0, 3] = special, special
    upstream = torch.randn(2, 3, 5, dtype=torch.float64 if kind is torch.float64 else torch.float32)
    found = []
    for make in (softmax, lambda *given: Normalizer.forward(softmax, *given)):
        leaf = scores.clone().requires_grad_()
        weights = make(leaf, kept)
        found.append((weights.detach(), torch.autograd.grad(weights, leaf, upstream)[0]))
        with torch.no_grad():
            assert torch.equal(make(leaf, kept).isnan(), weights.isnan())
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert not found[0][0][~kept.expand(2, 3, 5)].any()


def test_masked_out_scores_get_no_gradient():
    """Not even 0 · inf."""
    scores = torch.randn(2, 3, 5, requires_grad=True)
    for keep in (KEPT["triangle"], None):
        masked_out = ~KEPT["triangle"]
        given = scores if keep is not None else scores.masked_fill(masked_out, -torch.inf)
        upstream = torch.randn(2, 3, 5).masked_fill(masked_out, torch.inf)
        slope = torch.autograd.grad(Softmax()(given, keep), scores, upstream)[0]
        assert slope.isfinite().all() and not slope[:, masked_out].any() and slope[:, ~masked_out].any()


def test_softmax_of_few_scores_can_be_differentiated_twice():
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda given: Softmax(0.7)(given, KEPT["lengths"]), scores)


# --- additive scores of few pairs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_few_pairs_are_weighed_as_many_are(kind):
    hidden = 13
    pairs, vector = torch.randn(2, 3, 7, hidden, dtype=kind) * 3, torch.randn(hidden, dtype=kind)
    many = pairs.repeat(_FEW // pairs.numel() + 1, 1, 1, 1)
    assert pairs.numel() <= _FEW < many.numel()
    found = []
    for given in (pairs, many):
        leaf, weight = given.clone().requires_grad_(), vector.clone().requires_grad_()
        scores = weigh_pairs(leaf * 1, weight)
        slopes = torch.autograd.grad(scores[:2].sin().sum(), [leaf, weight])
        found.append((scores[:2], slopes[0][:2], slopes[1]))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4 if kind is torch.float32 else 1e-12, atol=1e-5)


def test_a_mask_drawn_under_a_mode_is_nobody_elses():
    query, mask = torch.randn(8, 67, 4), masks.padding([3, 1, *[53] * 6])
    made = regard.attend(query, query, query, mask=mask)  # a loop goes by the lengths alone
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert made.weights.shape == (8, 67, 67)
    assert type(regard.attend(query, query, query, mask=mask).weights) is torch.Tensor


@pytest.mark.parametrize("keep", (None, torch.ones(2, 3, 5, dtype=torch.bool)), ids=("all", "kept"))
def test_what_comes_from_above_reaches_no_score_of_minus_infinity(keep):
    scores = torch.randn(2, 3, 5)
    scores[1, 1, 2] = -torch.inf
    scores.requires_grad_()
    above = torch.ones(2, 3, 5)
    above[1, 1, 0] = torch.nan
    (found,) = torch.autograd.grad(Softmax()(scores, keep), scores, above)
    assert found[1, 1].isnan().tolist() == [True, True, False, True, True]
    assert found[0].isfinite().all() and found[1, 1, 2] == 0


@pytest.mark.parametrize("kind", ("softmax", "sparsemax", "entmax15"))
def test_a_learned_temperature_gets_no_gradient_from_masked_out_scores(kind):
    def slope(masked_out):
        temperature = torch.nn.Parameter(torch.tensor(0.7))
        scores, keep = torch.arange(30.0).sin().view(2, 3, 5), torch.ones(2, 3, 5, dtype=torch.bool)
        scores[0, 0, 1], keep[0, 0, 1] = masked_out, False
        weights = regard.normalizer(kind, temperature=temperature)(scores, keep)
        (weights * torch.arange(30.0).cos().view(2, 3, 5)).sum().backward()
        return temperature.grad

    assert slope(0.0) != 0
    for masked_out in (torch.nan, torch.inf, -torch.inf):
        assert slope(masked_out) == slope(0.0)
