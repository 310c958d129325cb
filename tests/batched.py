"""Batches of gradients beside the same gradients one after the other."""

import torch
from torch.testing import assert_close

MANY = 3


def batches_are_singles(outputs, asked, again=(), within=0.0):
    """A batch of `is_grads_batched`, a mapping, and a mapping within a mapping.

    Args:
        outputs: of one call, or of several.
        asked: the inputs whose gradients are compared.
        again: the inputs that a second derivative is asked of, compared to rounding; none where there are no such.
        within: how far the first ones may be from one another, in parts of the largest number; 0 is bit by bit. Torch's
            own operations around a function add up many gradients in another order than one.
    """
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    generator = torch.Generator().manual_seed(5)
    above = [torch.randn(2, MANY, *one.shape, generator=generator, dtype=one.dtype) for one in outputs]

    def back(*given, graph=False):
        return torch.autograd.grad(outputs, asked, given, retain_graph=True, create_graph=graph)

    def singles(*given, graph=False):
        each = [back(*one, graph=graph) for one in zip(*given, strict=True)]
        return [torch.stack(same) for same in zip(*each, strict=True)]

    def batch(*given, graph=False):
        return torch.autograd.grad(outputs, asked, given, is_grads_batched=True, retain_graph=True, create_graph=graph)

    def mapping(*given, graph=False):
        return torch.func.vmap(lambda *one: back(*one, graph=graph))(*given)

    wanted = singles(*(one[0] for one in above))
    assert any(one.any() for one in wanted)
    for way in (batch, mapping):
        for found, single in zip(way(*(one[0] for one in above)), wanted, strict=True):
            _close(found, single, within)
    wanted = [torch.stack(same) for same in zip(*(singles(*one) for one in zip(*above, strict=True)), strict=True)]
    for found, single in zip(torch.func.vmap(mapping)(*above), wanted, strict=True):
        _close(found, single, within)
    if again:
        twice = [_again(way, [one[0] for one in above], again) for way in (singles, batch, mapping)]
        for way in twice[1:]:
            for found, single in zip(way, twice[0], strict=True):
                assert_close(found, single)


def _again(way, above, asked):
    penalty = sum(one.square().sum() for one in way(*above, graph=True))
    return torch.autograd.grad(penalty, asked, retain_graph=True)


def _close(found, single, within):
    assert_close(found, single, rtol=0.0, atol=within * single.abs().max().item())
