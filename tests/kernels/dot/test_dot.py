"""The native loop of dot products: the formula's numbers and gradients, whatever is hidden, added or dropped."""

import pytest
import torch

from regard.kernels.dot import loops
from regard.kernels.dot.amx import half
from regard.kernels.dot.dot import Visible, attention, serves
from tests.kernels.dot.dot_reference import ALL, CAUSAL, assert_same, formula, inputs, weights_of
from tests.native import needs_compiler

pytestmark = needs_compiler


def assert_formula(given, bound, visible=ALL, bias=None, scale=0.3):
    """Context and all gradients."""
    ours, theirs = (one(*given, visible, bias, scale) for one in (called, formula))
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = [one for one in (*given, bias) if one is not None and one.requires_grad]
    assert ours.dtype == given[0].dtype and ours.is_contiguous()
    assert_same([ours], [theirs], bound)
    assert_same(
        torch.autograd.grad(ours, wanted, upstream.to(ours.dtype)),
        torch.autograd.grad(theirs, wanted, upstream.to(ours.dtype).double()),
        bound,
    )


def called(query, key, value, visible=ALL, bias=None, scale=1.0, dropout=0.0):
    return attention(query, key, value, visible=visible, bias=bias, scale=scale, dropout=dropout)


# Several tiles and blocks, parts of them, and less than one vector; heads in groups, values wider and narrower.
SIZES = [(2, 3, 3, 5, 7, 3, 2), (2, 6, 2, 97, 131, 13, 37), (1, 2, 1, 211, 503, 64, 65), (3, 2, 2, 1, 31, 32, 32)]
VISIBLE = {
    "all": lambda batch, queries, keys: ALL,
    "causal": lambda batch, queries, keys: CAUSAL,
    "causal to the end": lambda batch, queries, keys: CAUSAL._replace(offset=keys - queries),
    "some see nothing": lambda batch, queries, keys: CAUSAL._replace(offset=-2),
    "window": lambda batch, queries, keys: ALL._replace(window=(17, 5)),
    "all of it": lambda batch, queries, keys: Visible(
        True, 1, (keys // 3, 3), [keys // 2] * batch, torch.rand(1, 1, queries, keys) > 0.3
    ),
    "lengths": lambda batch, queries, keys: ALL._replace(lengths=[13 * item % (keys + 1) for item in range(batch)]),
    "keep by item": lambda batch, queries, keys: ALL._replace(keep=torch.rand(batch, 1, 1, keys) > 0.3),
    "few": lambda batch, queries, keys: ALL._replace(keep=torch.rand(batch, 1, queries, keys) > 0.98),
    "two axes, turned": lambda batch, queries, keys: ALL._replace(keep=torch.rand(keys, queries).mT > 0.5),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("visible", VISIBLE)
def test_each_mask_is_the_formulas(sizes, visible):
    torch.manual_seed(0)
    seen = VISIBLE[visible](sizes[0], *sizes[3:5])
    assert_formula(inputs(*sizes, torch.float64), 3e-14, seen)
    assert_formula(inputs(*sizes), 2e-6, seen)


def half_inputs(dtype):
    if dtype is torch.float16 and not loops.serve(dtype):
        pytest.skip("this compiler knows no float16")
    return inputs(2, 6, 2, 97, 131, 13, 37, dtype)


@pytest.mark.parametrize(("dtype", "bound"), ((torch.bfloat16, 1.5e-2), (torch.float16, 2e-3)))
def test_half_types_are_rounded_at_last(dtype, bound, monkeypatch):
    """Where no matrix unit takes them: that one rounds its weights, too."""
    monkeypatch.setattr(half, "serves", lambda query: False)
    given = half_inputs(dtype)
    assert_formula(given, bound, CAUSAL)
    exact = formula(*given, CAUSAL, scale=0.3)
    torch.testing.assert_close(called(*given, CAUSAL, scale=0.3), exact.to(dtype), rtol=0, atol=float(bound) / 2)


@pytest.mark.parametrize(("dtype", "bound"), ((torch.bfloat16, 1.5e-2), (torch.float16, 2e-3)))
def test_half_types_by_whatever_is_fastest_here(dtype, bound):
    """The matrix unit forwards, where there is one, and from its denominators the loop's way back."""
    given = half_inputs(dtype)
    assert_formula(given, bound, Visible(True, 34, None, [131, 0], None))
    one_head = [one[:, 0].detach() for one in given]
    assert torch.equal(called(*one_head), called(*(one.unsqueeze(1) for one in one_head)).squeeze(1))


BIASES = ["bhqk", "1hqk", "b1qk", "11qk", "bh1k", "b11k", "1hq1", "bhq1", "hqk", "qk", "k"]


@pytest.mark.parametrize("axes", BIASES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_a_bias_of_any_shape_has_its_gradient(axes, dtype):
    """Sums over the axes that it is the same for; by several threads, too."""
    batch, heads, queries, keys = 3, 4, 61, 419
    torch.manual_seed(0)
    sizes = {"b": batch, "h": heads, "q": queries, "k": keys, "1": 1}
    bias = torch.randn([sizes[axis] for axis in axes], dtype=dtype).requires_grad_()
    visible = CAUSAL._replace(offset=358, keep=torch.rand(batch, 1, queries, keys) > 0.3)
    given = inputs(batch, heads, 2, queries, keys, 11, 5, dtype)
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert_formula(given, 2e-6 if dtype == torch.float32 else 3e-14, visible, bias)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("visible", VISIBLE)
def test_the_gradient_of_a_bias_as_large_as_the_scores_is_written_everywhere(visible):
    """What is hidden has 0, whatever memory held before: here it holds NaN."""
    sizes = (2, 4, 2, 109, 401, 5, 3)
    torch.manual_seed(0)
    seen = VISIBLE[visible](2, 109, 401)
    torch.use_deterministic_algorithms(True)
    try:
        assert_formula(inputs(*sizes), 2e-6, seen, torch.randn(2, 4, 109, 401).requires_grad_())
        one_key = inputs(2, 4, 2, 109, 1, 5, 3)
        bias = torch.zeros(2, 4, 109, 1).requires_grad_()
        (found,) = torch.autograd.grad(called(*one_key, ALL._replace(lengths=[1, 0]), bias).sum(), bias)
        assert found.shape == bias.shape and not found.any()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_bias_that_is_turned_and_a_wider_one():
    given = inputs(2, 3, 3, 5, 7, 3, 2)
    assert_formula(given, 2e-6, ALL, torch.randn(7, 5).mT.requires_grad_())
    assert_formula(given, 2e-6, ALL, torch.randn(5, 7, dtype=torch.float64).requires_grad_())
    assert_formula(inputs(2, 3, 3, 5, 7, 3, 2, torch.bfloat16), 2e-2, ALL, torch.randn(5, 7).requires_grad_())


def test_first_derivatives():
    torch.manual_seed(0)
    query, key, value = inputs(2, 4, 2, 5, 19, 3, 2, torch.float64)
    bias = torch.randn(4, 5, 19, dtype=torch.float64).requires_grad_()
    visible = ALL._replace(window=(3, 9), offset=4, lengths=[19, 7])

    def call(*given):
        torch.manual_seed(1)  # the same draws
        return called(*given[:3], visible, given[3], 0.7, dropout=0.4)

    assert torch.autograd.gradcheck(call, (query, key, value, bias), fast_mode=True)


@pytest.mark.parametrize("constant", (0, 1, 2, 3))
def test_gradients_of_some_inputs_alone(constant):
    bias = torch.randn(1, 3, 5, 7)
    each = [*inputs(2, 3, 3, 5, 7, 3, 2), bias.requires_grad_()]
    frozen = [one.detach().requires_grad_(number == constant) for number, one in enumerate(each)]
    assert_formula(frozen[:3], 2e-6, CAUSAL, frozen[3])
    frozen = [one.detach().requires_grad_(number != constant) for number, one in enumerate(each)]
    assert_formula(frozen[:3], 2e-6, CAUSAL, frozen[3])


def test_any_strides_and_three_axes():
    given = inputs(2, 6, 2, 29, 37, 13, 11)
    expected = called(*given, CAUSAL)
    turned = [one.detach().mT.contiguous().mT.requires_grad_() for one in given]
    assert_formula(turned, 2e-6, CAUSAL)
    heads_last = [one.detach().transpose(1, 2).contiguous().transpose(1, 2) for one in given]
    assert torch.equal(called(*turned, CAUSAL), expected) and torch.equal(called(*heads_last, CAUSAL), expected)
    spaced = [torch.stack([one.detach(), one.detach()], -1)[..., 0] for one in given]
    assert torch.equal(called(*spaced, CAUSAL), expected)
    headless = [one.detach()[:, 0].requires_grad_() for one in given]
    keep = torch.rand(2, 29, 37) > 0.4
    ours = called(*headless, CAUSAL._replace(keep=keep), keep.float())
    with_head = [one.unsqueeze(1) for one in headless]
    theirs = called(*with_head, CAUSAL._replace(keep=keep.unsqueeze(1)), keep.float().unsqueeze(1))
    assert torch.equal(ours, theirs.squeeze(1))
    for one, other in zip(*(torch.autograd.grad(each.sum(), headless) for each in (ours, theirs)), strict=True):
        assert torch.equal(one, other)


def test_expanded_inputs_and_an_expanded_gradient():
    query, key, value = inputs(1, 1, 1, 29, 37, 13, 11)
    spread = [one.expand(3, 2, *one.shape[2:]) for one in (query, key, value)]
    ours, theirs = called(*spread).sum(), formula(*spread).sum()
    found, expected = (torch.autograd.grad(each, (query, key, value)) for each in (ours, theirs))
    assert_same(found, expected, 3e-6)


@pytest.mark.parametrize(
    "sizes", ((0, 2, 2, 5, 7, 3, 2), (2, 2, 1, 0, 7, 3, 2), (2, 2, 1, 5, 0, 3, 2), (2, 2, 1, 5, 7, 3, 0))
)
def test_nothing_of_something(sizes):
    given = inputs(*sizes)
    context = called(*given)
    assert context.shape == (sizes[0], sizes[1], sizes[3], sizes[6]) and not context.any()
    for one, other in zip(torch.autograd.grad(context.sum(), given), given, strict=True):
        assert one.shape == other.shape and not one.any()


def test_width_0_reads_the_mean():
    query, key, value = inputs(2, 2, 1, 5, 7, 0, 3)
    assert_same([called(query, key, value)], [value.mean(2, keepdim=True).expand(2, 2, 5, 3)], 1e-6)


def test_a_fully_masked_query_reads_0_and_has_no_gradient():
    given = inputs(2, 2, 2, 31, 37, 5, 3)
    bias = torch.zeros(31, 37)
    bias[4] = -torch.inf  # scores of −inf hide keys as a mask does
    bias[5, 1:] = -torch.inf
    bias.requires_grad_()
    keep = torch.ones(31, 37, dtype=torch.bool)
    keep[7] = False
    context = called(*given, CAUSAL._replace(offset=-3, keep=keep), bias)
    assert not context[:, :, [0, 1, 2, 4, 7]].any() and context[:, :, [3, 5, 6, *range(8, 31)]].all()
    torch.testing.assert_close(context[:, :, 5], given[2][:, :, 0])
    to_query, *others = torch.autograd.grad(context.sum(), (*given, bias))
    assert not to_query[:, :, [0, 1, 2, 4, 7]].any()
    assert all(one.isfinite().all() for one in (to_query, *others)) and not others[2][bias == -torch.inf].any()


def test_nan_stays_with_those_who_see_it():
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 41, 131, 5, 3))
    expected = called(query, key, value, CAUSAL)

    def changed(context):
        assert torch.equal(context.isnan().any(-1), context.isnan().all(-1))
        spoiled = context.isnan().all(-1)
        assert torch.equal(context[~spoiled], expected[~spoiled])
        return spoiled.nonzero().tolist()

    spoiled = query.clone()
    spoiled[0, 1, 7, 2] = torch.nan
    assert changed(called(spoiled, key, value, CAUSAL)) == [[0, 1, 7]]
    bits = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)  # a NaN of other bits
    for number in (torch.nan, bits.item(), torch.inf):
        bias = torch.zeros(1, 2, 41, 131)
        bias[0, 0, 9, 4] = number  # seen
        bias[0, 1, 9, 99] = number  # hidden
        bias.requires_grad_()
        context = called(query, key.clone().requires_grad_(), value, CAUSAL, bias)
        regular = called(query, key, value, CAUSAL, torch.zeros(1, 2, 41, 131))
        assert context.isnan().all(-1).nonzero().tolist() == [[0, 0, 9]]
        seen = ~context.isnan()
        assert torch.equal(context[seen], regular[seen])
        (to_bias,) = torch.autograd.grad(context.sum(), bias)
        assert to_bias.isnan().nonzero().tolist() == [[0, 0, 9, place] for place in range(10)]
    everything = value.clone()
    everything[0, 0, 130, 1] = torch.nan
    context = called(query, key, everything)
    assert context[0, 0, :, 1].isnan().all() and int(context.isnan().sum()) == 41


