"""The bookkeeping of a differentiable neural computer: numbers by hand, and the loops of tests/reference/dnc.py."""

import pytest
import torch
from torch.testing import assert_close

from regard.layers.dynamic_memory import (
    allocation,
    along,
    linked,
    oneplus,
    preceding,
    read_weighting,
    retention,
    used,
    write_weighting,
    written,
)
from tests.reference import dnc as plain


def tensor(*rows):
    return torch.tensor([*rows], dtype=torch.float64)


def test_allocation_by_hand():
    # Freest first: 0.8 of slot 1; what it leaves, 0.2, times 0.5 to slot 0; then 0.2 × 0.5 × 0.2 to slot 2.
    assert_close(allocation(tensor([0.5, 0.2, 0.8])), tensor([0.1, 0.8, 0.02]))
    assert_close(allocation(tensor([0.5, 0.0, 0.25])), tensor([0.0, 1.0, 0.0]))  # a wholly free slot takes all
    assert_close(allocation(tensor([0.0, 0.0, 0.0])), tensor([1.0, 0.0, 0.0]))  # the first of equals
    assert_close(allocation(tensor([1.0, 1.0])), tensor([0.0, 0.0]))  # nothing is free


def test_usage_by_hand():
    # Both slots were written; a head that frees what it reads reads one fifth of the first and all of the second.
    kept = retention(tensor([1.0]), tensor([[0.2, 1.0]]))
    assert_close(kept, tensor([0.8, 0.0]))
    assert_close(used(tensor([0.5, 0.0]), tensor([0.5, 1.0]), kept), tensor([0.6, 0.0]))
    assert_close(retention(tensor([0.0]), tensor([[0.2, 1.0]])), tensor([1.0, 1.0]))  # a closed gate frees nothing


def test_links_of_three_writes_by_hand():
    link, last = torch.zeros(1, 3, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    for write in ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.2, 0.0, 0.0]):
        link, last = linked(link, last, tensor(write)), preceding(last, tensor(write))
    assert_close(link, tensor([[0.0, 0.1, 0.1], [0.2, 0.0, 0.0], [0.2, 0.25, 0.0]]))
    assert_close(last, tensor([0.2, 0.4, 0.4]))


def test_links_follow_the_order_of_writing():
    link, last = torch.zeros(1, 4, 4), torch.zeros(1, 4)
    for slot in (2, 0, 3):
        write = torch.eye(4)[slot : slot + 1]
        link, last = linked(link, last, write), preceding(last, write)
    at_0 = torch.eye(4)[:1].unsqueeze(0)
    forward, backward = along(link, at_0)
    assert forward.argmax() == 3 and backward.argmax() == 2  # after slot 0 came 3, before it 2


def test_a_closed_write_gate_writes_nothing():
    content = torch.full((1, 1, 3), 1 / 3)
    room, one, none = tensor([0.1, 0.8, 0.02]).float(), torch.ones(1, 1), torch.zeros(1, 1)
    assert_close(write_weighting(room, one, none)(content), torch.zeros(1, 1, 3))
    assert_close(write_weighting(room, one, one)(content)[0], room)
    assert_close(write_weighting(room, none, one)(content), content)


def test_read_modes_choose_backward_content_forward():
    backward, content, forward = (torch.eye(3)[part].reshape(1, 1, 3) for part in range(3))
    for mode, expected in enumerate((backward, content, forward)):
        modes = torch.eye(3)[mode].reshape(1, 1, 3)
        assert_close(read_weighting(forward, backward, modes)(content), expected)


def test_oneplus():
    assert_close(oneplus(torch.tensor([0.0, -40.0])), torch.tensor([1.6931472, 1.0]))


@pytest.mark.parametrize("slots", [1, 5, 7])
def test_equal_the_loops(slots):
    torch.manual_seed(slots)
    usage, write, precedence = torch.rand(3, 2, slots, dtype=torch.float64)
    write = write / slots
    read, free = torch.rand(2, 3, slots, dtype=torch.float64), torch.rand(2, 3, dtype=torch.float64)
    link, memory = torch.rand(2, slots, slots, dtype=torch.float64), torch.randn(2, slots, 3, dtype=torch.float64)
    erase, add = torch.rand(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    kept = retention(free, read)
    forward, backward = along(link, read)
    for item in range(2):
        w, p, u = write[item].tolist(), precedence[item].tolist(), usage[item].tolist()
        assert_close(kept[item], tensor(*plain.retention(free[item].tolist(), read[item].tolist())))
        assert_close(used(usage, write, kept)[item], tensor(*plain.used(u, w, kept[item].tolist())))
        assert_close(allocation(usage)[item], tensor(*plain.allocation(u)))
        assert_close(linked(link, precedence, write)[item], tensor(*plain.linked(link[item].tolist(), p, w)))
        assert_close(preceding(precedence, write)[item], tensor(*plain.preceding(p, w)))
        assert_close(
            written(memory, write, erase, add)[item],
            tensor(*plain.written(memory[item].tolist(), w, erase[item].tolist(), add[item].tolist())),
        )
        for head in range(3):
            ahead, back = plain.along(link[item].tolist(), read[item, head].tolist())
            assert_close(forward[item, head], tensor(*ahead))
            assert_close(backward[item, head], tensor(*back))


def test_b04_the_gradient_of_an_allocation_of_free_slots_is_finite():
    usage = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    allocation(usage).square().sum().backward()
    assert usage.grad is not None and torch.isfinite(usage.grad).all()
