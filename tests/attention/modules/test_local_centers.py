"""Centers of local attention that do not fit, or lie at infinity."""

import pytest
import torch

from regard.attention.attend import Attention
from regard.attention.parts.focus import Focus
from regard.attention.parts.score import score
from regard.errors import MaskError

QUERY = 5


@pytest.mark.parametrize("named", ["scaled_dot", "additive"])
def test_centers_of_another_shape_are_no_windows_of_a_loop(named):
    """It would read windows from wherever its memory says: they are refused, or serve all items, as in `attend`."""
    made = score(named, query_dim=5, key_dim=5, hidden_dim=3) if named == "additive" else score(named)
    query, key, lengths = torch.randn(2, 7, 5), torch.randn(2, 211, 5), torch.tensor([211, 17])

    def around(center):
        return Attention(made)(query, key, key, mask=Focus(center, 2.0, 0.0, lengths).mask).context

    for shape in ((2, 3), (2, 7, 1), (3, 7)):
        with pytest.raises(MaskError, match="around"):
            around(torch.zeros(shape))
    shared = torch.arange(7.0)[None]
    torch.testing.assert_close(around(shared), around(shared.expand(2, 7)))


@pytest.mark.parametrize("name", ("dot", "additive"))
@pytest.mark.parametrize("sigma", (0.0, 1.0))
def test_a_query_whose_center_is_infinite_is_fully_masked(name, sigma):
    """As one that is far away; the others see what they would without it."""
    torch.manual_seed(0)
    query, key = torch.randn(1, 3, QUERY), torch.randn(1, 37, QUERY)
    compare = score(name, query_dim=QUERY, key_dim=QUERY, hidden_dim=5) if name == "additive" else score(name)
    lengths, looked = torch.tensor([37]), []
    for far in (torch.inf, 1e6):
        focus = Focus(torch.tensor([[4.0, far, -far]]), 2.0, sigma, lengths)
        looked.append(Attention(compare)(query, key, key, mask=focus.mask, refocus=focus.refocus, weights=True))
    assert (looked[0].context[0, 1:] == 0).all() and (looked[0].weights[0, 1:] == 0).all()
    torch.testing.assert_close(looked[0].context, looked[1].context)
