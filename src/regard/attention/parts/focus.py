"""Focus: the position of each query and the window around it, as a mask and what follows the normalizer."""

from typing import NamedTuple

from torch import Tensor

from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.masks import around, padding
from regard.attention.parts.refocus import GaussianWindow, gaussian_window


class Focus(NamedTuple):
    """The centers and windows of one call's queries (Luong, Pham & Manning 2015, section 3.2).

    Attributes:
        center: p, `(batch, queries)`, in key positions from 0.
        radius: D, in positions.
        sigma: the standard deviation of the Gaussian at p that follows the normalizer; 0 for none.
        lengths: the number of real keys of each item, `(batch,)`; they come first.
    """

    center: Tensor
    radius: float
    sigma: float
    lengths: Tensor

    @property
    def mask(self) -> Mask:
        """The keys no further than the radius from p, without those beyond the item's length."""
        return around(self.center, self.radius) & padding(self.lengths)

    @property
    def refocus(self) -> tuple[GaussianWindow, ...]:
        """What follows the normalizer."""
        return (gaussian_window(self.center, self.sigma),) if self.sigma > 0 else ()
