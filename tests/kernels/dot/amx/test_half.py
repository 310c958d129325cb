"""Attention of half-precision numbers by a matrix unit: the float64 formula's numbers, as near as torch's own."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from regard.kernels.dot.amx import half
from regard.kernels.native import compiler

# What one rounding to the type changes, relative to the largest value: half of a unit in the last place.
ROUNDING = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}
PLAIN = {"causal": False, "offset": 0, "window": None, "lengths": None, "scale": 0.3}


@pytest.fixture
def unit():
    if not half.serves(torch.zeros(1, dtype=torch.bfloat16)):
        pytest.skip("the processor has no matrix unit, or no C++ compiler is here")


@pytest.fixture(params=tuple(ROUNDING), ids=str)
def dtype(request, unit):
    return request.param


def seen(query, key, causal, offset, window, lengths):
    at = torch.arange(query.shape[2])[:, None] + offset
    place = torch.arange(key.shape[2])
    mask = torch.ones(query.shape[0], 1, query.shape[2], key.shape[2], dtype=torch.bool)
    if causal:
        mask &= place <= at
    if window is not None:
        mask &= (place >= at - window[0]) & (place <= at + window[1])
    if lengths is not None:
        mask &= place < torch.tensor(lengths)[:, None, None, None]
    return mask


def plain(query, key, value, *, scale, **which):
    """The formula in float64, and what a query that sees nothing has."""
    mask = seen(query, key, **which)
    group = query.shape[1] // key.shape[1]
    key, value = (side.double().repeat_interleave(group, 1) for side in (key, value))
    scores = (query.double() @ key.mT * scale).masked_fill(~mask, -torch.inf)
    weights = torch.where(mask.any(-1, keepdim=True), torch.softmax(scores, -1), 0.0)
    return weights @ value, scores.logsumexp(-1)


def sides(batch, heads, key_heads, queries, keys, dim, width, dtype, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, heads, queries, dim), (batch, key_heads, keys, dim), (batch, key_heads, keys, width)
    return [(torch.randn(shape, generator=generator) * scale).to(dtype) for shape in shapes]


def agrees(query, key, value, **which):
    which = PLAIN | which
    ours, ours_log = half.forward(query, key, value, **which)
    context, logs = plain(query, key, value, **which)
    assert ours.dtype == query.dtype
    assert ours_log.dtype == torch.float32
    # Weights are rounded and the context is; a context is at most as large as the largest value.
    most = max(1.0, value.abs().max().item()) if value.numel() else 1.0
    torch.testing.assert_close(ours.double(), context, rtol=0, atol=2 * ROUNDING[query.dtype] * most)
    log_bound = 2.0**-8 if query.dtype == torch.bfloat16 else 2e-6
    torch.testing.assert_close(ours_log.double(), logs, rtol=1e-6, atol=log_bound)
    masked_out = logs.isneginf()
    assert not ours[masked_out].any()
    return ours, ours_log


SIZES = (
    (1, 2, 2, 1, 1, 1, 1),
    (2, 3, 1, 1, 67, 32, 32),
    (2, 6, 3, 37, 101, 19, 23),
    (1, 2, 1, 67, 613, 97, 71),  # three blocks of keys, an odd number of groups of 32 in the last
    (1, 1, 1, 33, 289, 64, 150),
    (1, 2, 2, 5, 32, 129, 16),
)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "which",
    (
        {},
        {"causal": True},
        {"causal": True, "offset": 5},
        {"causal": True, "offset": -7},
        {"window": (3, 11)},
        {"window": (40, 0), "causal": True, "offset": 2},
        {"window": (2**62, 2**62)},
        {"scale": -0.7},
        {"scale": 0.0},
    ),
    ids=str,
)
def test_it_is_the_formula(dtype, sizes, which):
    agrees(*sides(*sizes, dtype), **which)


@pytest.mark.parametrize("lengths", ([0, 13, 301], [32, 256, 257]))
def test_each_item_has_its_own_number_of_keys_and_the_rest_is_not_read(dtype, lengths):
    query, key, value = sides(3, 2, 1, 35, 301, 65, 43, dtype)
    ours, logs = agrees(query, key, value, lengths=lengths)
    agrees(query, key, value, lengths=lengths, causal=True, offset=100)
    for item, length in enumerate(lengths):
        key[item, :, length:], value[item, :, length:] = torch.nan, torch.inf
    again, logs_again = half.forward(query, key, value, **(PLAIN | {"lengths": lengths}))
    assert torch.equal(again, ours)
    assert torch.equal(logs_again, logs)


def test_logarithms_that_nobody_wants_are_not_made(dtype):
    for sizes in ((2, 3, 1, 35, 67, 32, 43), (1, 2, 2, 3, 0, 7, 4), (1, 2, 2, 0, 5, 7, 4)):
        query, key, value = sides(*sizes, dtype)
        wanted, _ = half.forward(query, key, value, **PLAIN)
        context, logs = half.forward(query, key, value, **PLAIN, logarithms=False)
        assert logs is None
        assert torch.equal(context, wanted)


def test_axes_of_no_size(dtype):
    for sizes in ((0, 2, 2, 3, 5, 7, 4), (1, 2, 2, 0, 5, 7, 4), (1, 2, 2, 3, 0, 7, 4), (1, 2, 2, 3, 5, 0, 4)):
        agrees(*sides(*sizes, dtype))
    context, logs = half.forward(*sides(1, 2, 2, 3, 5, 7, 0, dtype), **PLAIN)
    assert context.shape == (1, 2, 3, 0)
    assert logs.isfinite().all()


@pytest.mark.parametrize("dim", (41, 64))  # 64 are taken from where they lie, if they lie side by side
def test_any_strides(dtype, dim):
    query, key, value = sides(2, 3, 3, 37, 53, dim, 29, dtype)
    ours, logs = half.forward(query, key, value, **PLAIN)
    turned = [side.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0) for side in (query, key, value)]
    sparse = [torch.stack((side, side + 1), -1)[..., 0] for side in (query, key, value)]
    apart = [side.transpose(1, 2).contiguous().transpose(1, 2) for side in (query, key, value)]
    for given in (turned, sparse, apart):
        again, logs_again = half.forward(*given, **PLAIN)
        assert torch.equal(again, ours)
        assert torch.equal(logs_again, logs)
    agrees(query, key[:, :, :1].expand(-1, -1, 53, -1), value[:1].expand(2, -1, -1, -1))
    agrees(query[:, :, :1].expand(-1, -1, 37, -1), key, value)


@pytest.mark.parametrize("scale", (1.0, 4.0))
def test_it_errs_no_more_than_torch(dtype, scale):
    """Root mean square of the error against float64; torch rounds weights to the type as well."""
    query, key, value = sides(1, 4, 4, 128, 512, 64, 64, dtype, scale)
    exact, _ = plain(query, key, value, **(PLAIN | {"scale": 0.125}))
    ours, _ = half.forward(query, key, value, **(PLAIN | {"scale": 0.125}))
    theirs = scaled_dot_product_attention(query, key, value)
    error, other = ((one.double() - exact).square().mean().sqrt().item() for one in (ours, theirs))
    assert error <= 1.02 * other
    if dtype == torch.float16:  # little is left but rounding the result
        rounding = (exact.to(dtype).double() - exact).square().mean().sqrt().item()
        assert error <= 1.1 * rounding


def test_float16_of_any_magnitude_is_exact_in_two_parts(unit):
    """One key and weight 1: what comes back is the value, subnormal ones too."""
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    every = every[every.isfinite()]
    value = every[: len(every) // 128 * 128].view(1, 1, -1, 128).transpose(1, 2)
    query = torch.ones(1, value.shape[1], 1, 3, dtype=torch.float16)
    context, _ = half.forward(query, query, value, **PLAIN)
    assert torch.equal(context, value)
    small = torch.full((1, 1, 2, 2), 2.0**-24, dtype=torch.float16)
    _, logs = half.forward(small, small[:, :, :1], small[:, :, :1], **(PLAIN | {"scale": 2.0**48}))
    torch.testing.assert_close(logs, torch.full((1, 1, 2), 2.0))


def test_bfloat16_of_any_magnitude_comes_back_where_one_key_is_seen(unit):
    """Weight 1 is rounded to 1, and so is its sum."""
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    every = every[every.isfinite() & ((every.abs() >= 2.0**-126) | (every == 0))]  # the unit reads smaller ones as 0
    value = every[: len(every) // 128 * 128].view(1, 1, -1, 128).transpose(1, 2)
    query = torch.randn(1, value.shape[1], 1, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    context, _ = half.forward(query, query, value, **PLAIN)
    assert torch.equal(context, value)


@pytest.mark.parametrize("level", (0.0, 0.1, 0.37, 0.5, 0.83, 0.99))
def test_weights_of_bfloat16_are_the_nearest_ones(unit, level):
    """Two keys whose scores differ by known powers of 2: what comes back is the rounded weight over the rounded sum."""
    key = torch.tensor([[0.0], [1.0]], dtype=torch.bfloat16).view(1, 1, 2, 1)
    query = torch.full((1, 1, 1, 1), -1.0, dtype=torch.bfloat16)
    value = torch.tensor([[0.0], [1.0]], dtype=torch.bfloat16).view(1, 1, 2, 1)
    for power in range(12):
        scale = math.log(2) * (level + power)
        context, logs = half.forward(query, key, value, **(PLAIN | {"scale": scale}))
        weight = torch.tensor(2.0 ** -(level + power), dtype=torch.float64).bfloat16().double()
        assert context.item() == (weight / (1 + weight)).bfloat16().item()
        assert logs.item() == pytest.approx(math.log1p(weight.item()), abs=1e-6)


def test_nan_and_inf_stay_with_the_rows_that_see_them(dtype):
    query, key, value = sides(1, 2, 2, 70, 300, 33, 17, dtype)
    clean, _ = half.forward(query, key, value, **PLAIN)
    for bad in (torch.nan, torch.inf, -torch.inf):
        marked = query.clone()
        marked[0, 1, 40, 3] = bad
        context, logs = half.forward(marked, key, value, **PLAIN)
        assert context[0, 1, 40].isnan().all()
        assert logs[0, 1, 40].isnan()
        context[0, 1, 40] = clean[0, 1, 40]
        assert torch.equal(context, clean)
    marked = key.clone()
    marked[0, 1, 299, 3] = torch.nan
    context, _ = half.forward(query, marked, value, **PLAIN)
    assert context[0, 1].isnan().all()
    assert torch.equal(context[0, 0], clean[0, 0])
    marked = value.clone()
    marked[0, 0, 7, 5] = torch.nan
    context, _ = half.forward(query, key, marked, **PLAIN)
    assert context[0, 0, :, 5].isnan().all()
    context[0, 0, :, 5] = clean[0, 0, :, 5]
    assert torch.equal(context, clean)


def test_large_scores_and_scores_that_keep_rising(dtype):
    query, key, value = sides(1, 1, 1, 33, 700, 32, 32, dtype)
    key = (key * torch.linspace(0, 8, 700)[:, None]).to(dtype)
    agrees(query, key, value, scale=1.0)
    agrees(query, key.flip(2), value, scale=20.0)


@pytest.mark.parametrize(
    "which", ({}, {"causal": True, "offset": 2100}, {"window": (1031, 59), "offset": 1200}), ids=str
)
@pytest.mark.parametrize("scale", (0.3, -0.7, 0.0))
def test_more_keys_than_are_held_at_once(dtype, which, scale):
    """Three blocks of 1,024, the last ending amid a group, or two that queries see parts of."""
    agrees(*sides(1, 2, 1, 67, 2203, 61, 43, dtype), **(which | {"scale": scale}))
    query, key, value = sides(1, 1, 1, 33, 2203, 32, 32, dtype)
    key = (key * torch.linspace(0, 8, 2203)[:, None]).to(dtype)
    agrees(query, key, value, **(which | {"scale": scale}))


def test_nan_among_many_keys_stays_with_the_rows_that_see_it(dtype):
    query, key, value = sides(1, 1, 1, 70, 2203, 64, 33, dtype)
    which = PLAIN | {"causal": True, "offset": 1000}
    clean, _ = half.forward(query, key, value, **which)
    for place in (3, 1037):  # in the first block of keys, and in the second
        marked = key.clone()
        marked[0, 0, place, 5] = torch.nan
        context, logs = half.forward(query, marked, value, **which)
        sees = torch.arange(70) + 1000 >= place
        assert context[0, 0, sees].isnan().all()
        assert logs[0, 0, sees].isnan().all()
        assert torch.equal(context[0, 0, ~sees], clean[0, 0, ~sees])


def test_threads_change_no_bit_and_torchs_products_work_beside_it(dtype):
    query, key, value = sides(1, 3, 1, 700, 701, 64, 64, dtype)
    left = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    product = left @ left
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(half.forward(query, key, value, **(PLAIN | {"causal": True})))
            assert torch.equal(left @ left, product)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_it_serves_half_precision_on_processors_only(monkeypatch):
    assert not half.serves(torch.zeros(1))
    assert not half.serves(torch.zeros(1, dtype=torch.bfloat16, device="meta"))
    half._is_granted.cache_clear()
    monkeypatch.setattr(compiler, "library", lambda name: None)
    try:
        assert not half.serves(torch.zeros(1, dtype=torch.bfloat16))
        with pytest.raises(RuntimeError, match="no matrix unit"):
            half.forward(*sides(1, 1, 1, 2, 3, 4, 5, torch.bfloat16), **PLAIN)
    finally:
        half._is_granted.cache_clear()


def test_visible_scores_that_are_all_minus_infinity_read_nothing(unit):
    """As by the loop of float32; bfloat16 holds −inf, float16's two halves make a NaN of it."""
    query = torch.ones(1, 2, 37, 32, dtype=torch.bfloat16)
    key, value = torch.full_like(query, -torch.inf), torch.ones_like(query)
    context, logarithm = half.forward(query, key, value, causal=False, offset=0, window=None, lengths=None, scale=1.0)
    assert (context == 0).all() and (logarithm == -torch.inf).all()
