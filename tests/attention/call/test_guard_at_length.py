"""Hidden content in calls that are long enough for the native loop, which looks at what it reads while reading it."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.call import guard
from regard.attention.parts.mask_kinds import Sizes
from regard.attention.paths.explicit import Explicit
from regard.kernels.dot import dot
from tests.native import needs_compiler

BATCH, HEADS, LENGTH, DIM, VALUE_DIM = 3, 4, 131, 17, 7
LENGTHS = torch.tensor([131, 67, 3])
KEPT = (torch.arange(LENGTH * LENGTH) % 5 > 0).view(LENGTH, LENGTH)
MASKS = {
    "lengths": masks.padding(LENGTHS),
    "ragged": masks.ragged(LENGTHS),
    "an empty item": masks.ragged(torch.tensor([131, 0, 19])),
    "causal": masks.causal(),
    "ragged and causal": masks.ragged(LENGTHS) & masks.causal(),
    "window": masks.window(5, 2) & masks.padding(LENGTHS),
    "bools": masks.keep(KEPT) & masks.ragged(LENGTHS),
}
SCORES = {
    "scaled_dot": lambda: "scaled_dot",
    "cosine": lambda: regard.score("cosine", strength=3.0),
    "cosine of a strength": lambda: regard.score("cosine", strength=torch.tensor(3.0, dtype=torch.float64)),
    "general": lambda: regard.score("general", query_dim=DIM, key_dim=DIM).double(),
}
BAD = (torch.nan, torch.inf, -torch.inf, 1e200)


def drawn(mask):
    sizes = Sizes(BATCH, HEADS, LENGTH, LENGTH)
    return mask.draw(sizes, torch.device("cpu")).expand(BATCH, HEADS, LENGTH, LENGTH)


def given(mask, fill, kind=torch.float64):
    """Query, key and value, whose rows that are hidden from all hold some number here and there."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(BATCH, HEADS, LENGTH, size, dtype=kind) for size in (DIM, DIM, VALUE_DIM))
    keep = drawn(mask)
    for rows, masked_out in ((query, ~keep.any(-1)), (key, ~keep.any(-2)), (value, ~keep.any(-2))):
        rows[..., 1][masked_out] = fill
    return [one.requires_grad_() for one in (query, key, value)]


