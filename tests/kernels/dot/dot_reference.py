"""Softmax of dot products by its formula, in float64, for the tests of the native loop."""

import torch

from regard.kernels.dot.dot import Visible

ALL = Visible(causal=False, offset=0, window=None, lengths=None, keep=None)
CAUSAL = ALL._replace(causal=True)


def drawn(shape, visible):
    """Who sees whom, (batch, heads, queries, keys)."""
    _, _, queries, keys = shape
    stands, place = torch.arange(queries).unsqueeze(-1) + visible.offset, torch.arange(keys)
    keep = torch.ones(shape, dtype=torch.bool)
    if visible.causal:
        keep &= place <= stands
    if visible.window is not None:
        keep &= (place >= stands - visible.window[0]) & (place <= stands + visible.window[1])
    if visible.lengths is not None:
        keep &= (place < torch.tensor(visible.lengths).unsqueeze(-1))[:, None, None]
    return keep if visible.keep is None else keep & visible.keep


def weights_of(query, key, visible=ALL, bias=None, scale=1.0):
    """The formula, in float64."""
    key = key.double().repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query.double() @ key.mT * scale
    keep = drawn(scores.shape, visible)
    scores = (scores if bias is None else scores + bias.double()).masked_fill(~keep, -torch.inf)
    return torch.where(scores.amax(-1, keepdim=True) == -torch.inf, 0.0, torch.softmax(scores, -1))


def formula(query, key, value, visible=ALL, bias=None, scale=1.0):
    value = value.double().repeat_interleave(query.shape[1] // key.shape[1], 1)
    return weights_of(query, key, visible, bias, scale) @ value


def inputs(batch, heads, key_heads, queries, keys, dim, value_dim, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, heads, queries, dim), (batch, key_heads, keys, dim), (batch, key_heads, keys, value_dim)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def assert_same(found, expected, bound):
    """Each tensor to a bound, as a part of its own largest number, or of 1."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        if other.numel():
            error = (one.double() - other.double()).abs().max() / other.double().abs().max().clamp(min=1)
            assert error <= bound, error.item()
