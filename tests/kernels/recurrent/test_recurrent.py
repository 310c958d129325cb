"""Written-out gradients against torch's own GRU and LSTM, in float64, at ragged lengths and both directions."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing._internal.two_tensor import TwoTensor

from regard.errors import ShapeError
from regard.kernels.recurrent.recurrent import gru_step, sequence, serves
from tests.batched import batches_are_singles

BATCH, POSITIONS, INPUT, HIDDEN = 3, 7, 5, 2
LENGTHS = torch.tensor([2, 7, 5])


def both(kind, backwards, lengths):
    """What torch gives and what the kernel gives: outputs, last states, and the gradients of everything."""
    torch.manual_seed(0)
    layer = kind(INPUT, HIDDEN, batch_first=True, bidirectional=True).double()
    ending, way = ("_l0_reverse", 1) if backwards else ("_l0", 0)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = tuple(getattr(layer, name + ending) for name in names)
    inputs = torch.randn(BATCH, POSITIONS, INPUT, dtype=torch.float64, requires_grad=True)
    parts = 2 if kind is nn.LSTM else 1
    state = tuple(torch.randn(BATCH, HIDDEN, dtype=torch.float64, requires_grad=True) for _ in range(parts))

    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    first = tuple(torch.stack([part, part]) for part in state)
    read, last = layer(packed, first if parts == 2 else first[0])
    padded, _ = pad_packed_sequence(read, batch_first=True, total_length=POSITIONS)
    last = last if parts == 2 else (last,)
    slow = [padded[..., way * HIDDEN : (way + 1) * HIDDEN], *(part[way] for part in last)]
    outputs, ends = sequence(inputs, state, weights, lengths, backwards)
    fast = [outputs, *ends]

    upstream = [torch.randn_like(tensor) for tensor in slow]
    given = [inputs, *state, *weights]
    return slow, fast, *(torch.autograd.grad(made, given, upstream) for made in (slow, fast))


@pytest.mark.parametrize("lengths", [LENGTHS, torch.full((BATCH,), POSITIONS)], ids=["ragged", "whole"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_equals_torch_forwards_and_in_every_gradient(kind, backwards, lengths):
    slow, fast, slow_gradients, fast_gradients = both(kind, backwards, lengths)
    for one, other in zip([*slow, *slow_gradients], [*fast, *fast_gradients], strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_what_is_beyond_a_row_is_not_read():
    inputs = torch.randn(BATCH, POSITIONS, INPUT)
    weights = (torch.randn(3 * HIDDEN, INPUT), torch.randn(3 * HIDDEN, HIDDEN), torch.randn(6), torch.randn(6))
    state = (torch.zeros(BATCH, HIDDEN),)
    clean, _ = sequence(inputs, state, weights, LENGTHS)
    inputs[0, 2:], inputs[2, 5:] = torch.nan, torch.inf
    with_nan, (last,) = sequence(inputs, state, weights, LENGTHS)
    assert torch.equal(with_nan, clean)
    assert torch.equal(last[0], clean[0, 1])
    assert not clean[0, 2:].any()


def test_a_row_of_length_0_keeps_its_state():
    weights = (torch.randn(8, INPUT), torch.randn(8, HIDDEN), torch.randn(8), torch.randn(8))
    state = (torch.randn(2, HIDDEN), torch.randn(2, HIDDEN))
    outputs, last = sequence(torch.randn(2, 3, INPUT), state, weights, torch.tensor([0, 3]))
    assert not outputs[0].any()
    assert all(torch.equal(now[0], before[0]) for now, before in zip(last, state, strict=True))


def test_gradients_can_be_asked_for_twice():
    """The same graph gives the same gradient again: nothing that was kept is changed."""
    inputs = torch.randn(2, 3, INPUT, requires_grad=True)
    weights = (torch.randn(6, INPUT), torch.randn(6, HIDDEN), torch.randn(6), torch.randn(6))
    outputs, _ = sequence(inputs, (torch.zeros(2, HIDDEN),), weights, torch.tensor([3, 1]))
    once, again = (torch.autograd.grad(outputs.sum(), inputs, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, again)


def test_serves_training_in_full_precision_alone():
    inputs = torch.zeros(1)
    assert serves(inputs)
    with torch.no_grad():
        assert not serves(inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert not serves(inputs)
    torch.func.vmap(lambda row: torch.zeros_like(row) if not serves(row) else 1 / 0)(torch.zeros(2, 3))
    assert serves(inputs, inputs) and not serves(inputs, inputs, inputs.double())
    assert not serves(inputs, TwoTensor(inputs, inputs))


def random_call(kind):
    gates = 3 if kind is nn.GRU else 4
    torch.manual_seed(0)
    shapes = (gates * HIDDEN, INPUT), (gates * HIDDEN, HIDDEN), (gates * HIDDEN,), (gates * HIDDEN,)
    weights = [torch.randn(shape, requires_grad=True) for shape in shapes]
    state = [torch.randn(BATCH, HIDDEN) for _ in range(gates - 2)]
    return torch.randn(BATCH, POSITIONS, INPUT, requires_grad=True), state, weights


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_weights_and_states_of_another_type_are_refused(kind):
    inputs, state, weights = random_call(kind)
    names = ["input weight", "recurrent weight", "input bias", "recurrent bias", "hidden state", "memory"]
    for number, name in enumerate(names[: 4 + len(state)]):
        each = [*weights, *state]
        each[number] = each[number].double()
        with pytest.raises(ShapeError, match=f"the {name} is torch.float64 on cpu, the inputs are torch.float32"):
            sequence(inputs, tuple(each[4:]), tuple(each[:4]), LENGTHS)
        with pytest.raises(ShapeError, match=f"the {name} is torch.float32 on meta"):
            each[number] = each[number].float().to("meta")
            sequence(inputs, tuple(each[4:]), tuple(each[:4]), LENGTHS)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_batches_of_gradients_are_those_one_by_one(kind):
    inputs, state, weights = random_call(kind)
    given = [one.requires_grad_() for one in (inputs, *state, *weights)]
    outputs, last = sequence(inputs, tuple(state), tuple(weights), LENGTHS)
    batches_are_singles((outputs, *last), given)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_gradients_that_come_negated(kind):
    inputs, state, weights = random_call(kind)
    outputs, _ = sequence(inputs, tuple(state), tuple(weights), LENGTHS)
    above = torch.randn_like(outputs)
    found, wanted = (
        torch.autograd.grad(outputs, [inputs, *weights], one, retain_graph=True)
        for one in (torch._neg_view(above), -above)
    )
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


# --- a single step --------------------------------------------------------------------------------------------------


def parts_of_a_step(kind=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(5, width, dtype=kind, requires_grad=True) for width in (33, 33, 11)]


def formula(entering, carried, state):
    """As torch has it."""
    reset, update = torch.sigmoid(entering[:, :22] + carried[:, :22]).chunk(2, 1)
    candidate = torch.tanh(entering[:, 22:] + reset * carried[:, 22:])
    return (1 - update) * candidate + update * state


def test_a_step_and_its_gradients():
    given = parts_of_a_step()
    found, wanted = gru_step(*given), formula(*given)
    assert type(found.grad_fn).__name__ == "_StepBackward"
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(out.sum(), given) for out in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(gru_step, given)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "turn",
    [lambda x: TwoTensor(x, x.clone()), torch._neg_view, lambda x: x.float()],
    ids=["wrapped", "negated", "narrower"],
)
def test_a_step_of_what_is_not_plain_numbers_is_torchs(number, turn):
    given = [one.detach() for one in parts_of_a_step()]
    given[number] = turn(given[number])
    found = gru_step(*[one.requires_grad_() for one in given])
    if isinstance(found, TwoTensor):
        given[number], found = given[number].a, found.a
    torch.testing.assert_close(found, formula(*given).double(), rtol=1e-12, atol=1e-12, check_dtype=False)


def test_batches_of_gradients_of_a_step():
    given = parts_of_a_step()
    batches_are_singles(gru_step(*given), given)


def test_gradients_of_another_class_are_refused_in_words():
    given = parts_of_a_step()
    out = gru_step(*given)
    with pytest.raises(RuntimeError, match="a GRU's step in a loop takes gradients that are plain tensors.*TwoTensor"):
        torch.autograd.grad(out, given, TwoTensor(torch.ones_like(out), torch.ones_like(out)))
