"""A stack's step of one position in one compiled call, beside the layers' own calls."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.testing import assert_close

from regard.attention.modules.heads import SelfHeads
from regard.attention.parts.position_factory import position
from regard.errors import ShapeError
from regard.kernels.native import compiler
from regard.layers.dropout import Dropout
from regard.layers.transformer import step as stepping
from regard.layers.transformer.block import Block
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack
from tests.native import needs_compiler

pytestmark = needs_compiler

PLACES = {
    "none": None,
    "sinusoidal": {"dim": 0},
    "learned": {"count": 41, "dim": 0},
    "alibi": {"heads": 0},
    "t5": {"heads": 0},
}


def made(
    dim=22, heads=2, hidden=37, *, layers=3, place="none", order="pre", activation="gelu", norm=nn.LayerNorm,
    key_heads=None, window=None, bias=True,
):  # fmt: skip
    torch.manual_seed(5)
    sizes = {"dim": dim, "heads": heads, "count": 41}
    part = None if place == "none" else position(place, **{name: sizes[name] for name in PLACES[place]})
    blocks = [
        Block(
            SelfHeads(dim, heads, key_heads=key_heads, bias=bias),
            FeedForward(dim, hidden, activation, bias),
            lambda: norm(dim, eps=1e-6),
            order=order,
        )
        for _ in range(layers)
    ]
    last = norm(dim, eps=1e-6) if order == "pre" else None
    stack = Stack(blocks, causal=True, window=window, position=part, norm=last)
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.4)
    return stack.eval()


@torch.no_grad()
def read(stack, x, prompt):
    """A prompt, then one position at a time: outputs, the last cache, where the last step looked."""
    found = stack(x[:, :prompt], cache=stack.start(1)) if prompt else None
    cache = stack.start(1) if found is None else found.cache
    outputs = [] if found is None else [found.output]
    for one in x[:, prompt:].split(1, dim=1):
        found = stack(one, cache=cache)
        outputs.append(found.output)
        cache = found.cache
    return torch.cat(outputs, 1), cache, found.attended


def taken(stack, x):
    """How often the compiled step was taken for a text of these vectors."""
    calls = []
    whole = stepping.one_more

    def counted(*given):
        calls.append(1)
        return whole(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.layers.transformer.stack.one_more", counted)
        read(stack, x, 0)
    return len(calls)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"dim": 96, "heads": 3, "hidden": 130},
        {"bias": False},
        {"order": "post"},
        {"norm": nn.RMSNorm, "activation": "swiglu", "bias": False},
        {"activation": "relu", "place": "sinusoidal"},
        {"place": "learned"},
        {"place": "alibi"},
        {"place": "t5", "window": 7},
        {"window": 5},
        {"dim": 24, "heads": 6, "key_heads": 2, "window": 11},
    ],
    ids=str,
)
@pytest.mark.parametrize("prompt", [0, 9])
def test_a_step_is_that_of_the_layers(chosen, prompt, monkeypatch):
    """The same vectors, cache and weights as torch's calls make of them; the prompt is read the usual way."""
    stack = made(**chosen)
    x = torch.randn(1, 31, chosen.get("dim", 22))
    assert taken(stack, x) == chosen.get("window", 31)  # beyond its window a stack goes the usual way
    outputs, cache, looked = read(stack, x, prompt)
    monkeypatch.setattr(stepping, "_steps", lambda stack: None)
    others, other, elsewhere = read(stack, x, prompt)
    assert_close(outputs, others, rtol=2e-5, atol=2e-5)
    assert_close(cache.states, other.states, rtol=2e-5, atol=2e-5)
    assert torch.equal(cache.counted, other.counted)
    assert list(looked) == list(elsewhere) and len(looked) == 3
    for name, attended in elsewhere.items():
        assert_close(looked[name].weights, attended.weights, rtol=1e-4, atol=2e-5)
        assert_close(looked[name].context, attended.context, rtol=2e-5, atol=2e-5)


def test_weights_that_lie_by_their_inputs():
    """As a language model's are laid out for steps."""
    stack = made(dim=34, heads=2, hidden=83)
    x = torch.randn(1, 13, 34)
    expected, *_ = read(stack, x, 0)
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    assert taken(stack, x) == 13
    assert_close(read(stack, x, 0)[0], expected, rtol=2e-5, atol=2e-5)


