import functools
import math

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.parts.position import POSITIONS, positions, sinusoids
from regard.attention.parts.position_bias import alibi_slopes, t5_edges
from regard.attention.parts.position_factory import position
from regard.errors import ConfigError, MaskError, ShapeError
from tests.reference import positions as slow

DIM, HEADS = 6, 3
MAKERS = {
    "sinusoidal": {"dim": DIM},
    "learned": {"count": 64, "dim": DIM},
    "rotary": {"dim": DIM},
    "t5": {"heads": HEADS, "buckets": 8, "max_distance": 20},
    "alibi": {"heads": HEADS},
    "shaw": {"dim": DIM, "clip": 3},
}


def applied(name, part, length, dtype=torch.float32):
    """What the part makes of fixed numbers of that length, in its own verb."""
    torch.manual_seed(length)
    at = torch.arange(length).unsqueeze(0)
    query, key = torch.randn(2, HEADS, length, DIM, dtype=dtype), torch.randn(2, HEADS, length, DIM, dtype=dtype)
    if part.kind == "add":
        return part.add(query[:, 0], at)
    if part.kind == "rotate":
        return torch.stack(part.rotate(query, key, at, at))
    if part.kind == "bias":
        return part.bias(at, at)
    return part.bind(query_positions=at, key_positions=at)(query, part.prepare(key))


def test_every_registered_position_is_tested():
    position("rotary", dim=2)
    assert set(MAKERS) == set(POSITIONS)


# --- numbering ------------------------------------------------------------------------------------------------------


def test_positions_count_real_tokens_B17():
    keep = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1], [0, 0, 0, 0, 0]]).bool()
    assert positions(keep).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2], [0, 0, 1, 1, 2], [0, 0, 0, 0, 0]]


def test_positions_refuse_numbers_B05():
    for numbers in (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.long)):
        with pytest.raises(MaskError, match="bool"):
            positions(numbers)


def test_unknown_name_is_an_error_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'rotary'"):
        position("rotari", dim=2)


# --- state ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_long_short_long_is_bitwise_equal_B20(name):
    torch.manual_seed(0)
    part = position(name, **MAKERS[name])
    first, long = applied(name, part, 5), applied(name, part, 61)
    assert torch.equal(applied(name, part, 5), first)
    assert torch.equal(applied(name, part, 61), long)
    loaded = position(name, **MAKERS[name])
    loaded.load_state_dict(part.state_dict())
    assert torch.equal(applied(name, loaded, 5), first)


@pytest.mark.parametrize("name", ["sinusoidal", "rotary", "alibi"])
@pytest.mark.parametrize("used_before", [False, True])
def test_cast_there_and_back_loses_nothing_B12(name, used_before):
    part = position(name, **MAKERS[name])
    if used_before:
        applied(name, part, 7)
    part = part.to(torch.bfloat16).half().float()
    assert torch.equal(applied(name, part, 59), applied(name, position(name, **MAKERS[name]), 59))
    assert not part.state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("convention", ["interleaved", "half"])
