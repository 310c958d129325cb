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
