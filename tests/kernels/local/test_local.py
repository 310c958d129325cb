"""Products with a window of rows for each query: what gathering the rows gives, by every way and with all gradients."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from regard.kernels.local import local, loops
from tests.batched import batches_are_singles
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding, likely

WINDOW = 5


@pytest.fixture(params=["copied", "bags", "blocks", "dense", pytest.param("native", marks=needs_compiler)])
def way(request, monkeypatch):
    """Rows copied for two queries at a time; bags of rows; blocks of three queries; all rows; the native loop."""
    monkeypatch.setattr(local, "_MANY", 1)
    monkeypatch.setattr(local, "_TIMES", dict.fromkeys(local._TIMES, 99.0 if request.param == "dense" else 0.0))
    monkeypatch.setattr(local, "_BLOCK", 2 * WINDOW * 19)
    monkeypatch.setattr(local, "_SOME", 3)
    monkeypatch.setattr(local, "_SPAN", 99 if request.param == "blocks" else 0)
    monkeypatch.setattr(local, "_NARROW", 0 if request.param == "blocks" else WINDOW)
    if request.param == "copied":  # as half precision is, and in a torch without these sums, where no block serves it
        monkeypatch.setattr(local, "_DOTS", None)
    if request.param in ("copied", "bags", "blocks"):
        monkeypatch.setattr(loops.LIBRARY, "serves", lambda kind: False)
    elif request.param == "native":
        assert loops.LIBRARY.serves(torch.float32)
    return request.param


def inputs(batch=3, queries=7, rows=23, width=19, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, queries, width), (batch, rows, width), (batch, queries, WINDOW)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    return *made, torch.randint(0, rows - WINDOW + 1, (batch, queries), generator=generator)


def gathered(rows, first):
    """(batch, queries, window, width), row by row."""
    each = [torch.stack([rows[b, f : f + WINDOW] for f in first[b].tolist()]) for b in range(rows.shape[0])]
    return torch.stack(each)


# 19 numbers are one vector and a rest, 83 five, of which four go together
@pytest.mark.parametrize("width", (19, 83))
def test_the_three_are_what_gathered_rows_give(way, width):
    left, rows, weights, first = inputs(width=width)
    windows = gathered(rows, first)
    scores = local.dots(left, rows, first, WINDOW)
    torch.testing.assert_close(scores, torch.einsum("bqd,bqwd->bqw", left, windows))
    torch.testing.assert_close(local.mix(weights, rows, first), torch.einsum("bqw,bqwd->bqd", weights, windows))
    spread, expected = local.spread(weights, left, first, 23), torch.zeros_like(rows)
    for b in range(3):
        for q in range(7):
            expected[b, first[b, q] : first[b, q] + WINDOW] += weights[b, q, :, None] * left[b, q]
    torch.testing.assert_close(spread, expected)


def test_first_and_second_derivatives(way):
    left, rows, weights, first = inputs(batch=2, queries=3, rows=11, width=5)
    for run, given in (
        (lambda a, b: local.dots(a, b, first, WINDOW), (left, rows)),
        (lambda a, b: local.mix(a, b, first), (weights, rows)),
        (lambda a, b: local.spread(a, b, first, 11), (weights, left)),
    ):
        assert torch.autograd.gradcheck(run, given, fast_mode=True)
        assert torch.autograd.gradgradcheck(run, given, fast_mode=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_batches_of_gradients_are_those_one_by_one(way, dtype):
    left, rows, weights, first = inputs(dtype=dtype)
    within = 0.0 if way == "native" else likely(23, dtype)  # torch's products over 19 numbers or 23 rows
    for run, given in (
        (lambda a, b: local.dots(a, b, first, WINDOW), (left, rows)),
        (lambda a, b: local.mix(a, b, first), (weights, rows)),
        (lambda a, b: local.spread(a, b, first, 23), (weights, left)),
    ):
        batches_are_singles(run(*given), given, given if dtype is torch.float64 else (), within)
        for alone in (0, 1):
            pair = [one if place == alone else one.detach() for place, one in enumerate(given)]
            batches_are_singles(run(*pair), (pair[alone],), within=within)


def test_gradients_that_come_negated_or_as_another_class(way):
    """What is negated is read as it is meant; what lies elsewhere is refused in words, not read."""
    left, rows, weights, first = inputs()
    for made, given in (
        (local.dots(left, rows, first, WINDOW), (left, rows)),
        (local.mix(weights, rows, first), (weights, rows)),
        (local.spread(weights, left, first, 23), (weights, left)),
    ):
        above = torch.ones_like(made)
        wanted = torch.autograd.grad(made, given, -above, retain_graph=True)
        for one, other in zip(
            torch.autograd.grad(made, given, torch._neg_view(above), retain_graph=True), wanted, strict=True
        ):
            assert torch.equal(one, other)
        with pytest.raises(RuntimeError, match="local attention takes gradients that are plain tensors.*as TwoTensor"):
            torch.autograd.grad(made, given, TwoTensor(above, above))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_batches_of_gradients_of_half_precision(way, dtype):
    left, rows, weights, first = inputs(dtype=dtype)
    # Added up in float32 and rounded once: sums on both sides of a border become neighbours.
    within = 0.0 if way == "native" else torch.finfo(dtype).eps
    batches_are_singles(local.mix(weights, rows, first), (weights, rows), within=within)
    batches_are_singles(local.dots(left, rows, first, WINDOW), (left, rows), within=within)


def alike(way, found, expected):
    """Bit by bit where the loop adds up; torch's products, over 19 numbers or 23 rows, depend on strides."""
    if way == "native":
        assert torch.equal(found, expected)
    else:
        assert_close_to_rounding(found, expected, 23)


