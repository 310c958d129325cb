import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from reference.multihead import multihead as slow
from regard.attention import masks
from regard.attention.multihead import MultiHeadAttention, Projected, Projections
from regard.attention.position import position, positions
from regard.attention.record import record
from regard.attention.score import score
from regard.errors import ConfigError, MaskError, ShapeError

DIM, HEADS, HEAD = 12, 3, 4
PARTS = {
    "none": dict,
    "rotary": lambda: {"position": position("rotary", dim=HEAD)},
    "rotary half": lambda: {"position": position("rotary", dim=2, convention="half")},
    "alibi": lambda: {"position": position("alibi", heads=HEADS)},
    "t5": lambda: {"position": position("t5", heads=HEADS, buckets=8, max_distance=9)},
    "shaw": lambda: {"score": position("shaw", dim=HEAD, clip=2)},
}


def made(kind="none", **options):
    torch.manual_seed(0)
    attention = MultiHeadAttention(DIM, HEADS, **PARTS[kind](), **options)
    for name, parameter in attention.named_parameters():
        if parameter.dim() == 1 or "position" in name or "score" in name:
            nn.init.normal_(parameter)  # biases and tables that are not all zero
    return attention.double().eval()


def at(*keeps):
    return positions(torch.tensor(keeps).bool())


def numbered(batch, length):
    return torch.arange(length).expand(batch, length)


# --- the numbers ----------------------------------------------------------------------------------------------------


def test_second_head_is_concatenated_and_brought_back_W1():
    """Head 1 is W1; head 2 asks with 0, so it looks at all keys alike; W_o keeps head 1, or takes the mean of both."""

    def linear(rows):
        weight = torch.tensor(rows, dtype=torch.float64)
        part = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
        part.weight = nn.Parameter(weight)
        return part

    both = [[1.0, 0.0], [0.0, 1.0]]
    parts = [linear([[1.0], [0.0]]), linear([[1.0], [1.0]]), linear(both + both)]
    query, key = torch.ones(1, 1, 1).double(), torch.tensor([[[0.0], [0.916], [0.405]]]).double()
    value = torch.tensor([[[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]]]).double()
    projections = Projections(*parts, linear([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]))
    attended = MultiHeadAttention(2, 2, projections=projections)(query, key, value)
    first = torch.tensor([0.2001, 0.5000, 0.2999]).double()
    torch.testing.assert_close(attended.weights[0, 0, 0], first, atol=5e-5, rtol=0)
    torch.testing.assert_close(attended.weights[0, 1, 0], torch.full((3,), 1 / 3).double())
    torch.testing.assert_close(attended.context[0, 0], torch.tensor([0.700, 0.700]).double(), atol=5e-4, rtol=0)
    mean = Projections(*parts, linear([[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]]))
    context = MultiHeadAttention(2, 2, projections=mean)(query, key, value).context
    torch.testing.assert_close(context[0, 0], torch.tensor([0.850, 0.6835]).double(), atol=5e-4, rtol=0)


