import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import regard
from regard.errors import ConfigError, ShapeError
from regard.layers.recurrent import BidirectionalEncoder, Recurrence

CELLS = ["gru", "lstm"]


def encoder(cell: str, layers: int = 1) -> BidirectionalEncoder:
    torch.manual_seed(0)
    return BidirectionalEncoder(cell, 3, 5, layers).double().eval()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", [[5, 3, 1], [5, 0, 2], [5, 5, 5], [3, 2, 0]])
def test_padding_changes_nothing(cell, layers, lengths):
    """B22: (final) states equal those of each sequence alone, both ways; padding reads 0. B03: NaN in padding."""
    model, inputs = encoder(cell, layers), torch.randn(3, 5, 3, dtype=torch.float64)
    for row, length in enumerate(lengths):
        inputs[row, length:] = torch.nan if row else 1e30
    inputs.requires_grad_()
    states, final = model(inputs, torch.tensor(lengths))
    assert states.shape == (3, 5, 10)
    assert [part.shape for part in final] == [(3, layers, 10)] * (2 if cell == "lstm" else 1)
    total = 0.0
    for row, length in enumerate(lengths):
        assert not states[row, length:].any()
        alone = inputs[row : row + 1, :length].detach().requires_grad_()
        own, own_final = model(alone)
        assert torch.allclose(states[row, :length], own[0], atol=1e-12)
        for part, own_part in zip(final, own_final, strict=True):
            assert torch.allclose(part[row], own_part[0], atol=1e-12)
        if length == 0:
            assert not any(part[row].any() for part in final)
            continue
        (expected,) = torch.autograd.grad(own.sum() + sum(part.sum() for part in own_final), alone)
        total = states[row].sum() + sum(part[row].sum() for part in final)
        (gradient,) = torch.autograd.grad(total, inputs, retain_graph=True)
        assert torch.allclose(gradient[row, :length], expected[0], atol=1e-12)
        assert not gradient[row, length:].any()
    gradients = torch.autograd.grad(states.sum() + final[0].sum(), list(model.parameters()))
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("batch", "positions"), [(0, 5), (3, 0), (1, 1), (1, 5), (3, 1)])
def test_axes_of_none_and_one(cell, batch, positions):
    """B15, B42."""
    states, final = encoder(cell, 2)(
        torch.randn(batch, positions, 3, dtype=torch.float64), torch.full((batch,), positions)
    )
    assert states.shape == (batch, positions, 10)
    assert final[0].shape == (batch, 2, 10)


@pytest.mark.parametrize("lengths", [[6, 2], [-1, 2]])
def test_lengths_that_do_not_fit(lengths):
    with pytest.raises(ShapeError, match="do not fit inputs of shape"):
        encoder("gru")(torch.zeros(2, 5, 3, dtype=torch.float64), torch.tensor(lengths))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
def test_steps_equal_one_call(cell, layers):
    """B18 for recurrent states: one at a time, in chunks, and all at once; the given state stays as it was (B36)."""
    torch.manual_seed(1)
    model = Recurrence(cell, 3, 5, layers).double()
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    first = tuple(torch.randn(2, layers, 5, dtype=torch.float64) for _ in range(model.parts))
    kept = [part.clone() for part in first]
    whole, last = model(inputs, first)
    for chunk in (1, 3):
        state, outputs = first, []
        for part in inputs.split(chunk, dim=1):
            output, state = model(part, state)
            outputs.append(output)
        assert torch.allclose(torch.cat(outputs, dim=1), whole, atol=1e-12)
        for part, expected in zip(state, last, strict=True):
            assert part.shape == (2, layers, 5)
            assert torch.allclose(part, expected, atol=1e-12)
    assert all(torch.equal(part, before) for part, before in zip(first, kept, strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("batch", "n"), [(0, 1), (0, 3), (2, 0), (1, 1)])
def test_recurrence_of_none_and_one(cell, batch, n):
    """B15, B42."""
    model = Recurrence(cell, 3, 5)
    state = tuple(torch.zeros(batch, 1, 5) for _ in range(model.parts))
    outputs, after = model(torch.zeros(batch, n, 3), state)
    assert outputs.shape == (batch, n, 5)
    assert after[0].shape == (batch, 1, 5)


@pytest.mark.parametrize("cell", CELLS)
def test_initialisation(cell):
    model = Recurrence(cell, 3, 5, 2)
    for layer in model.each:
        for gate in layer.weight_hh.split(5):
            assert torch.allclose(gate @ gate.T, torch.eye(5), atol=1e-5)
        forget = [0.0] * 5 + [1.0] * 5 + [0.0] * 10 if cell == "lstm" else [0.0] * 15
        assert (layer.bias_ih + layer.bias_hh).tolist() == forget


def test_the_encyclopaedias_count():
    """W18: the encoder's recurrent input is (300 + 500) × 500 = 400,000 weights for each gate."""
    with torch.device("meta"):
        layer = BidirectionalEncoder("gru", 300, 500).each[0]
    assert (layer.weight_ih_l0.numel() + layer.weight_hh_l0.numel()) / 3 == 400_000


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [[7, 7], [7, 3]])
def test_autocast_changes_speed_not_meaning(cell, lengths):
    """bfloat16 autocast works on processors with and without 16-bit instructions, and the state keeps its kind."""
    torch.manual_seed(2)
    encode, recur = BidirectionalEncoder(cell, 3, 5), Recurrence(cell, 3, 5)
    inputs, lengths = torch.randn(2, 7, 3), torch.tensor(lengths)
    state = tuple(torch.zeros(2, 1, 5) for _ in range(recur.parts))
    with torch.autocast("cpu", torch.bfloat16):
        states, final = encode(inputs, lengths)
        outputs, after = recur(inputs, state)
        one, _ = recur(inputs[:, :1], state)
    expected_states, expected_final = encode(inputs, lengths)
    expected, _ = recur(inputs, state)
    assert torch.allclose(states.float(), expected_states, atol=3e-2)
    assert torch.allclose(final[0].float(), expected_final[0], atol=3e-2)
    assert torch.allclose(outputs.float(), expected, atol=3e-2)
    assert torch.allclose(one.float(), expected[:, :1], atol=3e-2)
    assert {part.dtype for part in after} == {torch.float32}
    (states.float().sum() + outputs.float().sum()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in encode.parameters())