def test_changed_weights_are_seen_within_a_text():
    """In place, as another tensor, as another parameter: a step always has the weights of now."""
    stack = made()
    x = torch.randn(1, 1, 22)
    linear = stack.blocks[1].feed_forward.output
    with torch.no_grad():
        before = stack(x, cache=stack.start(1)).output
        cache = stack.start(1)
        stack(x, cache=cache)
        changes = [
            lambda: linear.weight.mul_(2),
            lambda: setattr(linear.weight, "data", linear.weight.data * 2),
            lambda: setattr(linear, "weight", nn.Parameter(linear.weight * 2)),
        ]
        for change in changes:
            change()
            now = stack(x, cache=cache).output
            assert not torch.allclose(now, before, atol=1e-3)
            assert_close(now[:, 0], stack(x).output[:, 0], rtol=2e-5, atol=2e-5)
            before = now


def test_what_the_loop_does_not_know_goes_the_usual_way():
    """Gradients, several rows, other types, training, padding, rotary positions, hooks."""
    x = torch.randn(1, 3, 22)
    assert taken(made(), x) == 3
    assert taken(made().double(), x.double()) == 0
    assert taken(made().train(), x) == 0
    hooked = made()
    hooked.blocks[0].feed_forward.register_forward_hook(lambda *given: None)
    assert taken(hooked, x) == 0
    stack = made()
    assert stack(x[:, :1], cache=stack.start(1)).output.requires_grad
    with torch.no_grad():
        two = stack(x[:, :1].expand(2, -1, -1), cache=stack.start(2)).output
        assert_close(two[:1], stack(x[:, :1], cache=stack.start(1)).output, rtol=2e-5, atol=2e-5)
        padded = stack(x, keep=torch.tensor([[False, True, True]]), cache=stack.start(1)).cache
        assert stack(x[:, :1], cache=padded).cache.keep.tolist() == [[False, True, True, True]]


def test_a_nan_stays_one():
    """A vector that is not a number gives such a vector, and the next text is untouched."""
    stack = made()
    x = torch.randn(1, 2, 22)
    fine, *_ = read(stack, x, 0)
    ill = x.clone()
    ill[0, 0, 3] = torch.nan
    assert read(stack, ill, 0)[0].isnan().all()
    assert torch.equal(read(stack, x, 0)[0], fine)


def test_threads_change_no_bit():
    """Rows are shared among threads; each sum is made by one."""
    stack = made(dim=512, heads=8, hidden=2048, layers=1)
    x = torch.randn(1, 3, 512)
    one, *_ = read(stack, x, 0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        several, *_ = read(stack, x, 0)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, several)


def test_without_a_compiler_the_layers_serve(monkeypatch):
    """The same, switched off."""
    stack, x = made(), torch.randn(1, 4, 22)
    expected, *_ = read(stack, x, 0)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    assert taken(stack, x) == 0
    assert_close(read(stack, x, 0)[0], expected, rtol=2e-5, atol=2e-5)


# --- what may change between two steps of one text -------------------------------------------------------------------


class Doubled(nn.Module):
    """Of a linear layer, as adapters stand in its place; or of a weight, as a parametrization."""

    def __init__(self, layer=None):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return 2 * (x if self.layer is None else self.layer(x))


def widening(stack):
    return stack.blocks[1].feed_forward.inputs


def replace_forward(module):
    forward = module.forward
    module.forward = lambda x: 2 * forward(x)


def cut(stack):
    """Half of the hidden units are taken out; `out_features` is not told."""
    network = stack.blocks[1].feed_forward
    network.inputs.weight = nn.Parameter(network.inputs.weight[:19].contiguous())
    network.inputs.bias = nn.Parameter(network.inputs.bias[:19].contiguous())
    network.output.weight = nn.Parameter(network.output.weight[:, :19].contiguous())


