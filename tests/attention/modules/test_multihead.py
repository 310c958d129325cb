import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.modules.multihead import MultiHeadAttention, Projections
from regard.attention.parts import masks
from regard.attention.parts.position_factory import position
from regard.attention.parts.score import score
from regard.attention.record import record
from regard.errors import ConfigError, ShapeError
from tests.attention.modules.multihead_cases import DIM, HEAD, HEADS, PARTS, made, numbered
from tests.reference.multihead import multihead as slow

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


def test_autocast_changes_little_and_reading_the_weights_changes_nothing():
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