def test_an_unknown_cell():
    with pytest.raises(ConfigError, match="Did you mean 'lstm'"):
        Recurrence("lstmm", 3, 5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("width", [2, 4])
def test_inputs_of_another_width_are_refused(cell, steps, width):
    """torch's fused LSTM asks nobody: it gives an output of the right shape, of weights read at wrong places."""
    recur = Recurrence(cell, 3, 5)
    state = tuple(torch.zeros(2, 1, 5) for _ in range(recur.parts))
    with pytest.raises(ShapeError, match=f"inputs are {width} wide, as \\(2, {steps}, {width}\\); expected 3"):
        recur(torch.zeros(2, steps, width), state)


@pytest.mark.parametrize("cell", ("gru", "lstm"))
def test_who_listens_to_a_layer_or_a_cell_is_called_in_whole_sequences_too(cell):
    """What a hook makes of an output counts, as it does step by step."""
    torch.manual_seed(0)
    inputs, lengths = torch.randn(3, 5, 7), torch.tensor([5, 2, 3])
    recurrence, encoder = Recurrence(cell, 7, 2), BidirectionalEncoder(cell, 7, 2)
    state = (torch.zeros(3, 1, 2),) * recurrence.parts

    def lessen(module, given, out):
        return (out[0] / 2, *out[1:]) if isinstance(out, tuple) else out / 2

    plain, _ = encoder(inputs, lengths)
    recurrence.each[0].register_forward_hook(lessen)
    next(one for one in encoder.modules() if isinstance(one, torch.nn.RNNBase)).register_forward_hook(
        lambda module, given, out: (torch.nn.utils.rnn.PackedSequence(out[0].data / 2, *out[0][1:]), out[1])
    )
    torch.testing.assert_close(encoder(inputs, lengths)[0], plain / 2)
    whole, _ = recurrence(inputs, state)
    for step in range(5):
        one, state = recurrence(inputs[:, step : step + 1], state)
        torch.testing.assert_close(whole[:, step : step + 1], one)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("cell", ("gru", "lstm"))
def test_a_record_changes_no_bit(cell, gradients):
    """It looks for attentions, which layers and cells do not give: they are computed from their weights as before."""
    torch.manual_seed(0)
    inputs, lengths = torch.randn(3, 5, 7), torch.tensor([5, 0, 3])
    model = nn.ModuleList([Recurrence(cell, 7, 11), BidirectionalEncoder(cell, 7, 11)])
    recurrence, encoder = model
    state = (torch.zeros(3, 1, 11),) * recurrence.parts

    def found():
        whole, last = recurrence(inputs, state)
        return whole, *last, encoder(inputs, lengths)[0]

    with torch.set_grad_enabled(gradients):
        before, calls = found(), []
        with regard.record(model), pytest.MonkeyPatch.context() as patch:
            for kind in (nn.GRUCell, nn.LSTMCell):
                patch.setattr(kind, "__call__", lambda *given: calls.append(given))
            assert all(map(torch.equal, found(), before)) and not calls


class OwnGRUCell(nn.GRUCell):
    def forward(self, inputs, state=None):
        return 2 * super().forward(inputs, state)


class OwnLSTMCell(nn.LSTMCell):
    def forward(self, inputs, state=None):
        return tuple(2 * part for part in super().forward(inputs, state))


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(("kind", "own"), [("gru", OwnGRUCell), ("lstm", OwnLSTMCell)])
def test_a_cell_that_does_something_else_is_called_at_each_step(kind, own, gradients):
    model = Recurrence(kind, 3, 5).double()
    model.each[0] = own(3, 5).double()
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    first = tuple(torch.randn(2, 1, 5, dtype=torch.float64) for _ in range(model.parts))
    with torch.set_grad_enabled(gradients):
        whole, _ = model(inputs, first)
        state, each = first, []
        for one in inputs.split(1, dim=1):
            output, state = model(one, state)
            each.append(output)
    assert torch.equal(whole, torch.cat(each, dim=1))


def doubled(read, last):
    return (2 * read if isinstance(read, torch.Tensor) else read._replace(data=2 * read.data)), last


class OwnGRU(nn.GRU):
    def forward(self, inputs, state=None):
        return doubled(*super().forward(inputs, state))


class OwnLSTM(nn.LSTM):
    def forward(self, inputs, state=None):
        return doubled(*super().forward(inputs, state))


def without_gradients(model, *given):
    with torch.no_grad():
        return model(*given)


@pytest.mark.parametrize("lengths", [None, [7, 4]])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("which", ["own", "no bias"])
def test_a_layer_that_is_another_is_called(which, kind, lengths):
    """With gradients too, where others' are computed from their weights."""

    kinds = {"gru": OwnGRU, "lstm": OwnLSTM} if which == "own" else {"gru": nn.GRU, "lstm": nn.LSTM}
    model = BidirectionalEncoder(kind, 3, 5).double()
    model.each[0] = kinds[kind](3, 5, batch_first=True, bidirectional=True, bias=which == "own").double()
    given = torch.randn(2, 7, 3, dtype=torch.float64), None if lengths is None else torch.tensor(lengths)
    torch.testing.assert_close(model(*given), without_gradients(model, *given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_parametrized_layers_are_what_torch_makes_of_them(kind):
    recurrence, both = Recurrence(kind, 3, 5).double(), BidirectionalEncoder(kind, 3, 5).double()
    nn.utils.parametrizations.weight_norm(recurrence.each[0], "weight_hh")
    nn.utils.parametrizations.weight_norm(both.each[0], "weight_hh_l0")
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    state = tuple(torch.randn(2, 1, 5, dtype=torch.float64) for _ in range(recurrence.parts))
    for model, given in ((recurrence, (inputs, state)), (both, (inputs, torch.tensor([7, 4])))):
        out = model(*given)
        torch.testing.assert_close(out, without_gradients(model, *given), rtol=1e-12, atol=1e-12)
        slopes = torch.autograd.grad(out[0].sum(), list(model.parameters()), allow_unused=True)
        assert all(slope is not None and slope.abs().sum() > 0 for slope in slopes)


def test_types_that_differ_are_torchs_to_add_or_to_refuse():
    model = Recurrence("gru", 3, 5)
    inputs, state = torch.randn(2, 7, 3), (torch.zeros(2, 1, 5),)
    for name in ("bias_ih", "bias_hh", "weight_ih"):
        cell = nn.GRUCell(3, 5)
        setattr(cell, name, nn.Parameter(getattr(cell, name).detach().double()))
        model.each[0] = cell
        found = []
        for run in (model, lambda *given: without_gradients(model, *given)):
            try:
                found.append(run(inputs, state)[0].detach())
            except RuntimeError as error:
                found.append(str(error))
        assert found[0] == found[1] if isinstance(found[0], str) else torch.allclose(*found, atol=1e-6)


@pytest.mark.parametrize("kind", CELLS)
def test_wrapped_weights(kind):
    """A class that torch hands its operations to has no numbers of its own."""
    model, inputs = BidirectionalEncoder(kind, 3, 5), torch.randn(2, 7, 3)
    wanted = model(inputs, torch.tensor([7, 4]))[0]
    layer = model.each[0]
    for name, weight in list(layer._parameters.items()):
        layer._parameters[name] = nn.Parameter(TwoTensor(weight.detach(), weight.detach().clone()))
    found = model(inputs, torch.tensor([7, 4]))[0]  # torch's layer goes on with the weights that it has put together
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind", CELLS)
def test_weights_that_are_made_are_asked_for_once(kind):
    """Those of spectral norm change each time."""

    class Counted(nn.Module):
        calls = 0

        def forward(self, weight):
            Counted.calls += 1
            return weight * 1

    recurrence, both = Recurrence(kind, 3, 5), BidirectionalEncoder(kind, 3, 5)
    nn.utils.parametrize.register_parametrization(recurrence.each[0], "weight_hh", Counted())
    nn.utils.parametrize.register_parametrization(both.each[0], "weight_hh_l0", Counted())
    inputs, state = torch.randn(2, 7, 3), tuple(torch.randn(2, 1, 5) for _ in range(recurrence.parts))
    for model, given in ((recurrence, (inputs, state)), (both, (inputs, torch.tensor([7, 4])))):
        Counted.calls = 0
        model(*given)
        assert Counted.calls == 1
