"""A step in one compiled call: it comes back once nobody listens any more, and leaves be what it does not know."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.testing import assert_close

import regard
from regard.attention.modules.heads import SelfHeads
from regard.attention.parts.position_factory import position
from regard.kernels.transformer.step import Steps
from regard.layers.dropout import Dropout
from regard.layers.transformer import step as stepping
from regard.layers.transformer.block import Block
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings
from tests.native import needs_compiler

pytestmark = needs_compiler

WORDS, DIM = 47, 22


def stack():
    torch.manual_seed(5)
    blocks = [Block(SelfHeads(DIM, 2), FeedForward(DIM, 37), lambda: nn.LayerNorm(DIM), dropout=0.5) for _ in range(3)]
    made = Stack(blocks, causal=True, position=position("learned", count=41, dim=DIM), norm=nn.LayerNorm(DIM))
    return made.eval()


def model():
    torch.manual_seed(3)
    sizes = {"dim": DIM, "heads": 2, "layers": 3, "context": 41, "feed_forward_dim": 37, "position": "learned"}
    made = TransformerLanguageModel(TransformerLanguageSettings(**sizes), WORDS)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.eval()


class Text:
    """A text that goes on and on: whether each next step of it was made in one call."""

    def __init__(self, made, monkeypatch):
        self.made, self.calls = made, []
        for name in ("step", "write"):
            whole = getattr(Steps, name)
            monkeypatch.setattr(Steps, name, lambda *given, _whole=whole: self.calls.append(1) or _whole(*given))
        self.is_stack = isinstance(made, Stack)
        self.state = made.start(1) if self.is_stack else made.start(None, 1)

    @torch.no_grad()
    def next(self):
        self.calls.clear()
        if self.is_stack:
            self.state = self.made(torch.ones(1, 1, DIM), cache=self.state).cache
        else:
            self.state = self.made.step(self.state, torch.tensor([[7]])).state
        return bool(self.calls)


def inner(made):
    return (made if isinstance(made, Stack) else made.stack).blocks[1].feed_forward.inputs


HOOKS = {
    "after": lambda made: inner(made).register_forward_hook(lambda *given: None),
    "before": lambda made: inner(made).register_forward_pre_hook(lambda *given: None),
    "on an attention": lambda made: (
        (made if isinstance(made, Stack) else made.stack).blocks[2].attention.register_forward_hook(lambda *given: None)
    ),
    "on all modules": lambda made: nn.modules.module.register_module_forward_hook(lambda *given: None),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("make", [stack, model])
def test_the_step_comes_back_when_a_hook_is_gone(make, hook, monkeypatch):
    made = make()
    text = Text(made, monkeypatch)
    assert text.next() and text.next()
    handle = HOOKS[hook](made)
    try:
        assert not text.next() and not text.next()
    finally:
        handle.remove()
    assert text.next() and text.next()


@pytest.mark.parametrize("make", [stack, model])
def test_a_weight_that_is_turned_round_where_it_lies_is_read_so(make, monkeypatch):
    made = make()
    text, other = Text(made, monkeypatch), Text(copy.deepcopy(made), monkeypatch)
    text.next(), other.next()
    for each in (made, other.made):
        weight = (each if make is stack else each.stack).blocks[0].attention.output.weight
        address = weight.data_ptr()
        weight.data = weight.data.t()
        assert weight.data_ptr() == address
    stepping.invalidate(other.made)
    assert text.next() and other.next()
    kept = (text.state, other.state) if make is stack else (text.state.moving, other.state.moving)
    assert torch.equal(kept[0].states, kept[1].states)


@pytest.mark.parametrize("make", [stack, model])
def test_one_of_two_hooks_is_still_called(make, monkeypatch):
    made, fired = make(), []
    text = Text(made, monkeypatch)
    one, other = (inner(made).register_forward_hook(lambda *given: fired.append(1)) for _ in range(2))
    assert not text.next() and len(fired) == 2
    one.remove()
    assert not text.next() and len(fired) == 3
    other.remove()
    assert text.next() and len(fired) == 3


@pytest.mark.parametrize("make", [stack, model])
def test_the_step_comes_back_after_a_record_and_a_mask(make, monkeypatch):
    """A record listens to attentions; a mask is made by a hook until it is made permanent."""
    made = make()
    text = Text(made, monkeypatch)
    with regard.record(made) as seen:
        assert not text.next()
    assert len(seen.names()) == 3 and text.next()
    prune.l1_unstructured(inner(made), "weight", amount=0.5)
    assert not text.next()
    prune.remove(inner(made), "weight")
    assert text.next()


def test_the_step_comes_back_within_a_search(monkeypatch):
    """Where a loop of steps looks at the parts once, it looks until it has found a step."""
    made = model()
    text = Text(made, monkeypatch)
    handle = inner(made).register_forward_hook(lambda *given: None)
    with stepping.assume_unmodified(made):
        assert not text.next()
        handle.remove()
        assert text.next() and text.next()


@pytest.mark.parametrize("make", [stack, model])
def test_a_model_with_hooks_is_not_searched_at_each_step(make, monkeypatch):
    made, looked = make(), []
    text = Text(made, monkeypatch)
    inner(made).register_forward_hook(lambda *given: None)
    whole = stepping._CachedSteps
    monkeypatch.setattr(stepping, "_CachedSteps", lambda *given: looked.append(1) or whole(*given))
    for _ in range(5):
        text.next()
    assert len(looked) == (1 if make is stack else 2)  # a model's own steps, and those of its stack


# --- parts that may do something else --------------------------------------------------------------------------------


class Always(Dropout):
    """Drops in evaluation too, as in Monte Carlo dropout (Gal & Ghahramani 2016), but the same numbers each time."""

    def forward(self, inputs):
        kept = torch.arange(inputs.shape[-1]) % 2
        return 2 * inputs * kept


class Scaled(nn.Module):
    def forward(self, inputs):
        return inputs / 3


class Parallel(nn.Module):
    """A block of one's own, both parts of which read the same."""

    def __init__(self, like):
        super().__init__()
        self.attention, self.feed_forward, self.across = like.attention, like.feed_forward, None
        self.attention_norm, self.feed_forward_norm = like.attention_norm, like.feed_forward_norm
        self.order, self.dropout = "pre", like.dropout

    def forward(self, x, attention_context, memory=None, cross_attention_context=None, remember=None):
        read = self.attention_norm(x)
        query, keys = self.attention.project(read, attention_context.rotation)
        looked = self.attention(query, keys if remember is None else remember(keys), attention_context)
        return x + looked.context + self.feed_forward(read), looked, None


