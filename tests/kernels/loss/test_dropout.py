"""Dropout by 16 bits a number in a compiled pass, beside torch's calls: the same bits."""

import pytest
import torch

from regard.kernels.loss import dropout
from regard.kernels.native import compiler
from regard.layers.dropout import Dropout
from tests.native import needs_compiler

RATE = 12757  # of 65,536
LEAST, SCALE = RATE - 2**15, 2**16 / (2**16 - RATE)


def formula(x, bits):
    return x * ((bits >= LEAST).to(x.dtype) * SCALE)


def made(shape, kind=torch.float32):
    torch.manual_seed(0)
    bits = torch.randint(-(2**15), 2**15, shape, dtype=torch.int16)
    return torch.randn(shape, dtype=kind).requires_grad_(), bits


def same(one, other):
    return one.dtype is other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@needs_compiler
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(4096,), (67, 71), (2, 3, 1009)], ids=str)
def test_the_same_bits_there_and_back(shape, kind):
    x, bits = made(shape, kind)
    with torch.no_grad():
        x.view(-1)[[5, 7, 11, 13]] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0], dtype=kind)
        bits.view(-1)[[5, 7]] = torch.tensor([LEAST, LEAST - 1], dtype=torch.int16)
    found, wanted = dropout.dropped(x, bits, RATE), formula(x, bits)
    assert type(found.grad_fn).__name__ == "_DroppedBackward"
    assert torch.equal(found.isnan(), wanted.isnan()) and same(found.nan_to_num(7), wanted.nan_to_num(7))
    above = torch.randn_like(x)
    assert same(*(torch.autograd.grad(out, x, above)[0] for out in (found, wanted)))


@pytest.mark.parametrize(
    "turn",
    [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x.half(), lambda x: x[:3], lambda x: x.expand(2, *x.shape)],
    ids=["turned", "strided", "half", "few", "expanded"],
)
def test_others_take_torchs_calls_with_the_same_numbers(turn):
    x, bits = made((67, 71))
    given, marks = turn(x), turn(bits.to(torch.float32)).to(torch.int16)
    found, wanted = dropout.dropped(given, marks, RATE), formula(given, marks)
    assert torch.equal(found, wanted) and found.stride() == wanted.stride()
    assert torch.equal(*(torch.autograd.grad(out.sum(), x)[0] for out in (found, wanted)))


def test_what_comes_back_may_have_any_strides():
    x, bits = made((67, 71))
    above = torch.randn(71, 67).t()
    for one in (above, torch.ones(()).expand(67, 71)):
        found, wanted = dropout.dropped(x, bits, RATE), formula(x, bits)
        assert torch.equal(*(torch.autograd.grad(out, x, one)[0] for out in (found, wanted)))


def test_derivatives_of_derivatives_and_many_at_once():
    x, bits = made((67, 71), torch.float64)
    for make in (lambda y: dropout.dropped(y, bits, RATE), lambda y: formula(y, bits)):
        (first,) = torch.autograd.grad(make(x).pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        kept = (bits >= LEAST) * SCALE
        torch.testing.assert_close(second, (6 * kept**3 * x).detach())
    out, above = dropout.dropped(x, bits, RATE), torch.randn(3, 67, 71, dtype=torch.float64)
    (many,) = torch.autograd.grad(out, x, above, is_grads_batched=True, retain_graph=True)
    for found, one in zip(many, above, strict=True):
        assert torch.equal(found, torch.autograd.grad(out, x, one, retain_graph=True)[0])


def test_mapped_and_forward_mode():
    x, bits = made((67, 71), torch.float64)
    x = x.detach()
    mapped = torch.func.vmap(lambda one: dropout.dropped(one, bits, RATE))(torch.stack([x, 2 * x]))
    assert torch.equal(mapped, torch.stack([formula(x, bits), formula(2 * x, bits)]))
    _, slope = torch.func.jvp(lambda one: dropout.dropped(one, bits, RATE), (x,), (2 * x,))
    assert torch.equal(slope, formula(2 * x, bits))


@needs_compiler
def test_threads_change_no_bit():
    x, bits = made((1009, 1031))
    one = dropout.dropped(x, bits, RATE)
    torch.set_num_threads(3)
    try:
        assert same(one, dropout.dropped(x, bits, RATE))
    finally:
        torch.set_num_threads(1)


def test_the_layer_draws_as_it_did(monkeypatch):
    """A run that began without a compiler goes on with one."""
    x, results = torch.randn(67, 71), []
    for library in (compiler.library, lambda name: None):
        monkeypatch.setattr(compiler, "library", library)
        torch.manual_seed(3)
        results.append(Dropout(0.3)(x))
    assert same(*results)


@pytest.mark.parametrize("rate", [0, RATE, dropout.LEVELS])
def test_what_is_kept_keeps_the_expectation(rate):
    """Of all draws that there are, each once: exactly so many drop, and the rest makes up for them."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16).roll(101)
    kept = dropout.multipliers(bits, rate, torch.float64)
    assert int((kept == 0).sum()) == rate
    assert kept.mean().item() == pytest.approx(1.0 if rate < dropout.LEVELS else 0.0)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5)], ids=str)
def test_each_number_has_bits_of_its_own(shape):
    like = torch.empty(shape)
    drawn = torch.arange(1, 1 + dropout.draws(like.numel())) * (1 + (2 << 16) + (3 << 32) + (4 << 48))
    bits = dropout.bits_of(drawn, like)
    assert bits.shape == shape and bits.dtype is torch.int16
    wanted = [(1 + place // 4) * (1 + place % 4) for place in range(like.numel())]
    assert bits.flatten().tolist() == wanted
