"""torch.compile(fullgraph=True), torch.export, vmap and jvp of every part, without the suite's type checks."""

import pytest
import torch

from regard import masks
from regard.attention.attend import attend
from tests.plain import run_plain

PRELUDE = """
import torch
from tests.attention.registered_parts import KEYS, MASKS, NORMALIZERS, SCORES, module, tensors
from regard import masks
from regard.attention.attend import Attention
"""


def test_every_part_compiles_in_one_graph():
    run_plain(
        PRELUDE
        + """
def check(score, normalizer, mask, weights):
    torch._dynamo.reset()
    attention = Attention(module(score), normalizer)
    query, key, value = tensors(score)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    given = MASKS[mask][0]
    ours, plain = compiled(query, key, value, mask=given, weights=weights), attention(query, key, value, mask=given)
    draws = attention.normalizer.draws
    if not draws:
        torch.testing.assert_close(ours.context, plain.context)
        gradient = [torch.autograd.grad(a.context.sum(), value, retain_graph=True)[0] for a in (ours, plain)]
        torch.testing.assert_close(*gradient)
    if weights:
        assert ours.weights.shape == plain.weights.shape
        if not draws:
            torch.testing.assert_close(ours.weights, plain.weights)
            torch.testing.assert_close(ours.log_weights, plain.log_weights)

for number, score in enumerate(SCORES):
    check(score, NORMALIZERS[number % len(NORMALIZERS)], "joined", number % 2 == 0)
for mask in ("none", "causal", "around", "no_keys", "document", "keep_3d", "function"):
    check("scaled_dot", "softmax", mask, False)
check("linear", "sum", "causal", False)
"""
    )


def test_b03_holds_in_a_compiled_graph():
    run_plain(
        PRELUDE
        + """
for score in ("scaled_dot", "additive"):
    attention = Attention(module(score))
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    query, key, value = (t.detach() for t in tensors(score))
    clean = compiled(query, key, value, mask=masks.padding([3, 5])).context
    key[0, 3:], value[0, 3:] = torch.nan, torch.inf
    assert torch.equal(compiled(query, key, value, mask=masks.padding([3, 5])).context, clean)
"""
    )


def test_b38_export_at_one_length_and_run_at_others():
    """B38: exported at (3 queries, 7 keys), replayed at other batches and lengths; masks are not frozen."""
    run_plain(
        PRELUDE
        + """
from torch.export import Dim, export

class Reader(torch.nn.Module):
    def __init__(self, score, causal):
        super().__init__()
        self.attention = Attention(module(score, torch.float32))
        self.causal = causal
    def forward(self, query, key, value, lengths):
        mask = masks.padding(lengths)
        if self.causal:
            mask = mask & masks.causal()
        attended = self.attention(query, key, value, mask=mask, weights=True)
        return attended.context, attended.weights

batch, queries, keys = Dim("batch"), Dim("queries"), Dim("keys")
for score, causal in (("scaled_dot", True), ("additive", True), ("general", False), ("cosine", False)):
    reader = Reader(score, causal).eval()
    made = [t.detach() for t in tensors(score, dtype=torch.float32, batch=2, queries=4, keys=7)]
    shapes = ({0: batch, 1: queries}, {0: batch, 1: keys}, {0: batch, 1: keys}, {0: batch})
    exported = export(reader, (*made, torch.tensor([7, 3])), dynamic_shapes=shapes).module()
    for b, q, k in ((2, 4, 7), (1, 1, 1), (3, 7, 10), (5, 2, 13), (1, 5, 3)):
        new = [t.detach() for t in tensors(score, dtype=torch.float32, batch=b, queries=q, keys=k, seed=3)]
        lengths = torch.arange(b) % (k + 1)
        for ours, plain in zip(exported(*new, lengths), reader(*new, lengths)):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)
"""
    )


@pytest.mark.parametrize("score", ("scaled_dot", "cosine", "dot"))
def test_vmap_jvp_and_per_item_gradients(score):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, n, 5, generator=generator, dtype=torch.float64) for n in (4, 7, 7))

    def context(query, key, value):
        return attend(query, key, value, score=score, mask=masks.causal()).context

    mapped = torch.func.vmap(context)(query, key, value)
    torch.testing.assert_close(mapped, torch.stack([context(query[i], key[i], value[i]) for i in range(3)]))
    direction = torch.randn_like(query)
    _, forward = torch.func.jvp(lambda q: context(q, key[0], value[0]), (query[0],), (direction[0],))
    step = 1e-6
    numeric = (
        context(query[0] + step * direction[0], key[0], value[0])
        - context(query[0] - step * direction[0], key[0], value[0])
    ) / (2 * step)
    torch.testing.assert_close(forward, numeric, atol=1e-7, rtol=1e-6)
    gradients = torch.func.vmap(torch.func.grad(lambda q, k, v: context(q, k, v).square().sum()))(query, key, value)
    for item in range(3):
        alone = query[item].clone().requires_grad_()
        context(alone, key[item], value[item]).square().sum().backward()
        torch.testing.assert_close(gradients[item], alone.grad)


def test_what_cannot_leave_a_graph_says_so():
    run_plain("""
        import torch, regard
        compiled = torch.compile(regard.Attention(), fullgraph=True, backend="aot_eager")
        x = torch.ones(2, 3, 5)
        try:
            compiled(x, x, x).weights
        except regard.attention.attended.RegardError as error:
            assert "weights=True" in str(error)
        else:
            raise AssertionError
    """)
