"""Run by test_multihead.py as its own process, with what to do and the kinds of position.

The suite's run-time shape checks would break the graph.
"""

import sys

import torch
from torch import nn

from regard.attention.modules.multihead import MultiHeadAttention
from regard.attention.parts import masks
from regard.attention.parts.position import positions
from regard.attention.parts.position_factory import position

PARTS = {
    "none": {},
    "rotary": {"position": position("rotary", dim=4)},
    "alibi": {"position": position("alibi", heads=3)},
    "t5": {"position": position("t5", heads=3, buckets=8, max_distance=9)},
    "shaw": {"score": position("shaw", dim=4, clip=2)},
}


class Model(nn.Module):
    """Several kinds of position in one graph, which is quicker than a graph for each."""

    def __init__(self, kinds):
        super().__init__()
        self.attentions = nn.ModuleList(MultiHeadAttention(12, 3, key_heads=1, **PARTS[kind]) for kind in kinds)

    def forward(self, x, keep):
        mask, where = masks.causal() & masks.padding(keep=keep), positions(keep)
        each = [one(x, mask=mask, query_positions=where, weights=True) for one in self.attentions]
        return [attended.context for attended in each] + [attended.weights for attended in each]


def inputs(batch, length, nonfinite=False):
    """Padding on the left of the last item, holding anything or NaN."""
    x, keep = torch.randn(batch, length, 12), torch.ones(batch, length, dtype=torch.bool)
    keep[-1, : length // 3] = False
    if nonfinite:
        x[~keep] = torch.nan
    return x, keep


def check(model, run, sizes):
    for batch, length in sizes:
        for nonfinite in (False, True):
            x, keep = inputs(batch, length, nonfinite)
            for found, expected in zip(run(x, keep), model(x, keep), strict=True):
                found, expected = found.transpose(1, -2)[keep], expected.transpose(1, -2)[keep]
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def export(model):
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=1, max=512)
    dynamic = {"x": {0: batch, 1: length}, "keep": {0: batch, 1: length}}
    exported = torch.export.export(model.eval(), inputs(3, 4), dynamic_shapes=dynamic)
    check(model, exported.module(), [(1, 1), (1, 4), (2, 7), (3, 4), (5, 83)])


def compiled(model):
    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=False)
    check(model, run, [(2, 7)])
    x, keep = inputs(2, 7)
    gradients = []
    for each in (model, run):
        model.zero_grad()
        sum(context[keep].sum() for context in each(x, keep)[: len(model.attentions)]).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    torch.manual_seed(0)
    what, *kinds = sys.argv[1:]
    {"export": export, "compile": compiled}[what](Model(kinds))
    print(what, "done")