@pytest.mark.parametrize("key_heads", [1, 2, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_loops_with_gradients(key_heads, bias):
    torch.manual_seed(1)
    attention = MultiHeadAttention(13, 6, key_heads=key_heads, key_dim=7, value_dim=5, head_dim=3, bias=bias).double()
    query, key, value = torch.randn(2, 3, 13), torch.randn(2, 5, 7), torch.randn(2, 5, 5)
    inputs = [x.double().requires_grad_() for x in (query, key, value)]
    keep = torch.rand(2, 6, 3, 5) > 0.4
    keep[1, 2, 0] = False
    attended = attention(*inputs, mask=keep)
    context, weights = slow(attention, *inputs, lambda b, h, q, k: bool(keep[b, h, q, k]))
    torch.testing.assert_close(attended.context, context)
    torch.testing.assert_close(attended.weights, weights)
    assert attended.context.shape == (2, 3, 13) and attended.weights.shape == (2, 6, 3, 5)
    leaves = [*inputs, *attention.parameters()]
    noise = torch.randn_like(context)
    found = torch.autograd.grad((attended.context * noise).sum(), leaves)
    expected = torch.autograd.grad((context * noise).sum(), leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_self_attention_is_cross_attention_with_itself():
    attention, x = made(), torch.randn(2, 5, DIM).double()
    assert torch.equal(attention(x).context, attention(x, x, x).context)
    assert torch.equal(attention(x).context, attention(x, x).context)


def test_constant_values_come_back_and_rows_sum_to_one_B40():
    attention = MultiHeadAttention(
        4, 2, projections=Projections(nn.Linear(4, 4), nn.Linear(4, 4), nn.Identity(), nn.Identity())
    )
    attended = attention(torch.randn(3, 2, 4), torch.randn(3, 5, 4), torch.full((3, 5, 4), 3.0))
    torch.testing.assert_close(attended.context, torch.full((3, 2, 4), 3.0))
    torch.testing.assert_close(attended.weights.sum(-1), torch.ones(3, 2, 2))


# --- torch's module -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 7}, {"kdim": 7, "vdim": 5}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_from_and_to_torch_give_the_same_numbers(bias, widths, batch_first):
    torch.manual_seed(2)
    theirs = nn.MultiheadAttention(DIM, HEADS, bias=bias, batch_first=batch_first, **widths).eval()
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    query = torch.randn(2, 5, DIM)
    key, value = torch.randn(2, 7, widths.get("kdim", DIM)), torch.randn(2, 7, widths.get("vdim", DIM))
    keep = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]).bool()
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    attended = ours(query, key, value, mask=masks.padding(keep=keep))
    for module, first in ((theirs, batch_first), (back, True)):
        given = [x if first else x.transpose(0, 1) for x in (query, key, value)]
        context, weights = module(*given, key_padding_mask=~keep, average_attn_weights=False)
        context = context if first else context.transpose(0, 1)
        torch.testing.assert_close(attended.context, context, atol=1e-6, rtol=0)
        torch.testing.assert_close(attended.weights, weights, atol=1e-6, rtol=0)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, back.get_parameter(name))


def test_conversion_copies_and_keeps_mode_dropout_and_dtype():
    theirs = nn.MultiheadAttention(DIM, HEADS, dropout=0.25, dtype=torch.float64)
    ours = MultiHeadAttention.from_torch(theirs)
    assert ours.training and ours.dropout == 0.25 and ours.query.weight.dtype == torch.float64
    assert not MultiHeadAttention.from_torch(theirs.eval()).training
    assert ours.to_torch().dropout == 0.25
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert ours.query.weight.abs().sum() > 0


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_options_without_a_counterpart_are_errors(option):
    with pytest.raises(ConfigError, match=option):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(DIM, HEADS, **{option: True}))


def test_to_torch_names_each_part_that_torch_lacks():
    attention = MultiHeadAttention(
        DIM, 3, key_heads=1, score="dot", normalizer="sparsemax", position=position("alibi", heads=3)
    )
    with pytest.raises(ConfigError, match=r"(?s)key_heads.*score.*normalizer.*position"):
        attention.to_torch()
    with pytest.raises(ConfigError, match="widths"):
        MultiHeadAttention(DIM, 3, head_dim=5).to_torch()


