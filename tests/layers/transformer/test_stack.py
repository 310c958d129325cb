"""The block and the stack: beside their plain twin and torch's modules, and what they promise."""

import pytest
import torch
from torch import nn

from regard.attention.modules.heads import CrossHeads, SelfHeads
from regard.attention.parts.position_factory import position
from regard.attention.record import record
from regard.errors import ConfigError, ShapeError
from regard.layers.transformer.block import Block
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack, checkpoint_activations
from tests.reference.transformer import row

DIM, HEADS, HIDDEN = 14, 7, 11
POSITIONS = {
    "none": None,
    "sinusoidal": {"dim": DIM},
    "learned": {"count": 13, "dim": DIM},
    "rotary": {"dim": 2, "convention": "half"},
    "alibi": {"heads": HEADS},
    "t5": {"heads": HEADS},
}


def made(
    *,
    layers=2,
    causal=True,
    across=False,
    place="none",
    order="pre",
    activation="gelu",
    norm=nn.LayerNorm,
    key_heads=HEADS,
    window=None,
    bias=True,
    dropout=0.0,
):
    torch.manual_seed(3)
    blocks = []
    for _ in range(layers):
        score = position("shaw", dim=DIM // HEADS, clip=2) if place == "shaw" else "scaled_dot"
        heads = SelfHeads(DIM, HEADS, key_heads=key_heads, bias=bias, score=score)
        looking = CrossHeads(DIM, HEADS, key_heads=key_heads, bias=bias) if across else None
        network = FeedForward(DIM, HIDDEN, activation, bias)
        blocks.append(Block(heads, network, lambda: norm(DIM), across=looking, order=order, dropout=dropout))
    sizes = POSITIONS.get(place)
    stack = Stack(
        blocks,
        causal=causal,
        position=None if sizes is None else position(place, **sizes),
        window=window,
        norm=norm(DIM) if order == "pre" else None,
        dropout=dropout,
    )
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.4)
    return stack.double().eval()


def padded(lengths, left=False):
    """Rows of random vectors whose padding holds NaN, and what is real."""
    x = torch.randn(len(lengths), max(lengths), DIM, dtype=torch.float64)
    steps = torch.arange(max(lengths))
    keep = torch.stack([steps >= max(lengths) - n if left else steps < n for n in lengths])
    return torch.where(keep.unsqueeze(-1), x, torch.nan), keep


# The plain twin -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [*POSITIONS, "shaw"])
@pytest.mark.parametrize("causal", [True, False])
def test_every_position_kind_equals_the_loops(place, causal):
    """Rows of 5 and 3, padded on the right, over memories of 3 and 2; what padding holds is NaN."""
    stack = made(place=place, causal=causal, across=True, window=3 if causal else None, layers=1)
    (x, keep), (states, real) = padded([5, 3]), padded([2, 3])
    memory = stack.memory(states, real)
    output = stack(x, keep=keep, memory=memory).output
    for at in range(2):
        expected = row(stack, x[at][keep[at]], states[at][real[at]])
        torch.testing.assert_close(output[at][keep[at]], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_every_block_equals_the_loops_with_gradients(activation, order, norm):
    stack = made(activation=activation, order=order, norm=lambda dim: norm(dim, eps=1e-6), key_heads=1, layers=1)
    x = torch.randn(1, 3, DIM, dtype=torch.float64)
    outputs = [stack(x).output[0], row(stack, x[0])]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad((out * out).sum(), list(stack.parameters())) for out in outputs]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("place", ["learned", "rotary", "alibi"])