def test_large_scores_and_large_values():
    """Where a maximum must be taken off, and corrected as tiles go by; up to the largest numbers."""
    query, key, value = inputs(1, 2, 2, 29, 1009, 7, 5)
    order = torch.arange(1.0, 1010) / 40
    rising = (key.detach() * order.unsqueeze(-1)).requires_grad_()
    assert_formula((query, rising, value), 1e-4, scale=1.0)  # scores of 100 are rounded by 4e-6
    double = [one.detach().double().requires_grad_() for one in (query, rising, value)]
    assert_formula(double, 1e-12, scale=1.0)
    huge = torch.full_like(value, 3e35)
    assert_same([called(query, key, huge)], [torch.full_like(value[:, :, :29], 3e35)], 4e-6)
    with torch.no_grad():
        assert not called(query * 1e10, key, value).isnan().any()


def test_one_key_and_equal_scores():
    query, key, value = inputs(2, 2, 2, 13, 1, 5, 3)
    assert_same([called(query, key, value)], [value.expand(2, 2, 13, 3)], 2e-7)
    many = value.expand(2, 2, 64, 3)
    assert_same([called(query, key.expand(2, 2, 64, 5), many)], [value.expand(2, 2, 13, 3)], 2e-6)


# --- dropout --------------------------------------------------------------------------------------------------------