def test_to_torch_of_mixed_biases_fills_in_zeros():
    parts = Projections(nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    ours, x = MultiHeadAttention(4, 2, projections=parts), torch.randn(2, 3, 4)
    theirs = ours.to_torch()(x, x, x)[0]
    torch.testing.assert_close(ours(x).context, theirs, atol=1e-6, rtol=0)


# --- parts ----------------------------------------------------------------------------------------------------------


def test_a_score_a_head():
    torch.manual_seed(3)
    each = ["dot", score("additive", query_dim=HEAD, key_dim=HEAD, hidden_dim=5), score("cosine", strength=2.0)]
    attention = MultiHeadAttention(DIM, HEADS, score=each)
    x = torch.randn(2, 5, DIM)
    weights = attention(x).weights
    query = attention.query(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
    key = attention.key(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
    for head, one in enumerate([score("dot"), *each[1:]]):
        expected = torch.softmax(one(query[:, head], one.prepare(key[:, head])), -1)
        torch.testing.assert_close(weights[:, head], expected)
    with pytest.raises(ConfigError, match="2 scores were given for 3 heads"):
        MultiHeadAttention(DIM, HEADS, score=["dot", "dot"])


@pytest.mark.parametrize("normalizer", ["sparsemax", "entmax15", "sigmoid"])
def test_any_normalizer_and_a_general_score(normalizer):
    attention = MultiHeadAttention(
        DIM, HEADS, score=score("general", query_dim=HEAD, key_dim=HEAD), normalizer=normalizer
    )
    weights = attention(torch.randn(2, 5, DIM)).weights
    assert weights.shape == (2, HEADS, 5, 5)
    if normalizer != "sigmoid":
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 5))


def test_bias_and_position_bias_are_added():
    attention, x, where = made("alibi"), torch.randn(2, 5, DIM).double(), numbered(2, 5)
    for bias in (torch.randn(5, 5), torch.randn(2, 5, 5), torch.randn(2, HEADS, 5, 5)):
        bias = bias.double()
        whole = attention.position.bias(where, where).double() + (bias.unsqueeze(1) if bias.dim() == 3 else bias)
        plain = made()
        plain.load_state_dict(attention.state_dict())
        expected = plain(x, bias=whole).context
        torch.testing.assert_close(attention(x, bias=bias, query_positions=where).context, expected)


def test_errors():
    with pytest.raises(ConfigError, match="divide"):
        MultiHeadAttention(DIM, 4, key_heads=3)
    with pytest.raises(ConfigError, match="give head_dim"):
        MultiHeadAttention(13, 3)
    with pytest.raises(ConfigError, match="leave them out"):
        MultiHeadAttention(4, 1, key_dim=3, projections=Projections(*[nn.Identity()] * 4))
    with pytest.raises(ConfigError, match="add it to the input"):
        MultiHeadAttention(DIM, HEADS, position=position("sinusoidal", dim=4))
    with pytest.raises(ConfigError, match="give it as score="):
        MultiHeadAttention(DIM, HEADS, position=position("shaw", dim=4, clip=1))
    attention = made()
    x = torch.randn(2, 5, DIM).double()
    with pytest.raises(ConfigError, match="leave value= out"):
        attention(x, attention.project(x), x)
    with pytest.raises(ShapeError, match="share evenly"):
        MultiHeadAttention(4, 3, projections=Projections(*[nn.Identity()] * 4))(torch.zeros(1, 2, 4))
    with pytest.raises(ShapeError, match=r"takes width 12, but was given \(2, 5, 7\)"):
        attention(x, torch.zeros(2, 5, 7).double())
    for kind in ("rotary", "alibi", "t5", "shaw"):
        with pytest.raises(ConfigError, match="query_positions"):
            made(kind)(x)


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


# --- shapes, modes, dtypes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 1), (1, 5), (2, 0), (0, 3), (0, 0)])
@pytest.mark.parametrize("heads", [1, 3])
def test_sizes_of_one_and_zero_keep_every_axis_B15_B42(batch, queries, keys, heads):
    attention = MultiHeadAttention(DIM, heads, key_heads=1)
    query, key = torch.randn(batch, queries, DIM), torch.randn(batch, keys, DIM)
    for mask in (None, masks.causal(), masks.padding(keep=torch.ones(batch, keys).bool())):
        attended = attention(query, key, mask=mask)
        assert attended.context.shape == (batch, queries, DIM)
        assert attended.weights.shape == (batch, heads, queries, keys)
        assert torch.isfinite(attended.context).all()


def test_output_is_as_long_as_the_input_B14():
    attention, x = MultiHeadAttention(DIM, HEADS).eval(), torch.randn(2, 6, DIM)
    with torch.no_grad():
        padded_right = attention(x, mask=masks.padding([3, 2])).context
    keep = torch.arange(6) >= torch.tensor([[3], [4]])
    assert padded_right.shape == attention(x, mask=masks.padding(keep=keep)).context.shape == (2, 6, DIM)


def test_dropout_acts_in_training_only_and_never_shows_B34():
    attention, x = MultiHeadAttention(DIM, HEADS, dropout=0.5), torch.randn(2, 5, DIM)
    assert not torch.equal(attention(x).context, attention(x).context)
    torch.testing.assert_close(attention(x).weights.sum(-1), torch.ones(2, HEADS, 5))
    parent = nn.Sequential(attention).eval()
    assert torch.equal(parent(x).context, parent(x).context)
    plain = MultiHeadAttention(DIM, HEADS)
    plain.load_state_dict(attention.state_dict())
    assert torch.equal(plain(x).context, attention(x).context)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 4e-2), (torch.float16, 5e-3), (torch.float32, 1e-5)])