def test_rotary_angles_are_not_rounded_to_half_precision_B12(dtype, convention):
    part = position("rotary", dim=64, convention=convention).to(dtype)
    x = torch.randn(1, 1, 4096, 64).to(dtype)
    at = torch.arange(4096).unsqueeze(0)
    exact = part.rotate_one(x.double(), at)
    rotated = part.rotate_one(x, at)
    assert rotated.dtype == dtype
    # One rounding of the result; angles in half precision would be off by several radians at the end.
    assert (rotated.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * exact.abs().max()


def test_half_precision_sinusoids_are_cast_last_B12():
    part = position("sinusoidal", dim=64)
    at = torch.tensor([[4095]])
    added = part.add(torch.zeros(1, 1, 64, dtype=torch.bfloat16), at)
    exact = torch.tensor(slow.sinusoid(4095, 64)).reshape(1, 1, 64)
    assert added.dtype == torch.bfloat16
    torch.testing.assert_close(added.float(), exact, atol=4e-3, rtol=0)


# --- add ------------------------------------------------------------------------------------------------------------


def test_sinusoidal_values_by_hand():
    added = position("sinusoidal", dim=4).add(torch.zeros(1, 2, 4), torch.tensor([[0, 1]]))
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(added, torch.tensor([expected]))


def test_sinusoids_equal_the_written_out_table():
    table = sinusoids(torch.tensor([[0, 3, 511, 4095]]), 10, dtype=torch.float64)
    expected = torch.tensor([[slow.sinusoid(p, 10) for p in (0, 3, 511, 4095)]], dtype=torch.float64)
    torch.testing.assert_close(table, expected, atol=1e-10, rtol=0)


def test_sinusoids_stay_within_one_and_a_step_is_a_rotation_W20():
    at = torch.arange(2003).unsqueeze(0)
    table = sinusoids(at, 14, dtype=torch.float64)[0]
    assert table.abs().max() <= 1
    for k in (1, 7, 101):
        # PE(p + k) = M_k PE(p) with one M_k, made of rotations, for all p.
        moved = torch.linalg.lstsq(table[:-k], table[k:]).solution.T
        torch.testing.assert_close(table[:-k] @ moved.T, table[k:], atol=1e-8, rtol=0)
        torch.testing.assert_close(moved @ moved.T, torch.eye(14).double(), atol=1e-8, rtol=0)


def test_learned_adds_its_rows_and_ends_with_a_clear_error():
    part = position("learned", count=5, dim=3)
    x = torch.zeros(2, 2, 3)
    added = part.add(x, torch.tensor([[0, 4], [2, 2]]))
    assert torch.equal(added, part.weight[torch.tensor([[0, 4], [2, 2]])])
    with pytest.raises(ShapeError, match=r"positions 0 to 4, but was asked for 3 to 5"):
        part.add(x, torch.tensor([[3, 5]]))
    with pytest.raises(ShapeError, match="-1"):
        part.add(x, torch.tensor([[-1, 0]]))
    assert part.add(torch.zeros(0, 0, 3), torch.zeros(0, 0, dtype=torch.long)).shape == (0, 0, 3)


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_a_wrong_width_shows_both(name):
    with pytest.raises(ShapeError, match=r"width 6, but x has width 7"):
        position(name, **MAKERS[name]).add(torch.zeros(1, 2, 7), torch.zeros(1, 2, dtype=torch.long))


# --- rotate ---------------------------------------------------------------------------------------------------------


def test_rotary_by_hand():
    at, x = torch.tensor([[2]]), torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    c, s, fine_c, fine_s = math.cos(2), math.sin(2), math.cos(0.02), math.sin(0.02)
    pairs = [c - 2 * s, s + 2 * c, 3 * fine_c - 4 * fine_s, 3 * fine_s + 4 * fine_c]
    torch.testing.assert_close(position("rotary", dim=4).rotate_one(x, at), torch.tensor([[pairs]]))
    halves = [c - 3 * s, 2 * fine_c - 4 * fine_s, s + 3 * c, 2 * fine_s + 4 * fine_c]
    rotated = position("rotary", dim=4, convention="half").rotate_one(x, at)
    torch.testing.assert_close(rotated, torch.tensor([[halves]]))


@pytest.mark.parametrize("convention", ["interleaved", "half"])
def test_rotary_equals_complex_multiplication(convention):
    torch.manual_seed(1)
    x, at = torch.randn(2, 5, 3, 10).double(), torch.tensor([[0, 7, 1000], [3, 3, 4]])
    rotated = position("rotary", dim=10, convention=convention, base=500.0).rotate_one(x, at)
    for b in range(2):
        for h in range(5):
            for i in range(3):
                expected = slow.rotate(x[b, h, i].tolist(), int(at[b, i]), convention, 500.0)
                torch.testing.assert_close(
                    rotated[b, h, i], torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0
                )


@pytest.mark.parametrize("convention", ["interleaved", "half"])
def test_rotary_score_depends_on_the_distance_alone_W20(convention):
    torch.manual_seed(2)
    part = position("rotary", dim=14, convention=convention)
    query, key = torch.randn(1, 1, 14).double(), torch.randn(1, 1, 14).double()

    def score(m, n):
        rotated = part.rotate(query, key, torch.tensor([[m]]), torch.tensor([[n]]))
        return (rotated[0] * rotated[1]).sum()

    for m, n in ((3, 10), (0, 7), (1000, 1007)):
        torch.testing.assert_close(score(m, n), score(0, n - m), atol=1e-9, rtol=0)
    assert abs(score(3, 10) - score(3, 11)) > 1e-3


def test_the_two_conventions_differ_by_a_permutation():
    x, at = torch.randn(1, 5, 6), torch.arange(5).unsqueeze(0)
    order = [0, 2, 4, 1, 3, 5]
    interleaved = position("rotary", dim=6).rotate_one(x, at)
    half = position("rotary", dim=6, convention="half").rotate_one(x[..., order], at)
    torch.testing.assert_close(interleaved[..., order], half)
    assert not torch.allclose(interleaved, position("rotary", dim=6, convention="half").rotate_one(x, at))


def test_partial_rotary_leaves_the_rest_and_stretch_divides_positions():
    x = torch.randn(2, 3, 7, 10)
    at = torch.arange(7).unsqueeze(0)
    rotated = position("rotary", dim=4).rotate_one(x, at)
    assert torch.equal(rotated[..., 4:], x[..., 4:])
    assert torch.equal(rotated[..., :4], position("rotary", dim=4).rotate_one(x[..., :4], at))
    stretched = position("rotary", dim=10, stretch=2.0).rotate_one(x, 2 * at)
    torch.testing.assert_close(stretched, position("rotary", dim=10).rotate_one(x, at))


def test_rotary_errors():
    with pytest.raises(ConfigError, match="even"):
        position("rotary", dim=5)
    with pytest.raises(ConfigError, match="GPT-NeoX"):
        position("rotary", dim=4, convention="neox")
    with pytest.raises(ShapeError, match="turns 6 features"):
        position("rotary", dim=6).rotate_one(torch.zeros(1, 2, 4), torch.zeros(1, 2, dtype=torch.long))


# --- bias -----------------------------------------------------------------------------------------------------------


def test_alibi_slopes_of_the_paper():
    assert alibi_slopes(8) == [1 / 2**n for n in range(1, 9)]
    assert alibi_slopes(1) == [2**-8]
    # 6 heads: those of 4, then every other one of 8; 12 heads: those of 8, then every other one of 16.
    assert alibi_slopes(6) == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    assert alibi_slopes(12) == [1 / 2**n for n in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    with pytest.raises(ConfigError, match="at least 1"):
        alibi_slopes(0)


def test_alibi_bias_by_hand():
    bias = position("alibi", heads=2).bias(torch.tensor([[0, 2], [5, 6]]), torch.tensor([[0, 1, 2], [5, 5, 6]]))
    assert bias.shape == (2, 2, 2, 3)
    assert bias[0, 0].tolist() == [[0, -1 / 16, -2 / 16], [-2 / 16, -1 / 16, 0]]
    assert bias[1, 1].tolist() == [[0, 0, -1 / 256], [-1 / 256, -1 / 256, 0]]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (12, 50), (4, 3)])
