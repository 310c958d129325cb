import pytest
import torch

from regard.errors import ConfigError
from regard.layers.dropout import Dropout


def test_share_scale_and_independence():
    torch.manual_seed(0)
    inputs = torch.ones(1009, 997)
    dropped = Dropout(0.35)(inputs)
    zero = dropped == 0
    # 1,005,973 draws: the share's standard deviation is 0.0005.
    assert abs(zero.float().mean().item() - 0.35) < 0.0025
    assert torch.allclose(dropped[~zero], torch.tensor(1 / 0.65), rtol=1e-4)
    assert abs(dropped.mean().item() - 1) < 0.004
    # Four elements share one 64-bit draw; neighbours must still be independent.
    centred = zero.float().flatten() - 0.35
    for lag in (1, 2, 3, 4, 997):
        assert abs((centred[lag:] * centred[:-lag]).mean().item()) < 0.0012


@pytest.mark.parametrize("rate", [0.5, 2**-16, 1 - 2**-16])
def test_the_expectation_is_exact_for_the_rounded_rate(rate):
    dropout = Dropout(rate)
    assert dropout.dropped / 65536 == rate
    torch.manual_seed(1)
    kept = dropout(torch.ones(7919))
    kept = kept[kept != 0]
    assert torch.allclose(kept, torch.tensor(1 / (1 - rate)))


def test_seeded_by_the_global_generator_and_gradient_passes_where_kept():
    dropout, inputs = Dropout(0.3), torch.randn(13, 17, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(2)
    first = dropout(inputs)
    torch.manual_seed(2)
    assert torch.equal(first, dropout(inputs))
    assert not torch.equal(first, dropout(inputs))
    (gradient,) = torch.autograd.grad(first.sum(), inputs)
    assert torch.equal(gradient == 0, first == 0)


def test_eval_and_rate_0_change_nothing_and_draw_nothing():
    """B34: dropout is off in eval."""
    inputs = torch.randn(5, 3)
    before = torch.get_rng_state()
    assert Dropout(0.5).eval()(inputs) is inputs
    assert Dropout(0.0)(inputs) is inputs
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(0,), (1,), (1, 1, 1), (2, 0, 3), (5,)])
def test_every_shape(shape):
    """B42."""
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtype_stays(dtype):
    assert Dropout(0.5)(torch.ones(7, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_outside_is_an_error(rate):
    with pytest.raises(ConfigError, match="at least 0 and below 1"):
        Dropout(rate)


def test_draws_lie_where_the_inputs_do():
    """Whatever the device is on which torch makes new tensors meanwhile."""
    x = torch.randn(67, 71)
    torch.manual_seed(0)
    wanted = Dropout(0.3)(x)
    torch.manual_seed(0)
    with torch.device("meta"):
        found = Dropout(0.3)(x)
    assert torch.equal(found, wanted)
