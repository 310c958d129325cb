"""A cache is a value: nobody changes it, beams reorder it, and a window lets go of what nobody will see."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from regard.attention.modules.heads import Keys, SelfHeads
from regard.attention.parts.position_factory import position
from regard.layers.transformer.block import Block
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack

DIM, HEADS = 6, 3


def made(window=None, place=None):
    torch.manual_seed(7)
    blocks = [Block(SelfHeads(DIM, HEADS), FeedForward(DIM, 5), lambda: nn.LayerNorm(DIM)) for _ in range(2)]
    stack = Stack(blocks, causal=True, window=window, position=place, norm=nn.LayerNorm(DIM))
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.5)
    return stack.double().eval()


def held(cache):
    """The names of the keys that a cache holds, by row: each key is its own name."""
    return [[int(key) for key in row[0, 0, 0, :, 0].tolist()] for row in cache.states]


def named(cache, names, window=None, keep=None):
    """The cache after keys of these names, as a stack of one layer appends and lets go."""
    growth = cache.grow(len(names))
    key = torch.tensor(names, dtype=torch.float64).expand(len(cache.counted), 1, -1).unsqueeze(-1)
    seen = growth.add(0, Keys(key, -key))
    assert torch.equal(seen.value, -seen.key)
    length = seen.key.shape[2]
    return growth.done(keep, cache.counted + len(names), 0 if window is None else max(0, length - window))


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("prompt", [1, 6, 7, 8, 9, 20])
def test_a_window_holds_the_last_keys_B19(prompt, grad):
    """Window 8: after a prompt and one key at a time, the last 8 and no other; crossing beams in between."""
    window = 8
    with torch.set_grad_enabled(grad):
        cache = Cache.empty(2, 1, 1, 1, torch.zeros(1, dtype=torch.float64))
        cache = named(cache, list(range(prompt)), window)
        last = prompt + (75 if prompt == 8 else 12)  # once past the spare room, so that the buffer is made anew
        for new in range(prompt, last):
            cache = named(cache, [new], window)
            if new % 5 == 0:
                cache = tree_map(lambda leaf: leaf[[1, 0]], cache)
            assert held(cache) == [list(range(max(0, new - window + 1), new + 1))] * 2
        assert cache.counted.tolist() == [last] * 2


def test_the_stack_lets_go_by_the_window():
    """As the report counts: window 8, 6 keys, then one at a time: 7, 8, 8, 8 are held."""
    stack = made(window=8)
    with torch.no_grad():
        cache = stack(torch.randn(1, 6, DIM, dtype=torch.float64), cache=stack.start(1)).cache
        sizes = []
        for _ in range(4):
            cache = stack(torch.randn(1, 1, DIM, dtype=torch.float64), cache=cache).cache
            sizes.append(cache.slots)
    assert sizes == [7, 8, 8, 8]


@pytest.mark.parametrize("grad", [True, False])
def test_stepping_twice_from_one_state_gives_the_same_twice(grad):
    """The first continuation writes into the shared buffer; the second may not, and neither sees the other."""
    stack = made()
    x = torch.randn(2, 9, DIM, dtype=torch.float64)
    with torch.set_grad_enabled(grad):
        start = stack(x[:, :4], cache=stack.start(2)).cache
        before = start.states.clone()
        first = stack(x[:, 4:5], cache=start)
        other = stack(x[:, 7:8], cache=start)
        again = stack(x[:, 4:5], cache=start)
        further = stack(x[:, 5:6], cache=first.cache).output
        alone = stack(x[:, [0, 1, 2, 3, 7]]).output
    assert torch.equal(start.states, before)
    assert torch.equal(first.output, again.output)
    torch.testing.assert_close(further, stack(x[:, :6]).output[:, -1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(other.output, alone[:, -1:], rtol=0, atol=1e-12)


def test_a_step_writes_in_place_and_copies_only_when_the_room_is_full():
    stack = made()
    with torch.no_grad():
        cache = stack(torch.randn(1, 3, DIM, dtype=torch.float64), cache=stack.start(1)).cache
        places = []
        for _ in range(70):
            cache = stack(torch.randn(1, 1, DIM, dtype=torch.float64), cache=cache).cache
            places.append(cache.states.untyped_storage().data_ptr())
    assert cache.slots == 73
    assert len(set(places)) == 2


def test_weights_of_a_step_can_be_read_after_later_steps():
    """Later keys stand behind those of then, in the same buffer."""
    stack = made()
    x = torch.randn(1, 5, DIM, dtype=torch.float64)
    cache, looks = stack.start(1), []
    with torch.no_grad():
        for step in range(5):
            stacked = stack(x[:, step : step + 1], cache=cache)
            cache = stacked.cache
            looks.append(stacked.attended["self 1"])
        whole = stack(x).attended["self 1"].weights
    for step, look in enumerate(looks):
        torch.testing.assert_close(look.weights, whole[:, :, step : step + 1, : step + 1], rtol=0, atol=1e-12)


def test_rows_cross_as_beams_do():
    """Rows that were taken in another order, and twice, go on as those they were."""
    stack = made(place=position("rotary", dim=2))
    x = torch.randn(3, 6, DIM, dtype=torch.float64)
    rows = [2, 0, 0, 1]
    with torch.no_grad():
        cache = stack(x[:, :4], cache=stack.start(3)).cache
        assert [leaf.shape[0] for leaf in tree_leaves(cache)] == [3, 3]  # keys with values, and the count
        crossed = tree_map(lambda leaf: leaf[rows], cache)
        output = stack(x[rows, 4:], cache=crossed).output
        torch.testing.assert_close(output, stack(x).output[rows, 4:], rtol=0, atol=1e-12)


def test_gradients_flow_through_the_cache():
    stack = made()
    x = torch.randn(1, 5, DIM, dtype=torch.float64, requires_grad=True)
    cache = stack(x[:, :3], cache=stack.start(1)).cache
    parts = stack(x[:, 3:], cache=cache).output
    through, whole = (torch.autograd.grad(out.sum(), x)[0] for out in (parts, stack(x).output[:, 3:]))
    torch.testing.assert_close(through, whole, rtol=0, atol=1e-12)


def test_a_cache_of_inference_mode_continues_outside_of_it():
    stack = made()
    x = torch.randn(1, 5, DIM, dtype=torch.float64)
    with torch.inference_mode():
        cache = stack(x[:, :3], cache=stack.start(1)).cache
    with torch.no_grad():
        output = stack(x[:, 3:], cache=cache).output
        torch.testing.assert_close(output, stack(x).output[:, 3:], rtol=0, atol=1e-12)
