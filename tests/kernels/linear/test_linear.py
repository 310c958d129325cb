"""Linear attention in one pass: the formula's numbers and gradients by both loops, whatever the shapes and strides."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from regard.kernels.linear import chunks, linear
from regard.kernels.linear.chunks import Call
from tests.batched import batches_are_singles
from tests.native import needs_compiler
from tests.reference.linear import linear as slow


@pytest.fixture(params=["torch", pytest.param("native", marks=needs_compiler)])
def loop(request, monkeypatch):
    """Torch's own calls in chunks of 7 positions, one item at a time; or the native loop."""
    if request.param == "torch":
        monkeypatch.setattr(linear.LIBRARY, "serves", lambda kind: False)
        monkeypatch.setattr(chunks, "CHUNK", 7)
        monkeypatch.setattr(chunks, "_MOST", 1)
    else:
        assert linear.LIBRARY.serves(torch.float32)
    return request.param


def inputs(queries, keys, *, group=3, width=5, value_width=11, batch=2, heads=2, dtype=torch.float64, memory=True):
    generator = torch.Generator().manual_seed(0)

    def made(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    each = [
        made(batch, heads, group, queries, width),
        made(batch, heads, keys, width),
        made(batch, heads, keys, value_width),
    ]
    each += [made(batch, heads, width, value_width + 1).abs()] if memory else []
    keep = torch.rand(batch, keys, generator=generator) > 0.3
    return [tensor.requires_grad_() for tensor in each], keep


# 103 positions are four chunks of 32 or fifteen of 7, 37 two or six; 19 value columns are no whole vectors
@pytest.mark.parametrize("elu", (True, False))
@pytest.mark.parametrize("causal", (True, False))
@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width"), ((103, 103, 5, 19), (37, 71, 17, 3), (71, 37, 32, 16))
)
def test_each_number_and_gradient_is_the_formulas(loop, elu, causal, queries, keys, width, value_width):
    given, keep = inputs(queries, keys, width=width, value_width=value_width)
    if not elu:
        given = [tensor.detach().abs().requires_grad_() for tensor in given]
    query, key, value, memory = given
    context, after, finite = linear.read(query, key, value, memory=memory, keep=keep, causal=causal, elu=elu)
    assert finite
    expected = linear.formula(Call(query, key, value, memory, keep, causal, elu))
    above = [torch.randn_like(one) for one in expected]
    for ours, theirs in zip((context, after), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)
    for upstream in ((0, 1), (0,), (1,)):
        found, wanted = (
            torch.autograd.grad([each[n] for n in upstream], given, [above[n] for n in upstream], allow_unused=True,
                                retain_graph=True)
            for each in ((context, after), expected)
        )  # fmt: skip
        for ours, theirs in zip(found, wanted, strict=True):
            theirs = torch.zeros_like(ours) if theirs is None else theirs
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("causal", (True, False))
def test_the_numbers_are_those_of_one_pair_at_a_time(loop, causal):
    (query, key, value), keep = inputs(11, 13, width=3, value_width=2, memory=False)
    context = linear.read(query, key, value, keep=keep, causal=causal, elu=True).context.flatten(1, 2)
    one = slow("elu", query.flatten(1, 2), key, value, lambda b, i, j: bool(keep[b, j]) and (not causal or j <= i + 2))
    torch.testing.assert_close(context, one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("causal", (True, False))
def test_first_and_second_derivatives(loop, causal):
    given, keep = inputs(5, 7, group=2, width=3, value_width=2)

    def run(query, key, value, memory):
        return linear.read(query, key, value, memory=memory, keep=keep, causal=causal, elu=True)[:2]

    assert torch.autograd.gradcheck(run, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, given, fast_mode=True)


@pytest.mark.parametrize("causal", (True, False))
def test_batches_of_gradients_are_those_one_by_one(loop, causal):
    given, keep = inputs(11, 13)
    made = linear.read(*given[:3], memory=given[3], keep=keep, causal=causal, elu=True)
    batches_are_singles((made.context, made.memory), given, given)
    above = torch.ones_like(made.context)
    with pytest.raises(RuntimeError, match="linear attention takes gradients that are plain tensors"):
        torch.autograd.grad(made.context, given, TwoTensor(above, above))


def test_only_what_wants_a_gradient_has_one(loop):
    for wanted in range(3):
        given, _ = inputs(5, 5, memory=False)
        given = [tensor.detach().requires_grad_(n == wanted) for n, tensor in enumerate(given)]
        context = linear.read(*given, causal=True, elu=True).context
        context.sum().backward()
        assert [tensor.grad is not None for tensor in given] == [n == wanted for n in range(3)]
    with torch.inference_mode():
        torch.testing.assert_close(linear.read(*given, causal=True, elu=True).context, context.detach())


def test_any_strides(loop):
    """Positions before heads, every other number, one row for all, keys that all heads share."""
    (query, key, value), keep = inputs(13, 13, group=2, width=6, value_width=4, memory=False)
    query, key, value = query.detach(), key.detach(), value.detach()
    plain = linear.read(query, key, value, keep=keep, causal=True, elu=True)
    turned = query.permute(3, 0, 1, 2, 4).contiguous().permute(1, 2, 3, 0, 4)
    spaced = torch.stack((key, key), -1).flatten(-2)[..., ::2]
    between = value.transpose(1, 2).contiguous().transpose(1, 2)
    other = linear.read(turned, spaced, between, keep=keep.t().contiguous().t(), causal=True, elu=True)
    for ours, theirs in zip(plain, other, strict=True):
        assert torch.equal(torch.as_tensor(ours), torch.as_tensor(theirs))
    flat = key[:, :1].expand(-1, 2, -1, -1), value[:, :1].expand(-1, 2, -1, -1)
    assert torch.equal(
        linear.read(query, *flat, causal=True, elu=True).context,
        linear.read(query, *(one.clone() for one in flat), causal=True, elu=True).context,
    )


@pytest.mark.parametrize("content", (torch.nan, torch.inf, -torch.inf))
def test_what_is_not_finite_is_reported_unless_it_is_masked_out(loop, content):
    for which in range(3):
        given, keep = inputs(37, 37, memory=False)
        keep[:] = True
        given = [tensor.detach().clone() for tensor in given]
        given[which][1, 1, ..., 36, 2] = content
        assert not linear.read(*given, keep=keep, causal=True, elu=True).finite
        assert not linear.read(*given, causal=False, elu=True).finite
        keep[1, 36] = False
        found = linear.read(*given, keep=keep, causal=True, elu=True)
        assert found.finite == (which != 0)
        if which:
            assert torch.isfinite(found.context).all() and torch.isfinite(found.memory).all()


def test_what_comes_later_changes_no_bit(loop):
    (query, key, value), _ = inputs(103, 103, dtype=torch.float32, memory=False)
    context = linear.read(query, key, value, causal=True, elu=True).context
    key, value = key.detach().clone(), value.detach().clone()
    key[..., 71:, :] += 3
    value[..., 71:, :] *= -1e4
    again = linear.read(query, key, value, causal=True, elu=True).context
    assert torch.equal(context[..., :71, :], again[..., :71, :])
    assert not torch.equal(context[..., 71, :], again[..., 71, :])


def test_float32_over_a_thousand_positions(loop):
    given, _ = inputs(1009, 1009, group=1, width=64, value_width=64, batch=1, dtype=torch.float32, memory=False)
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    upstream = torch.randn(1, 2, 1, 1009, 64)
    context = linear.read(*given, causal=True, elu=True).context
    expected = linear.formula(Call(*exact, None, None, True, True))[0]
    assert (context - expected).abs().max() < 2e-6
    slopes = torch.autograd.grad(context, given, upstream), torch.autograd.grad(expected, exact, upstream.double())
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("causal", (True, False))
@pytest.mark.parametrize(
    ("batch", "queries", "keys"), ((1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0), (1, 1, 5), (1, 5, 1))
)
def test_sizes_of_one_and_zero(loop, causal, batch, queries, keys):
    given, _ = inputs(queries, keys, batch=batch)
    query, key, value, memory = given
    found = linear.read(query, key, value, memory=memory, causal=causal, elu=True)
    expected = linear.formula(Call(query, key, value, memory, None, causal, True))
    for ours, theirs in zip(found[:2], expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    (found.context.sum() + found.memory.sum()).backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in given)


def test_a_fully_masked_query_reads_zero_and_gives_no_gradient(loop):
    given, keep = inputs(5, 5, memory=False)
    keep[:] = True
    keep[0, :2], keep[1] = False, False
    context = linear.read(*given, keep=keep, causal=True, elu=True).context
    assert context[0, ..., :2, :].abs().sum() == 0 and context[1].abs().sum() == 0
    context.sum().backward()
    assert all(tensor.grad[1].abs().sum() == 0 for tensor in given)
    assert all(torch.isfinite(tensor.grad).all() for tensor in given)


@needs_compiler
def test_threads_share_the_heads_and_change_no_bit():
    """Two items of five heads, 1.7 million multiplications: three threads have three or four heads each."""
    given, _ = inputs(103, 103, heads=5, group=2, width=17, value_width=19, dtype=torch.float32)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        context, memory, _ = linear.read(*given[:3], memory=given[3], causal=True, elu=True)
        found.append([context, memory, *torch.autograd.grad(context.sin().sum() + memory.cos().sum(), given)])
    torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


def test_autocast_around_the_backward_pass_narrows_nothing(loop):
    given, _ = inputs(23, 23, dtype=torch.float32)
    query, key, value, memory = given
    found = []
    for narrow in (False, True):
        made = linear.read(query, key, value, memory=memory, causal=True, elu=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            found.append(torch.autograd.grad(made.context, given, torch.ones_like(made.context)))
    assert all(map(torch.equal, *found))