def of_blocks(change):
    def changed(made):
        for number, block in enumerate(made.blocks):
            change(made, number, block)

    return changed


def put(name, value):
    return of_blocks(lambda made, number, block: setattr(block, name, value))


def projecting(made, number, block):
    plain = block.attention.project

    def project(x, turn):
        query, keys = plain(x, turn)
        return query / 2, keys

    block.attention.project = project


def further(made):
    plain = made.position.add
    made.position.add = lambda x, positions: plain(x, positions + 1)


CHANGES = {
    "dropout that stays": put("dropout", Always(0.5)),
    "a scale for dropout": put("dropout", Scaled()),
    "what comes in": lambda made: setattr(made, "dropout", Scaled()),
    "blocks of one's own": of_blocks(lambda made, number, block: made.blocks.__setitem__(number, Parallel(block))),
    "a projection of one's own": of_blocks(projecting),
    "positions of one's own": further,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", [stack, model])
@torch.no_grad()
def test_parts_that_do_something_else_are_called(make, change, monkeypatch):
    """The steps are those of the layers, which have hooks and so are called."""
    made = make()
    before = read(made)
    CHANGES[change](made if make is stack else made.stack)
    made.eval()
    found = read(made)
    inner_layer = (made if make is stack else made.stack).blocks[0].attention.output
    inner_layer.register_forward_hook(lambda *given: None)
    assert_close(found, read(made), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-3)


def read(made, steps=5):
    """All outputs of a text, step by step."""
    outputs = []
    if isinstance(made, Stack):
        x = torch.randn(1, steps, DIM, generator=torch.Generator().manual_seed(1))
        state = made.start(1)
        for one in x.split(1, dim=1):
            step = made(one, cache=state)
            outputs.append(step.output)
            state = step.cache
    else:
        state = made.start(None, 1)
        for word in range(2, 2 + steps):
            step = made.step(state, torch.tensor([[word]]))
            outputs.append(step.logits)
            state = step.state
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("part", [Dropout(0.5), nn.Dropout(0.5), nn.Identity()], ids=lambda part: str(part))
def test_what_drops_nothing_in_evaluation_is_passed_over(part, monkeypatch):
    made = stack()
    put("dropout", copy.deepcopy(part).eval())(made)
    made.dropout = copy.deepcopy(part).eval()
    assert Text(made, monkeypatch).next()
