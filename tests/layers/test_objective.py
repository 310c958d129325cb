import pytest
import torch
import torch.nn.functional as F

from regard.errors import ConfigError, ShapeError
from regard.layers.objective import objective, smoothed_cross_entropy
from tests.reference.recurrent import smoothed_cross_entropy as slow
from tests.rounding import assert_close_to_rounding

ROWS = [[2.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 3.0, 0.0]]


@pytest.mark.parametrize(("smoothing", "expected"), [(0.2, 0.500567), (0.0, 0.167234)])
def test_ignored_rows_take_no_part(smoothing, expected):
    """B23: the mean over the two kept rows, however many ignored ones are appended."""
    alone = torch.tensor([ROWS[0], ROWS[2]], dtype=torch.float64, requires_grad=True)
    loss = smoothed_cross_entropy(alone, torch.tensor([0, 1]), smoothing)
    assert loss.item() / 2 == pytest.approx(expected, abs=5e-7)
    (gradient,) = torch.autograd.grad(loss, alone)
    for more in (0, 1, 5):
        logits = torch.tensor(ROWS + [[9.0, float("nan"), -9.0]] * more, dtype=torch.float64, requires_grad=True)
        targets = torch.tensor([0, -100, 1] + [-100] * more)
        padded = smoothed_cross_entropy(logits, targets, smoothing)
        # Of three choices each, two rows added up; how torch goes through rows may depend on how many there are.
        assert_close_to_rounding(padded, loss, 3 + 2)
        (padded_gradient,) = torch.autograd.grad(padded, logits)
        assert_close_to_rounding(padded_gradient[[0, 2]], gradient, 3)
        assert not padded_gradient[[1, *range(3, 3 + more)]].any()


def test_all_ignored_is_0_with_gradient_0():
    """B23: never NaN."""
    logits = torch.randn(3, 5, requires_grad=True)
    result = objective(logits, torch.full((3,), -100), 0.1)
    assert (result.total.item(), result.count.item(), result.correct.item()) == (0, 0, 0)
    (gradient,) = torch.autograd.grad(result.total, logits)
    assert torch.equal(gradient, torch.zeros(3, 5))


def test_two_halves_add_up():
    """B23: accumulation over a split batch equals the whole."""
    torch.manual_seed(0)
    logits, targets = torch.randn(7, 5, dtype=torch.float64), torch.tensor([0, 4, -100, 2, 2, -100, 1])
    whole = objective(logits, targets, 0.1)
    parts = [objective(logits[rows], targets[rows], 0.1) for rows in (slice(0, 3), slice(3, 7))]
    for name in ("total", "count", "correct"):
        assert torch.allclose(getattr(whole, name), sum(getattr(part, name) for part in parts))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_equals_the_plain_loops_and_torch(smoothing):
    torch.manual_seed(0)
    logits = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 4, -100, 2, 2, -100, 1])
    mine = smoothed_cross_entropy(logits, targets, smoothing)
    plain = slow(logits, [None if t < 0 else t for t in targets.tolist()], smoothing)
    theirs = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (mine, plain, theirs)]
    for loss, gradient in zip((plain, theirs), gradients[1:], strict=True):
        assert torch.allclose(mine, loss, atol=1e-12)
        assert torch.allclose(gradients[0], gradient, atol=1e-12)
    assert torch.autograd.gradcheck(lambda scores: smoothed_cross_entropy(scores, targets, smoothing) * 3, logits)


def test_huge_logits_and_half_precision():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)
    assert loss.item() == 2e4
    for dtype in (torch.bfloat16, torch.float16):
        torch.manual_seed(1)
        short = torch.randn(11, 101).to(dtype).requires_grad_()
        targets = torch.arange(11)
        loss = smoothed_cross_entropy(short, targets, 0.1)
        assert loss.dtype == torch.float32
        expected = F.cross_entropy(short.float(), targets, label_smoothing=0.1, reduction="sum")
        assert torch.allclose(loss, expected, rtol=1e-6)
        assert torch.autograd.grad(loss, short)[0].dtype == dtype


def test_a_second_derivative_says_that_it_is_not_there():
    logits = torch.randn(3, 5, requires_grad=True)
    loss = smoothed_cross_entropy(logits, torch.tensor([0, 1, 2]), 0.1)
    (gradient,) = torch.autograd.grad(loss * loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradient.sum().backward()


def test_arguments_unchanged():
    """B36."""
    logits, targets = torch.randn(5, 7, requires_grad=True), torch.tensor([0, 1, -100, 3, 4])
    before, names = logits.detach().clone(), targets.clone()
    objective(logits, targets, 0.1).total.backward()
    assert torch.equal(logits, before)
    assert torch.equal(targets, names)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (0, 5)])
def test_axes_of_one_and_none(shape):
    """B42."""
    logits = torch.zeros(shape, requires_grad=True)
    result = objective(logits, torch.zeros(shape[0], dtype=torch.long), 0.1)
    assert [part.shape for part in (result.total, result.count, result.correct)] == [(), (), ()]
    assert result.total.item() == pytest.approx(shape[0] * torch.tensor(float(shape[1])).log().item(), abs=1e-5)
    result.total.backward()
    assert logits.grad.shape == shape


def test_bad_arguments():
    with pytest.raises(ConfigError, match="between 0 and 1"):
        smoothed_cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1]), 1.5)
    with pytest.raises(ShapeError, match="nothing to choose"):
        objective(torch.zeros(2, 0), torch.tensor([-100, -100]))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_transforms_of_functions_differentiate_the_loss(smoothing, kind):
    torch.manual_seed(0)
    logits, targets = torch.randn(3, 5, 7).to(kind), torch.tensor([2, 0, -100, 6, 3])
    logits[:, 2] = torch.nan  # ignored
    wanted = []
    for one in logits:
        one = one.clone().requires_grad_()
        loss = smoothed_cross_entropy(one, targets, smoothing)
        wanted.append((loss.detach(), *torch.autograd.grad(loss, one)))
    function = lambda one: smoothed_cross_entropy(one, targets, smoothing)  # noqa: E731
    for one, (loss, slope) in zip(logits, wanted, strict=True):
        torch.testing.assert_close(torch.func.grad_and_value(function)(one), (slope, loss))
    losses, slopes = (torch.stack(each) for each in zip(*wanted, strict=True))
    torch.testing.assert_close(torch.func.vmap(function)(logits), losses)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(function))(logits), slopes)
    if kind is torch.float64:
        way = torch.randn_like(logits[0])
        _, along = torch.func.jvp(function, (logits[0],), (way,))
        torch.testing.assert_close(along, (slopes[0] * way.nan_to_num()).sum())
