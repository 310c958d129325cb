"""The native loop of the loss, beside torch's own calls."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from regard.errors import ShapeError
from regard.kernels.loss import cross_entropy
from regard.kernels.native import compiler
from regard.layers.objective import objective, vocabulary_objective
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding

pytestmark = needs_compiler


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", [(7, 13), (3, 64), (11, 1009), (5, 1), (0, 13), (1, 8191)])
def test_loss_gradient_and_right_choices(shape, smoothing):
    torch.manual_seed(1)
    logits = (4 * torch.randn(shape)).requires_grad_()
    targets = torch.randint(shape[1], shape[:1])
    if len(targets) > 2:
        targets[1] = -100
        targets[2] = logits[2].argmax()
    total, right = cross_entropy.cross_entropy(logits, targets, smoothing, -100)
    (found,) = torch.autograd.grad(3 * total, logits)
    exact = logits.detach().double().requires_grad_()
    expected = F.cross_entropy(exact, targets, label_smoothing=smoothing, ignore_index=-100, reduction="sum")
    (wanted,) = torch.autograd.grad(3 * expected, exact)
    assert_close(total.double(), expected, rtol=1e-5, atol=1e-4)
    assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(right, logits.argmax(-1) == targets)


def test_edges():
    """Of equal logits the first counts; −∞ has no part; NaN stays with its row; ignored rows may hold anything."""
    logits = torch.tensor([[0.0, 2, 2], [2, 2, 0], [0, -torch.inf, 1], [1, torch.nan, 0], [torch.nan, 0, torch.inf]])
    logits.requires_grad_()
    targets = torch.tensor([2, 0, 2, 0, 9])
    total, right = cross_entropy.cross_entropy(logits, targets, 0.0, 9)
    (slope,) = torch.autograd.grad(total, logits)
    assert total.isnan() and right.tolist() == [False, True, True, False, False]
    assert slope[3].isnan().any() and slope[:3].isfinite().all() and slope[2, 1] == 0
    assert slope[4].tolist() == [0, 0, 0]
    with pytest.raises(IndexError, match="a target is 3"):
        cross_entropy.cross_entropy(logits, torch.tensor([0, 3, 0, 0, 9]), 0.0, 9)


@pytest.mark.parametrize("targets", [(5,), (40,), (31, 1)], ids=str)
@pytest.mark.parametrize("choices", [7, 1013])
def test_one_target_a_row(targets, choices):
    """Too few were read beyond their end."""
    logits, targets = torch.randn(31, choices), torch.zeros(targets, dtype=torch.long)
    with pytest.raises(ShapeError, match="one a row"):
        inspect.unwrap(objective)(logits, targets)  # without the shape checks that only the tests have


def test_what_the_loop_does_not_know_goes_the_usual_way():
    """Other types, few numbers, autocast, tensors without content and those that only look like one."""
    logits, targets = torch.randn(31, 1013), torch.zeros(31, dtype=torch.long)
    assert cross_entropy.serves(logits, targets)
    assert not cross_entropy.serves(logits.double(), targets)
    assert not cross_entropy.serves(logits[:2], targets[:2])
    assert not cross_entropy.serves(logits.to("meta"), targets.to("meta"))
    assert not cross_entropy.serves(logits.unflatten(0, (1, 31)), targets[None])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not cross_entropy.serves(logits, targets)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(logits), mode.from_tensor(targets)
        assert not cross_entropy.serves(*fake)


def test_kept_for_a_second_backward_pass():
    """The gradient that was made on the way is nobody else's to change."""
    torch.manual_seed(1)
    logits, targets = torch.randn(31, 1013, requires_grad=True), torch.randint(1013, (31,))
    total = objective(logits, targets).total
    total.backward(retain_graph=True)
    first = logits.grad.clone()
    logits.grad.mul_(7)
    logits.grad = None
    total.backward()
    assert torch.equal(logits.grad, first)


@pytest.mark.parametrize("choices", [7, 1013])
def test_a_second_derivative_is_refused(choices):
    """It was a constant, so that a penalty on gradients had none: with the loop and without."""
    logits = torch.randn(31, choices, requires_grad=True)
    total = objective(logits, torch.randint(choices, (31,))).total
    plain = torch.autograd.grad(total, logits, retain_graph=True)
    (slope,) = torch.autograd.grad(total, logits, create_graph=True)
    assert torch.equal(slope, *plain)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(slope.square().sum(), logits)


@pytest.mark.parametrize("choices", [7, 1013])
def test_gradients_of_many_losses_at_once(choices):
    logits = torch.randn(31, choices, requires_grad=True)
    total = objective(logits, torch.randint(choices, (31,))).total
    (one,) = torch.autograd.grad(total, logits, retain_graph=True)
    (three,) = torch.autograd.grad(total, logits, torch.tensor([1.0, -2.0, 0.5]), is_grads_batched=True)
    assert_close(three, torch.stack([one, -2 * one, one / 2]), rtol=1e-6, atol=0)


