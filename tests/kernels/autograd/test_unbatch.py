"""Batches of gradients, of functions that know one: what a loop over them gives, whatever mappings are around it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._vmap_internals import _vmap as legacy_vmap
from torch.utils.checkpoint import checkpoint

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.unbatch import unbatched
from tests.batched import batches_are_singles


class Scaled(torch.autograd.Function):
    """`x · y` and `2y`, where something is written: loops that read memory do as numpy does."""

    @staticmethod
    def forward(ctx, x, y, calls):
        ctx.calls = calls
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, 2 * y

    @staticmethod
    @unbatched
    def backward(ctx, above, other):
        x, y = ctx.saved_tensors
        ctx.calls.append([None if one is None else tuple(one.shape) for one in (above, other)])
        if torch.is_grad_enabled():
            through = 0 if above is None else above * x
            return None if above is None else above * y, through if other is None else through + 2 * other, None
        to_y = torch.zeros_like(y)
        if above is not None:
            to_y += torch.from_numpy(above.numpy() * x.detach().numpy())
        if other is not None:
            to_y += torch.from_numpy(2 * other.numpy())
        return None if above is None else torch.from_numpy(above.numpy() * y.detach().numpy()), to_y, None


def call():
    torch.manual_seed(0)
    x, y = (torch.randn(5, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    calls = []
    return x, y, Scaled.apply(x, y, calls), calls


def test_they_are_the_gradients_one_by_one():
    x, y, both, _ = call()
    batches_are_singles(both, (x, y), (x, y))
    batches_are_singles(both[0], (x, y), (x, y))


def test_each_is_given_by_itself_and_one_alone_as_it_comes():
    x, y, (product, _), calls = call()
    torch.autograd.grad(product, (x, y), torch.ones_like(product), retain_graph=True)
    assert calls == [[(5, 7), None]]
    calls.clear()
    torch.autograd.grad(product, (x, y), torch.ones(4, 5, 7).double(), is_grads_batched=True)
    assert calls == [[(5, 7), None]] * 4


def test_what_is_the_same_for_all_beside_what_is_not():
    """One output's gradients come many at once, the other's is one for all."""
    x, y, (product, double), _ = call()
    above, one = torch.randn(3, 5, 7).double(), torch.randn(5, 7).double()

    def back(each):
        return torch.autograd.grad((product, double), (x, y), (each, one), retain_graph=True)

    wanted = [torch.stack(same) for same in zip(*map(back, above), strict=True)]
    for way in (torch.func.vmap(back), legacy_vmap(back)):
        for found, single in zip(way(above), wanted, strict=True):
            assert torch.equal(found, single)


@pytest.mark.parametrize("axis", (0, 1, -1))
def test_any_axis_of_a_mapping_may_be_the_batch(axis):
    x, y, (product, _), _ = call()
    above = torch.randn(3, 5, 7).double()

    def back(each):
        return torch.autograd.grad(product, (x, y), each, retain_graph=True)

    found = torch.func.vmap(back, in_dims=axis, out_dims=axis)(above.movedim(0, axis))
    for one, other in zip(found, zip(*map(back, above), strict=True), strict=True):
        assert torch.equal(one, torch.stack(other, axis))


def test_mappings_of_both_kinds_within_one_another():
    x, y, (product, _), _ = call()
    above = torch.randn(2, 3, 5, 7).double()

    def back(each):
        return torch.autograd.grad(product, (x, y), each, retain_graph=True)

    wanted = [torch.stack(same).unflatten(0, (2, 3)) for same in zip(*map(back, above.flatten(0, 1)), strict=True)]
    for way in (legacy_vmap(legacy_vmap(back)), torch.func.vmap(torch.func.vmap(back))):
        for found, single in zip(way(above), wanted, strict=True):
            assert torch.equal(found, single)
    outer = legacy_vmap(lambda few: legacy_vmap(lambda scale: back(few[0] * scale))(torch.ones(3).double()))(above)
    for found, single in zip(outer, wanted, strict=True):  # the inner one maps another tensor than the outer one
        assert torch.equal(found, single[:, :1].expand_as(single))


def test_a_batch_may_come_in_another_thread():
    """As those of a GPU's functions do: there nothing tells of the mapping but the tensor."""
    x, y, (product, _), _ = call()
    above = torch.randn(3, 5, 7).double()

    def back(each):
        return torch.autograd.grad(product, (x, y), each, retain_graph=True)

    with ThreadPoolExecutor(1) as pool:
        found = legacy_vmap(lambda each: pool.submit(back, each).result())(above)
    for one, other in zip(found, zip(*map(back, above), strict=True), strict=True):
        assert torch.equal(one, torch.stack(other))


