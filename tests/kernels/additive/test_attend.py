"""Additive attention in one native loop beside the formula written out: contexts, gradients, edges, dropout."""

import pytest
import torch

import regard
from regard.kernels.additive import additive, attend as additive_attend
from tests.batched import batches_are_singles
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding

pytestmark = needs_compiler


def plain(query, key, vector, value, keep=None, bias=0.0, causal=False, scale=1.0):
    """The weights and what they read, with every table."""
    share = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
    scores = (torch.tanh(query.unsqueeze(3) + key.unsqueeze(2)) @ vector + bias) * scale
    seen = torch.ones(scores.shape, dtype=torch.bool)
    if keep is not None:
        seen &= keep
    if causal:
        seen &= seen.new_ones(seen.shape[-2:]).tril()
    weights = torch.where(seen, scores, -torch.inf).softmax(-1)
    weights = torch.where(seen.any(-1, keepdim=True), weights, 0.0)
    return weights, weights @ value


def made(batch, heads, key_heads, queries, keys, hidden, values, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, heads, queries, hidden), (batch, key_heads, keys, hidden), (hidden,)
    sides = [torch.randn(shape, generator=generator, dtype=torch.float64).mul_(scale) for shape in shapes]
    sides.append(torch.randn(batch, key_heads, keys, values, generator=generator, dtype=torch.float64))
    return [side.to(dtype).requires_grad_() for side in sides]


def alike(ours, theirs, inputs, bound):
    torch.testing.assert_close(ours, theirs, rtol=bound, atol=bound)
    direction = torch.randn_like(ours)
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, direction), torch.autograd.grad(theirs, inputs, direction), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=5 * bound, atol=5 * bound * float(other.abs().max() + 1))


# A block has 64 queries and 64 keys; 131 are two whole ones and some.
SIZES = ((2, 6, 3, 5, 7, 11, 13), (1, 2, 1, 131, 149, 17, 5), (2, 1, 1, 131, 131, 67, 19), (3, 2, 2, 1, 71, 16, 16))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("mask", "bias"), ((None, None), ("all", "all"), ("keys", "one"), ("pairs", "queries")))
def test_it_is_the_formula(sizes, mask, bias, dtype):
    """Grouped heads; masks and biases of each pair, or broadcast; a query that sees nothing reads 0."""
    batch, heads, _, queries, keys = sizes[:5]
    shapes = {
        "all": (batch, heads, queries, keys),
        "keys": (batch, 1, 1, keys),
        "pairs": (1, 1, queries, keys),
        "queries": (1, heads, queries, 1),
        "one": (1, 1, 1, keys),
    }
    inputs, generator = made(*sizes, dtype=dtype), torch.Generator().manual_seed(1)
    given = {"scale": 0.7}
    if mask:
        given["keep"] = torch.rand(shapes[mask], generator=generator) < 0.6
        given["keep"][0, 0, 0] = False
    if bias:
        given["bias"] = torch.randn(shapes[bias], generator=generator, dtype=dtype).requires_grad_()
    ours = additive_attend.attention(*inputs, **given)
    if mask:
        assert not ours[0, 0, 0].any()
    wanted = [*inputs, *([given["bias"]] if bias else [])]
    alike(ours, plain(*inputs, **given)[1], wanted, 2e-5 if dtype == torch.float32 else 1e-11)


def test_causal_blocks_that_see_nothing_are_left_out():
    inputs = made(2, 2, 1, 131, 131, 17, 5)
    alike(additive_attend.attention(*inputs, causal=True), plain(*inputs, causal=True)[1], inputs, 1e-11)
    keep = torch.ones(131, 131, dtype=torch.bool).tril().expand(2, 2, 131, 131)
    lower = additive_attend.attention(*inputs, keep=keep)
    torch.testing.assert_close(lower, additive_attend.attention(*inputs, causal=True), rtol=0, atol=0)


