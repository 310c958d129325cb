import random

import numpy
import torch

from regard.training.randomness import random_state, restore_random_state, seed_everything, undisturbed

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float, float]:
    return random.random(), random.gauss(0, 1), float(numpy.random.randn()), float(torch.randn(()))


def test_a_seed_settles_all_generators_and_processes_draw_their_own():
    seed_everything(5)
    first = draw()
    seed_everything(5)
    assert draw() == first
    seed_everything(5, process=1)
    assert not set(draw()) & set(first)


def test_states_go_through_json_exactly():
    import json

    seed_everything(7)
    draw()  # leaves half of a pair of normal numbers waiting, in two of the generators
    state = json.loads(json.dumps(random_state(CPU)))
    after = [draw() for _ in range(3)]
    draw()
    restore_random_state(state, CPU)
    assert [draw() for _ in range(3)] == after


def test_undisturbed_leaves_no_trace_even_after_an_error():
    seed_everything(7)
    expected = draw()
    seed_everything(7)
    try:
        with undisturbed(CPU):
            draw()
            raise KeyError
    except KeyError:
        pass
    assert draw() == expected
