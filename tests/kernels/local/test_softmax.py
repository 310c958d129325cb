"""Softmax over a window around each query's center, and the centers of local-p, against the formulas key by key."""

import gc
import math
import weakref

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from regard.kernels.local import local, loops, softmax as local_softmax
from regard.kernels.local.softmax import Window, predict, predicts, window_attention
from tests.batched import batches_are_singles
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding, likely

KEYS, SIZE = 23, 8
LENGTHS = torch.tensor([KEYS, 11, 0])
PLAIN, BELL = Window(2.5, SIZE, 0.0, 1.0), Window(2.5, SIZE, 1.25, 0.7)


@pytest.fixture(params=["torch", "torch, all rows", pytest.param("native", marks=needs_compiler)])
def way(request, monkeypatch):
    """Torch's own calls over windows, and over all rows; the native loop."""
    if request.param == "native":
        assert loops.LIBRARY.serves(torch.float32)
    else:
        monkeypatch.setattr(loops.LIBRARY, "serves", lambda kind: False)
        monkeypatch.setattr(local, "_MANY", 1)
        monkeypatch.setattr(local, "_TIMES", dict.fromkeys(local._TIMES, 99.0 if "all" in request.param else 0.0))
    return request.param


def inputs(queries=7, width=19, value_width=13, dtype=torch.float64, keys=KEYS):
    """Centers before the first key, behind the last, and upon keys whose distance is the radius."""
    generator = torch.Generator().manual_seed(0)
    shapes = (3, queries, width), (3, keys, width), (3, keys, value_width)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) * 0.5 for shape in shapes]
    center = torch.rand(3, queries, generator=generator, dtype=torch.float64) * (keys + 5) - 2.5
    center[:, 0] = 4.5
    return [one.to(dtype).requires_grad_() for one in (*made, center)]


def key_by_key(left, key, value, center, lengths, window):
    """Context and weights of all keys."""
    contexts, weights = [], []
    for b in range(left.shape[0]):
        for q in range(left.shape[1]):
            seen = [s for s in range(int(lengths[b])) if abs(s - center[b, q].item()) <= window.radius]
            row, context = left.new_zeros(key.shape[1]), value.new_zeros(value.shape[-1])
            if seen:
                shares = torch.softmax(torch.stack([window.scale * left[b, q] @ key[b, s] for s in seen]), 0)
                for share, s in zip(shares, seen, strict=True):
                    if window.sigma:
                        share = share * torch.exp(-((s - center[b, q]) ** 2) / (2 * window.sigma**2))
                    context = context + share * value[b, s]
                    row = row + share * torch.eye(key.shape[1], dtype=row.dtype)[s]
            contexts.append(context)
            weights.append(row)
    shape = left.shape[:2]
    return torch.stack(contexts).unflatten(0, shape), torch.stack(weights).unflatten(0, shape)