def everything(inputs, **options):
    """Context, weights and all gradients, those of the weights alone too."""
    attended = regard.attend(*inputs, **options)
    above = torch.arange(attended.context.numel(), dtype=torch.float64).sin().view_as(attended.context)
    score = options["score"]
    learned = [*inputs, *(score.parameters() if isinstance(score, torch.nn.Module) else ())]
    slopes = torch.autograd.grad((attended.context * above).sum(), learned, retain_graph=True)
    weights = attended.weights
    through = torch.autograd.grad(weights.square().sum(), learned, allow_unused=True)
    return [
        attended.context,
        weights,
        attended.log_weights.exp(),
        *slopes,
        *(one for one in through if one is not None),
    ]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_what_no_query_attends_to_leaves_no_trace(score, mask, bad):
    """Neither in the answer nor in a gradient, whose hidden rows are 0; nor in weights that are made later."""
    made = SCORES[score]()
    clean, filled = (everything(given(MASKS[mask], fill), score=made, mask=MASKS[mask]) for fill in (0.0, bad))
    for one, other in zip(filled, clean, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    keep = drawn(MASKS[mask])
    to_query, to_key, to_value = filled[3:6]
    assert not to_query[~keep.any(-1)].any()
    assert not to_key[~keep.any(-2)].any() and not to_value[~keep.any(-2)].any()


@pytest.mark.parametrize("unit", (True, False))
@pytest.mark.parametrize("mask", ("lengths", "ragged", "an empty item"))
def test_float32_with_and_without_the_matrix_unit(mask, unit, monkeypatch):
    monkeypatch.setattr(dot, "_MATRIX_UNIT", unit)
    one, other = (given(MASKS[mask], fill, torch.float32) for fill in (0.0, torch.nan))
    found = [everything(inputs, score="scaled_dot", mask=MASKS[mask]) for inputs in (one, other)]
    for clean, filled in zip(*found, strict=True):
        torch.testing.assert_close(filled, clean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit", (True, False))
@pytest.mark.parametrize("score", ("scaled_dot", "cosine"))
def test_queries_between_blocks_that_see_and_blocks_that_do_not(score, unit, monkeypatch):
    """The way there skips a block that sees nothing; the way back has to skip the same one."""
    monkeypatch.setattr(dot, "_MATRIX_UNIT", unit)
    size, found = 97, []
    mask = masks.window(11, 15) & masks.padding(torch.tensor([50, size]))  # queries of the first item see up to 60
    for first in range(61, 97, 3):
        for fill in (0.0, torch.nan):
            torch.manual_seed(0)
            inputs = [torch.randn(2, 2, size, 7) for _ in range(3)]
            inputs[0][0, :, first:, 2] = fill
            inputs = [one.requires_grad_() for one in inputs]
            context = regard.attend(*inputs, score=SCORES[score](), mask=mask).context
            found.append((context, *torch.autograd.grad(context.square().sum(), inputs)))
        for clean, filled in zip(found[-2], found[-1], strict=True):
            torch.testing.assert_close(filled, clean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bad", (torch.nan, torch.inf, -torch.inf))
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("mask", MASKS)
def test_a_query_that_attends_to_such_a_number_reads_nan_and_no_other(mask, which, bad):
    inputs = given(MASKS[mask], 0.0)
    with torch.no_grad():
        expected = regard.attend(*inputs, mask=MASKS[mask]).context
        place = 2  # a row that every item but the empty one has
        inputs[which][0, 1, place, 3] = bad
        attended = regard.attend(*inputs, mask=MASKS[mask])
    keep = drawn(MASKS[mask])[0, 1]
    nonfinite = torch.zeros(BATCH, HEADS, LENGTH, dtype=torch.bool)
    nonfinite[0, 1] = keep[:, place] if which else (torch.arange(LENGTH) == place) & keep.any(-1)
    assert nonfinite.any() and attended.context[nonfinite].isnan().all()
    torch.testing.assert_close(attended.context[~nonfinite], expected[~nonfinite])
    assert attended.weights[nonfinite].isnan().any(-1).all() and attended.weights[~nonfinite].isfinite().all()


def test_prepared_keys_and_three_axes():
    mask = masks.ragged(LENGTHS)
    clean, filled = ([one[:, 0].detach() for one in given(mask, fill)] for fill in (0.0, torch.nan))
    for score in ("scaled_dot", "cosine"):
        made = regard.score(score)
        expected = regard.attend(*clean, score=made, mask=mask)
        prepared = made.prepare(filled[1])
        for attended in (
            regard.attend(*filled, score=made, mask=mask),
            regard.attend(filled[0], prepared, filled[2], score=made, mask=mask),
        ):
            torch.testing.assert_close(attended.context, expected.context)
            torch.testing.assert_close(attended.weights, expected.weights)


def test_weights_are_those_of_the_mask_as_it_was():
    """The caller's own tensor of bools may be another by then, as a pointer's is."""
    clean, filled = (given(MASKS["lengths"], fill) for fill in (0.0, torch.nan))
    expected = regard.attend(*clean, mask=masks.padding(LENGTHS) & masks.keep(KEPT)).weights
    bools = KEPT.clone()
    attended = regard.attend(*filled, mask=masks.padding(LENGTHS) & masks.keep(bools))
    bools.fill_(False)
    torch.testing.assert_close(attended.weights, expected)


@pytest.mark.parametrize("mask", ("ragged", "an empty item"))
@pytest.mark.parametrize("score", ("scaled_dot", "cosine"))
@pytest.mark.parametrize("now", (False, True))
def test_gradients_through_weights_beside_statistics(now, score, mask):
    """Which look ahead at what the loop will read, and find it safe where what is hidden is not."""
    found = []
    for fill in (0.0, torch.nan):
        inputs = given(MASKS[mask], fill)
        attended = regard.attend(*inputs, score=SCORES[score](), mask=MASKS[mask], weights=now, statistics=2)
        above = torch.arange(attended.weights.numel(), dtype=torch.float64).sin().view_as(attended.weights)
        found.append((attended.weights, *torch.autograd.grad((attended.weights * above).sum(), inputs[:2])))
    for clean, filled in zip(*found, strict=True):
        torch.testing.assert_close(filled, clean, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("top", (0, 3))
def test_statistics_now_and_later(top):
    mask = masks.ragged(LENGTHS)
    clean, filled = (given(mask, fill) for fill in (0.0, torch.nan))
    with torch.no_grad():
        expected = regard.attend(*clean, mask=mask, statistics=top)
        for attended in (regard.attend(*filled, mask=mask, statistics=top), regard.attend(*filled, mask=mask)):
            torch.testing.assert_close(attended.context, expected.context)
            for one, other in zip(attended.statistics(top), expected.statistics(top), strict=True):
                torch.testing.assert_close(one, other)


def test_a_type_narrower_than_float32():
    for kind in (torch.bfloat16, torch.float16):
        for mask in ("lengths", "ragged", "causal"):
            one, other = (given(MASKS[mask], fill, kind) for fill in (0.0, torch.nan))
            found = [everything(inputs, score="scaled_dot", mask=MASKS[mask]) for inputs in (one, other)]
            for clean, filled in zip(*found, strict=True):
                torch.testing.assert_close(filled, clean, rtol=2**-7, atol=0.03)  # by other paths


@needs_compiler
def test_only_what_the_loop_does_not_check_is_checked_ahead(monkeypatch):
    seen, look = [], guard.is_safe
    monkeypatch.setattr(guard, "is_safe", lambda *tensors: (seen.append(len(tensors)), look(*tensors))[1])
    inputs, mask = given(MASKS["ragged"], torch.nan), MASKS["ragged"]
    attended = regard.attend(*inputs, mask=mask)
    assert seen == []
    assert attended.weights.isfinite().all() and seen == [2]  # the two that they are made of
    seen.clear()
    regard.attend(*inputs, score=SCORES["general"](), mask=mask)
    assert seen


@needs_compiler
def test_explained_is_what_happens():
    inputs = given(MASKS["ragged"], torch.nan)
    explanation = regard.explain(*inputs, mask=MASKS["ragged"])
    assert explanation.path == "native" and not explanation.guarded
    causal = regard.explain(*inputs, mask=masks.causal())
    assert causal.path == "explicit" and causal.guarded
    inputs[1].data[0, 2, 5, 0] = torch.inf
    explanation = regard.explain(*inputs, mask=MASKS["ragged"])
    assert explanation.path == "explicit" and explanation.guarded


# --- dropout --------------------------------------------------------------------------------------------------------

# Of keys that the loop reads and nobody sees, or only those that are left out here.
LEFT_OUT = {
    "bools": (masks.keep((torch.arange(LENGTH) != 5).repeat(LENGTH, 1)), LENGTH),
    "causal": (masks.causal(), LENGTH - 1),
    "window": (masks.window(5, 0), LENGTH - 1),
}


def with_dropout(name, fill, score="scaled_dot", kind=torch.float64, **options):
    """Context and gradients of the queries that don't see such a key, and what the generator draws next."""
    (mask, queries), place = LEFT_OUT[name], 5 if name == "bools" else LENGTH - 1
    torch.manual_seed(0)
    inputs = [torch.randn(BATCH, HEADS, LENGTH, size, dtype=kind) for size in (DIM, DIM, VALUE_DIM)]
    for one in inputs[1:]:
        one[..., place, 2] = fill
    inputs = [one.requires_grad_() for one in inputs]
    context = regard.attend(*inputs, score=score, mask=mask, dropout=0.3, **options).context[..., :queries, :]
    after = torch.randint(2**62, ())
    above = torch.arange(context.numel(), dtype=kind).sin().view_as(context)
    return [context, *torch.autograd.grad((context * above).sum(), inputs), after]


@needs_compiler
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("mask", LEFT_OUT)
@pytest.mark.parametrize("score", SCORES)
def test_the_same_weights_are_dropped_whatever_is_masked_out(score, mask, bad):
    """By whatever path: a call that its loop finds unsafe is taken again, and no number more is drawn."""
    made = SCORES[score]()
    clean, filled = (with_dropout(mask, fill, made) for fill in (0.0, bad))
    assert torch.equal(clean[-1], filled[-1])
    for one, other in zip(filled[:-1], clean[:-1], strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-8)  # the rate is rounded in the loop's type


@needs_compiler
@pytest.mark.parametrize("mask", LEFT_OUT)
def test_a_call_that_is_taken_again_is_one_that_was_guarded_at_once(mask):
    """Statistics have it looked at ahead."""
    again, at_once = with_dropout(mask, torch.nan), with_dropout(mask, torch.nan, statistics=2)
    for one, other in zip(again, at_once, strict=True):
        assert torch.equal(one, other)


@needs_compiler
def test_narrow_types_drop_the_same():
    for kind in (torch.bfloat16, torch.float16):
        clean, filled = (with_dropout("bools", fill, kind=kind) for fill in (0.0, torch.nan))
        assert torch.equal(clean[-1], filled[-1])
        for one, other in zip(filled[:-1], clean[:-1], strict=True):
            torch.testing.assert_close(one, other, rtol=2**-6, atol=0.05)  # by other paths


# --- what explain says ----------------------------------------------------------------------------------------------


def decompose(fill):
    """Queries that see nothing, some of them in blocks that nobody goes through."""
    made = [torch.randn(2, 2, size, 7) for size in (97, 211, 211)]
    made[0][:, :, fill:, 3] = torch.nan
    return made, masks.window(11, 15) & masks.padding(torch.tensor([150, 150]))


def large(which, number, rows=slice(0, 3)):
    made = [torch.randn(2, 4, 97, 7) for _ in range(3)]
    made[which][0, :, rows, 2] = number
    return made, masks.causal()


CALLS = {
    "a cosine of long queries": ("cosine", lambda: large(0, 1e30), "native"),
    "a cosine of long keys": ("cosine", lambda: large(1, 1e30), "native"),
    "a cosine that reads what is large": ("cosine", lambda: large(2, 1e30), "explicit"),
    "a cosine of NaN": ("cosine", lambda: large(1, torch.nan), "explicit"),
    "long queries": ("scaled_dot", lambda: large(0, 1e30), "explicit"),
    "queries that are long but for the scale": ("scaled_dot", lambda: large(0, 2e19, slice(0, 1)), "native"),
    "keys that are long together": ("scaled_dot", lambda: large(1, 1.2e19, slice(0, 1)), "native"),
    "ordinary": ("scaled_dot", lambda: large(1, 1.0), "native"),
    "blind blocks": ("scaled_dot", lambda: decompose(65), None),
    "blind queries beside others": ("scaled_dot", lambda: decompose(50), None),
}


@needs_compiler
@pytest.mark.parametrize("statistics", (None, 2))
@pytest.mark.parametrize("name", CALLS)
def test_explained_is_what_happens_to_what_is_large_or_blind(name, statistics, monkeypatch):
    score, make, path = CALLS[name]
    torch.manual_seed(0)
    inputs, mask = make()
    explanation = regard.explain(*inputs, score=score, mask=mask)
    taken, explicit = [], Explicit.run
    monkeypatch.setattr(Explicit, "run", lambda *given: taken.append("explicit") or explicit(*given))
    attended = regard.attend(*inputs, score=score, mask=mask, statistics=statistics)
    assert explanation.path == ("explicit" if taken else "native") and explanation.guarded is bool(taken)
    assert path in (None, explanation.path)
    monkeypatch.undo()
    expected = regard.attend(*inputs, score=score, mask=mask, refocus=[lambda weights: weights])
    torch.testing.assert_close(attended.context, expected.context, equal_nan=True, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(attended.weights, expected.weights, equal_nan=True, rtol=1e-4, atol=1e-5)
    if statistics:
        for one, other in zip(attended.statistics(2)[:3], expected.statistics(2)[:3], strict=True):
            torch.testing.assert_close(one, other, equal_nan=True, rtol=1e-4, atol=1e-4)
