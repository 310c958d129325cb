import math

import pytest

from regard.training.schedule import learning_rate
from regard.training.settings import TrainingSettings


def rates(steps: int, **settings):
    chosen = TrainingSettings(steps=steps, learning_rate=2.0, **settings)
    return [learning_rate(chosen, step, step / steps) for step in range(steps + 1)]


def test_the_warm_up_rises_in_equal_steps_to_the_learning_rate():
    assert rates(11, warmup_steps=5, decay="none") == pytest.approx([0.4, 0.8, 1.2, 1.6] + [2.0] * 8)


def test_linear_falls_in_equal_steps_to_the_floor():
    assert rates(7, warmup_steps=2, decay="linear", floor=0.0) == pytest.approx([1, 2, 2, 1.6, 1.2, 0.8, 0.4, 0])
    assert rates(7, warmup_steps=2, decay="linear", floor=0.5)[-1] == pytest.approx(1.0)


def test_cosine_is_the_papers():
    """Loshchilov and Hutter 2017, equation 5: η_min + (η_max − η_min)(1 + cos(π T_cur / T_i)) / 2."""
    found = rates(13, warmup_steps=3, decay="cosine", floor=0.1)
    by_hand = [0.2 + 1.8 * (1 + math.cos(math.pi * now / 10)) / 2 for now in range(11)]
    assert found == pytest.approx([2 / 3, 4 / 3, 2.0, *by_hand])


def test_inverse_sqrt_is_the_papers():
    """Vaswani et al. 2017, section 5.3: proportional to min(step^−½, step · warmup^−1.5), steps counted from 1."""
    found = rates(40, warmup_steps=4, decay="inverse_sqrt", floor=0.0)
    by_hand = [min(step**-0.5, step * 4**-1.5) / 4**-0.5 * 2 for step in range(1, 42)]
    assert found == pytest.approx(by_hand)
    assert rates(400, warmup_steps=4, decay="inverse_sqrt", floor=0.25)[-1] == pytest.approx(0.5)


@pytest.mark.parametrize("decay", ["cosine", "linear"])
def test_bound_by_minutes_the_decay_follows_the_time_spent(decay):
    """At an even pace a run bound by time is one bound by steps; the end of the time is the floor whatever the pace."""
    settings = TrainingSettings(minutes=1, learning_rate=2.0, warmup_steps=5, decay=decay, floor=0.1)
    even = [learning_rate(settings, step, step / 17) for step in range(18)]
    assert even == pytest.approx(rates(17, warmup_steps=5, decay=decay, floor=0.1))
    assert learning_rate(settings, 900, 1.0) == pytest.approx(0.2)
    assert learning_rate(settings, 900, 1.3) == pytest.approx(0.2)


def test_no_warm_up_and_no_room_left_for_a_decay():
    assert rates(3, warmup_steps=0, decay="linear", floor=0.0)[0] == 2.0
    assert rates(3, warmup_steps=3, decay="cosine", floor=0.5)[-1] == pytest.approx(1.0)
