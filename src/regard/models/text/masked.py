"""A masked language model: all of a text is read at once, and what is hidden of it is told (Devlin et al. 2019).

pieces, some as [MASK] ── Transformer encoder ── at the hidden places: linear, GELU, norm ── logits by the table
"""

from typing import Protocol, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.objective import Objective, objective
from regard.models.text.masked_settings import MaskedModelSettings
from regard.models.transformer.encoder import TransformerEncoder


@runtime_checkable
class Gaps(Protocol):
    """What training reads: windows with gaps, where the gaps are, and what stood there, row by row."""

    @property
    def ids(self) -> Tensor: ...

    @property
    def predicted(self) -> Tensor: ...

    @property
    def targets(self) -> Tensor: ...


class MaskedLanguageModel(nn.Module):
    """See the module.

    Args:
        settings: the choices.
        vocabulary: how many ids there are to tell; the one after them, `mask`, is read for what is hidden.
    """

    def __init__(self, settings: MaskedModelSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.mask = settings, vocabulary
        self.encoder = TransformerEncoder(settings, vocabulary + 1)
        self.transform = nn.Linear(settings.dim, settings.dim)
        self.norm = nn.LayerNorm(settings.dim)
        self.readout = nn.Linear(settings.dim, vocabulary)
        nn.init.zeros_(self.readout.bias)
        if settings.tied:
            # [MASK] is read and never told, so that what is told is the table without its last row.
            del self.readout.weight
        else:
            nn.init.normal_(self.readout.weight, std=0.02)

    def logits(self, states: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead vocabulary"]:
        """How likely each piece is to have stood at a place, from the encoder's state there."""
        table = self.encoder.embedding.weight[: self.mask] if self.settings.tied else self.readout.weight
        return F.linear(self.norm(F.gelu(self.transform(states))), table, self.readout.bias)

    def told(
        self, ids: Int[Tensor, "batch positions"], told: Bool[Tensor, "batch positions"]
    ) -> Float[Tensor, "gaps vocabulary"]:
        """The logits at some places alone, row by row; id 0 is padding.

        Args:
            ids: what is read.
            told: where to tell what stood there.
        """
        return self.logits(self.encoder(ids)[told])

    def forward(self, batch: Gaps, smoothing: float = 0.0) -> Objective:
        """Sums over the gaps of a batch."""
        return objective(self.told(batch.ids, batch.predicted), batch.targets, smoothing)
