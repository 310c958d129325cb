"""Local attention without a compiler: centers are the formula's, and windows of keys and values are read in place."""

import math

import pytest
import torch

from regard.attention.modules.local import LocalAttention, Predictive
from regard.kernels.local import local, loops

LENGTHS = torch.tensor([23, 11, 0])


@pytest.fixture(autouse=True)
def _by_torch(monkeypatch):
    monkeypatch.setattr(loops.LIBRARY, "serves", lambda kind: False)


def drawn(queries=7, width=19, hidden=5, dtype=torch.float64, spread=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (3, queries, width), (hidden, width), (1, hidden)
    query, matrix, vector = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return query, matrix * (spread / width**0.5), vector * spread


def formula(query, matrix, vector, lengths):
    return lengths[:, None] * torch.sigmoid(torch.tanh(query @ matrix.T) @ vector.squeeze(0))


def predicted(query, matrix, vector, lengths):
    """What the module gives whose W and v these are, without gradients."""
    made = Predictive(2.0, query.shape[-1], len(matrix)).to(query.dtype)
    made.load_state_dict({"hidden.weight": matrix, "vector.weight": vector})
    with torch.no_grad():
        return made(query, lengths).center


@pytest.mark.parametrize("spread", (1e-4, 1.0, 1e5))
@pytest.mark.parametrize(("queries", "hidden"), ((1, 1), (7, 5), (32, 83)))
def test_centers_are_the_formula(queries, hidden, spread):
    given = drawn(queries, hidden=hidden, spread=spread)
    torch.testing.assert_close(predicted(*given, LENGTHS), formula(*given, LENGTHS))


def test_centers_of_float32_are_as_exact_as_torchs():
    given = drawn(width=509, hidden=509, dtype=torch.float32)
    query, matrix, vector = given[0], given[1], given[2] / 509**0.5
    exact = formula(query.double(), matrix.double(), vector.double(), LENGTHS)
    found = predicted(query, matrix, vector, LENGTHS.int())
    assert found.dtype is torch.float32
    assert (found - exact).abs().max() <= 4 * 23 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("inference", (False, True))
def test_a_module_gives_the_same_centers_with_gradients_and_without(inference):
    torch.manual_seed(0)
    made, query = Predictive(2.0, 19, 5).double(), drawn()[0]
    kept = made(query, LENGTHS).center
    with torch.inference_mode() if inference else torch.no_grad():
        found = made(query, LENGTHS).center
    torch.testing.assert_close(found, kept.detach())
    made.hidden.register_forward_hook(lambda layer, given, hidden: hidden * 0)
    with torch.no_grad():
        torch.testing.assert_close(made(query, LENGTHS).center, LENGTHS[:, None].expand(3, 7) / 2.0, check_dtype=False)


@pytest.mark.parametrize("content", (math.nan, math.inf))
def test_content_that_is_not_finite_stays_where_it_is(content):
    torch.manual_seed(0)
    made = LocalAttention("dot", 2.0, "predictive", 19)
    query, (key, value) = drawn(dtype=torch.float32)[0], torch.randn(2, 3, 23, 19)
    query[1, 3] = content
    kept = made(query, key, value, lengths=LENGTHS).context
    with torch.no_grad():
        found = made(query, key, value, lengths=LENGTHS).context
    torch.testing.assert_close(found, kept.detach(), equal_nan=True)
    assert found[1, 3].isnan().all() and found[0].isfinite().all()


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_windows_of_values_that_lie_as_the_keys_do_or_otherwise(dtype):
    torch.manual_seed(0)
    key, value, first = *torch.randn(2, 3, 101, 19, dtype=dtype), torch.randint(0, 90, (3, 2))
    given = torch.rand(3, 2, 7, dtype=dtype)
    rows = first.unsqueeze(-1) + torch.arange(7)
    wanted = torch.stack([given[b].unsqueeze(-2).matmul(value[b, rows[b]]).squeeze(-2) for b in range(3)])
    bags = local.Bags.narrow(key, first, 7)
    same = bags.of_others(value)
    assert (same is not None) == (dtype is torch.float32)
    if same is not None:
        torch.testing.assert_close(same.mix(given), wanted)
        behind = torch.cat((torch.zeros_like(value), value))[3:]
        torch.testing.assert_close(bags.of_others(behind).mix(given), wanted)
    otherwise = value.transpose(0, 1).contiguous().transpose(0, 1), torch._neg_view(-value), value[..., :17]
    assert all(bags.of_others(one) is None for one in otherwise)
    assert local.Bags.narrow(key, first, local._NARROW + 1) is None


@pytest.mark.parametrize("between", (0, 7, 5))
def test_keys_and_values_side_by_side_with_more_between_them(between):
    # Rows whose distance is no multiple of their width are copied; the values that lie likewise were read as the copy.
    torch.manual_seed(0)
    made, query = LocalAttention("dot", 2.0), torch.randn(3, 2, 7)
    both = torch.randn(3, 23, 14 + between)
    key, value = both[..., :7], both[..., 7:14]
    with torch.no_grad():
        wanted = made(query, key.contiguous(), value.contiguous(), lengths=LENGTHS, positions=9).context
        found = made(query, key, value, lengths=LENGTHS, positions=9).context
    torch.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("grad", (False, True))
def test_without_hidden_units_every_center_is_the_middle(grad):
    made, query = Predictive(2.0, 19, 0).double(), drawn()[0]
    with torch.set_grad_enabled(grad):
        center = made(query, LENGTHS).center
    torch.testing.assert_close(center.detach(), (LENGTHS[:, None] / 2.0).expand(3, 7).double())
