"""A masked language model: all of a text is read at once, and its masked tokens are predicted (Devlin et al. 2019).

tokens, some as [MASK] ── Transformer encoder ── at the masked positions: linear, GELU, norm ── logits by the table
"""

from typing import Protocol, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.objective import Objective, objective
from regard.models.text.masked_settings import MaskedModelSettings
from regard.models.transformer.encoder import TransformerEncoder


@runtime_checkable
class MaskedTokens(Protocol):
    """A batch for training, as `data.masked.batches.MaskedBatch`."""

    @property
    def ids(self) -> Tensor:
        """Ids of windows with masked tokens, `(batch, positions)`."""
        ...

    @property
    def predicted(self) -> Tensor:
        """True at the positions whose tokens are to be predicted, `(batch, positions)`."""
        ...

    @property
    def targets(self) -> Tensor:
        """The tokens that stood there, row by row, `(predicted,)`."""
        ...


class MaskedLanguageModel(nn.Module):
    """See the module.

    Args:
        settings: the choices.
        vocabulary: how many ids there are to predict; the one after them, `mask`, stands for a masked token.
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
            # [MASK] is read and never predicted: the output layer is the table without its last row.
            del self.readout.weight
        else:
            nn.init.normal_(self.readout.weight, std=0.02)

    def logits(self, states: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead vocabulary"]:
        """Logits of the token at each position, from the encoder's states there."""
        table = self.encoder.embedding.weight[: self.mask] if self.settings.tied else self.readout.weight
        return F.linear(self.norm(F.gelu(self.transform(states))), table, self.readout.bias)

    def logits_at(
        self, ids: Int[Tensor, "batch positions"], positions: Bool[Tensor, "batch positions"]
    ) -> Float[Tensor, "predicted vocabulary"]:
        """The logits at some positions alone, row by row; id 0 is padding.

        Args:
            ids: the tokens.
            positions: True where a token is to be predicted.
        """
        return self.logits(self.encoder(ids)[positions])

    def forward(self, batch: MaskedTokens, smoothing: float = 0.0) -> Objective:
        """Sums over the masked tokens of a batch, in nats."""
        return objective(self.logits_at(batch.ids, batch.predicted), batch.targets, smoothing)