def dropped_weights(query, key, rate, seed, visible=ALL):
    """The weights as they are read, from a value that is the identity."""
    keys = key.shape[2]
    identity = torch.eye(keys, dtype=key.dtype).expand(*key.shape[:2], keys, keys)
    torch.manual_seed(seed)
    return called(query, key, identity, visible, dropout=rate)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("rate", (0.1, 0.5))
def test_dropout_drops_its_rate_anywhere(dtype, rate):
    query, key, _ = (one.detach() for one in inputs(2, 3, 3, 199, 257, 3, 1, dtype))
    plain, read = weights_of(query, key), dropped_weights(query, key, rate, 5)
    stays = read != 0
    torch.testing.assert_close(read.double(), torch.where(stays, plain / (1 - rate), 0.0), rtol=1e-5, atol=1e-9)
    # A mean of n draws differs from the rate by more than five deviations once in two million times.
    for over in ((0, 1, 2, 3), (2, 3), (0, 1, 3), (0, 1, 2)):
        mean = stays.double().mean(over)
        deviation = (rate * (1 - rate) / (stays.numel() / mean.numel())) ** 0.5
        assert (mean - (1 - rate)).abs().max() <= 5 * deviation
    signs = (stays.double() - (1 - rate)).flatten(0, 1)
    for one, other in (
        (signs[0], signs[1]),
        (signs[0], signs[3]),  # of another item
        (signs[:, 1:], signs[:, :-1]),
        (signs[:, 1:, 1:], signs[:, :-1, :-1]),
        (signs[..., 1:], signs[..., :-1]),
        (signs[..., 16:], signs[..., :-16]),
    ):
        assert (one * other).mean().abs() <= 5 * rate * (1 - rate) / one.numel() ** 0.5
    assert not torch.equal(stays, dropped_weights(query, key, rate, 6) != 0)
    assert torch.equal(read, dropped_weights(query, key, rate, 5))


