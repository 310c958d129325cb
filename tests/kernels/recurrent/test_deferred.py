"""Linear layers of a loop whose weights' gradients are made at its end, beside torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor

from regard.kernels.recurrent.deferred import Deferred, expectation_of_loop, linear_of_loop

LENGTHS = (5, 5, 3, 2, 1)


def loop(linear, x, weight, bias, recurrent):
    """A recurrence whose batch shrinks, as a decoder's."""
    state, total = torch.zeros(5, 7, dtype=x.dtype), 0
    for step, rows in enumerate(LENGTHS):
        state = torch.tanh(linear(x[step, :rows], weight, bias) + linear(state[:rows], recurrent))
        total = total + (step + 1) * state.square().sum()
    return total


def given(**asks):
    torch.manual_seed(4)
    shapes = {"x": (5, 5, 3), "weight": (7, 3), "bias": (7,), "recurrent": (7, 7)}
    return {
        name: torch.randn(shape, dtype=torch.float64, requires_grad=asks.get(name, True))
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("constant", [None, "x", "weight", "bias", "recurrent"])
def test_gradients_are_torchs(constant):
    parts = given(**({constant: False} if constant else {}))
    asked = [part for part in parts.values() if part.requires_grad]
    one = loop(Deferred().linear, **parts)
    other = loop(F.linear, **parts)
    assert torch.equal(one, other)
    for found, wanted in zip(torch.autograd.grad(one, asked), torch.autograd.grad(other, asked), strict=True):
        assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_weights_get_one_product_each():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Products(TorchDispatchMode):
        shapes = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.mm.default:
                self.shapes.append((args[0].shape[0], args[1].shape[1]))
            return func(*args, **(kwargs or {}))

    parts = given()
    total = loop(Deferred().linear, **parts)
    with Products() as products:
        total.backward()
    assert products.shapes.count((7, 3)) == products.shapes.count((7, 7)) == 1


def test_a_step_that_nothing_came_back_to():
    """Its outputs have no part in the loss: nor has it in the gradients."""
    parts = given()
    linear = Deferred().linear
    used, unused = linear(parts["x"][0], parts["weight"]), linear(parts["x"][1], parts["weight"])
    used.sum().backward()
    assert unused.requires_grad
    assert_close(parts["weight"].grad, parts["x"][0].sum(0).expand(7, 3).detach())


def test_twice_back_over_a_graph_that_is_kept():
    parts = given()
    total = loop(Deferred().linear, **parts)
    first = torch.autograd.grad(total, parts["weight"], retain_graph=True)
    second = torch.autograd.grad(total, parts["weight"])
    assert torch.equal(*first, *second)


def test_backward_passes_that_ask_for_no_weight_or_fail_leave_nothing():
    """What their steps left is no part of the next one's gradients."""
    parts = given()
    total = loop(Deferred().linear, **parts)
    torch.autograd.grad(total, parts["x"], retain_graph=True)
    torch.autograd.grad(total, parts["x"], retain_graph=True)

    def fail(gradient):
        raise ValueError("on the way back")

    handle = parts["x"].register_hook(fail)
    with pytest.raises(ValueError, match="on the way back"):
        total.backward(retain_graph=True)
    handle.remove()
    found = torch.autograd.grad(total, list(parts.values()))
    wanted = torch.autograd.grad(loop(F.linear, **parts), list(parts.values()))
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_torchs():
    """Of the inputs' gradient and of the weights', as a penalty on them has it."""
    parts = given()
    every = list(parts.values())
    found = []
    for linear in (Deferred().linear, F.linear):
        first = torch.autograd.grad(loop(linear, **parts), every, create_graph=True)
        found.append(torch.autograd.grad(sum(one.square().sum() for one in first), every))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_weights_that_are_made_at_each_step():
    """None takes the place of another that is gone."""
    torch.manual_seed(3)
    x, weight = torch.randn(2, 3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    linear = Deferred().linear
    total = sum(linear(x, weight * factor).square().sum() for factor in range(1, 9))
    other = sum(F.linear(x, weight * factor).square().sum() for factor in range(1, 9))
    assert_close(*(torch.autograd.grad(one, weight)[0] for one in (total, other)), rtol=1e-12, atol=1e-12)


def test_a_weight_changed_before_the_backward_pass_is_reported():
    parts = given()
    total = loop(Deferred().linear, **parts)
    with torch.no_grad():
        parts["weight"].mul_(2)
    with pytest.raises(RuntimeError, match="a weight was changed in place"):
        total.backward()


def test_without_gradients_it_is_torchs():
    parts = given()
    with torch.no_grad():
        assert loop(linear_of_loop(parts["x"]), **parts).grad_fn is None
    x = torch.randn(2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear_of_loop(x) is F.linear


@pytest.mark.parametrize("name", ["x", "weight", "bias", "recurrent"])
def test_wrapped_tensors_are_torchs(name):
    """Such a class has no numbers of its own, be it a weight or what a loop hands on."""
    parts = given()
    wrapped = parts | {name: TwoTensor(parts[name].detach(), parts[name].detach().clone()).requires_grad_()}
    found, wanted = loop(Deferred().linear, **wrapped), loop(F.linear, **parts)
    assert_close(found.a, wanted)
    slopes = (torch.autograd.grad(total, list(each.values())) for total, each in ((found, wrapped), (wanted, parts)))
    for one, other in zip(*slopes, strict=True):
        assert_close(getattr(one, "a", one), other)


@pytest.mark.parametrize("name", ["query", "value"])
def test_wrapped_tensors_are_read_by_torch(name):
    parts = asked_and_read()
    wrapped = parts | {name: TwoTensor(parts[name].detach(), parts[name].detach().clone()).requires_grad_()}
    found, wanted = looks(Deferred().expectation, **wrapped), looks(torch.bmm, **parts)
    assert_close(found.a, wanted)
    slopes = (torch.autograd.grad(total, list(each.values())) for total, each in ((found, wrapped), (wanted, parts)))
    for one, other in zip(*slopes, strict=True):
        assert_close(getattr(one, "a", one), other)


def test_many_gradients_at_once():
    """They come to each step, and leave in one product each."""
    parts = given()
    linear = Deferred().linear
    out = linear(torch.tanh(linear(parts["x"][0], parts["weight"], parts["bias"])), parts["recurrent"])
    asked, above = list(parts.values()), torch.randn(3, *out.shape, dtype=torch.float64)
    many = torch.autograd.grad(out, asked, above, is_grads_batched=True, retain_graph=True)
    for number, one in enumerate(above):
        for found, wanted in zip(many, torch.autograd.grad(out, asked, one, retain_graph=True), strict=True):
            assert_close(found[number], wanted, rtol=1e-12, atol=1e-12)


# --- what attention reads -------------------------------------------------------------------------------------------


def looks(read, query, value):
    """Attention at each step, whose batch shrinks; what was read asks next."""
    total = 0
    for step, rows in enumerate(LENGTHS):
        if rows != len(value):
            query, value = query[:rows], value[:rows]
        query = read((query @ value.transpose(1, 2)).softmax(-1), value)
        total = total + (step + 1) * query.square().sum()
    return total


def asked_and_read(query=True, value=True):
    torch.manual_seed(4)
    return {
        "query": torch.randn(5, 1, 3, dtype=torch.float64, requires_grad=query),
        "value": torch.randn(5, 11, 3, dtype=torch.float64, requires_grad=value),
    }


@pytest.mark.parametrize("constant", [None, "query", "value"])
def test_gradients_of_what_is_read_are_torchs(constant):
    parts = asked_and_read(**({constant: False} if constant else {}))
    asked = [part for part in parts.values() if part.requires_grad]
    one, other = looks(Deferred().expectation, **parts), looks(torch.bmm, **parts)
    assert torch.equal(one, other)
    for _ in range(2):  # a graph that is kept gives the same again
        found, wanted = (torch.autograd.grad(total, asked, retain_graph=True) for total in (one, other))
        for gradient, expected in zip(found, wanted, strict=True):
            assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_what_is_read_by_differences():
    parts = asked_and_read()
    assert torch.autograd.gradcheck(lambda *two: looks(Deferred().expectation, *two), tuple(parts.values()))


def test_a_pass_that_asks_for_no_values_leaves_nothing_to_the_next():
    parts = asked_and_read()
    total, other = looks(Deferred().expectation, **parts), looks(torch.bmm, **parts)
    torch.autograd.grad(total, parts["query"], retain_graph=True)
    one, wanted = (torch.autograd.grad(each, parts["value"])[0] for each in (total, other))
    assert_close(one, wanted, rtol=1e-12, atol=1e-12)


def test_values_changed_before_the_backward_pass_are_reported():
    parts = asked_and_read()
    value = parts["value"] * 1
    total = looks(Deferred().expectation, parts["query"], value)
    with torch.no_grad():
        value.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place|modified by an inplace operation"):
        total.backward()


def test_only_a_loop_that_defers_has_it():
    assert expectation_of_loop(F.linear) is None
    loop_of_its_own = Deferred()
    assert expectation_of_loop(loop_of_its_own.linear) == loop_of_its_own.expectation
