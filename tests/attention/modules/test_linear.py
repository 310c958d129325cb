import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention.attend import attend
from regard.attention.modules.linear import LinearState, elu_plus_one, linear_attention, linear_step
from regard.attention.parts import masks
from regard.attention.parts.score import score
from regard.errors import ConfigError, MaskError, ShapeError
from regard.kernels.linear import linear as kernel
from tests.reference.linear import linear as slow


class Largest(TorchDispatchMode):
    """The size of the largest tensor made inside."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.numel = max([self.numel, *sizes])
        return result


def inputs(queries, keys, heads=6, key_heads=2, batch=2, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = ((batch, heads, queries, 3), (batch, key_heads, keys, 3), (batch, key_heads, keys, 5))
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("feature_map", ["elu", "relu"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (7, 3), (1, 7)])
def test_equals_the_written_out_form_with_gradients(feature_map, causal, queries, keys):
    given = inputs(queries, keys)
    keep = torch.rand(2, keys) > 0.3
    keep[1, 0] = False
    context = linear_attention(*given, feature_map=feature_map, causal=causal, keep=keep)
    visible = lambda b, i, j: bool(keep[b, j]) and (not causal or j <= i + keys - queries)  # noqa: E731
    expected = slow(feature_map, *given, visible)
    torch.testing.assert_close(context, expected)
    noise = torch.randn_like(expected)
    found = torch.autograd.grad((context * noise).sum(), given)
    for a, b in zip(found, torch.autograd.grad((expected * noise).sum(), given), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_quadratic_form_over_several_chunks(causal):
    """131 positions are three chunks; the quadratic form is the explicit path, which dropout=0 with refocus takes."""
    given = inputs(131, 131)
    mask = masks.causal() if causal else None
    quadratic = attend(*given, score="linear", normalizer="sum", mask=mask, refocus=lambda weights: weights)
    context = linear_attention(*given, causal=causal)
    torch.testing.assert_close(context, quadratic.context)
    noise = torch.randn_like(context)
    found = torch.autograd.grad((context * noise).sum(), given)
    for a, b in zip(found, torch.autograd.grad((quadratic.context * noise).sum(), given), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(quadratic.weights.sum(-1), torch.ones(2, 6, 131).double())


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 200])
def test_the_chunk_changes_speed_not_meaning(chunk):
    query, key = torch.rand(2, 13, 3).double(), torch.rand(2, 13, 3).double()
    value = torch.randn(2, 13, 5).double()
    whole, memory = kernel.read_past(query, key, value)
    context, after = kernel.read_past(query, key, value, chunk=chunk)
    torch.testing.assert_close(context, whole)
    torch.testing.assert_close(after, memory)
    torch.testing.assert_close(after, kernel.summed(key, value))


@pytest.mark.parametrize("chunks", [[1] * 11, [4, 1, 6], [11], [1, 10]])
@pytest.mark.parametrize("padded", [False, True])
def test_steps_equal_the_whole_B18(chunks, padded):
    query, key, value = inputs(11, 11)
    keep = torch.ones(2, 11).bool()
    keep[1, :3] = not padded
    whole = linear_attention(query, key, value, causal=True, keep=keep)
    state, start, steps = None, 0, []
    for size in chunks:
        at = slice(start, start + size)
        before = None if state is None else state.memory.clone()
        given = (query[..., at, :], key[..., at, :], value[..., at, :])
        context, after = linear_step(*given, state, keep=keep[:, at])
        assert state is None or torch.equal(before, state.memory)  # B36: the given state is as it was
        state, start = after, start + size
        steps.append(context)
    assert isinstance(state, LinearState) and state.memory.shape == (2, 2, 3, 6)
    torch.testing.assert_close(torch.cat(steps, -2), whole)
    found = torch.autograd.grad(torch.cat(steps, -2).pow(2).sum(), [query, key, value])
    expected = torch.autograd.grad(whole.pow(2).sum(), [query, key, value])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_without_heads_and_with_a_given_feature_map():
    query, key, value = (tensor[:, 0] for tensor in inputs(5, 7, heads=1, key_heads=1))
    squares = linear_attention(query, key, value, feature_map=torch.square)
    weights = query.square() @ key.square().transpose(-2, -1)
    torch.testing.assert_close(squares, weights / weights.sum(-1, keepdim=True) @ value)
    given = score("linear", feature_map=torch.square)
    torch.testing.assert_close(attend(query, key, value, score=given, normalizer="sum").context, squares)


@pytest.mark.parametrize("causal", [False, True])
def test_never_forms_queries_times_keys_B49(causal):
    length, width = 4096, 8
    query, key, value = (torch.randn(1, 1, length, width).requires_grad_() for _ in range(3))
    ways = {
        "function": lambda: linear_attention(query, key, value, causal=causal),
        "attend": lambda: (
            attend(query, key, value, score="linear", normalizer="sum", mask=masks.causal() if causal else None).context
        ),
    }
    for name, way in ways.items():
        with Largest() as seen:
            way().sum().backward()
        # The scores within chunks are length × chunk; queries × keys would be 64 times that.
        assert seen.numel <= length * kernel.CHUNK, name


# --- empty, masked, non-finite ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_a_fully_masked_query_reads_zero_B01(causal):
    query, key, value = inputs(5, 5)
    keep = torch.ones(2, 5).bool()
    keep[1] = False
    context = linear_attention(query, key, value, causal=causal, keep=keep)
    assert torch.equal(context[1], torch.zeros(6, 5, 5).double())
    gradients = torch.autograd.grad(context.sum(), [query, key, value])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert all(gradient[1].abs().sum() == 0 for gradient in gradients)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("where", ["key", "value", "both"])
@pytest.mark.parametrize("content", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_masked_out_content_touches_nothing_B03(causal, where, content):
    query, key, value = inputs(7, 7)
    keep = torch.ones(2, 7).bool()
    keep[0, :2], keep[1, 3] = False, False
    masked_out = ~keep[:, None, :, None]

    def run(filled, one):
        nonfinite_key = torch.where(masked_out, filled, key) if where != "value" else key
        nonfinite_value = torch.where(masked_out, filled, value) if where != "key" else value
        context = one(query, nonfinite_key, nonfinite_value)
        return [context, *torch.autograd.grad(context.pow(2).sum(), [query, key, value])]

    for one in (
        lambda *given: linear_attention(*given, causal=causal, keep=keep),
        lambda *given: linear_step(*given, keep=keep)[0],
    ):
        for a, b in zip(run(content, one), run(0.25, one), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("where", ["key", "value", "both"])
@pytest.mark.parametrize("content", [torch.nan, torch.inf, 1e300])
@pytest.mark.parametrize(
    "options", [{}, {"dropout": 0.5}, {"refocus": [torch.square]}, {"hooked": True}, {"pointer": True}]
)
def test_masked_out_content_touches_nothing_where_the_weights_are_formed_B03(options, content, where):
    """What that path looks after nobody looked after where another one was taken."""
    made = score("linear")
    if "hooked" in options:
        made.register_forward_hook(lambda *_: None)
    pointer = "pointer" in options
    options = {name: option for name, option in options.items() if name in ("dropout", "refocus")}
    query, key, value = inputs(7, 5)
    masked_out = torch.arange(5).view(1, 1, 5, 1) >= torch.tensor([3, 5]).view(2, 1, 1, 1)

    def run(filled):
        nonfinite_key = torch.where(masked_out, filled, key).detach().requires_grad_() if where != "value" else key
        nonfinite_value = torch.where(masked_out, filled, value).detach().requires_grad_() if where != "key" else value
        torch.manual_seed(0)
        attended = attend(
            query,
            nonfinite_key,
            None if pointer else nonfinite_value,
            score=made,
            normalizer="sum",
            mask=masks.padding([3, 5]),
            **options,
        )
        given = [query, nonfinite_key] if pointer else [query, nonfinite_key, nonfinite_value]
        answer = attended.weights if pointer else attended.context
        total = answer.pow(2).sum() + attended.weights.pow(2).sum()
        return [answer, attended.weights, *torch.autograd.grad(total, given)]

    for a, b in zip(run(content), run(0.25), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("content", [torch.nan, torch.inf])
def test_the_future_touches_nothing_and_the_seen_is_not_silenced_B03(content):
    """A value or key of 7 is not finite at position 4: queries before it are as without, from it on they are NaN."""
    query, key, value = inputs(7, 7)
    clean = linear_attention(query, key, value, causal=True)
    for nonfinite in (0, 1):
        given = [query, key.clone(), value.clone()]
        given[1 + nonfinite][0, 1, 4, 2] = content  # item 0, key head 1: heads 3, 4 and 5
        context = linear_attention(*given, causal=True)
        assert torch.isnan(context[0, 3:, 4:]).all()
        assert torch.equal(context[0, :3], clean[0, :3]) and torch.equal(context[1], clean[1])
        torch.testing.assert_close(context[0, 3:, :4], clean[0, 3:, :4])
        loss = context[:, :, :4].sum()
        found = torch.autograd.grad(loss, [query, key, value])
        expected = torch.autograd.grad(
            linear_attention(query, key, value, causal=True)[:, :, :4].sum(), (query, key, value)
        )
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
        assert torch.isnan(linear_attention(*given)[0, 3:]).all()


def test_a_nonfinite_query_makes_its_own_row_nan_alone():
    query, key, value = inputs(5, 5)
    nonfinite = query.clone()
    nonfinite[0, 2, 1] = torch.nan
    for causal in (False, True):
        clean = linear_attention(query, key, value, causal=causal)
        context = linear_attention(nonfinite, key, value, causal=causal)
        assert torch.isnan(context[0, 2, 1]).all()
        context, clean = context.clone(), clean.clone()
        context[0, 2, 1] = clean[0, 2, 1] = 0
        torch.testing.assert_close(context, clean)


# --- shapes, dtypes, errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0), (1, 1, 5)])
def test_sizes_of_one_and_zero_B15_B42(causal, batch, queries, keys):
    context = linear_attention(*inputs(queries, keys, batch=batch), causal=causal)
    assert context.shape == (batch, 6, queries, 5)
    assert torch.isfinite(context).all()


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3), (torch.float32, 1e-5)])
def test_dtype_stays_and_sums_are_at_least_float32(dtype, bound):
    query, key, value = inputs(300, 300)
    for causal in (False, True):
        exact = linear_attention(query, key, value, causal=causal)
        context = linear_attention(*(tensor.to(dtype) for tensor in (query, key, value)), causal=causal)
        assert context.dtype == dtype
        assert (context - exact).abs().max() < bound
    _, state = linear_step(*(tensor.to(dtype) for tensor in (query, key, value)))
    assert state.memory.dtype == torch.float32


def test_small_features_keep_their_digits():
    """elu(−20) + 1 is e^−20 = 2.06e-9; added up in float32 as (e^x − 1) + 1 it would be 0."""
    torch.testing.assert_close(elu_plus_one(torch.tensor(-20.0)).item(), 2.0611536e-9, rtol=1e-6, atol=0)
    x = torch.linspace(-3, 3, 8).double().requires_grad_()
    torch.testing.assert_close(elu_plus_one(x), torch.nn.functional.elu(x) + 1)
    assert torch.autograd.gradcheck(elu_plus_one, x) and torch.autograd.gradgradcheck(elu_plus_one, x)


def test_errors():
    query, key, value = inputs(5, 5)
    with pytest.raises(ConfigError, match="Did you mean 'relu'"):
        score("linear", feature_map="relv")
    with pytest.raises(MaskError, match="bool"):
        linear_attention(query, key, value, keep=torch.ones(2, 5))
    with pytest.raises(ShapeError, match=r"\(2, 5\)"):
        linear_attention(query, key, value, keep=torch.ones(2, 4).bool())
    with pytest.raises(ShapeError, match="divide"):
        linear_attention(query[:, :5], key, value)
    with pytest.raises(ShapeError, match="queries' positions"):
        linear_step(query[:, :, :3], key, value)
    for shapes in (
        ((2, 5, 3), (2, 4, 5, 3)),
        ((2, 4, 5, 3), (2, 5, 3)),
        ((5, 3), (5, 3)),
        ((2, 0, 5, 3), (2, 2, 5, 3)),
    ):
        query, key = (torch.randn(shape) for shape in shapes)
        with pytest.raises((ShapeError, TypeError)):  # the native loop would read beyond the end
            linear_attention(query, key, key)
