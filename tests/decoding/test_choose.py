"""The choice of tokens: exact order where scores tie, exact probabilities where ids are banned."""

import numpy as np
import pytest
import torch

from regard.decoding.choose import expand, highest


@pytest.mark.parametrize("count", [1, 2, 5, 11, 17])
def test_highest_orders_ties_by_id(count):
    """Few distinct scores, many ties, some −inf, some banned: the same as one stable sort of everything."""
    draw = torch.Generator().manual_seed(count)
    scores = torch.randint(0, 4, (97, 11), generator=draw).float()
    scores[scores == 0] = -torch.inf
    banned = torch.zeros(11, dtype=torch.bool)
    for ids in ([], [0, 3]):
        banned[ids] = True
        exact, order = scores.masked_fill(banned, -torch.inf).sort(dim=1, descending=True, stable=True)
        exact, order = exact[:, :count], order[:, :count]
        values, found = highest(scores.clone(), count, banned if ids else None)
        assert torch.equal(values, exact)
        real = exact > -torch.inf
        assert torch.equal(found[real], order[real])


def test_expand_is_the_stable_order_of_id_then_parent():
    draw = np.random.default_rng(0)
    for _ in range(30):
        logits = torch.from_numpy(draw.integers(0, 3, (3 * 2, 5)).astype(np.float32))
        totals = draw.integers(-1, 1, (3, 2)).astype(np.float64)
        chosen = expand(logits, None, totals, 4)
        normal = logits.double() - logits.logsumexp(1, keepdim=True).double()
        for item in range(3):
            options = sorted(
                (-(totals[item, parent] + normal[item * 2 + parent, token].item()), token, parent)
                for parent in range(2)
                for token in range(5)
            )
            best = [(token, parent) for _, token, parent in options[:4]]
            assert list(zip(chosen.ids[item].tolist(), chosen.parents[item].tolist(), strict=True)) == best


def test_highest_leaves_its_input_alone():
    scores = torch.ones(2, 5)
    highest(scores, 2, torch.tensor([True, False, False, False, False]))
    assert torch.equal(scores, torch.ones(2, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_greedy_step_in_every_type(dtype):
    """A model in half precision decodes as well; its logits are exact numbers, and so are the sums of them."""
    logits = torch.randn(5, 997, generator=torch.Generator().manual_seed(2)).to(dtype)
    banned = torch.zeros(997, dtype=torch.bool)
    banned[logits[2].argmax()] = True
    exact = logits.double().log_softmax(-1).masked_fill(banned, -torch.inf)
    for beam in (1, 2):
        chosen = expand(logits, banned, np.full((5, 1), -3.0), beam)
        # Of several, the normalizer is torch's, in the type of the logits.
        atol = 1e-7 if beam == 1 else 8 * torch.finfo(dtype).eps
        np.testing.assert_allclose(chosen.totals[:, 0], exact.amax(-1) - 3, atol=atol)
    np.testing.assert_array_equal(chosen.ids[:, 0], exact.argmax(-1))


@pytest.mark.filterwarnings("error")
def test_a_greedy_step_of_numbers_far_apart():
    chosen = expand(torch.tensor([[-3e38, 3e38], [-torch.inf, -3e38]]), None, np.zeros((2, 1)), 1)
    assert chosen.ids.tolist() == [[1], [1]] and chosen.totals.tolist() == [[0], [0]]