def test_the_dtype_stays_and_the_numbers_nearly(kind, dtype, bound):
    attention, x, where = made(kind), torch.randn(2, 5, DIM).double() / 2, numbered(2, 5)
    exact = attention(x, mask=masks.causal(), query_positions=where).context
    attended = made(kind).to(dtype)(x.to(dtype), mask=masks.causal(), query_positions=where)
    assert attended.context.dtype == attended.weights.dtype == dtype
    assert (attended.context.double() - exact).abs().max() < bound * max(1.0, exact.detach().abs().max().item())


def test_autocast_changes_little_and_looking_changes_nothing():
    torch.manual_seed(9)
    attention, x = MultiHeadAttention(DIM, HEADS), torch.randn(2, 5, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        unseen = attention(x, mask=masks.causal()).context
        seen = attention(x, mask=masks.causal())
        assert seen.weights.shape == (2, HEADS, 5, 5)
        assert torch.equal(unseen, seen.context)
    torch.testing.assert_close(unseen.float(), attention(x, mask=masks.causal()).context, atol=3e-2, rtol=0)


@pytest.mark.parametrize("kind", PARTS)
def test_vmap_jvp_and_double_backward(kind):
    attention, where = made(kind), numbered(2, 5)
    x = torch.randn(3, 2, 5, DIM).double()

    def run(one):
        attended = attention(one, mask=masks.causal(), query_positions=where, weights=True)
        return attended.context, attended.weights

    each = [run(one) for one in x]
    for found, expected in zip(torch.func.vmap(run)(x), zip(*each, strict=True), strict=True):
        torch.testing.assert_close(found, torch.stack(expected))
    tangent, step = torch.randn_like(x[0]), 1e-5
    _, forward = torch.func.jvp(lambda one: run(one)[0], (x[0],), (tangent,))
    numeric = (run(x[0] + step * tangent)[0] - run(x[0] - step * tangent)[0]) / (2 * step)
    torch.testing.assert_close(forward, numeric, atol=1e-7, rtol=1e-5)
    small = x[0, :1, :3].clone().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(
            lambda one: attention(one, mask=masks.causal(), query_positions=where[:1, :3]).context,
            small,
            fast_mode=True,
        )


def test_is_recorded_under_its_name():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = MultiHeadAttention(DIM, HEADS)

        def forward(self, x):
            return self.inner(x).context

    block, x = Block(), torch.randn(2, 5, DIM)
    with record(block) as seen:
        block(x)
    assert seen.names() == ["inner"]
    assert torch.equal(seen.weights("inner"), block.inner(x).weights)


def test_inputs_are_left_alone_B36():
    attention, x = made("rotary"), torch.randn(2, 5, DIM).double()
    keep, where = torch.rand(2, 5) > 0.3, numbered(2, 5).clone()
    before = [tensor.clone() for tensor in (x, keep, where)]
    attention(x, mask=masks.padding(keep=keep), query_positions=where)
    assert all(map(torch.equal, before, (x, keep, where)))


# --- compile and export, without the suite's run-time checks --------------------------------------------------------


ALL = ["none", "rotary", "alibi", "t5", "shaw"]
QUICK = [pytest.param("export", ["rotary"], id="export"), pytest.param("compile", ["t5"], id="compile")]
SLOW = [pytest.param(what, ALL, marks=pytest.mark.slow, id=f"{what}-all") for what in ("export", "compile")]


@pytest.mark.parametrize(("what", "kinds"), QUICK + SLOW)
def test_runs_exported_and_compiled_at_any_size_B38(what, kinds):
    script = Path(__file__).parent / "multihead_compiled.py"
    done = subprocess.run([sys.executable, script, what, *kinds], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{what} done\n"