def test_t5_buckets_equal_the_logarithms(bidirectional, buckets, max_distance):
    part = position("t5", heads=1, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    distances = list(range(-300, 301))
    found = part.bucket(torch.tensor([[distances]]))[0, 0].tolist()
    assert found == [slow.t5_bucket(d, buckets, max_distance, bidirectional) for d in distances]
    assert max(found) == buckets - 1


def test_t5_buckets_of_the_paper_by_hand():
    """32 buckets, both ways: 8 single distances a side, 16, 32 and 64 two buckets apart, all from 128 in the last."""
    part = position("t5", heads=1)
    distances = [0, -1, -7, -8, -16, -32, -64, -127, -128, -9999, 1, 7, 8, 128]
    expected = [0, 1, 7, 8, 10, 12, 14, 15, 15, 15, 17, 23, 24, 31]
    assert part.bucket(torch.tensor([[distances]]))[0, 0].tolist() == expected
    assert t5_edges(32, 128)[:16] == list(range(1, 17))


def test_t5_bias_is_the_learned_number_of_the_bucket():
    part = position("t5", heads=5, buckets=8, max_distance=20)
    bias = part.bias(torch.tensor([[0, 4]]), torch.tensor([[0, 1, 4]]))
    assert bias.shape == (1, 5, 2, 3)
    assert torch.equal(bias[0, :, 0, 1], part.weight[part.bucket(torch.tensor([[[1]]]))[0, 0, 0]])
    bias.sum().backward()
    assert part.weight.grad is not None and part.weight.grad.sum() == 5 * 2 * 3
    with pytest.raises(ConfigError, match="max_distance"):
        position("t5", heads=1, buckets=32, max_distance=8)


# --- score ----------------------------------------------------------------------------------------------------------


def test_shaw_equals_equation_4_written_out():
    torch.manual_seed(3)
    part = position("shaw", dim=5, clip=2).double()
    query, key = torch.randn(2, 3, 5).double(), torch.randn(2, 7, 5).double()
    query_at, key_at = torch.tensor([[0, 3, 6], [1, 1, 9]]), torch.tensor([list(range(7)), [0, 0, 0, 1, 2, 3, 4]])
    scores = part.bind(query_positions=query_at, key_positions=key_at)(query, part.prepare(key))
    for b in range(2):
        expected = slow.shaw(query[b], key[b], part.weight, 2, query_at[b].tolist(), key_at[b].tolist())
        torch.testing.assert_close(scores[b], expected)


def test_shaw_wraps_any_score_and_serves_all_heads_alike():
    torch.manual_seed(4)
    part = position("shaw", dim=5, clip=2, score="dot", scale=1.0)
    query, key, at = torch.randn(2, 3, 7, 5), torch.randn(2, 3, 7, 5), torch.arange(7).unsqueeze(0)
    bound = part.bind(query_positions=at, key_positions=at)
    together = bound(query, part.prepare(key))
    for head in range(3):
        torch.testing.assert_close(together[:, head], bound(query[:, head], part.prepare(key[:, head])))
    context = attend(query, key, key, score=bound).context
    weights = torch.softmax(together, -1)
    torch.testing.assert_close(context, weights @ key)


def test_shaw_errors():
    part = position("shaw", dim=5, clip=2)
    with pytest.raises(ConfigError, match="bind"):
        part(torch.zeros(1, 2, 5), part.prepare(torch.zeros(1, 2, 5)))
    with pytest.raises(ConfigError, match="clip"):
        position("shaw", dim=5, clip=-1)


# --- shapes and gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_axes_of_size_one_and_zero_keep_their_rank_B42(name):
    part = position(name, **MAKERS[name])
    of_length = {"add": (1,), "rotate": (3,), "bias": (2, 3), "score": (2, 3)}[part.kind]
    usual = list(applied(name, part, 2).shape)
    for length in (1, 0):
        expected = [length if axis in of_length else size for axis, size in enumerate(usual)]
        assert list(applied(name, part, length).shape) == expected


@pytest.mark.parametrize("name", ["sinusoidal", "rotary", "t5", "shaw"])
def test_gradients(name):
    torch.manual_seed(5)
    part = position(name, **MAKERS[name]).double()
    at = torch.tensor([[0, 2, 1]])
    x, y = (torch.randn(1, 2, 3, DIM).double().requires_grad_() for _ in range(2))
    if name == "sinusoidal":
        assert torch.autograd.gradcheck(lambda a: part.add(a, at), x[:, 0].detach().requires_grad_())
    elif name == "rotary":
        assert torch.autograd.gradcheck(lambda a, b: part.rotate(a, b, at, at), (x, y))
    elif name == "t5":
        weight = torch.randn_like(part.weight).requires_grad_()
        bias = functools.partial(torch.func.functional_call, part)
        assert torch.autograd.gradcheck(lambda w: bias({"weight": w}, (at, at)), weight)
    else:
        bound = part.bind(query_positions=at, key_positions=at)
        assert torch.autograd.gradcheck(lambda a, b: bound(a, part.prepare(b)), (x, y))
