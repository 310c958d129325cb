"""The compiled loop of the loss, beside torch's own calls."""

import inspect
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from regard.errors import ShapeError
from regard.kernels import compiler, cross_entropy
from regard.layers.objective import objective

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler is here")


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
    """From some size on; the sums are those of torch's calls. Several threads change no bit."""
    torch.manual_seed(1)
    logits, targets = torch.randn(211, 1013), torch.randint(1013, (211,))  # so many numbers are worth three threads
    targets[4] = -100
    assert cross_entropy.serves(logits, targets)
    found = objective(logits, targets, 0.1)
    torch.set_num_threads(3)
    try:
        assert torch.equal(objective(logits, targets, 0.1).total, found.total)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(objective(logits.t().contiguous().t(), targets, 0.1).total, found.total)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    wanted = objective(logits, targets, 0.1)
    assert_close(found.total, wanted.total, rtol=1e-5, atol=0)
    assert (found.count, found.correct) == (wanted.count, wanted.correct)
