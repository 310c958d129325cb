"""What is remembered of a tensor while it is alive and unchanged."""

import gc
import weakref

import pytest
import torch

from regard.kernels.autograd.tensor_cache import TensorCache


class Looks:
    """What is made of a tensor is the number of the look."""

    def __init__(self):
        self.count, self.known = 0, TensorCache()

    def at(self, tensor):
        return self.known.get(tensor, self.make)

    def make(self, tensor):
        self.count += 1
        return self.count


def test_it_is_remembered_until_the_tensor_changes():
    looks, one, other = Looks(), torch.zeros(3), torch.zeros(3)
    assert looks.at(one) == looks.at(one) == 1
    assert looks.at(other) == 2 and looks.at(one.view(3)) == 3  # by the object, not by its numbers or memory
    assert looks.at(one) == 1
    one[0] = 5
    assert looks.at(one) == looks.at(one) == 4
    with torch.no_grad():
        one.view(-1)[1:].mul_(2)  # a view's change is the tensor's
    assert looks.at(one) == 5


@pytest.mark.parametrize(
    "other", [lambda one: torch.ones(3, 3), lambda one: one[:, :2], lambda one: one.t()], ids=["new", "part", "turned"]
)
def test_other_memory_in_its_place_is_another_tensor(other):
    looks, one = Looks(), torch.zeros(3, 3)
    looks.at(one)
    one.data = other(one)
    assert looks.at(one) == looks.at(one) == 2


def test_nothing_is_remembered_in_inference_mode():
    looks = Looks()
    with torch.inference_mode():
        one = torch.zeros(3)
    assert (looks.at(one), looks.at(one)) == (1, 2) and len(looks.known._found) == 0


def test_what_is_written_while_it_is_checked_is_checked_again():
    """By another thread, say: what was found may be of the numbers before."""
    known, one = TensorCache(), torch.zeros(3)

    def find(tensor):
        found = tensor.sum().item()
        if found == 0:
            tensor.add_(1)
        return found

    assert [known.get(one, find) for _ in range(3)] == [0, 3, 3]


def test_what_could_not_be_made_leaves_nothing():
    known, one = TensorCache(), torch.zeros(3)

    def fails(tensor):
        raise MemoryError

    for _ in range(2):
        with pytest.raises(MemoryError):
            known.get(one, fails)
    assert known.get(one, lambda tensor: None) is None
    assert known.get(one, fails) is None  # None is a finding


def test_a_tensor_dies_with_what_was_found():
    class Finding:
        pass

    known, one = TensorCache(), torch.zeros(3)
    gone = weakref.ref(known.get(one, lambda tensor: Finding()))
    gc.collect()
    assert gone() is not None
    del one
    gc.collect()
    assert gone() is None