def test_gradients_are_those_of_differences():
    inputs = made(2, 2, 1, 3, 5, 7, 2)
    bias, keep = torch.randn(1, 2, 3, 5).double().requires_grad_(), torch.rand(2, 1, 3, 5) < 0.7

    def context(*given):
        return additive_attend.attention(*given[:4], bias=given[4], keep=keep, scale=0.5)

    assert torch.autograd.gradcheck(context, (*inputs, bias))


def test_three_axes_prepared_keys_and_inference():
    """A decoder's step, whose keys' exponentials are kept; without heads; only some need gradients."""
    query, key, vector, value = (one.squeeze(1) if one.ndim == 4 else one for one in made(3, 1, 1, 1, 71, 17, 5))
    key = key.detach()
    four = query.unsqueeze(1), key.unsqueeze(1), vector, value.unsqueeze(1)
    expected = plain(*four)[1].squeeze(1)
    ours = additive_attend.attention(query, key, vector, value, prepared=True)
    alike(ours, expected, [query, vector, value], 1e-11)
    with torch.inference_mode():
        torch.testing.assert_close(
            additive_attend.attention(query, key, vector, value, prepared=True), expected.detach()
        )


def test_wide_sides_are_exact_too():
    """Where no product of exponentials may be taken."""
    inputs = made(2, 2, 1, 5, 71, 17, 5, scale=300.0)
    alike(additive_attend.attention(*inputs, scale=0.01), plain(*inputs, scale=0.01)[1], inputs, 1e-9)


def test_what_is_nan_stays_so_and_alone():
    query, key, vector, value = (one.detach() for one in made(1, 1, 1, 131, 71, 17, 5))
    query[0, 0, 7] = torch.nan
    context = additive_attend.attention(query, key, vector, value)
    assert context[0, 0, 7].isnan().all()
    context[0, 0, 7] = 0
    assert context.isfinite().all()
    value[0, 0, 3, 2] = torch.inf
    assert additive_attend.attention(query, key, vector, value)[0, 0, :, 2].isfinite().sum() == 0


def test_operands_that_are_views():
    """Transposed heads, and an expanded bias whose gradient is its own."""
    query, key, vector, value = (one.detach() for one in made(2, 2, 2, 5, 7, 11, 13))
    turned = [one.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for one in (query, key, value)]
    bias = torch.randn(1, 1, 5, 1, dtype=torch.float64).requires_grad_()
    given = turned[0], turned[1], vector, turned[2]
    keep = torch.rand(7, 5, 2, 2).permute(3, 2, 1, 0) < 0.8
    wide = bias.expand(2, 2, 5, 7)
    alike(
        additive_attend.attention(*given, bias=wide, keep=keep), plain(*given, bias=wide, keep=keep)[1],
        [*turned, bias], 1e-11,
    )  # fmt: skip


def test_dropped_weights_are_dropped_in_the_backward_pass():
    """The context is linear in the value, and its gradient says with which weights; seeds make it again."""
    query, key, vector, value = made(2, 2, 2, 131, 149, 17, 5)
    torch.manual_seed(3)
    context = additive_attend.attention(query, key, vector, value, dropout=0.25)
    torch.manual_seed(3)
    again = additive_attend.attention(query, key, vector, value, dropout=0.25)
    assert torch.equal(context, again)
    assert not torch.equal(context, additive_attend.attention(query, key, vector, value, dropout=0.25))
    # With an identity for a value the context is the weights themselves.
    eye = torch.eye(149, dtype=torch.float64).expand(2, 2, 149, 149)
    torch.manual_seed(3)
    dropped = additive_attend.attention(query, key, vector, eye, dropout=0.25)
    weights, _ = plain(query, key, vector, eye)
    gone = dropped == 0
    assert abs(gone.double().mean().item() - 0.25) < 0.01  # 80,000 draws: four standard deviations are 0.006
    torch.testing.assert_close(dropped, torch.where(gone, 0.0, weights / 0.75))
    alike(context, torch.where(gone, 0.0, weights / 0.75) @ value, [query, key, vector, value], 1e-11)
    assert not additive_attend.attention(query, key, vector, value, dropout=1.0).any()