def test_any_strides_and_what_wants_no_gradient(way):
    left, rows, weights, first = (tensor.detach() for tensor in inputs())
    plain = local.dots(left, rows, first, WINDOW), local.mix(weights, rows, first)
    turned = rows.transpose(0, 1).contiguous().transpose(0, 1)
    spaced = torch.stack((rows, rows), -1).flatten(-2)[..., ::2]
    beside, near = torch.cat((rows, rows), -1)[..., :19], torch.cat((rows[..., :2], rows), -1)[..., 2:]
    longer = torch.cat((rows[:, :3], rows, rows[:, :2]), 1)[:, 3:-2]
    aside = first.t().contiguous().t()
    for other in (turned, spaced, beside, near, longer):
        alike(way, local.dots(left.mT.contiguous().mT, other, aside, WINDOW), plain[0])
        alike(way, local.mix(weights.mT.contiguous().mT, other, aside), plain[1])
    one = rows[:1].expand(3, -1, -1)
    alike(way, local.dots(left, one, first, WINDOW), local.dots(left, one.clone(), first, WINDOW))
    local.dots(left.requires_grad_(), rows, first, WINDOW).sum().backward()
    torch.testing.assert_close(left.grad, gathered(rows, first).sum(2))


def test_a_single_item_and_rows_that_are_all_one(way):
    left, rows, weights, first = (tensor.detach()[:1] for tensor in inputs(dtype=torch.float32))
    for given in (rows, rows[:, :1].expand(-1, 23, -1), rows[:, ::2].repeat(1, 2, 1)[:, :23]):
        windows = gathered(given, first)
        expected = torch.einsum("bqd,bqwd->bqw", left, windows), torch.einsum("bqw,bqwd->bqd", weights, windows)
        torch.testing.assert_close(local.dots(left, given, first, WINDOW), expected[0])
        torch.testing.assert_close(local.mix(weights, given, first), expected[1])


def spied(patch, name):
    """Where a way of the bags writes its name each time that it is taken."""
    run, taken = getattr(local.Bags, name), []
    patch.setattr(local.Bags, name, lambda *given: taken.append(name) or run(*given))
    return taken


def test_which_windows_are_bags():
    """Narrow ones wherever they lie, and wide ones that lie too far apart to meet their rows in blocks."""
    for window, apart, kind, expected in (
        (23, 5, torch.float32, {"dots", "mix"}),
        (23, 5, torch.float64, {"dots"}),
        (71, 5, torch.float32, set()),
        (71, 5, torch.bfloat16, set()),
        (71, 997, torch.float32, {"dots", "mix"}),
        (23, 997, torch.float64, {"dots", "mix"}),
        (23, 997, torch.bfloat16, set()),
    ):
        left, rows, weights, _ = inputs(1, 11, 11 * apart + 997, 3, torch.float32)
        first, weights = apart * torch.arange(11).unsqueeze(0), torch.ones(1, 11, window)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops.LIBRARY, "serves", lambda kind: False)
            used = [spied(patch, name) for name in ("dots", "mix")]
            local.dots(left.to(kind), rows.to(kind), first, window)
            local.mix(weights.to(kind), rows.to(kind), first)
        assert {name for one in used for name in one} == expected


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_is_added_up_in_float32(way, dtype):
    left, rows, weights, first = inputs(dtype=dtype)
    exact = [tensor.detach().double() for tensor in (left, rows, weights)]
    scores = local.dots(left.float(), rows, first, WINDOW)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), local.dots(exact[0], exact[1], first, WINDOW), rtol=1e-5, atol=1e-5)
    read = local.mix(weights.float(), rows, first)
    torch.testing.assert_close(read.double(), local.mix(exact[2], exact[1], first), rtol=1e-5, atol=1e-5)
    assert torch.autograd.grad(read.sum(), rows)[0].dtype == dtype


def test_nothing_is_nothing(way):
    for batch, queries in ((0, 3), (2, 0)):
        left, rows, weights, _ = inputs(batch=batch, queries=queries)
        first = torch.zeros(batch, queries, dtype=torch.long)
        assert local.dots(left, rows, first, WINDOW).shape == (batch, queries, WINDOW)
        assert local.mix(weights, rows, first).shape == (batch, queries, 19)
        assert local.spread(weights, left, first, 23).abs().sum() == 0
    for dtype in (torch.float32, torch.bfloat16):
        left, rows, _, first = inputs(width=0, dtype=dtype)
        assert local.dots(left, rows, first, WINDOW).abs().sum() == 0


@needs_compiler
def test_threads_share_the_work_and_change_no_bit():
    left, rows, weights, first = inputs(batch=11, queries=149, rows=199, width=151, dtype=torch.float32)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        made = local.dots(left, rows, first, WINDOW), local.mix(weights, rows, first)
        found.append([*made, local.spread(weights, left, first, 199)])
    torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


def test_autocast_around_the_backward_pass_narrows_nothing(way):
    *given, first = inputs(dtype=torch.float32)
    left, rows, weights = given
    found = []
    for narrow in (False, True):
        all_three = [
            local.dots(left, rows, first, WINDOW),
            local.mix(weights, rows, first),
            local.spread(weights, left, first, 23),
        ]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            found.append(torch.autograd.grad(all_three, given, [torch.ones_like(one) for one in all_three]))
    assert all(map(torch.equal, *found))