def test_the_objective_takes_it(monkeypatch):
    """From some size on; the sums are those of torch's calls, with several threads too."""
    torch.manual_seed(1)
    logits, targets = torch.randn(211, 1013), torch.randint(1013, (211,))  # so many numbers are worth three threads
    targets[4] = -100
    assert cross_entropy.serves(logits, targets)
    found = objective(logits, targets, 0.1)
    torch.set_num_threads(3)
    try:
        assert_close_to_rounding(objective(logits, targets, 0.1).total, found.total, 211)  # torch adds up the rows
    finally:
        torch.set_num_threads(1)
    assert torch.equal(objective(logits.t().contiguous().t(), targets, 0.1).total, found.total)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    wanted = objective(logits, targets, 0.1)
    assert_close(found.total, wanted.total, rtol=1e-5, atol=0)
    assert (found.count, found.correct) == (wanted.count, wanted.correct)


# --- with the product that makes the logits -------------------------------------------------------------------------


def layer(rows, width, choices, *needs):
    """What an output layer reads, its weight and bias, and targets, some of them ignored."""
    torch.manual_seed(1)
    needs = needs or (True, True, True)
    given = torch.randn(rows, width), torch.randn(choices, width) / 3, torch.randn(choices)
    targets = torch.randint(choices, (rows,))
    targets[1::5] = -100
    return [one.requires_grad_(asked) for one, asked in zip(given, needs, strict=True)], targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(31, 5, 211), (67, 3, 64), (1, 7, 8191), (131, 2, 37), (5, 11, 1)], ids=str)
def test_a_vocabulary_equals_its_product_and_the_loss(shape, smoothing):
    given, targets = layer(*shape)
    total, right = cross_entropy.of_vocabulary(*given, targets, smoothing, -100)
    found = torch.autograd.grad(3 * total, given)
    exact = [one.detach().double().requires_grad_() for one in given]
    logits = F.linear(*exact)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    wanted = torch.autograd.grad(3 * expected, exact)
    assert_close(total.double(), expected, rtol=1e-5, atol=1e-4)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one.double(), other, rtol=1e-5, atol=3e-5)
    assert torch.equal(right, logits.argmax(-1) == targets)


def test_a_vocabulary_over_no_rows():
    given, targets = layer(0, 5, 7)
    total, right = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    assert total == 0 and right.shape == (0,)
    for one, gradient in zip(given, torch.autograd.grad(total, given), strict=True):
        assert gradient.shape == one.shape and not gradient.any()


@pytest.mark.parametrize("asked", range(3))
def test_a_vocabulary_of_which_one_part_learns(asked):
    given, targets = layer(67, 5, 211)
    whole = torch.autograd.grad(cross_entropy.of_vocabulary(*given, targets, 0.1, -100)[0], given)
    alone, _ = layer(67, 5, 211, *(number == asked for number in range(3)))
    total, _ = cross_entropy.of_vocabulary(*alone, targets, 0.1, -100)
    total.backward()
    assert torch.equal(alone[asked].grad, whole[asked])
    assert all(one.grad is None for number, one in enumerate(alone) if number != asked)


def test_nan_and_infinity_of_a_vocabulary_stay_with_their_row():
    given, targets = layer(67, 5, 211)
    with torch.no_grad():
        given[0][3], given[0][6, 2] = torch.nan, torch.inf  # one of them is ignored
    total, right = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    (slope,) = torch.autograd.grad(total, given[0])
    assert total.isnan() and not right[3]
    assert slope[3].isnan().all() and not slope[6].any()
    assert slope[[0, 1, 2, 4, 5]].isfinite().all() and slope[7:].isfinite().all()


def test_threads_change_nothing_of_a_vocabulary_but_rounding():
    given, targets = layer(211, 7, 1013)
    with torch.no_grad():
        alone = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    one = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    torch.set_num_threads(3)
    try:
        three = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(one[0], alone[0]) and torch.equal(one[1], three[1])
    # The logits are torch's products of 7 numbers, and torch adds up the losses of 211 rows.
    assert_close_to_rounding(three[0], one[0], 7 + 211)
    assert_close_to_rounding(*(torch.autograd.grad(found[0], given[2])[0] for found in (three, one)), 7 + 211)


def test_a_vocabulary_is_kept_for_a_second_backward_pass():
    given, targets = layer(31, 5, 211)
    total = vocabulary_objective(*given, targets).total
    total.backward(retain_graph=True)
    first = [one.grad.clone() for one in given]
    for one in given:
        one.grad.mul_(7)
        one.grad = None
    total.backward()
    assert all(torch.equal(one.grad, before) for one, before in zip(given, first, strict=True))


def test_a_vocabulary_has_no_second_derivatives():
    given, targets = layer(31, 5, 211)
    found = torch.autograd.grad(vocabulary_objective(*given, targets).total, given, create_graph=True)
    for one in found:
        with pytest.raises(RuntimeError, match="the loss of a vocabulary has no second derivatives"):
            torch.autograd.grad(one.square().sum(), given[2], retain_graph=True, allow_unused=True)


