"""Models of sequences whose gradients are written out: what a subclass overrides is called, at each step.

Beside it the attention of a memory-network, which may be another one.
"""

import pytest
import torch

import regard
from regard.attention.parts.score import Additive
from regard.models.memory.lstmn import LSTMNLayer
from tests.models.at_once import LAYER, PARTS, SETTINGS, TIME, check_by_steps, counting, given, made, stepped


@pytest.fixture
def at_once(monkeypatch):
    return counting(monkeypatch)


def overridden(kind, part, method, change):
    """The model with a part of a subclass that overrides one method."""
    model = made(kind)
    module = model.get_submodule(part)
    plain = getattr(type(module), method)
    module.__class__ = type("Own", (type(module),), {method: change(plain)})
    return model


def doubled_output(plain):
    def step(self, state, inputs):
        first, *others = plain(self, state, inputs)
        return (2 * first, *others)

    return step


def fuller(plain):
    """A state that is not that of the class: every tensor of it a little larger."""

    def start(self, batch):
        return torch.utils._pytree.tree_map(lambda one: one + 0.1, plain(self, batch))

    return start


def quieter(plain):
    return lambda self, *given: plain(self, *(torch.utils._pytree.tree_map(lambda one: one / 2, one) for one in given))


METHODS = [
    ("ntm", "", "step", doubled_output),
    ("ntm", "", "start", fuller),
    ("ntm", "controller", "start", fuller),
    ("dnc", "", "step", doubled_output),
    ("dnc", "", "start", fuller),
    ("dnc", "controller", "start", fuller),
    ("lstmn", "", "step", lambda plain: lambda self, *given: halved_output(plain(self, *given))),
    ("lstmn", "reader", "step", lambda plain: lambda self, *given: halved_output(plain(self, *given))),
    ("lstmn", LAYER, "step", doubled_output),
    ("lstmn", LAYER, "attend", lambda plain: lambda self, state, now: plain(self, state, now / 2)),
    ("lstmn", LAYER, "write", lambda plain: lambda self, state, *made: plain(self, state, *(one / 2 for one in made))),
    ("lstmn", f"{LAYER}.attention.score", "prepare", quieter),
    ("lstmn", f"{LAYER}.attention.score", "forward", quieter),
    (
        "lstmn",
        f"{LAYER}.attention",
        "forward",
        lambda plain: lambda self, query, *given: plain(self, query / 2, *given),
    ),
]


def halved_output(output_now):
    return output_now._replace(output=output_now.output / 2)


@pytest.mark.parametrize(("kind", "part", "method", "change"), METHODS, ids=lambda one: getattr(one, "__name__", None))
def test_a_method_that_a_subclass_overrides_is_called(kind, part, method, change, at_once):
    model, plain = overridden(kind, part, method, change), made(kind)
    assert not torch.allclose(check_by_steps(model, at_once), plain(given()))


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_step_put_on_the_model_itself_is_called(kind, at_once):
    model, calls = made(kind), []
    plain = model.step
    model.step = lambda state, inputs: calls.append(1) or plain(state, inputs)
    model(given())
    assert len(calls) == TIME and not at_once()


def test_another_property_is_asked(at_once):
    """A layer whose score is another one than its attention's prepares its keys by that."""
    model = made("lstmn")
    layer = model.get_submodule(LAYER)
    layer.other = Additive(layer.score.query_dim, layer.score.key_dim, layer.score.hidden_dim).double()
    layer.__class__ = type("Own", (LSTMNLayer,), {"score": property(lambda self: self.other)})
    check_by_steps(model, at_once)


@pytest.mark.parametrize("kind", SETTINGS)
def test_subclasses_that_do_the_same_are_right_and_called_step_by_step(kind, at_once):
    """Only the known classes are read at once: what a subclass does is not asked."""
    model = made(kind)
    wanted = model(given())
    for part in ("", *(part for one, part, _ in PARTS if one == kind)):
        module = model.get_submodule(part)
        if not part.endswith("normalizer"):  # any other class of it is another one
            module.__class__ = type("Own", (type(module),), {"extra_repr": lambda self: "own", "loss": lambda self: 0})
    at_once()
    torch.testing.assert_close(model(given()), wanted)
    assert not at_once()


# --- other attentions of a memory-network ---------------------------------------------------------------------------


def sparse(attention):
    attention.normalizer = regard.normalizer("sparsemax")


def cold(attention):
    attention.normalizer.temperature = 0.5


def sharp(attention):
    attention.refocus = (lambda weights: weights.square(),)


class Doubled(Additive):
    def pair_form(self, *given):
        query, *others = super().pair_form(*given)
        return (2 * query, *others)


def doubled(attention):
    attention.score.__class__ = Doubled


@pytest.mark.parametrize("change", [sparse, cold, sharp, doubled])
def test_another_attention_counts(change, at_once):
    model = made("lstmn")
    before = model(given())
    change(model.get_submodule(f"{LAYER}.attention"))
    at_once()
    found = model(given())
    assert not at_once() and not torch.allclose(found, before)
    torch.testing.assert_close(found, stepped(model, given()), rtol=1e-12, atol=1e-12)


def test_dropout_of_its_attention_counts_in_training(at_once):
    model = made("lstmn")
    before = model(given())
    model.get_submodule(f"{LAYER}.attention").dropout = 0.5
    at_once()
    torch.manual_seed(3)
    found = model.train()(given())
    assert not at_once() and not torch.allclose(found, before)
    torch.manual_seed(3)
    torch.testing.assert_close(found, stepped(model, given()), rtol=1e-12, atol=1e-12)
    assert torch.equal(model.eval()(given()), before) and at_once()