def test_a_mapping_over_none_keeps_the_shapes():
    x, y, (product, _), _ = call()
    above = torch.empty(0, 5, 7).double()
    found = torch.func.vmap(lambda one: torch.autograd.grad(product, (x, y), one, retain_graph=True))(above)
    assert [one.shape for one in found] == [(0, 5, 7)] * 2


def test_a_mapping_of_something_else_leaves_them_alone():
    x, y, (product, _), calls = call()
    above = torch.ones_like(product)
    (wanted,) = torch.autograd.grad(product, x, above, retain_graph=True)
    found = torch.func.vmap(lambda scale: scale * torch.autograd.grad(product, x, above, retain_graph=True)[0])(
        torch.arange(3.0).double()
    )
    assert torch.equal(found, torch.stack([0 * wanted, wanted, 2 * wanted]))
    assert len(calls) == 2
    slope = torch.func.grad(lambda z: (z * torch.autograd.grad(product, x, above, retain_graph=True)[0]).sum())(above)
    assert torch.equal(slope, wanted)


@pytest.mark.parametrize("transform", ("grad", "jvp"))
def test_other_transforms_of_what_comes_from_above_are_refused_in_words(transform):
    x, _, (product, _), _ = call()
    above = torch.ones_like(product)

    def back(one):
        return torch.autograd.grad(product, x, one, retain_graph=True)[0]

    with pytest.raises(RuntimeError, match=r"torch\.autograd\.grad\(…, create_graph=True\) has their derivatives"):
        if transform == "grad":
            torch.func.grad(lambda one: back(one).sum())(above)
        else:
            torch.func.jvp(back, (above,), (above,))


def test_what_fails_within_leaves_the_mapping_as_it_was():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        @unbatched
        def backward(ctx, above):
            raise ValueError("no gradient today")

    x, y, (product, _), _ = call()
    above = torch.randn(3, 5, 7).double()
    failing = Failing.apply(x)
    with pytest.raises(ValueError, match="no gradient today"):
        torch.autograd.grad(failing, x, above, is_grads_batched=True, retain_graph=True)
    with pytest.raises(ValueError, match="no gradient today"):
        torch.func.vmap(lambda one: torch.autograd.grad(failing, x, one, retain_graph=True))(above)
    batches_are_singles(product, (x, y))


class Refusing(torch.autograd.Function):
    """x², without a second derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @unbatched
    @once_differentiable("this square; another has them")
    def backward(ctx, above):
        (x,) = ctx.saved_tensors
        return (2 * above * x,)


@pytest.mark.parametrize("mapped", (True, False))
def test_a_second_derivative_that_there_is_none_of_is_refused_of_a_batch_too(mapped):
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    square, above = Refusing.apply(x), torch.randn(3, 5).double()
    batches_are_singles(square, (x,))
    if mapped:
        slopes = torch.func.vmap(lambda one: torch.autograd.grad(square, x, one, create_graph=True)[0])(above)
    else:
        (slopes,) = torch.autograd.grad(square, x, above, is_grads_batched=True, create_graph=True)
    assert slopes.requires_grad
    with pytest.raises(RuntimeError, match="this square has no second derivatives; another has them"):
        (slopes.square().sum() + x.sum()).backward()


def test_what_a_checkpoint_makes_again_is_asked_for_once():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    above = torch.randn(3, 5).double()
    (wanted,) = torch.autograd.grad(Refusing.apply(x), x, above, is_grads_batched=True)
    (found,) = torch.autograd.grad(checkpoint(Refusing.apply, x, use_reentrant=False), x, above, is_grads_batched=True)
    assert torch.equal(found, wanted)