@pytest.mark.parametrize("width", (1, 19, 83))  # a rest alone; a vector and a rest; five vectors and a rest
@pytest.mark.parametrize("window", (PLAIN, BELL, Window(2, 7, 0.0, 1.0), Window(math.inf, KEYS, 0.0, 0.3)))
def test_it_is_the_formula_with_all_gradients(way, width, window):
    given = inputs(width=width)
    attended = window_attention(*given, LENGTHS, window)
    context, _ = key_by_key(*given, LENGTHS, window)
    torch.testing.assert_close(attended.context, context)
    assert (attended.context[2] == 0).all()
    noise = torch.randn(context.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = given if window.sigma else given[:3]
    found = torch.autograd.grad(attended.context, wanted, noise)
    for one, other in zip(found, torch.autograd.grad(context, wanted, noise), strict=True):
        torch.testing.assert_close(one, other)


def test_the_scores_are_those_of_the_window(way):
    left, key, value, center = inputs()
    attended = window_attention(left, key, value, center, LENGTHS, BELL)
    everything = (0.7 * left @ key.mT).detach()
    for b in range(3):
        for q in range(7):
            for w, score in enumerate(attended.scores[b, q].tolist()):
                s = int(attended.first[b, q]) + w
                seen = s < LENGTHS[b] and abs(s - center[b, q]) <= 2.5
                assert score == (pytest.approx(float(everything[b, q, s])) if seen else -math.inf)


@pytest.mark.parametrize("window", (PLAIN, BELL))
def test_first_and_second_derivatives_of_context_and_scores(way, window):
    given = inputs(3, 5, 2, keys=11)
    with torch.no_grad():
        given[3][:, 0] += 0.1  # off the edge, which has no derivative

    def run(*given):
        context, scores, _ = window_attention(*given, torch.tensor([11, 6, 0]), window)
        return context, scores.exp()

    assert torch.autograd.gradcheck(run, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, given, fast_mode=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("window", (PLAIN, BELL))
def test_batches_of_gradients_are_those_one_by_one(way, window, dtype):
    given = inputs(dtype=dtype)
    within = 0.0 if way == "native" else likely(2 * (19 + 23), dtype)  # as in `alike`
    attended, asked = window_attention(*given, LENGTHS, window), given if window.sigma else given[:3]
    batches_are_singles(attended.context, asked, asked if dtype is torch.float64 else (), within)
    batches_are_singles((attended.context, attended.scores.nan_to_num(neginf=0.0)), asked, within=within)
    for alone in range(len(asked)):
        few = [one if place == alone else one.detach() for place, one in enumerate(given)]
        batches_are_singles(window_attention(*few, LENGTHS, window).context, (few[alone],), within=within)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("window", (PLAIN, BELL, Window(2, 7, 0.0, 1.0), Window(math.inf, KEYS, 3.0, 0.3)))
def test_without_gradients_it_is_the_same(way, window, dtype):
    *three, center = inputs(dtype=dtype)
    for where in (center, center.detach().round().long()):
        kept = window_attention(*three, where, LENGTHS, window)
        plain = window_attention(*(one.detach() for one in (*three, where)), LENGTHS, window)
        assert kept.context.requires_grad and not plain.context.requires_grad
        with torch.no_grad():
            again = window_attention(*three, where, LENGTHS, window)
        for found in (plain, again):
            torch.testing.assert_close(found.context, kept.context.detach())
            torch.testing.assert_close(found.scores, kept.scores.detach())
            assert torch.equal(found.first, kept.first)
            assert not found.context[2].any()  # whose length is 0


@pytest.mark.parametrize("few", (0, local_softmax._FEW))
def test_few_weights_are_made_by_numpys_calls(monkeypatch, few):
    monkeypatch.setattr(loops.LIBRARY, "serves", lambda kind: False)
    monkeypatch.setattr(local_softmax, "_FEW", few)
    run, used = local_softmax._by_numpy, []
    monkeypatch.setattr(local_softmax, "_by_numpy", lambda *given: used.append(1) or run(*given))
    given = inputs()
    window_attention(*given, LENGTHS, BELL)
    assert not used
    window_attention(*(one.detach() for one in given), LENGTHS, BELL)
    assert bool(used) == bool(few)


def test_gradients_that_come_negated_or_as_another_class(way):
    given = inputs()
    context = window_attention(*given, LENGTHS, BELL).context
    above = torch.ones_like(context)
    wanted = torch.autograd.grad(context, given, -above, retain_graph=True)
    negated = torch.autograd.grad(context, given, torch._neg_view(above), retain_graph=True)
    for one, other in zip(negated, wanted, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(RuntimeError, match="local attention takes gradients that are plain tensors.*as TwoTensor"):
        torch.autograd.grad(context, given, TwoTensor(above, above))


def test_only_what_wants_a_gradient_gets_one(way):
    given = inputs()
    everything = torch.autograd.grad(window_attention(*given, LENGTHS, BELL).context.sum(), given)
    for n, one in enumerate(given):
        alone = [other.detach() for other in given]
        alone[n] = one
        (found,) = torch.autograd.grad(window_attention(*alone, LENGTHS, BELL).context.sum(), one)
        torch.testing.assert_close(found, everything[n])
    assert not window_attention(*(one.detach() for one in given), LENGTHS, BELL).context.requires_grad
    with torch.inference_mode():
        alike(way, window_attention(*given, LENGTHS, BELL).context, window_attention(*given, LENGTHS, BELL).context)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_types_and_whole_centers(way, dtype):
    left, key, value, _ = inputs(dtype=dtype)
    positions = torch.arange(7).expand(3, -1) * 3
    attended = window_attention(left, key, value, positions, LENGTHS, PLAIN)
    context, _ = key_by_key(*(one.double() for one in (left, key, value)), positions, LENGTHS, PLAIN)
    assert attended.context.dtype == dtype
    torch.testing.assert_close(attended.context, context.to(dtype))


def alike(way, found, expected):
    """Bit by bit where the loop adds up; torch's products depend on strides.

    A score is of 19 numbers, a context of 23 rows, and each gradient goes through as many again.
    """
    if way == "native":
        assert torch.equal(found, expected)
    else:
        assert_close_to_rounding(found, expected, 2 * (19 + 23))


def test_any_strides(way):
    left, key, value, center = (one.detach() for one in inputs())
    plain = window_attention(left, key, value, center, LENGTHS, BELL)
    turned = key.transpose(0, 1).contiguous().transpose(0, 1)
    spaced = torch.stack((value, value), -1).flatten(-2)[..., ::2]
    aside = center.t().contiguous().t()
    found = window_attention(left.mT.contiguous().mT, turned, spaced, aside, LENGTHS.int(), BELL)
    torch.testing.assert_close(found.context, plain.context)
    for place, one in enumerate((left, key, value, center)):
        given = [left, key, value, center]
        given[place] = torch._neg_view(-one)
        torch.testing.assert_close(window_attention(*given, LENGTHS, BELL).context, plain.context)
    one = key[:1].expand(3, -1, -1)
    alike(way, *(window_attention(left, same, value, center, LENGTHS, BELL).context for same in (one, one.clone())))
    above = torch.ones(1, 1, 1, dtype=torch.float64).expand_as(plain.context)
    given = [one.requires_grad_() for one in (left, key, value, center)]
    context = window_attention(*given, LENGTHS, BELL).context
    expanded = torch.autograd.grad(context, given, above, retain_graph=True)
    for one, other in zip(expanded, torch.autograd.grad(context, given, above.clone()), strict=True):
        alike(way, one, other)


def test_scores_beyond_float32_with_whole_centers(way):
    """Whole centers stand for float32; scores are of float64's range all the same."""
    left, key = torch.full((1, 1, 1), 1e25, dtype=torch.float64), torch.full((1, 5, 1), -1e20, dtype=torch.float64)
    value = torch.arange(5.0, dtype=torch.float64).view(1, 5, 1)
    attended = window_attention(left, key, value, torch.tensor([[3]]), torch.tensor([5]), Window(1, 5, 0.0, 1.0))
    torch.testing.assert_close(attended.context, torch.tensor([[[3.0]]], dtype=torch.float64))


def test_torchs_calls_leave_out_what_is_below_the_normal_numbers(monkeypatch):
    """A weight of e^-86 is a normal number of float32; what the Gaussian leaves of it is none, and counts as 0."""
    monkeypatch.setattr(loops.LIBRARY, "serves", lambda kind: False)
    key, value = torch.full((1, 5, 1), -86.0), torch.full((1, 5, 1), 1e37)
    key[0, 2], value[0, 2] = 0.0, 3.0
    for kept in (False, True):
        given = torch.ones(1, 1, 1, requires_grad=kept), key, value, torch.full((1, 1), 2.0), torch.tensor([5])
        assert window_attention(*given, Window(2.0, 5, 0.0, 1.0)).context.item() > 3.5
        assert window_attention(*given, Window(2.0, 5, 0.5, 1.0)).context.item() == 3.0


@pytest.mark.parametrize("content", (math.nan, math.inf, -math.inf))
def test_what_is_not_finite_is_reported_where_it_is_attended_to_and_harmless_elsewhere(way, content):
    left, key, value, _ = (one.detach() for one in inputs())
    center = torch.full((3, 7), 4.5, dtype=torch.float64)
    clean = window_attention(left, key, value, center, LENGTHS, BELL)
    for place, seen in (((0, 4, 1), True), ((0, 20, 1), False)):
        for n in (1, 2):
            given = [left, key.clone(), value.clone()]
            given[n][place] = content
            for kept in (False, True):
                found = window_attention(*given, center.requires_grad_(kept), LENGTHS, BELL)
                if way == "torch, all rows" or seen:  # leaves it to another path in both cases
                    assert found is None
                else:
                    torch.testing.assert_close(found.context.detach(), clean.context)
    for b in (0, 2):  # the last one sees nothing
        asked = left.clone()
        asked[b, 3, 2] = content
        for kept in (False, True):
            assert window_attention(asked, key, value, center.requires_grad_(kept), LENGTHS, BELL) is None


@needs_compiler
def test_padding_within_a_window_is_not_even_read():
    left, key, value, center = (one.detach() for one in inputs())
    clean = window_attention(left, key, value, center, LENGTHS, BELL)
    key[1, 11:], value[2] = math.nan, math.inf
    assert torch.equal(window_attention(left, key, value, center, LENGTHS, BELL).context, clean.context)


def test_a_center_that_is_no_number_is_reported(way):
    left, key, value, center = (one.detach() for one in inputs())
    center[1, 2] = math.nan
    assert window_attention(left, key, value, center, LENGTHS, BELL) is None


@needs_compiler
def test_threads_share_the_work_and_change_no_bit():
    given = inputs(queries=149, width=151, value_width=127, dtype=torch.float32)
    layer, before, found = nn.Linear(151, 1, bias=False), torch.get_num_threads(), []
    above = torch.randn(3, 149, 127), torch.randn(3, 149)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        context = window_attention(*given, LENGTHS, BELL).context
        center = predict(given[0], layer.weight, LENGTHS)
        slopes = torch.autograd.grad((context, center), [*given, layer.weight], above)
        found.append([context, center, *slopes])
    torch.set_num_threads(before)
    one, three = found
    assert all(map(torch.equal, one[:-1], three[:-1]))
    assert_close_to_rounding(three[-1], one[-1], loops.PARTS)  # torch adds up the parts of the vector's gradient


def test_nothing_is_held_when_a_call_is_over(way):
    """Neither the context nor the scores hang on themselves, which only a collector would find."""
    given = inputs()
    gc.disable()
    try:
        attended = window_attention(*given, LENGTHS, BELL)
        center = predict(given[0], torch.ones(1, 19, dtype=torch.float64), LENGTHS) if way == "native" else given[0]
        held = [weakref.ref(one) for one in (attended.context, attended.scores, *([center] * (way == "native")))]
        del attended, center
        assert all(one() is None for one in held)
    finally:
        gc.enable()


def test_autocast_around_the_backward_pass_narrows_nothing(way):
    given, found = inputs(dtype=torch.float32), []
    for narrow in (False, True):
        context = window_attention(*given, LENGTHS, BELL).context
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            found.append(torch.autograd.grad(context.sum(), given))
    assert all(map(torch.equal, *found))


# --- centers --------------------------------------------------------------------------------------------------------


def centers(hidden, vector, lengths):
    return lengths[:, None] * torch.sigmoid(torch.tanh(hidden) @ vector[0])


def drawn(width=19, dtype=torch.float64, spread=1.0):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 7, width, generator=generator, dtype=torch.float64) * spread
    vector = torch.randn(1, width, generator=generator, dtype=torch.float64) / width**0.5
    return [one.to(dtype).requires_grad_() for one in (hidden, vector)]


@needs_compiler
@pytest.mark.parametrize("width", (1, 19, 83))
@pytest.mark.parametrize("spread", (1e-4, 1.0, 1e5))
def test_centers_are_the_formula_with_gradients(width, spread):
    hidden, vector = drawn(width, spread=spread)
    found, expected = predict(hidden, vector, LENGTHS), centers(hidden, vector, LENGTHS)
    torch.testing.assert_close(found, expected)
    slopes = torch.autograd.grad(found.sin().sum(), (hidden, vector))
    for one, other in zip(slopes, torch.autograd.grad(expected.sin().sum(), (hidden, vector)), strict=True):
        torch.testing.assert_close(one, other)


@needs_compiler
def test_centers_of_float32_are_as_exact_as_torchs():
    hidden, vector = drawn(509, torch.float32)
    exact = centers(hidden.double(), vector.double(), LENGTHS)
    assert (predict(hidden, vector, LENGTHS) - exact).abs().max() <= 2 * KEYS * torch.finfo(torch.float32).eps


@needs_compiler
def test_centers_can_be_differentiated_again():
    hidden, vector = drawn(5)
    assert torch.autograd.gradcheck(lambda *two: predict(*two, LENGTHS), (hidden, vector), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *two: predict(*two, LENGTHS), (hidden, vector), fast_mode=True)


@needs_compiler
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_centers_have_batches_of_gradients(dtype):
    hidden, vector = drawn(dtype=dtype)
    batches_are_singles(predict(hidden, vector, LENGTHS), (hidden, vector), (hidden, vector))
    batches_are_singles(predict(hidden.detach(), vector, LENGTHS), (vector,))
    batches_are_singles(predict(hidden, vector.detach(), LENGTHS), (hidden,))
    center = predict(hidden, vector, LENGTHS)
    with pytest.raises(RuntimeError, match="a center of local attention takes gradients that are plain tensors"):
        torch.autograd.grad(center, hidden, TwoTensor(torch.ones_like(center), torch.ones_like(center)))


@needs_compiler
@pytest.mark.parametrize("place", (0, 18))  # in a vector, and in the rest
@pytest.mark.parametrize("content", (math.nan, math.inf))
def test_centers_of_what_is_not_finite_are_left_to_others(place, content):
    hidden, vector = (one.detach() for one in drawn())
    hidden[2, 6, place] = content
    assert predict(hidden, vector, LENGTHS) is None


@needs_compiler
def test_which_layers_give_their_vector():
    hidden, _ = drawn(dtype=torch.float32)
    layer = nn.Linear(19, 1, bias=False)
    assert predicts(hidden, layer)
    assert not predicts(hidden, nn.Linear(19, 1)) and not predicts(hidden.double(), layer)
    handle = layer.register_forward_hook(lambda *_: None)
    assert not predicts(hidden, layer)
    handle.remove()
    assert not predicts(hidden[0], layer) and local_softmax.serves(hidden, hidden, hidden, LENGTHS)
