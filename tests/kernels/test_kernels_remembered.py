"""What is remembered of a tensor while it is alive and unchanged."""

import gc
import weakref

import torch

from regard.kernels.remembered import Remembered


def test_it_is_remembered_until_the_tensor_changes():
    known, one, other = Remembered(), torch.zeros(3), torch.zeros(3)
    assert known.get(one) is None
    assert known.keep(one, "of one") == "of one" == known.get(one)
    assert known.get(other) is None and known.get(one.view(3)) is None  # by the object, not by its numbers or memory
    one[0] = 5
    assert known.get(one) is None
    known.keep(one, "later")
    with torch.no_grad():
        one.view(-1)[1:].mul_(2)  # a view's change is the tensor's
    assert known.get(one) is None


def test_other_memory_in_its_place_is_another_tensor():
    known, one = Remembered(), torch.zeros(3)
    known.keep(one, 1)
    one.data = torch.ones(3)
    assert known.get(one) is None


def test_nothing_is_remembered_in_inference_mode():
    known = Remembered()
    with torch.inference_mode():
        one = torch.zeros(3)
    assert known.keep(one, 1) == 1 and known.get(one) is None


def test_a_tensor_dies_with_what_was_found():
    class Finding:
        pass

    known, one, found = Remembered(), torch.zeros(3), Finding()
    known.keep(one, found)
    gone = weakref.ref(found)
    del found
    assert gone() is not None
    del one
    gc.collect()
    assert gone() is None
