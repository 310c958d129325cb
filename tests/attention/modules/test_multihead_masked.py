"""Heads by order, position and mask: what they may not see leaves no trace."""

import itertools

import pytest
import torch

from regard.attention.modules.multihead import MultiHeadAttention, Projected
from regard.attention.parts import masks
from regard.attention.parts.position import positions
from regard.errors import MaskError
from tests.attention.modules.multihead_cases import DIM, HEAD, HEADS, PARTS, made, numbered

# --- order and positions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PARTS)
def test_order_does_not_matter_without_positions_W10(kind):
    attention, x = made(kind), torch.randn(2, 5, DIM).double()
    order, where = torch.tensor([3, 0, 4, 1, 2]), numbered(2, 5)
    plain = attention(x, query_positions=where).context
    permuted = attention(x[:, order], query_positions=where).context
    same = torch.allclose(permuted, plain[:, order], atol=1e-10)
    assert same == (kind == "none")
    # Carrying its number with it, a token may stand anywhere.
    carried = attention(x[:, order], query_positions=where[:, order]).context
    torch.testing.assert_close(carried, plain[:, order])
    torch.testing.assert_close(carried.mean(1), plain.mean(1))


def test_a_causal_model_is_order_sensitive_even_without_positions_W10():
    attention, x, order = made(), torch.randn(1, 5, DIM).double(), torch.tensor([1, 0, 2, 3, 4])
    plain = attention(x, mask=masks.causal()).context
    assert not torch.allclose(attention(x[:, order], mask=masks.causal()).context, plain[:, order], atol=1e-3)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("padding", range(6))
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing_B17(kind, padding, side):
    attention, x = made(kind), torch.randn(1, 5, DIM).double()
    alone = attention(x, mask=masks.causal(), query_positions=numbered(1, 5)).context
    pad, other = torch.randn(1, padding, DIM).double(), torch.randn(1, 5 + padding, DIM).double()
    row = torch.cat((pad, x) if side == "left" else (x, pad), dim=1)
    keep = torch.ones(2, 5 + padding).bool()
    real = slice(padding, None) if side == "left" else slice(0, 5)
    keep[0] = False
    keep[0, real] = True
    batch, where = torch.cat((row, other)), positions(keep)
    context = attention(batch, mask=masks.causal() & masks.padding(keep=keep), query_positions=where).context
    torch.testing.assert_close(context[:1, real], alone, atol=1e-10, rtol=0)
    unpadded = attention(other, mask=masks.causal(), query_positions=numbered(1, 5 + padding)).context
    torch.testing.assert_close(context[1:], unpadded, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("chunk", [1, 3, 10])
@pytest.mark.parametrize("left", [0, 2])
def test_cached_equals_uncached_at_every_step_B18(kind, chunk, left):
    """Self-attention that grows a cache, then cross-attention over keys projected once; batch 3, 10 steps."""
    torch.manual_seed(4)
    attention, cross = made(kind), made(kind, key_heads=1)
    x, source = torch.randn(3, 10, DIM).double(), torch.randn(3, 7, DIM).double()
    keep = torch.ones(3, 10).bool()
    keep[1, :left] = False
    where, source_at = positions(keep), numbered(3, 7)
    mask = masks.causal() & masks.padding(keep=keep)
    whole = attention(x, mask=mask, query_positions=where).context
    whole = cross(whole, source, query_positions=where, key_positions=source_at).context
    memory, cache, steps = cross.project(source, key_positions=source_at), None, []
    for start in range(0, 10, chunk):
        part, end = x[:, start : start + chunk], min(start + chunk, 10)
        new = attention.project(part, key_positions=where[:, start:end])
        before = None if cache is None else [tensor.clone() for tensor in (*cache.prepared, cache.value)]
        grown = new if cache is None else cache.append(new)
        if before is not None:  # B36: the old cache is as it was
            assert all(map(torch.equal, before, (*cache.prepared, cache.value)))
        cache, seen = grown, masks.causal() & masks.padding(keep=keep[:, :end])
        at_keys = {"query_positions": where[:, start:end], "key_positions": where[:, :end]}
        step = attention(part, cache, mask=seen, **at_keys).context
        at_source = {"query_positions": where[:, start:end], "key_positions": source_at}
        steps.append(cross(step, memory, **at_source).context)
    assert isinstance(cache, Projected) and cache.value.shape == (3, HEADS, 10, HEAD)
    torch.testing.assert_close(torch.cat(steps, 1)[keep], whole[keep], atol=1e-10, rtol=0)


@pytest.mark.parametrize(("queries", "keys"), [(1, 4), (2, 4), (4, 4), (5, 2)])
def test_causal_with_unequal_lengths_is_the_tail_of_the_square_B16(queries, keys):
    attention, x = made(), torch.randn(2, max(queries, keys), DIM).double()
    square = attention(x, mask=masks.causal()).weights
    weights = attention(x[:, -queries:], x[:, -keys:], mask=masks.causal()).weights
    if queries <= keys:
        torch.testing.assert_close(weights, square[:, :, -queries:])
    else:  # the first three of five queries stand before both keys
        assert torch.equal(weights[:, :, :3], torch.zeros(2, HEADS, 3, 2).double())
        assert (weights[:, :, 3] > 0).tolist() == [[[True, False]] * HEADS] * 2


# --- masks and content ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("looked", [True, False])
def test_an_item_of_padding_alone_reads_zero_in_every_mode_B01(train, grad, looked):
    torch.manual_seed(5)
    attention = MultiHeadAttention(8, 2).train(train)
    x, lengths = torch.randn(3, 4, 8), [4, 2, 0]
    with torch.set_grad_enabled(grad):
        attended = attention(x, mask=masks.padding(lengths), weights=looked)
        assert torch.equal(attended.context[2], attention.output.bias.expand(4, 8))
        assert torch.equal(attended.weights[2], torch.zeros(2, 4, 4))
        for item, length in ((0, 4), (1, 2)):
            alone = attention(x[item : item + 1, :length]).context
            torch.testing.assert_close(attended.context[item : item + 1, :length], alone)


@pytest.mark.parametrize("looked", [True, False])
def test_causal_with_left_padding_has_finite_gradients_B02(looked):
    attention, x = made(), torch.randn(1, 4, DIM).double().requires_grad_()
    keep = torch.tensor([[False, True, True, True]])
    attended = attention(x, mask=masks.causal() & masks.padding(keep=keep), weights=looked)
    found = torch.autograd.grad(attended.context[:, 1:].sum(), [x, *attention.parameters()])
    cut = x.detach()[:, 1:].requires_grad_()
    expected = torch.autograd.grad(attention(cut, mask=masks.causal()).context.sum(), [cut, *attention.parameters()])
    assert torch.equal(found[0][:, 0], torch.zeros(1, DIM).double())
    torch.testing.assert_close(found[0][:, 1:], expected[0])
    for a, b in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("content", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_padding_content_touches_no_real_row_and_no_gradient_B03_B22(kind, looked, content):
    torch.manual_seed(6)
    attention, lengths, where = made(kind), [5, 3, 1], numbered(3, 5)
    real = torch.arange(5) < torch.tensor(lengths)[:, None]
    x, noise = torch.randn(3, 5, DIM).double(), torch.randn(3, 5, DIM).double()

    def run(filled):
        x_filled = torch.where(real[..., None], x, filled).requires_grad_()
        attended = attention(x_filled, mask=masks.padding(lengths), query_positions=where, weights=looked)
        loss = (attended.context * noise)[real].sum() + attended.weights.pow(2).sum(-1).transpose(1, 2)[real].sum()
        gradients = torch.autograd.grad(loss, [x_filled, *attention.parameters()])
        return attended.context[real].detach(), gradients[0][real], gradients[0][~real], gradients[1:]

    context, at_real, _, of_parameters = run(torch.randn(3, 5, DIM).double())
    found = run(torch.full((3, 5, DIM), content).double())
    torch.testing.assert_close(found[0], context)
    torch.testing.assert_close(found[1], at_real)
    assert torch.equal(found[2], torch.zeros_like(found[2]))
    for a, b in zip(found[3], of_parameters, strict=True):
        torch.testing.assert_close(a, b)


def test_the_future_is_unseen_for_every_option_B06():
    x = torch.randn(1, 4, DIM)
    changed = x.clone()
    changed[:, -1] += 1
    for dropout, looked, train in itertools.product((0.0, 0.1), (True, False), (True, False)):
        attention = MultiHeadAttention(DIM, HEADS, dropout=dropout).train(train)
        contexts = []
        for given in (x, changed):
            torch.manual_seed(7)
            attended = attention(given, mask=masks.causal(), weights=looked)
            assert torch.equal(attended.weights.triu(1), torch.zeros(1, HEADS, 4, 4))
            contexts.append(attended.context[:, :3])
        torch.testing.assert_close(*contexts)


def test_a_mask_of_an_item_serves_all_its_heads_B43():
    """Batch, heads and length are all equal, where a wrong axis would fit."""
    torch.manual_seed(8)
    attention, x = MultiHeadAttention(8, 4), torch.randn(4, 4, 8)
    keep = torch.ones(4, 4, 4).bool().tril()
    keep[0] = False
    keep[0, :, 0] = True
    together = attention(x, mask=keep)
    for item in range(4):
        alone = attention(x[item : item + 1], mask=masks.keep(keep[item]))
        torch.testing.assert_close(together.context[item], alone.context[0])
        torch.testing.assert_close(together.weights[item], alone.weights[0])


def test_a_padding_mask_is_not_taken_for_a_square_one_B07():
    keep = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    attention, x = MultiHeadAttention(8, 2), torch.randn(4, 4, 8)
    with pytest.raises(MaskError, match="padding"):
        attention(x, mask=keep)
    with pytest.raises(MaskError, match="bool"):
        attention(x, mask=keep.float())