def test_packed_documents_do_not_see_each_other(place):
    """Three texts of 2, 1 and 4 in one row are as each alone, positions from 0."""
    stack = made(place=place)
    documents = torch.tensor([[4, 4, 2, 7, 7, 7, 7]])
    x = torch.randn(1, 7, DIM, dtype=torch.float64)
    output = stack(x, documents=documents).output[0]
    torch.testing.assert_close(output, row(stack, x[0], documents=documents[0].tolist()), rtol=0, atol=1e-6)
    for begin, end in ((0, 2), (2, 3), (3, 7)):
        torch.testing.assert_close(output[begin:end], stack(x[:, begin:end]).output[0], rtol=0, atol=1e-10)


# torch's modules ----------------------------------------------------------------------------------------------------


def copy(to, given):
    with torch.no_grad():
        to.weight.copy_(given.weight)
        to.bias.copy_(given.bias)


def copy_block(block, layer):
    """A block with the weights of torch's encoder or decoder layer."""
    with torch.no_grad():
        block.attention.inputs.weight.copy_(layer.self_attn.in_proj_weight)
        block.attention.inputs.bias.copy_(layer.self_attn.in_proj_bias)
        copy(block.attention.output, layer.self_attn.out_proj)
        copy(block.attention_norm, layer.norm1)
        if block.across is not None:
            given = layer.multihead_attn
            block.across.query.weight.copy_(given.in_proj_weight[:DIM])
            block.across.query.bias.copy_(given.in_proj_bias[:DIM])
            block.across.memory.weight.copy_(given.in_proj_weight[DIM:])
            block.across.memory.bias.copy_(given.in_proj_bias[DIM:])
            copy(block.across.output, given.out_proj)
            copy(block.across_norm, layer.norm2)
        copy(block.feed_forward.inputs, layer.linear1)
        copy(block.feed_forward.output, layer.linear2)
        copy(block.feed_forward_norm, layer.norm3 if block.across is not None else layer.norm2)


def theirs(kind, activation, order):
    torch.manual_seed(5)
    layer = kind(DIM, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=order == "pre")
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return layer


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padding", [True, False])
def test_encoder_equals_torchs_B13(training, order, causal, padding):
    """Given the same weights, to 1e-5, in both modes and with gradients off as well; padded rows are not compared."""
    activation = "gelu" if causal else "relu"
    layers = [theirs(nn.TransformerEncoderLayer, activation, order) for _ in range(2)]
    final = nn.LayerNorm(DIM) if order == "pre" else None
    encoder = nn.TransformerEncoder(layers[0], 2, norm=final, enable_nested_tensor=False)
    encoder.layers = nn.ModuleList(layers)
    encoder.train(training)
    stack = made(causal=causal, order=order, activation=activation).float().train(training)
    for block, layer in zip(stack.blocks, layers, strict=True):
        copy_block(block, layer)
    if final is not None:
        copy(stack.norm, final)
    x = torch.randn(3, 5, DIM)
    keep = torch.arange(5) < torch.tensor([[5], [2], [3]]) if padding else torch.ones(3, 5, dtype=torch.bool)
    mask = ~torch.ones(5, 5, dtype=torch.bool).tril() if causal else None
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            expected = encoder(x, mask=mask, src_key_padding_mask=~keep if padding else None)
            output = stack(x, keep=keep if padding else None).output
        torch.testing.assert_close(output[keep], expected[keep], rtol=0, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("padding", [True, False])
def test_decoder_equals_torchs(training, order, padding):
    layers = [theirs(nn.TransformerDecoderLayer, "relu", order) for _ in range(2)]
    final = nn.LayerNorm(DIM) if order == "pre" else None
    decoder = nn.TransformerDecoder(layers[0], 2, norm=final)
    decoder.layers = nn.ModuleList(layers)
    decoder.train(training)
    stack = made(across=True, order=order, activation="relu").float().train(training)
    for block, layer in zip(stack.blocks, layers, strict=True):
        copy_block(block, layer)
    x, states = torch.randn(3, 5, DIM), torch.randn(3, 7, DIM)
    real = torch.arange(7) < torch.tensor([[7], [1], [4]]) if padding else None
    if final is not None:
        copy(stack.norm, final)
    mask = ~torch.ones(5, 5, dtype=torch.bool).tril()
    expected = decoder(x, states, tgt_mask=mask, memory_key_padding_mask=None if real is None else ~real)
    output = stack(x, memory=stack.memory(states, real)).output
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)