CHANGES = {
    "a hook": lambda stack: widening(stack).register_forward_hook(lambda *given: 2 * given[-1]),
    "a hook on a block": lambda stack: stack.blocks[0].register_forward_hook(
        lambda *given: (-given[-1][0], None, None)
    ),
    "another forward": lambda stack: replace_forward(widening(stack)),
    "another network's forward": lambda stack: replace_forward(stack.blocks[1].feed_forward),
    "an adapter": lambda stack: setattr(stack.blocks[1].feed_forward, "inputs", Doubled(widening(stack))),
    "another layer": lambda stack: setattr(stack.blocks[1].feed_forward, "inputs", nn.Linear(22, 37)),
    "a block less": lambda stack: stack.blocks.__delitem__(2),
    "a mask": lambda stack: prune.l1_unstructured(widening(stack), "weight", amount=0.5),
    "a mask of a bias": lambda stack: prune.l1_unstructured(widening(stack), "bias", amount=0.5),
    "a parametrization": lambda stack: parametrize.register_parametrization(widening(stack), "weight", Doubled()),
    "no bias": lambda stack: setattr(widening(stack), "bias", None),
    "a bias with gaps": lambda stack: setattr(widening(stack), "bias", nn.Parameter(torch.randn(74)[::2])),
    "one number as bias": lambda stack: setattr(widening(stack), "bias", nn.Parameter(torch.ones(1).expand(37))),
    "a norm with gaps": lambda stack: setattr(stack.norm, "weight", nn.Parameter(torch.randn(44)[::2])),
    "fewer units": cut,
    "other weights": lambda stack: stack.load_state_dict({k: 1.5 * v for k, v in stack.state_dict().items()}),
    "other tensors": lambda stack: stack.load_state_dict(
        {k: 1.5 * v for k, v in stack.state_dict().items()}, assign=True
    ),
    "another type and back": lambda stack: stack.half().float(),
}


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_a_step_after_a_change_is_that_of_the_layers(change, monkeypatch):
    stack, x = made(), torch.randn(1, 5, 22)
    cache = stack.start(1)
    for one in x[:, :4].split(1, dim=1):
        cache = stack(one, cache=cache).cache
    CHANGES[change](stack)
    if change == "a block less":
        cache = Cache(cache.states[:, :2].clone(), None, cache.counted)
    found = stack(x[:, 4:], cache=cache).output
    monkeypatch.setattr(stepping, "_steps", lambda stack: None)
    stepping.invalidate(stack)
    assert_close(found, stack(x[:, 4:], cache=cache).output, rtol=2e-5, atol=2e-5)


def test_a_hook_on_all_modules_is_called():
    stack, x = made(), torch.randn(1, 1, 22)
    with torch.no_grad():
        cache = stack(x, cache=stack.start(1)).cache
        fired = []
        handle = nn.modules.module.register_module_forward_hook(lambda *given: fired.append(1))
        try:
            stack(x, cache=cache)
        finally:
            handle.remove()
    assert len(fired) > 20


def test_dropout_left_on_in_evaluation_draws():
    """As in Monte Carlo dropout (Gal & Ghahramani 2016)."""
    stack, x = made(), torch.randn(1, 2, 22)
    for block in stack.blocks:
        block.dropout = Dropout(0.5).train()
    assert not torch.equal(read(stack, x, 0)[0], read(stack, x, 0)[0])


def test_another_kind_of_block_makes_its_own_step():
    class Silent(Block):
        def forward(self, x, *given):
            return (0 * x, *super().forward(x, *given)[1:])

    stack, x = made(), torch.randn(1, 3, 22)
    stack.blocks[2].__class__ = Silent
    outputs, *_ = read(stack, x, 0)
    assert_close(outputs, stack.norm(torch.zeros(1, 3, 22)), rtol=0, atol=0)


@torch.no_grad()
def test_what_does_not_fit_is_refused():
    """A loop would read what lies behind: vectors of another width, a cache of other heads or numbers."""
    stack = made()
    for width in (5, 21, 23):
        with pytest.raises(RuntimeError, match="22"):
            stack(torch.randn(1, 1, width), cache=stack.start(1))
    x, other = torch.randn(1, 1, 22), made(heads=1)
    with pytest.raises(RuntimeError):
        stack(x, cache=other(x, cache=other.start(1)).cache)
    cache = stack(x, cache=stack.start(1)).cache
    with pytest.raises(ShapeError, match="dtype"):
        stack(x, cache=Cache(cache.states.bfloat16(), None, cache.counted))
