"""A sum and its layer normalization in one function with its gradients, beside torch's own calls in float64."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.kernels.native import compiler
from regard.kernels.transformer import norm
from tests.native import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(norm, "_LEAST", 1)


def layer(dim, bias=True, kind=torch.float32):
    torch.manual_seed(3)
    made = nn.LayerNorm(dim, bias=bias)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made.to(kind)


def taken(*outputs):
    return all(type(one.grad_fn).__name__.startswith("_Norm") for one in outputs)


@pytest.mark.parametrize("two", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(13,), (1, 1), (3, 7, 16), (67, 31), (5, 29, 128), (2, 211)])
def test_it_is_the_formula_and_its_gradients(shape, bias, two):
    one, other = layer(shape[-1], bias), layer(shape[-1], bias, torch.float64)
    x, more = (torch.randn(shape, requires_grad=True) for _ in range(2))
    given = [x, more] if two else [x]
    exact = [each.detach().double().requires_grad_() for each in given]
    found, wanted = norm.sum_and_norm(one, *given), sum(exact)
    wanted = wanted, other(wanted)
    assert taken(*found)
    above = [torch.randn(shape) for _ in range(2)]
    slopes = torch.autograd.grad(found, [*given, *one.parameters()], above)
    steep = torch.autograd.grad(wanted, [*exact, *other.parameters()], [each.double() for each in above])
    for mine, theirs in zip((*found, *slopes), (*wanted, *steep), strict=True):
        assert_close(mine.double(), theirs, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("asks", range(4))
def test_a_single_gradient_and_a_single_output(asks):
    made = layer(11)
    given = [torch.randn(5, 11), torch.randn(5, 11), *(each.detach() for each in made.parameters())]
    given[asks].requires_grad_()
    made.weight, made.bias = (nn.Parameter(each, each.requires_grad) for each in given[2:])
    asked = (*given[:2], made.weight, made.bias)[asks]
    summed, normed = norm.sum_and_norm(made, *given[:2])
    assert taken(normed)
    (slope,) = torch.autograd.grad(normed.square().sum(), asked, retain_graph=True)
    (steep,) = torch.autograd.grad(made(given[0] + given[1]).square().sum(), asked)
    assert_close(slope, steep, rtol=1e-5, atol=3e-5)
    if asks < 2:  # and from the sum alone
        assert torch.equal(*torch.autograd.grad(summed.sum(), asked), torch.ones(5, 11))


def test_strides_and_threads_change_nothing():
    made, x, more = layer(131), torch.randn(131, 10007).t(), torch.randn(1, 131).expand(10007, 131)
    x.requires_grad_()

    def all_of(x, more):
        found = norm.sum_and_norm(made, x, more)
        return *found, *torch.autograd.grad([each.sin().sum() for each in found], [x, *made.parameters()])

    wanted = all_of(x.detach().contiguous().requires_grad_(), more.contiguous())
    torch.set_num_threads(3)
    try:
        several = all_of(x, more)
    finally:
        torch.set_num_threads(1)
    for found, one, other in zip(all_of(x, more), wanted, several, strict=True):
        assert torch.equal(found, one) and torch.equal(found, other)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_in_its_row(bad):
    made, x = layer(17), torch.randn(5, 17)
    x[2, 3] = bad
    x.requires_grad_()
    summed, normed = norm.sum_and_norm(made, x, torch.ones(5, 17))
    (slope,) = torch.autograd.grad(normed[[0, 1, 3, 4]].sum(), x)
    rows = torch.tensor([0, 1, 3, 4])
    assert normed[2].isnan().all() and torch.equal(normed[rows].isfinite(), torch.ones(4, 17, dtype=torch.bool))
    assert_close(normed[rows], made(summed.detach()[rows]), rtol=1e-5, atol=1e-5)
    assert slope[rows].isfinite().all()


def test_rows_of_equal_numbers_are_the_bias():
    made, x = layer(19), torch.full((3, 19), 7.0, requires_grad=True)
    _, normed = norm.sum_and_norm(made, x)
    assert torch.equal(normed, made.bias.expand(3, 19))


def test_gradients_have_gradients_and_come_in_batches():
    made, x, more = layer(7), torch.randn(3, 7, requires_grad=True), torch.randn(3, 7)

    def twice(function):
        summed, normed = function(made, x, more)
        (slope,) = torch.autograd.grad((summed * normed.square()).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [x, made.weight])

    def plain(made, x, more):
        return x + more, made(x + more)

    for one, other in zip(twice(norm.sum_and_norm), twice(plain), strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-3)
    above = torch.randn(5, 3, 7)
    for outputs in (norm.sum_and_norm(made, x, more), plain(made, x, more)):
        many = torch.autograd.grad(outputs[1], [x, made.weight], above, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(outputs[1], [x, made.weight], one, retain_graph=True) for one in above]
        for one, others in zip(many, zip(*each, strict=True), strict=True):
            assert_close(one, torch.stack(others), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_weights_that_lie_elsewhere_or_are_too_few_are_torchs_to_refuse(name):
    """A loop would read what is at such addresses."""
    for wrong in (torch.ones(17, device="meta"), torch.ones(1), torch.ones(3, 17)):
        made, x = layer(17), torch.randn(5, 17, requires_grad=True)
        setattr(made, name, nn.Parameter(wrong))
        assert not norm._serves(made, x, None)


def test_other_calls_are_torchs(monkeypatch):
    """Of another type, of a module with hooks, mapped, without gradients, without a compiler."""
    x = torch.randn(3, 17, requires_grad=True)
    others = [
        (nn.RMSNorm(17), x, None),
        (layer(17).double(), x.double(), None),
        (nn.LayerNorm((3, 17)), x, None),
        (nn.LayerNorm(17, elementwise_affine=False), x, None),
    ]
    for made, one, more in others:
        summed, normed = norm.sum_and_norm(made, one, more)
        assert not taken(normed)
        assert torch.equal(normed, made(one if more is None else one + more))
    calls, made = [], layer(17)
    made.register_forward_hook(lambda module, given, out: calls.append(out.shape))
    norm.sum_and_norm(made, x, x)
    assert calls == [(3, 17)]
    made = layer(17)
    with torch.no_grad():
        assert norm.sum_and_norm(made, x, x)[1].grad_fn is None
    with torch.autocast("cpu", torch.bfloat16):
        assert not taken(norm.sum_and_norm(made, x, x)[1])
    mapped = torch.func.vmap(lambda row: norm.sum_and_norm(made, row, row)[1])(x)
    assert_close(mapped, made(2 * x))
    negated = torch.randn(3, 17, dtype=torch.complex64).conj().imag.requires_grad_()
    assert_close(norm.sum_and_norm(made, negated)[1], made(negated.clone()))
    empty = torch.randn(0, 17, requires_grad=True)
    assert norm.sum_and_norm(made, empty)[1].shape == (0, 17)
    monkeypatch.setattr(norm, "_LEAST", 52)
    assert not taken(norm.sum_and_norm(made, x, x)[1])
    monkeypatch.setattr(norm, "_LEAST", 51)
    assert taken(norm.sum_and_norm(made, x, x)[1])
    monkeypatch.setattr(compiler, "library", lambda name: None)
    assert not taken(norm.sum_and_norm(made, x, x)[1])