def test_the_backward_pass_draws_the_same_dropout():
    """The context is linear in the value, with the weights that were read; queries and keys follow the same."""
    query, key, value = inputs(1, 4, 2, 97, 401, 5, 3, torch.float64)
    visible = CAUSAL._replace(offset=304)
    read = dropped_weights(query, key, 0.3, 7, visible).detach()
    kept = (read != 0).double() / 0.7
    torch.manual_seed(7)
    ours = called(query, key, value, visible, dropout=0.3)
    theirs = (weights_of(query, key, visible) * kept) @ value.repeat_interleave(2, 1)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8)  # the rate is rounded to a multiple of 2^-32
    upstream = torch.randn_like(ours)
    for one, other in zip(
        *(torch.autograd.grad(each, (query, key, value), upstream) for each in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


def test_dropping_everything_and_almost_nothing():
    given = inputs(1, 2, 2, 31, 37, 5, 3)
    context = called(*given, dropout=1.0)
    assert not context.any() and not any(one.any() for one in torch.autograd.grad(context.sum(), given))
    assert torch.equal(called(*given, dropout=1e-12), called(*given))
    contexts = torch.stack([called(*given, dropout=0.5) for _ in range(400)]).detach()
    error = (contexts.mean(0) - called(*given)).abs() / (contexts.std(0) / 400**0.5)
    assert error.max() <= 5


# --- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", (0.0, 0.3))
def test_threads_share_the_work_and_change_no_bit(dropout):
    given = inputs(2, 6, 2, 211, 131, 13, 37)
    bias = torch.randn(1, 6, 211, 131).requires_grad_()
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            context = called(*given, CAUSAL, bias, dropout=dropout)
            found.append([context, *torch.autograd.grad(context.sum(), (*given, bias))])
    finally:
        torch.set_num_threads(before)
    for each in zip(*found, strict=True):
        assert torch.equal(each[0], each[1]) and torch.equal(each[0], each[2])


def test_inference_mode_and_no_gradients_keep_nothing():
    given = inputs(2, 2, 2, 31, 37, 5, 3)
    expected = called(*given)
    with torch.inference_mode():
        assert torch.equal(called(*given), expected)
    with torch.no_grad():
        assert not called(*given).requires_grad


def test_a_second_derivative_is_refused():
    given = inputs(2, 2, 2, 5, 7, 5, 3)
    (found,) = torch.autograd.grad(called(*given).square().sum(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        found.sum().backward()


def test_a_mask_that_changed_before_the_backward_pass_is_an_error():
    given, keep = inputs(1, 1, 1, 5, 7, 3, 2), torch.ones(5, 7, dtype=torch.bool)
    context = called(*given, ALL._replace(keep=keep))
    keep[0] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        context.sum().backward()


def test_which_calls_it_serves(monkeypatch):
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 5, 7, 3, 2))
    assert serves(query, key, value) and serves(query.bfloat16(), key.bfloat16(), value.bfloat16())
    assert not serves(query, key.double(), value) and not serves(query, key, value.double())
    assert not serves(query.int(), key.int(), value.int()) and serves(query.to("meta"), key, value)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not serves(query, key, value)
    assert not torch.vmap(lambda one: torch.tensor(serves(one, key, value)))(query).any()
    monkeypatch.setattr(loops, "serve", lambda kind: False)
    assert not serves(query, key, value)


def test_the_loop_is_built():
    assert loops.serve(torch.float32)
