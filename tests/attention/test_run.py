"""The paths of dot products that torch would take slowly, against attention as its formulas are printed."""

import math

import pytest
import torch

import regard
from regard import explain, masks
from regard.attention.call.mask_summary import summarize
from regard.attention.parts.mask_kinds import Sizes, as_mask
from regard.kernels.dot import dot
from regard.kernels.fallback import blocked as blocks, sdpa, windowed as windows
from regard.kernels.fallback.blocked import blocked
from regard.kernels.fallback.ragged import ragged
from regard.kernels.fallback.windowed import windowed
from tests.reference.attention import plain_attend


@pytest.fixture(autouse=True)
def torchs_own_ways(monkeypatch):
    """As without a compiler, whose loop takes all of these calls (`test_kernels_compiled.py`)."""
    monkeypatch.setattr(dot, "serves", lambda *_: False)


BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 4, 2, 5, 7, 3, 2


def tensors(queries=QUERIES, keys=KEYS, heads=HEADS, key_heads=KEY_HEADS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (heads, queries, WIDTH), (key_heads, keys, WIDTH), (key_heads, keys, VALUE_WIDTH)
    return [torch.randn(BATCH, *shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def assert_same(ours, theirs, inputs):
    """Contexts and all gradients."""
    torch.testing.assert_close(ours, theirs)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9), dtype=ours.dtype)
    fast = torch.autograd.grad((ours * direction).sum(), inputs, retain_graph=True)
    slow = torch.autograd.grad((theirs * direction).sum(), inputs)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks of heads and of rows at the sizes of these tests, the last ones smaller."""
    monkeypatch.setattr(blocks, "_ROWS", 2)
    monkeypatch.setattr(blocks, "BLOCK", 6 * KEYS)


@pytest.mark.parametrize("shape", ((BATCH, HEADS, QUERIES, KEYS), (1, HEADS, 1, KEYS), (BATCH, 1, QUERIES, 1)))
def test_blocked_with_a_learned_bias(small_blocks, shape):
    query, key, value = tensors()
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
    keep = torch.rand(BATCH, 1, QUERIES, KEYS, generator=torch.Generator().manual_seed(4)) < 0.6
    keep[1, 0, 2] = False  # sees nothing
    ours = blocked(query, key, value, keep=keep, bias=bias, causal=False, scale=0.3, dropout=0.0)
    theirs, _ = plain_attend(
        query * 0.3,
        key,
        value,
        score="dot",
        sees=lambda b, h, q, k: keep[b, 0, q, k].item(),
        bias=bias.expand(BATCH, HEADS, QUERIES, KEYS),
    )
    assert (ours[1, :, 2] == 0).all()
    assert_same(ours, theirs, [query, key, value, bias])


@pytest.mark.parametrize("headless", (False, True))
def test_blocked_causal_with_lengths_and_bias(small_blocks, headless):
    query, key, value = tensors(KEYS, KEYS, 1, 1)
    bias = torch.randn(1, 1, KEYS, KEYS, generator=torch.Generator().manual_seed(3)).double().requires_grad_()
    keep = (torch.arange(KEYS) < torch.tensor([[KEYS], [0]]))[:, None, None]
    given = query, key, value, keep, bias
    if headless:
        given = tuple(tensor.squeeze(1) for tensor in given)
    ours = blocked(*given[:3], keep=given[3], bias=given[4], causal=True, scale=1.0, dropout=0.0)
    ours = ours.unsqueeze(1) if headless else ours
    theirs, _ = plain_attend(
        query, key, value, score="dot", sees=lambda b, h, q, k: k <= q and b == 0, bias=bias.expand(2, 1, KEYS, KEYS)
    )
    assert_same(ours, theirs, [query, key, value, bias])


@pytest.mark.parametrize("causal", (False, True))
def test_what_dropout_leaves_is_scaled_and_comes_back_in_the_gradient(small_blocks, causal):
    """Values that are the identity show each weight: 0, or the weight over 1 − p."""
    query, key, _ = tensors(KEYS, KEYS, HEADS, HEADS)
    value = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)
    options = {"keep": None, "bias": None, "causal": causal, "scale": 0.5}
    weights = blocked(query, key, value, **options, dropout=0.0)
    torch.manual_seed(7)
    context = blocked(query, key, value, **options, dropout=0.25)
    stays = context != 0
    torch.testing.assert_close(context[stays], weights[stays] / 0.75)
    visible = int((weights > 0).sum())
    assert abs(int(stays.sum()) - 0.75 * visible) < 3 * math.sqrt(visible * 0.25 * 0.75)
    torch.manual_seed(7)
    assert torch.equal(blocked(query, key, value, **options, dropout=0.25), context)
    assert not torch.equal(blocked(query, key, value, **options, dropout=0.25), context)
    assert (blocked(query, key, value, **options, dropout=1.0) == 0).all()

    def again(query, key, value):
        torch.manual_seed(7)
        return blocked(query, key, value, **options, dropout=0.25)

    inputs = tuple(tensor.detach()[:, :2].clone().requires_grad_() for tensor in (query, key, value))
    assert torch.autograd.gradcheck(again, inputs, fast_mode=True)


def test_draws_of_dropout_differ_between_blocks_and_heads(small_blocks):
    query = torch.zeros(1, 2, KEYS, WIDTH)
    value = torch.eye(KEYS).expand(1, 2, KEYS, KEYS)
    kept = blocked(query, query, value, keep=None, bias=None, causal=False, scale=1.0, dropout=0.5) > 0
    rows = {tuple(row.tolist()) for row in kept.flatten(0, 2)}
    assert len(rows) > KEYS  # of 14 rows of 7 draws few can be alike


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("lengths", ((KEYS, 3), (0, 1)))
def test_ragged(lengths, causal):
    query, key, value = tensors(KEYS if causal else QUERIES)
    bias = torch.randn(BATCH, 1, query.shape[2], KEYS, generator=torch.Generator().manual_seed(3)).double()
    bias.requires_grad_()
    ours = ragged(query, key, value, lengths=lengths, bias=bias, causal=causal, scale=1.0)
    theirs, _ = plain_attend(
        query,
        key,
        value,
        score="dot",
        sees=lambda b, h, q, k: k < lengths[b] and (not causal or k <= q),
        bias=bias.expand(-1, HEADS, -1, -1),
    )
    assert_same(ours, theirs, [query, key, value, bias])


@pytest.mark.parametrize("causal", (False, True))
def test_ragged_items_that_attend_to_themselves(causal):
    query, key, value = tensors(KEYS)
    lengths = (3, KEYS)
    ours = ragged(query, key, value, lengths=lengths, bias=None, causal=causal, scale=1.0, ragged_queries=True)
    theirs, _ = plain_attend(
        query,
        key,
        value,
        score="dot",
        sees=lambda b, h, q, k: max(q, k) < lengths[b] and (not causal or k <= q),
    )
    assert (ours[0, :, 3:] == 0).all()
    assert_same(ours, theirs, [query, key, value])


def test_where_no_item_has_a_key_0_is_read_and_can_be_differentiated():
    query, key, value = tensors()
    context = ragged(query, key, value, lengths=(0, 0), bias=None, causal=False, scale=1.0)
    assert context.shape == (BATCH, HEADS, QUERIES, VALUE_WIDTH) and (context == 0).all()
    grads = torch.autograd.grad(context.sum(), (query, key, value), materialize_grads=True)
    assert all((grad == 0).all() for grad in grads)


@pytest.mark.parametrize(("left", "right"), ((3, 0), (1, 2), (0, 0), (11, 2)))
def test_windowed(monkeypatch, left, right):
    """More blocks than one, the last one shorter; also a window beyond all keys."""
    monkeypatch.setattr(windows, "_ROWS", 3)
    query, key, value = tensors(KEYS, KEYS)
    ours = windowed(query, key, value, left=left, right=right, scale=1.0)
    theirs, _ = plain_attend(query, key, value, score="dot", sees=lambda b, h, q, k: -left <= k - q <= right)
    assert_same(ours, theirs, [query, key, value])


def test_windowed_refuses_a_second_derivative_though_none_comes_from_above():
    """The gradient of a sum needs no gradient itself."""
    query, key, value = tensors(KEYS, KEYS)
    context = windowed(query, key, value, left=1, right=2, scale=1.0)
    (slope,) = torch.autograd.grad(context.sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match=r"^attention over a window has no second derivatives; attend\(…, refocus="):
        slope.sum().backward()


LARGE = 257


def large(keys=LARGE, queries=LARGE, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = (queries, WIDTH), (keys, WIDTH), (keys, VALUE_WIDTH)
    return [torch.randn(BATCH, *shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


LOWER = torch.ones(LARGE, LARGE, dtype=torch.bool).tril()


def test_explain_names_the_path_of_large_calls():
    query, key, value = large()
    bias = torch.zeros(1, LARGE, requires_grad=True)
    some = masks.padding([LARGE, 31])
    for options, path, word in (
        ({"dropout": 0.1}, "blocked", "dropout"),
        ({"bias": bias}, "fused", "scaled_dot"),
        ({"mask": some}, "ragged", "lengths"),
        ({"mask": some & masks.causal()}, "ragged", "lengths"),
        ({"mask": some & LOWER}, "ragged", "lengths"),
        ({"mask": masks.ragged([LARGE, 31])}, "ragged", "lengths"),
        ({"mask": some & masks.prefix(3)}, "fused", "scaled_dot"),
        ({"mask": masks.padding([LARGE, LARGE])}, "fused", "scaled_dot"),
        ({"mask": masks.window(0, 0)}, "windowed", "window"),
        ({"mask": masks.window(9, 0)}, "fused", "scaled_dot"),  # too few keys for it to pay
    ):
        explained = explain(query, key, value, **options)
        assert explained.path == path and word in str(explained), options
    larger, bias = large(1031, 1031), torch.zeros(1, 1031, requires_grad=True)
    assert "gradient" in str(explain(*larger, bias=bias))
    assert explain(*larger, bias=bias).path == "blocked"
    assert explain(*larger, bias=bias.detach()).path == "fused"
    with torch.no_grad():
        assert explain(*larger, bias=bias).path == "fused"
    with torch.autocast("cpu"):
        assert explain(query, key, value, dropout=0.1).path == "explicit"


@pytest.mark.parametrize(
    ("mask", "causal", "lengths", "hides"),
    (
        (LOWER, True, None, True),
        (LOWER[None, None], True, None, True),
        (LOWER.expand(BATCH, -1, -1), True, None, True),
        (torch.ones_like(LOWER), False, None, False),
        (masks.padding([LARGE, LARGE]) & masks.keep(torch.ones_like(LOWER)), False, None, False),
        (masks.padding(keep=torch.ones(BATCH, LARGE, dtype=torch.bool)), False, None, False),
        (masks.padding(keep=torch.arange(LARGE) < torch.tensor([[3], [0]])) & LOWER, True, (3, 0), True),
        (masks.padding(keep=torch.arange(LARGE) >= torch.tensor([[3], [0]])), False, None, True),
        (LOWER.tril(-1), False, None, True),
        (LOWER.T, False, None, True),
        (LOWER & (torch.arange(LARGE) < 200), False, None, True),
        (masks.keep(LOWER) | masks.prefix(2), False, None, True),
    ),
)
def test_what_masks_come_to(mask, causal, lengths, hides):
    known = summarize(as_mask(mask), Sizes(BATCH, 1, LARGE, LARGE))
    assert (known.causal, known.lengths, known.mask is not None) == (causal, lengths, hides)
    if hides:
        drawn = as_mask(mask).draw(Sizes(BATCH, 1, LARGE, LARGE), torch.device("cpu"))
        assert torch.equal(
            *torch.broadcast_tensors(known.mask.draw(Sizes(BATCH, 1, LARGE, LARGE), drawn.device), drawn)
        )


@pytest.mark.parametrize(
    "options",
    (
        {"mask": LOWER},
        {"mask": masks.padding([LARGE, 31]) & masks.causal()},
        {"mask": masks.window(0, 0)},
        {"bias": torch.zeros(LARGE, LARGE, requires_grad=True), "mask": masks.padding([LARGE, 0]) & masks.causal()},
        {"mask": masks.keep(LOWER) & masks.prefix(5), "bias": torch.ones(1, LARGE, requires_grad=True)},
    ),
)
def test_weights_made_after_each_way_make_its_context(options):
    """Looked at afterwards, under the mask as it was at the call."""
    query, key, value = large()
    slow = regard.attend(query, key, value, refocus=[lambda w: w], **options)
    fast = regard.attend(query, key, value, **options)
    torch.testing.assert_close(fast.context, slow.context)
    torch.testing.assert_close(fast.weights, slow.weights)
    torch.testing.assert_close(fast.weights @ value, fast.context, atol=1e-5, rtol=1e-5)


def test_lengths_that_change_after_the_call():
    query, key, value = large()
    lengths, triangle = torch.tensor([LARGE, 31]), LOWER.clone()
    one = regard.attend(query, key, value, mask=masks.padding(lengths))
    other = regard.attend(query, key, value, mask=triangle)
    lengths.fill_(1), triangle.fill_(True)
    torch.testing.assert_close(one.weights @ value, one.context, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(other.weights @ value, other.context, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_is_computed_in_float32(dtype, monkeypatch):
    """The context is float32's, rounded once, where the processor has no instructions for bfloat16."""
    monkeypatch.setattr(sdpa, "_COUNTS_BFLOAT16", False)
    query, key, value = large(dtype=dtype)
    context = regard.attend(query, key, value).context
    exact = regard.attend(*(tensor.float() for tensor in (query, key, value))).context
    assert context.dtype == dtype
    assert torch.equal(context, exact.to(dtype))
    grads = torch.autograd.grad(context.float().square().sum(), (query, key, value))
    assert all(grad.dtype == dtype and grad.isfinite().all() for grad in grads)


def test_vectors_that_do_not_lie_side_by_side_and_other_widths():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 3, 5, 131, generator=generator).transpose(-1, -2) for _ in range(2))
    for width in (2, 5, 11):
        value = torch.randn(1, 3, 131, width, generator=generator)
        context = regard.attend(query, key, value).context
        expected = (query @ key.transpose(-1, -2) / math.sqrt(5)).softmax(-1) @ value
        torch.testing.assert_close(context, expected)
