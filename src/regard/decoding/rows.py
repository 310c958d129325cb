"""Rows of a decoder's state: an item's hypotheses lie side by side, so row = slot of the item × places + place."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from regard.errors import ShapeError
from regard.layers.decoder import State


def select(tree: Any, rows: np.ndarray) -> Any:
    """Those rows, in that order, of every tensor of a pytree; one that stands at two places is taken once."""
    index = torch.from_numpy(np.ascontiguousarray(rows))
    moved: dict[torch.device, Tensor] = {}
    taken: dict[int, Tensor] = {}

    def take(leaf: Tensor) -> Tensor:
        if leaf.device not in moved:
            moved[leaf.device] = index.to(leaf.device)
        if id(leaf) not in taken:
            taken[id(leaf)] = leaf.index_select(0, moved[leaf.device])
        return taken[id(leaf)]

    return tree_map_only(Tensor, take, tree)


def follow(state: State, stay: np.ndarray, parents: np.ndarray, slots: int, places: int) -> State:
    """The state of the new beams of the items that stay.

    What belongs to the item (`fixed`) is copied only when items leave or when beams grow wider; crossing hypotheses
    move `moving` alone, and not even that where nothing crossed.

    Args:
        state: after the step, of `slots × places` rows.
        stay: the slots that stay, ascending.
        parents: `(slots, new places)`: the old place that each new one continues.
        slots: items in the batch during the step.
        places: hypotheses of each during the step.
    """
    if len(stay) == slots and places == parents.shape[1] == 1:
        return state  # no item leaves, and there are no beams to cross
    rows = (stay[:, None] * places + parents[stay]).reshape(-1)
    moving = state.moving
    if not np.array_equal(rows, np.arange(slots * places)):
        moving = select(moving, rows)
    fixed = state.fixed
    if len(stay) < slots or parents.shape[1] != places:
        fixed = select(fixed, np.repeat(stay * places, parents.shape[1]))
    return State(fixed, moving)


def check_rows(state: State, batch: int) -> None:
    """Refuse a state that is not batch first: a search could not reorder its rows.

    Raises:
        ShapeError: some tensor of it has another number of rows than the batch.
    """
    for leaf in tree_leaves(state):
        if isinstance(leaf, Tensor) and (leaf.dim() == 0 or leaf.shape[0] != batch):
            raise ShapeError(
                f"the decoder's state holds a tensor of shape {tuple(leaf.shape)} for a batch of {batch}: every tensor "
                f"of a State must have one row per item, batch first"
            )


def device_of(decoder: Any, state: State) -> torch.device:
    """Where the inputs have to go: to the state, else to the parameters, else to the CPU."""
    for leaf in tree_leaves(state):
        if isinstance(leaf, Tensor):
            return leaf.device
    for parameter in decoder.parameters() if isinstance(decoder, nn.Module) else ():
        return parameter.device
    return torch.device("cpu")
