"""The steps of a GRU and an LSTM between their products: the native loop and torch's calls, beside plain formulas."""

import pytest
import torch

from regard.kernels.native import compiler
from regard.kernels.recurrent import gates
from regard.kernels.recurrent.recurrent import gru_step

LOOSE = {torch.float32: {"rtol": 1e-5, "atol": 2e-6}, torch.float64: {"rtol": 1e-12, "atol": 1e-13}}


@pytest.fixture(params=["native", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(compiler, "library", lambda name: None)
    elif compiler.library("recurrent/gates") is None:
        pytest.skip("no native loop is here")
    return request.param


def plain_gru(sums, given, state):
    (a, b, c), (d, e, f) = sums.chunk(3, 1), given.chunk(3, 1)
    reset, update = torch.sigmoid(a + d), torch.sigmoid(b + e)
    candidate = torch.tanh(c + reset * f)
    return (1 - update) * candidate + update * state


def plain_lstm(sums, memory):
    entering, forgetting, candidate, leaving = sums.chunk(4, 1)
    kept = torch.sigmoid(forgetting) * memory + torch.sigmoid(entering) * torch.tanh(candidate)
    return kept, torch.sigmoid(leaving) * torch.tanh(kept)


def numbers(kind, *shapes, spread=2.0):
    torch.manual_seed(1)
    return [(spread * torch.randn(*shape)).to(kind).requires_grad_() for shape in shapes]


def gru(sums, given, bias, state, above):
    """What `gates` makes of copies: the next state, and the gradients of the sums, the state's part and the state."""
    own, kept, out = torch.empty_like(sums), torch.empty_like(state), torch.empty_like(state)
    gates.gru(sums.clone(), given, bias, state, own, kept, out)
    hidden, entering, carried = above.clone(), torch.empty_like(sums), torch.empty_like(sums)
    gates.gru_backward(own, kept, state, hidden, entering, carried)
    return out, entering, carried, hidden


def lstm(sums, memory, above, above_kept):
    own, kept, out = sums.clone(), torch.empty_like(memory), torch.empty_like(memory)
    gates.lstm(own, memory, kept, out)
    slope, into = above_kept.clone(), torch.empty_like(own)
    gates.lstm_backward(own, memory, kept, above, slope, into)
    return kept, out, into, slope


@pytest.mark.parametrize("kind", LOOSE, ids=str)
@pytest.mark.parametrize("shape", [(7, 13), (3, 16), (1, 1), (2, 37), (0, 5), (5, 131)], ids=str)
def test_a_gru(way, shape, kind):
    rows, width = shape
    three = (rows, 3 * width)
    sums, given, bias, state, above = numbers(kind, three, three, (4 * width,), shape, shape)
    both, entering, carried = bias.split([2 * width, width, width])
    expected = plain_gru(sums + torch.cat([both, entering]), given + torch.cat([both * 0, carried]), state)
    wanted = torch.autograd.grad(expected, (sums, given, state), above)
    with torch.no_grad():
        out, *found = gru(sums, given, bias, state, above)
    # The gradient of the state lacks what comes through its product, as the formula's does here.
    for one, other in zip([out, *found], [expected, *wanted], strict=True):
        torch.testing.assert_close(one, other, **LOOSE[kind])


@pytest.mark.parametrize("kind", LOOSE, ids=str)
@pytest.mark.parametrize("shape", [(7, 13), (3, 16), (1, 1), (0, 5)], ids=str)
def test_a_gru_whose_parts_have_their_biases(way, shape, kind):
    rows, width = shape
    sums, given, state, above = numbers(kind, (rows, 3 * width), (rows, 3 * width), shape, shape)
    expected = plain_gru(sums, given, state)
    wanted = torch.autograd.grad(expected, (sums, given, state), above)
    with torch.no_grad():
        found = gru(sums, given, None, state, above)
    for one, other in zip(found, [expected, *wanted], strict=True):
        torch.testing.assert_close(one, other, **LOOSE[kind])


@pytest.mark.parametrize("shape", [(7, 13), (3, 16), (1, 1), (0, 5)], ids=str)
def test_the_gates_gradients_may_lie_once_for_both_parts(way, shape):
    rows, width = shape
    sums, given, state, above = (one.detach() for one in numbers(torch.float64, *[(rows, 3 * width)] * 2, *[shape] * 2))
    own, kept, out = torch.empty_like(sums), torch.empty_like(state), torch.empty_like(state)
    gates.gru(sums, given, None, state, own, kept, out)
    hidden, whole = above.clone(), torch.empty(rows, 4 * width, dtype=torch.float64)
    gates.gru_backward(own, kept, state, hidden, whole[:, width:], whole[:, :width])
    _, entering, carried, expected = gru(sums, given, None, state, above)
    assert torch.equal(hidden, expected) and torch.equal(whole[:, width:], entering)
    assert torch.equal(whole[:, : 3 * width].roll(-width, 1), carried)


@pytest.mark.parametrize("kind", LOOSE, ids=str)
@pytest.mark.parametrize("shape", [(7, 13), (3, 16), (1, 1), (2, 37), (0, 5), (5, 131)], ids=str)
def test_an_lstm(way, shape, kind):
    sums, memory, above, above_kept = numbers(kind, (shape[0], 4 * shape[1]), shape, shape, shape)
    expected = plain_lstm(sums, memory)
    wanted = torch.autograd.grad(expected, (sums, memory), (above_kept, above))
    with torch.no_grad():
        found = lstm(sums, memory, above, above_kept)
    for one, other in zip(found, [*expected, *wanted], strict=True):
        torch.testing.assert_close(one, other, **LOOSE[kind])


@pytest.mark.parametrize("kind", LOOSE, ids=str)
def test_large_sums_neither_overflow_nor_leave_their_range(way, kind):
    far = torch.tensor([-1e30, -800, -90, -20, 0, 20, 90, 800, 1e30, -torch.inf, torch.inf], dtype=kind)
    sums, state = far.repeat(1, 3), torch.full((1, 11), 0.5, dtype=kind)
    out, *slopes = gru(sums, torch.zeros_like(sums), None, state, torch.ones_like(state))
    torch.testing.assert_close(out, plain_gru(sums, torch.zeros_like(sums), state), **LOOSE[kind])
    assert all(slope.isfinite().all() for slope in slopes)
    kept, out, *slopes = lstm(far.repeat(1, 4), state, torch.ones_like(state), torch.ones_like(state))
    torch.testing.assert_close((kept, out), plain_lstm(far.repeat(1, 4), state), **LOOSE[kind])
    assert all(slope.isfinite().all() for slope in slopes)


def test_nan_stays_where_it_was(way):
    sums, given, state, above = (one.detach() for one in numbers(torch.float32, (3, 51), (3, 51), (3, 17), (3, 17)))
    clean = gru(sums, given, None, state, above)
    for place in (4, 16):  # within a whole vector, and in what is left behind it
        with_nan = sums.clone()
        with_nan[1, place] = torch.nan
        found = gru(with_nan, given, None, state, above)
        assert found[0][1].isnan().tolist() == [column == place for column in range(17)]
        for one, other in zip(found, clean, strict=True):
            assert torch.equal(one[[0, 2]], other[[0, 2]])
            assert not one[1].view(-1, 17)[:, [column for column in range(17) if column != place]].isnan().any()


@pytest.mark.parametrize("way", ["native"], indirect=True)
def test_threads_change_no_bit(way):
    given = [one.detach() for one in numbers(torch.float32, (307, 3 * 211), (307, 3 * 211), (307, 211), (307, 211))]
    one = gru(given[0], given[1], None, *given[2:])
    torch.set_num_threads(3)
    try:
        three = gru(given[0], given[1], None, *given[2:])
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(*pair) for pair in zip(one, three, strict=True))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_other_types_take_torchs_calls(kind):
    sums, given, state, above = (one.detach() for one in numbers(kind, (3, 15), (3, 15), (3, 5), (3, 5)))
    out, *_ = gru(sums, given, None, state, above)
    torch.testing.assert_close(out, plain_gru(sums, given, state), rtol=0.05, atol=0.05)


def test_a_step_of_a_loop(way):
    given = numbers(torch.float64, (3, 15), (3, 15), (3, 5))
    assert torch.autograd.gradcheck(gru_step, given)
    torch.testing.assert_close(gru_step(*given), plain_gru(*given), **LOOSE[torch.float64])


def test_a_step_takes_any_strides(way):
    given = [one.detach() for one in numbers(torch.float64, (15, 3), (15, 3), (5, 3))]
    turned = [one.t().requires_grad_() for one in given]
    straight = [one.t().contiguous().requires_grad_() for one in given]
    above = torch.randn(3, 1, dtype=torch.float64).expand(3, 5)
    for one, other in zip(
        torch.autograd.grad(gru_step(*turned), turned, above),
        torch.autograd.grad(gru_step(*straight), straight, above),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_step_of_a_loop_has_no_second_derivatives(way):
    given = numbers(torch.float64, (3, 15), (3, 15), (3, 5))
    found = torch.autograd.grad(gru_step(*given).sum(), given, create_graph=True)
    for asked in given:
        with pytest.raises(RuntimeError, match="a GRU's step in a loop has no second derivatives; torch.nn.GRUCell"):
            torch.autograd.grad(found[0].sum(), asked, retain_graph=True)
