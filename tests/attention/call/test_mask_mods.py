"""A mask as a function of positions says what the mask says when it is drawn."""

import pytest
import torch

from regard import masks
from regard.attention.call.mask_mods import mask_mod
from regard.attention.call.mask_summary import summarize
from regard.attention.parts.mask_kinds import Mask, Sizes, as_mask

CPU = torch.device("cpu")
SIZES, SQUARE = Sizes(2, 3, 5, 7), Sizes(2, 3, 7, 7)
IDS = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [3, 3, 3, 3, 4, 4, 5]])
CENTER = torch.tensor([[0.4, 2.0, 3.6, 5.1, 6.0]] * 2)
KINDS: dict[str, tuple[object, Sizes]] = {
    "causal": (masks.causal(), SIZES),
    "causal from the start": (masks.causal("start"), SIZES),
    "window": (masks.window(2, 1), SIZES),
    "around a place": (masks.around(3.2, 1.5), SIZES),
    "around": (masks.around(CENTER, 1.5), SIZES),
    "around, of each head": (masks.around(CENTER[:, None] + torch.arange(3.0).view(1, 3, 1), 1.5), SIZES),
    "lengths": (masks.padding([7, 3]), SIZES),
    "padding": (masks.padding(keep=IDS % 2 == 0), SIZES),
    "ragged": (masks.ragged([7, 3]), SQUARE),
    "prefix": (masks.prefix(torch.tensor([2, 5])), SIZES),
    "prefix of all": (masks.prefix(4), SIZES),
    "documents": (masks.document(IDS), SIZES),
    "documents of all": (masks.document(IDS[0]), SQUARE),
    "function": (lambda b, h, q, k: (b + h + q + k) % 3 != 0, SIZES),
    "inverted": (~masks.causal(), SIZES),
    "both": (masks.causal() & masks.document(IDS) & masks.padding([7, 3]), SIZES),
    "either": (masks.window(1, 0) | masks.prefix(2), SIZES),
}


def as_function(mask: Mask, sizes: Sizes) -> torch.Tensor | None:
    """The mask of every pair, one call of its function for each axis's positions."""
    function = mask_mod(mask, sizes, CPU)
    if function is None:
        return None
    axes = [torch.arange(size).view([-1 if axis == at else 1 for at in range(4)]) for axis, size in enumerate(sizes)]
    return torch.as_tensor(function(*torch.broadcast_tensors(*axes))).expand(*sizes)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_says_what_it_draws(name):
    given, sizes = KINDS[name]
    mask = as_mask(given)
    assert torch.equal(as_function(mask, sizes), mask.draw(sizes, CPU).expand(*sizes))
    read = summarize(mask, sizes).mask  # with lengths that were read
    assert torch.equal(as_function(read, sizes), mask.draw(sizes, CPU).expand(*sizes))


def test_a_table_and_an_unknown_kind_have_none():
    class Mine(Mask):
        def draw(self, sizes: Sizes, device: torch.device) -> torch.Tensor:
            return torch.ones(1, 1, sizes.queries, sizes.keys, dtype=torch.bool)

    table = masks.keep(torch.ones(5, 7, dtype=torch.bool))
    for mask in (Mine(), table, masks.causal() & table, ~table, masks.prefix(1) | Mine()):
        assert as_function(mask, SIZES) is None
