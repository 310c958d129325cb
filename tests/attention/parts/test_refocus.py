"""Refocus: the stages of the Neural Turing machine and Luong's window, with numbers by hand."""

import pytest
import torch

from regard import masks
from regard.attention.attend import attend
from regard.attention.parts.refocus import gaussian_window, interpolate, sharpen, shift
from regard.errors import ConfigError, ShapeError


def row(*numbers):
    return torch.tensor([[numbers]], dtype=torch.float64)


def test_w21_each_stage():
    gated = interpolate(torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64), 0.5)(row(0.5910, 0.0800, 0.3290))
    torch.testing.assert_close(gated, row(0.2955, 0.5400, 0.1645))
    shifted = shift(torch.tensor([0.1, 0.8, 0.1], dtype=torch.float64))(gated)
    torch.testing.assert_close(shifted, row(0.3069, 0.4780, 0.2151), atol=6e-5, rtol=0)
    torch.testing.assert_close(sharpen(2.0)(shifted), row(0.2552, 0.6193, 0.1255), atol=6e-5, rtol=0)


def test_shift_plus_one_moves_the_focus_up_and_around():
    forward = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(shift(forward)(row(1.0, 0, 0, 0)), row(0, 1.0, 0, 0))
    torch.testing.assert_close(shift(forward)(row(0, 0, 0, 1.0)), row(1.0, 0, 0, 0))
    each = shift(torch.tensor([[1.0, 0, 0], [0, 0, 1.0]], dtype=torch.float64))(row(0, 1.0, 0).expand(2, 1, 3))
    torch.testing.assert_close(each, torch.cat([row(1.0, 0, 0), row(0, 0, 1.0)]))
    with pytest.raises(ShapeError, match="odd"):
        shift(torch.ones(4))


def test_w11_and_b04_sharpening_is_always_a_distribution():
    """W11 by hand; B04: weights of 1e-20 or 0.25 with exponents 1, 3 and 200, forward and backward."""
    torch.testing.assert_close(sharpen(3.0)(row(0.4, 0.3, 0.2, 0.1)), row(0.64, 0.27, 0.08, 0.01))
    for dtype in (torch.float32, torch.float64):
        for exponent in (1.0, 3.0, 200.0):
            for numbers in ((1e-20,) * 4, (0.25,) * 4, (1.0, 0, 0, 0), (0.4, 0.3, 0.2, 0.1), (1e-30, 1.0, 0, 0)):
                weights = row(*numbers).to(dtype).requires_grad_()
                power = torch.tensor([exponent], dtype=dtype, requires_grad=True)
                sharp = sharpen(power)(weights)
                assert sharp.isfinite().all()
                torch.testing.assert_close(sharp.sum(), torch.ones((), dtype=dtype), atol=1e-6, rtol=0)
                for gradient in torch.autograd.grad((sharp * torch.arange(4)).sum(), (weights, power)):
                    assert gradient.isfinite().all()
    assert (sharpen(3.0)(row(0.0, 0, 0)) == 0).all()
    with pytest.raises(ConfigError, match="at least 1"):
        sharpen(0.5)
    with pytest.raises(ConfigError, match="at least 1"):
        sharpen(torch.tensor([-1.0]))


def test_b04_content_addressing_of_an_empty_memory_is_uniform():
    memory = torch.zeros(1, 4, 3, requires_grad=True)
    for key in (torch.tensor([[[1.0, 0, 0]]]), torch.zeros(1, 1, 3)):
        attended = attend(key.requires_grad_(), memory, memory, score="cosine")
        torch.testing.assert_close(attended.weights, torch.full((1, 1, 4), 0.25))
        for gradient in torch.autograd.grad(attended.context.sum(), (key, memory)):
            assert gradient.isfinite().all()


def test_weight_moved_onto_masked_out_keys_is_dropped_not_shared_out():
    query, key = torch.zeros(1, 1, 2, dtype=torch.float64), torch.zeros(1, 4, 2, dtype=torch.float64)
    value = torch.eye(4, dtype=torch.float64)[None]
    forward = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    attended = attend(query, key, value, mask=masks.padding([3]), refocus=[shift(forward)])
    torch.testing.assert_close(attended.weights, row(0, 1 / 3, 1 / 3, 0))
    torch.testing.assert_close(attended.context, row(0, 1 / 3, 1 / 3, 0))


def test_stages_apply_left_to_right_and_have_gradients():
    torch.manual_seed(0)
    tensors = [torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (2, 5, 5)]
    previous = torch.softmax(torch.randn(2, 5, dtype=torch.float64), -1).requires_grad_()
    gate = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    kernel = torch.softmax(torch.randn(2, 3, dtype=torch.float64), -1).requires_grad_()
    gamma = (1 + torch.rand(2, dtype=torch.float64)).requires_grad_()
    center = torch.tensor([[1.2, 3.0], [0.0, 4.4]], dtype=torch.float64, requires_grad=True)

    def context(query, key, value, previous, gate, kernel, gamma, center):
        stages = [interpolate(previous, gate), shift(kernel), sharpen(gamma), gaussian_window(center, 1.5)]
        return attend(query, key, value, refocus=stages, mask=masks.padding([5, 3])).context

    assert torch.autograd.gradcheck(context, (*tensors, previous, gate, kernel, gamma, center))
    sharp_first = attend(*tensors, refocus=[sharpen(3.0), gaussian_window(center, 1.0)]).weights
    window_first = attend(*tensors, refocus=[gaussian_window(center, 1.0), sharpen(3.0)]).weights
    assert (sharp_first - window_first).abs().max() > 1e-2
    with pytest.raises(ConfigError, match="sigma"):
        gaussian_window(center, 0.0)
    with pytest.raises(ShapeError, match="gate"):
        attend(*tensors, refocus=interpolate(previous, torch.ones(7)))


def test_whole_centers_are_as_exact_as_the_weights_and_as_far_as_they_like():
    weights = torch.full((1, 3, 5), 0.2, dtype=torch.float64)
    center = torch.tensor([[2, -1, 2**33]])
    found = gaussian_window(center, 1.5)(weights)
    assert torch.equal(found, gaussian_window(center.double(), 1.5)(weights))
    assert (found[0, 2] == 0).all()
