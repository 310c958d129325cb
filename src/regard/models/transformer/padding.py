"""Which positions of a batch are tokens, and which padding."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.vocabulary import PADDING


def padding_mask(ids: Int[Tensor, "batch positions"]) -> Bool[Tensor, "batch positions"] | None:
    """True where a token stands, False at padding (id 0); None where nothing is padding, and no mask is needed."""
    traced = torch.compiler.is_compiling()
    return ids != PADDING if traced or not bool(ids.all()) else None  # padding is 0


def unless_trivial(keep: Bool[Tensor, "batch positions"]) -> Bool[Tensor, "batch positions"] | None:
    """The mask, None where it keeps everything: then nothing has to be masked out. A traced call cannot know."""
    return keep if torch.compiler.is_compiling() or not bool(keep.all()) else None