# Looking ------------------------------------------------------------------------------------------------------------


def test_the_weights_are_those_that_made_the_context():
    """Weights on access are those that made the context; recording changes nothing, and padding has weight 0."""
    stack = made(place="alibi", across=True, layers=1)
    (x, keep), (states, real) = padded([4, 2], left=True), padded([3, 5])
    memory = stack.memory(states, real)
    plain = stack(x, keep=keep, memory=memory).output
    with record(stack) as seen:
        stacked = stack(x, keep=keep, memory=memory)
    assert torch.equal(plain, stacked.output)
    assert seen.names() == ["blocks.0.attention", "blocks.0.across"]
    weights = stacked.attended["self 0"].weights
    assert weights.shape == (2, HEADS, 4, 4)
    assert torch.equal(weights, seen.weights("blocks.0.attention"))
    assert (weights[1, :, 2:, :2] == 0).all()
    assert (weights.triu(1) == 0).all()
    across = stacked.attended["cross 0"].weights
    assert (across[0, :, :, 3:] == 0).all()
    torch.testing.assert_close(across.sum(-1), torch.ones(2, HEADS, 4, dtype=torch.float64))


def test_a_row_of_padding_alone_is_finite_with_its_gradients():
    stack = made(across=True)
    x = torch.randn(2, 3, DIM, dtype=torch.float64, requires_grad=True)
    states = torch.randn(2, 2, DIM, dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([[True] * 3, [False] * 3])
    real = torch.tensor([[True] * 2, [False] * 2])
    stacked = stack(x, keep=keep, memory=stack.memory(states, real))
    stacked.output[0].sum().backward()
    assert stacked.output.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in stack.parameters())
    assert x.grad[0].abs().sum() > 0
    assert (x.grad[1] == 0).all()
    assert (stacked.attended["cross 0"].weights[1] == 0).all()


@pytest.mark.parametrize("place", ["alibi", "t5", "shaw"])
def test_activations_made_anew_give_equal_gradients(place):
    """With dropout: the second forward pass draws what the first drew. T5's bias is learned, and all layers add it."""
    stack = made(across=True, dropout=0.3, place=place).train()
    x, states = torch.randn(2, 5, DIM, dtype=torch.float64), torch.randn(2, 3, DIM, dtype=torch.float64)
    gradients = []
    for on in (False, True):
        assert checkpoint_activations(nn.Sequential(stack), on) == 1
        torch.manual_seed(11)
        stacked = stack(x, memory=stack.memory(states))
        gradients.append(torch.autograd.grad((stacked.output**2).sum(), list(stack.parameters())))
        assert bool(stacked.attended) is not on
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


# What is refused ----------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'gelu'|Did you mean 'gelu'"):
        FeedForward(3, 5, "gelo")
    with pytest.raises(ConfigError, match="heads must share dim evenly.*dim=14, heads=3"):
        SelfHeads(14, 3)
    with pytest.raises(ConfigError, match="window counts 1 key or more"):
        made(causal=False, window=3)
    with pytest.raises(ConfigError, match="takes memory="):
        made(across=True)(torch.randn(1, 2, DIM, dtype=torch.float64))
    both_ways = made(causal=False)
    with pytest.raises(ConfigError, match="belongs to a causal stack"):
        both_ways(torch.randn(1, 2, DIM, dtype=torch.float64), cache=both_ways.start(1))
    stack = made()
    with pytest.raises(ShapeError, match=r"the cache has 2 rows, x has shape \(1, 2, 14\)"):
        stack(torch.randn(1, 2, DIM, dtype=torch.float64), cache=stack.start(2))