def test_gradients_of_many_losses_of_a_vocabulary_at_once():
    given, targets = layer(31, 5, 211)
    total = vocabulary_objective(*given, targets).total
    one = torch.autograd.grad(total, given, retain_graph=True)
    three = torch.autograd.grad(total, given, torch.tensor([1.0, -2.0, 0.5]), is_grads_batched=True)
    for single, many in zip(one, three, strict=True):
        assert_close(many, torch.stack([single, -2 * single, single / 2]), rtol=1e-6, atol=0)


def test_a_weight_that_changed_before_the_backward_pass_is_an_error():
    given, targets = layer(31, 5, 211)
    total = vocabulary_objective(*given, targets).total
    with torch.no_grad():
        given[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_the_objective_of_a_vocabulary_is_the_same_both_ways(monkeypatch):
    given, targets = layer(67, 5, 211)
    given[0] = given[0].t().contiguous().t()  # of any strides
    given[2] = given[2].repeat_interleave(2)[::2]
    assert cross_entropy.serves_vocabulary(*given, targets)
    found = vocabulary_objective(*given, targets, 0.1)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    assert not cross_entropy.serves_vocabulary(*given, targets)
    wanted = vocabulary_objective(*given, targets, 0.1)
    assert_close(found.total, wanted.total, rtol=1e-5, atol=0)
    assert (found.count, found.correct) == (wanted.count, wanted.correct)


def test_a_vocabulary_that_the_loop_does_not_know_goes_the_usual_way():
    given, targets = layer(67, 5, 211)
    serves = cross_entropy.serves_vocabulary
    assert serves(*given, targets)
    assert not serves(*(one.double() for one in given), targets)
    assert not serves(given[0], given[1].double(), given[2], targets)
    assert not serves(given[0][:2], *given[1:], targets[:2])
    assert not serves(*(one.to("meta") for one in given), targets.to("meta"))
    assert not serves(given[0], torch.complex(*[given[1].detach()] * 2).conj().imag, given[2], targets)  # negated
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not serves(*given, targets)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert not serves(*(mode.from_tensor(one.detach()) for one in given), mode.from_tensor(targets))


def test_targets_of_a_vocabulary_are_checked():
    given, targets = layer(31, 5, 211)
    with pytest.raises(ShapeError, match="one a row"):
        inspect.unwrap(cross_entropy.of_vocabulary)(*given, targets[:5], 0.0, -100)
    targets[7] = 211
    with pytest.raises(IndexError, match="a target is 211"):
        vocabulary_objective(*given, targets)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("size", [96, 101])
def test_a_loss_keeps_its_digits_beside_large_logits(size, smoothing):
    """A constant added to all logits changes nothing: the logarithm of the sum is not added to it."""
    logits = torch.randn(61, size, generator=torch.Generator().manual_seed(0)) + 2.0**20
    targets = torch.arange(61)
    exact = F.cross_entropy(logits.double(), targets, reduction="sum", label_smoothing=smoothing)
    assert_close(objective(logits, targets, smoothing).total.double(), exact, rtol=1e-6, atol=0)


def test_what_fits_no_vocabulary_is_left_to_torch_that_refuses_it():
    """The loop would read a bias beyond its end."""
    (features, weight, bias), targets = layer(67, 5, 211)
    assert cross_entropy.serves_vocabulary(features, weight, bias, targets)
    for choices in (1, 210, 212):
        assert not cross_entropy.serves_vocabulary(features, weight, torch.zeros(choices), targets)
    assert not cross_entropy.serves_vocabulary(features[:, 1:], weight, bias, targets)


def test_autocast_around_the_backward_pass_narrows_no_gradient_of_a_vocabulary():
    given, targets = layer(67, 5, 211)
    total, _ = cross_entropy.of_vocabulary(*given, targets, 0.1, -100)
    plain = torch.autograd.grad(total, given, retain_graph=True)
    with torch.autocast("cpu"):
        within = torch.autograd.grad(total, given)
    for one, other in zip(within, plain, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_many_gradients_at_once_by_a_mapped_function(kind):
    """Nobody asks a mapped number whether it is 1."""
    torch.manual_seed(3)
    x, weight, bias = (torch.randn(shape, dtype=kind, requires_grad=True) for shape in ((97, 13), (61, 13), (61,)))
    targets, above = torch.randint(13, (97,)), torch.tensor([1.0, -2.0, 0.5], dtype=kind)
    for total, given in (
        (objective(x.repeat(7, 1), targets.repeat(7), 0.1).total, [x]),
        (vocabulary_objective(x, weight, bias, targets, 0.1).total, [x, weight, bias]),
    ):

        def slopes(one, total=total, given=given):
            return torch.autograd.grad(total, given, one, retain_graph=True)

        for number, one in enumerate(above):
            for found, wanted in zip(torch.func.vmap(slopes)(above), slopes(one), strict=True):
                assert_close(found[number], wanted)