def test_empty_axes():
    """No keys: every query reads 0. No queries, no items: nothing."""
    for sizes in ((2, 1, 1, 3, 0, 7, 5), (2, 1, 1, 0, 3, 7, 5), (0, 1, 1, 3, 5, 7, 5)):
        inputs = made(*sizes)
        context = additive_attend.attention(*inputs)
        assert context.shape == (*inputs[0].shape[:3], 5)
        assert not context.any()
        for one, found in zip(inputs, torch.autograd.grad(context.sum(), inputs), strict=True):
            assert found.shape == one.shape
            assert not found.any()


def test_threads_change_no_bit():
    before, found = torch.get_num_threads(), []
    inputs = made(3, 2, 1, 131, 149, 71, 5, dtype=torch.float32)
    bias = torch.randn(1, 2, 131, 1).requires_grad_()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        context = additive_attend.attention(*inputs, bias=bias, dropout=0.0)
        found.append([context, *torch.autograd.grad(context.sin().sum(), [*inputs, bias])])
    torch.set_num_threads(before)
    to_vector = [each.pop(3) for each in found]
    assert all(map(torch.equal, *found))
    assert_close_to_rounding(*to_vector, 3)  # torch adds up the three items' parts


@pytest.mark.parametrize("heads", [False, True])
def test_prepared_keys_are_made_ready_once(monkeypatch, heads):
    """The same tensor at each step of a decoder, with heads or without."""
    times, to_keep = [], additive._to_keep
    monkeypatch.setattr(additive, "_to_keep", lambda *given: times.append(1) or to_keep(*given))
    query, key, vector, value = (one.detach() for one in made(2, 1, 1, 1, 11, 7, 5))
    if not heads:
        query, key, value = query[:, 0], key[:, 0], value[:, 0]
    plain = additive_attend.attention(query, key, vector, value)
    for _ in range(3):
        context = additive_attend.attention(query, key, vector, value, prepared=True)
        torch.testing.assert_close(context, plain)
    assert len(times) == 1


def test_it_serves_plain_large_calls_alone(monkeypatch):
    query = torch.randn(2, 131, 17)
    assert additive_attend.serves(query, 2 * 131 * 149, 17, 5)
    assert not additive_attend.serves(query, 3, 17, 5)
    assert not additive_attend.serves(query, 2 * 131 * 149, 17, 0)
    with torch.autocast("cpu"):
        assert not additive_attend.serves(query, 2 * 131 * 149, 17, 5)
    monkeypatch.setattr(additive_attend.LIBRARY, "serves", lambda kind: False)
    assert not additive_attend.serves(query, 2 * 131 * 149, 17, 5)


def test_a_second_derivative_is_refused_and_a_first_one_that_is_watched_is_the_same():
    """A gradient from above that needs none itself must not make the way back look like a constant."""
    inputs = made(1, 2, 1, 5, 7, 11, 13)
    context = additive_attend.attention(*inputs)
    plainly = torch.autograd.grad(context.sum(), inputs, retain_graph=True)
    watched = torch.autograd.grad(context.sum(), inputs, create_graph=True)
    for one, other in zip(plainly, watched, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(watched[0].sum(), inputs[1])


def test_the_path_that_is_named_there_has_second_derivatives():
    query, key, _, value = made(1, 2, 2, 5, 7, 11, 13)
    score = regard.score("additive", query_dim=11, key_dim=11, hidden_dim=3).double()
    attended = regard.attend(query, key, value, score=score, refocus=[lambda weights: weights])
    (first,) = torch.autograd.grad(attended.context.sin().sum(), query, create_graph=True)
    assert torch.autograd.grad(first.sum(), key)[0].abs().sum() > 0


@pytest.mark.parametrize("biased", (False, True))
def test_many_gradients_at_once(biased):
    inputs = made(1, 2, 1, 5, 7, 11, 13)
    bias = torch.randn(1, 2, 5, 7, dtype=torch.float64, requires_grad=True) if biased else None
    wanted = [*inputs, bias] if biased else inputs
    context = additive_attend.attention(*inputs, bias=bias)
    batches_are_singles(context, wanted)
