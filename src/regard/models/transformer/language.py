"""Decoder-only (Radford et al. 2018): every token attends to itself and those before it, and predicts the next."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.kernels.autograd.hooks import overrides
from regard.layers.decoder import State, Step
from regard.layers.objective import Objective, objective
from regard.layers.transformer.stack import Stacked
from regard.layers.transformer.step import invalidate
from regard.models.transformer.build import make_readout, transformer_stack
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.padding import padding_mask
from regard.models.transformer.settings import TransformerLanguageSettings
from regard.models.transformer.step import one_word


class TransformerLanguageModel(nn.Module):
    """Every token attends to itself and those before it, and predicts the next.

    It is a decoder without a source (`layers.decoder`), so that the search of translators serves it.

    Args:
        settings: the choices.
        vocabulary: how many ids there are.
    """

    alignment: str | None = None

    def __init__(self, settings: TransformerLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(settings, settings.layers, causal=True, window=settings.window)
        self.readout = make_readout(settings, vocabulary, self.embedding if settings.tied else None)

    def start(self, memory: None, batch: int) -> State:
        """The state before the first token; there is no source to start from."""
        invalidate(self)
        return State((), self.stack.start(batch))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n tokens. Id 0 is padding on either side: masked out, and without a position.

        Where a subclass has a `read` of its own, that reads them, and `attended` is empty.
        """
        if (found := one_word(self, inputs, state.moving)) is not None:
            return Step(found.logits, State(state.fixed, found.cache), found.attended)
        if overrides(self, TransformerLanguageModel, "read"):
            logits, moving = self.read(inputs, state.moving)
            return Step(logits, State(state.fixed, moving), {})
        stacked = self._stacked(inputs, state.moving)
        return Step(self.logits(stacked.output), State(state.fixed, stacked.cache), stacked.attended)

    def read(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """The logits after each token, and the cache after the last; `state` is what `start(…).moving` or this gave."""
        stacked = self._stacked(ids, state)
        return self.logits(stacked.output), stacked.cache

    def logits(self, hidden: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead vocabulary"]:
        """Logits of the next token."""
        logits: Tensor = self.readout(hidden)
        return logits

    def forward(
        self,
        ids: Int[Tensor, "batch positions"],
        smoothing: float = 0.0,
        documents: Int[Tensor, "batch positions"] | None = None,
    ) -> Objective:
        """The loss of each token of some windows but the first, given those before it in the window.

        Args:
            ids: as many in each row.
            smoothing: of the labels.
            documents: equal numbers where tokens belong to one text; texts do not attend to each other. A separator
                that ends one text and begins the next has the number of the next: the text before predicts it.

        Raises:
            ConfigError: documents for a subclass that has a `start` or a `read` of its own, which know none.
        """
        inputs, targets = ids[:, :-1], ids[:, 1:]
        if not any(overrides(self, TransformerLanguageModel, method) for method in ("start", "read")):
            read = None if documents is None else documents[:, :-1]
            logits = self.logits(self.stack(self.embedding(inputs), documents=read).output)
        elif documents is None:
            logits, _ = self.read(inputs, self.start(None, len(ids)).moving)
        else:
            raise ConfigError(
                f"{type(self).__name__} has a `start` or a `read` of its own, which knows no packed documents: leave "
                "documents= out, or give it a `forward` that takes them"
            )
        return objective(logits.flatten(0, 1), targets.flatten(), smoothing)

    def _stacked(self, ids: Tensor, cache: Any) -> Stacked:
        stacked: Stacked = self.stack(self.embedding(ids), keep=padding_mask(ids), cache=cache)
        return stacked
