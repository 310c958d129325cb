"""attend with the native loop for dot products: when it is taken, with which mask, and what is told."""

import os
import subprocess
import sys

import pytest
import torch

import regard
from regard import explain, masks
from regard.attention.call.mask_summary import decompose
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.parts.mask_kinds import Sizes
from regard.kernels.dot import dot
from regard.kernels.native import compiler
from tests.native import needs_compiler
from tests.paths import lowered, without
from tests.reference.attention import plain_attend

pytestmark = needs_compiler
BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 4, 2, 5, 7, 3, 2


@pytest.fixture(autouse=True)
def small_calls_too():
    with lowered():
        yield


def tensors(queries=QUERIES, keys=KEYS, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (HEADS, queries, WIDTH), (KEY_HEADS, keys, WIDTH), (KEY_HEADS, keys, VALUE_WIDTH)
    return [torch.randn(BATCH, *shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


MASKS = {
    "none": (None, lambda b, q, k: True),
    "causal": (masks.causal(), lambda b, q, k: k <= q + KEYS - QUERIES),
    "causal from the start": (masks.causal("start"), lambda b, q, k: k <= q),
    "window": (masks.window(1, 2), lambda b, q, k: -1 <= k - q - (KEYS - QUERIES) <= 2),
    "both": (masks.window(1, 2) & masks.causal(), lambda b, q, k: -1 <= k - q - (KEYS - QUERIES) <= 0),
    "two windows": (masks.window(1, 2) & masks.window(3, 1), lambda b, q, k: -1 <= k - q - (KEYS - QUERIES) <= 1),
    "two anchors": (masks.causal() & masks.causal("start"), lambda b, q, k: k <= q),
    "lengths": (masks.padding([4, 0]), lambda b, q, k: k < (4, 0)[b]),
    "lengths twice": (masks.padding([4, 6]) & masks.padding([5, 3]), lambda b, q, k: k < (4, 3)[b]),
    "lengths and causal": (masks.padding([4, 6]) & masks.causal(), lambda b, q, k: k < (4, 6)[b] and k <= q + 2),
    "anything": (masks.prefix(3) | masks.causal(), lambda b, q, k: k < 3 or k <= q + 2),
    "anything and lengths": (masks.prefix(3) & masks.padding([2, 5]), lambda b, q, k: k < min(3, (2, 5)[b])),
    "left padding": (
        masks.padding(keep=torch.arange(KEYS) >= torch.tensor([[3], [KEYS]])),
        lambda b, q, k: b == 0 and k >= 3,
    ),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("biased", (False, True))
def test_under_each_mask_it_gives_what_the_formulas_give(name, biased):
    mask, sees = MASKS[name]
    query, key, value = inputs = tensors()
    bias = torch.randn(BATCH, 1, QUERIES, KEYS, dtype=torch.float64).requires_grad_() if biased else None
    assert explain(query, key, value, mask=mask, bias=bias).path == "native"
    ours = regard.attend(query, key, value, mask=mask, bias=bias)
    context, weights = plain_attend(
        query,
        key,
        value,
        score="scaled_dot",
        sees=lambda b, h, q, k: sees(b, q, k),
        bias=None if bias is None else bias.expand(-1, HEADS, -1, -1),
    )
    torch.testing.assert_close(ours.context, context)
    torch.testing.assert_close(ours.weights, weights)
    observed = ours.statistics(top=2)
    torch.testing.assert_close(observed.received, weights.sum(-2))
    torch.testing.assert_close(observed.maximum, weights.amax(-1))
    inputs += [] if bias is None else [bias]
    direction = torch.randn_like(context)
    each = (torch.autograd.grad(one, inputs, direction) for one in (ours.context, context))
    for fast, slow in zip(*each, strict=True):
        torch.testing.assert_close(fast, slow)


RAGGED = {
    "alone": (masks.ragged([4, 7]), lambda b, q, k: max(q, k) < (4, 7)[b]),
    "causal": (masks.ragged([4, 0]) & masks.causal(), lambda b, q, k: q < (4, 0)[b] and k <= q),
    "and lengths": (masks.ragged([4, 6]) & masks.padding([2, 7]), lambda b, q, k: q < (4, 6)[b] and k < (2, 6)[b]),
    "twice": (masks.ragged([4, 6]) & masks.ragged([5, 3]), lambda b, q, k: max(q, k) < (4, 3)[b]),
    "window": (masks.ragged([5, 6]) & masks.window(1, 1), lambda b, q, k: max(q, k) < (5, 6)[b] and abs(q - k) <= 1),
    "full": (masks.ragged([7, 7]), lambda b, q, k: True),
}


@pytest.mark.parametrize("name", RAGGED)
@pytest.mark.parametrize("loop", (True, False))
def test_ragged_items_read_their_own_and_0_behind(name, loop, monkeypatch):
    """By the loop and by what stands in without one; numbers behind an item may be anything."""
    if not loop:
        monkeypatch.setattr(dot, "serves", lambda *_: False)
    mask, sees = RAGGED[name]
    query, key, value = inputs = tensors(KEYS, KEYS)
    assert explain(query, key, value, mask=mask).path == (
        "native" if loop else "ragged" if name in ("alone", "causal") else "fused"
    )
    ours = regard.attend(query, key, value, mask=mask)
    context, weights = plain_attend(query, key, value, score="scaled_dot", sees=lambda b, h, q, k: sees(b, q, k))
    torch.testing.assert_close(ours.context, context)
    torch.testing.assert_close(ours.weights, weights)
    torch.testing.assert_close(ours.statistics().received, weights.sum(-2))
    direction = torch.randn_like(context)
    each = (torch.autograd.grad(one, inputs, direction) for one in (ours.context, context))
    for fast, slow in zip(*each, strict=True):
        torch.testing.assert_close(fast, slow)


def test_a_long_ragged_item_skips_blocks_and_parts_of_them():
    """Several blocks of queries, the last one that asks cut in the middle; half types and their gradients, too."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([211, 0, 97])
    for dtype, bound in ((torch.float64, 1e-12), (torch.bfloat16, 2e-2)):
        given = [torch.randn(3, 2, 211, 13, generator=generator).to(dtype).requires_grad_() for _ in range(3)]
        exact = [one.detach().double().requires_grad_() for one in given]
        for mask in (masks.ragged(lengths), masks.ragged(lengths) & masks.causal()):
            ours = regard.attend(*given, mask=mask).context
            theirs = regard.attend(*exact, mask=mask, refocus=[lambda weights: weights]).context
            torch.testing.assert_close(ours.double(), theirs, atol=bound, rtol=bound)
            assert (ours[1] == 0).all() and (ours[2, :, 97:] == 0).all()
            slopes = (torch.autograd.grad(one.double().square().sum(), inputs)
                      for one, inputs in ((ours, given), (theirs, exact)))  # fmt: skip
            for fast, slow in zip(*slopes, strict=True):
                torch.testing.assert_close(fast.double(), slow, atol=4 * bound, rtol=4 * bound)


@pytest.mark.parametrize(
    "options",
    (
        {"score": "dot"},
        {"score": "cosine"},
        {"score": regard.score("general", query_dim=WIDTH, key_dim=WIDTH).double()},
        {"normalizer": regard.normalizer("softmax", temperature=0.3)},
    ),
)
def test_scores_that_are_dot_products_take_it(options):
    query, key, value = tensors()
    fast = regard.attend(query, key, value, **options)
    slow = regard.attend(query, key, value, refocus=[lambda weights: weights], **options)
    assert explain(query, key, value, **options).path == "native"
    torch.testing.assert_close(fast.context, slow.context)
    torch.testing.assert_close(fast.weights, slow.weights)


def test_three_axes_and_prepared_keys():
    query, key, value = (tensor[:, 0].detach() for tensor in tensors())
    score = regard.score("dot")
    lower = masks.causal()
    ours = regard.attend(query, score.prepare(key), value, score=score, mask=lower)
    theirs, _ = plain_attend(
        query[:, None], key[:, None], value[:, None], score="dot", sees=lambda b, h, q, k: k <= q + 2
    )
    torch.testing.assert_close(ours.context, theirs[:, 0])


def test_what_is_masked_out_may_be_anything():
    query, key, value = (tensor.detach().clone() for tensor in tensors())
    clean = regard.attend(query, key, value, mask=masks.padding([4, 6])).context
    key[0, :, 5], value[1, :, 6], key[1, :, 6] = torch.nan, torch.inf, 1e300
    masked_nan = regard.attend(query, key, value, mask=masks.padding([4, 6])).context
    assert torch.equal(clean, masked_nan) or torch.allclose(clean, masked_nan, rtol=1e-12, atol=1e-14)
    key[0, :, 2] = torch.nan  # seen by all of this item
    masked_nan = regard.attend(query, key, value, mask=masks.padding([4, 6])).context
    assert masked_nan[0].isnan().all() and masked_nan[1].isfinite().all()


def test_masks_that_change_after_the_call_do_not_change_the_weights():
    query, key, value = tensors()
    lengths, keep = torch.tensor([4, 6]), torch.ones(BATCH, QUERIES, KEYS, dtype=torch.bool).tril()
    made = regard.attend(query, key, value, mask=masks.padding(lengths) & masks.keep(keep) & masks.causal())
    lengths.fill_(1), keep.fill_(True)
    values = value.repeat_interleave(HEADS // KEY_HEADS, dim=1)
    torch.testing.assert_close(made.weights @ values, made.context)


def test_dropout_draws_by_torchs_seed_and_never_shows_in_the_weights():
    query, key, value = tensors()
    torch.manual_seed(3)
    one = regard.attend(query, key, value, dropout=0.4)
    torch.manual_seed(3)
    other = regard.attend(query, key, value, dropout=0.4)
    assert torch.equal(one.context, other.context)
    assert not torch.equal(one.context, regard.attend(query, key, value, dropout=0.4).context)
    torch.testing.assert_close(one.weights, regard.attend(query, key, value).weights)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_keeps_its_type_and_its_bound(dtype):
    query, key, value = (tensor.detach().to(dtype).requires_grad_() for tensor in tensors())
    ours = regard.attend(query, key, value, mask=masks.causal()).context
    exact = regard.attend(*(one.double() for one in (query, key, value)), mask=masks.causal()).context
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.double(), exact, rtol=0, atol=4 * torch.finfo(dtype).eps * value.abs().max().item())
    grads = torch.autograd.grad(ours.float().square().sum(), (query, key, value))
    assert all(grad.dtype == dtype and grad.isfinite().all() for grad in grads)


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(compiler, "library", lambda name: None)


def test_without_a_compiler_torchs_kernel_is_taken(no_compiler):
    query, key, value = tensors()
    assert not dot.serves(query, key, value)
    assert explain(query, key, value).path == "fused"
    assert regard.attend(query, key, value).context.isfinite().all()


def test_when_it_is_left_alone(monkeypatch):
    query, key, value = tensors()
    assert explain(query, key, value, normalizer="sparsemax").path == "explicit"
    assert explain(query, key).path == "explicit"
    with torch.autocast("cpu"):
        assert explain(*(one.float() for one in (query, key, value))).path == "fused"
    monkeypatch.undo()
    with without("native"):
        assert explain(query, key, value).path not in ("native", "explicit")


def test_inside_vmap_and_forward_mode_it_is_not_taken():
    query, key, value = (tensor.detach() for tensor in tensors())
    mapped = torch.vmap(lambda q, k, v: regard.attend(q[None], k[None], v[None], weights=True).context[0])
    torch.testing.assert_close(mapped(query, key, value), regard.attend(query, key, value).context)


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_taken_apart_is_the_same_mask(name):
    mask = MASKS[name][0]
    if mask is None:
        return
    sizes = Sizes(BATCH, HEADS, QUERIES, KEYS)
    found = decompose(mask, sizes)
    rest, known = (
        torch.ones(1, 1, 1, 1, dtype=torch.bool) if part is None else part.draw(sizes, torch.device("cpu"))
        for part in (found.rest, found.known)
    )
    assert torch.equal(*torch.broadcast_tensors(rest & known, mask.draw(sizes, torch.device("cpu"))))


@pytest.mark.parametrize("learned", (False, True))
@pytest.mark.parametrize("name", ("none", "lengths and causal", "anything"))
def test_statistics_at_once_are_those_made_later(name, learned):
    query, key, value = (tensor.detach().requires_grad_(learned) for tensor in tensors())
    now = regard.attend(query, key, value, mask=MASKS[name][0], statistics=3)
    later = regard.attend(query, key, value, mask=MASKS[name][0])
    torch.testing.assert_close(now.context, later.context)
    for one, other in zip(now.statistics(3), later.statistics(3), strict=True):
        torch.testing.assert_close(one, other)
    assert now.context.requires_grad is learned and not now.statistics().entropy.requires_grad


def test_shapes_without_content_are_judged_as_if_they_were_on_a_processor():
    query, key, value = (one.detach().to("meta") for one in tensors())
    assert explain(query, key, value, mask=masks.causal()).path == "native"


def test_loops_are_found_where_text_is_ascii():
    """Their sources are UTF-8 whatever the locale (B31): building a loop's name must not read them otherwise."""
    observed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import torch; from regard.kernels.dot import loops; print(loops.serve(torch.float32))",
        ],
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert observed.stdout == "True\n"


@pytest.mark.parametrize("biased", (False, True), ids=("", "bias"))
@pytest.mark.parametrize("seen", ("all", "causal", "kept", "kept by item"))
def test_layers_attend_by_the_loop_where_it_is_worth_it(seen, biased, monkeypatch):
    """The same context and gradients as by torch's kernel; a query that sees nothing reads 0."""
    generator = torch.Generator().manual_seed(0)
    heads, x = SelfHeads(12, 4, key_heads=2).double(), torch.randn(3, 7, 12, generator=generator, dtype=torch.float64)
    keep = {"kept": torch.rand(1, 1, 7, 7, generator=generator) > 0.4, "kept by item": torch.ones(3, 1, 1, 7).bool()}
    kept = keep.get(seen)
    if kept is not None:
        kept[-1, 0, 0] = False
    bias = torch.randn(1, 4, 7, 7, generator=generator, dtype=torch.float64).requires_grad_() if biased else None
    wanted = [one for one in (*heads.parameters(), bias) if one is not None]
    attention, taken = dot.attention, []
    monkeypatch.setattr(dot, "attention", lambda *given, **named: taken.append(1) or attention(*given, **named))

    def context_where(is_worthwhile):
        monkeypatch.setattr(dot, "is_worthwhile", lambda *_: is_worthwhile)
        query, keys = heads.project(x, None)
        context = heads(query, keys, AttentionContext(kept, seen == "causal", bias)).context
        return context, *torch.autograd.grad(context.square().sum(), wanted)

    expected = context_where(False)
    assert not taken
    for one, other in zip(context_where(True), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert taken
