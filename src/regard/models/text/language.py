"""A language model: a text is read from left to right, and each token predicts the next.

tokens ── embedding ── reader (LSTM, LSTMN, …) ── linear to the embedding's width ── logits
"""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.kernels.autograd.hooks import overrides
from regard.layers.decoder import State, Step
from regard.layers.dropout import Dropout
from regard.layers.objective import Objective, objective
from regard.models.text.language_settings import LanguageFields
from regard.models.text.reader import make_reader


class LanguageModel(nn.Module):
    """See the module. It is a decoder without a source (`layers.decoder`), so that the search of translators serves it.

    Args:
        settings: the choices; their `kind` says what reads the text.
        vocabulary: how many ids there are.
    """

    alignment: str | None = None

    def __init__(self, settings: LanguageFields, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        width = settings.embedding_dim
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.input_dropout = Dropout(settings.input_dropout)
        self.output_dropout = Dropout(settings.output_dropout)
        self.reader = make_reader(settings, width)
        self.narrow = nn.Linear(self.reader.width, width)
        self.readout = nn.Linear(width, vocabulary)
        if settings.tied:
            self.readout.weight = self.embedding.weight

    def start(self, memory: None, batch: int) -> State:
        """The state before the first token; there is no source to start from."""
        return State((), self.reader.start(batch))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n tokens. `attended` has the attention of a single one; that of a prompt is not kept.

        Nor is it where a subclass has a `read` of its own.
        """
        if inputs.shape[1] != 1 or overrides(self, LanguageModel, "read"):
            logits, moving = self.read(inputs, state.moving)
            return Step(logits, State(state.fixed, moving), {})
        after = self.reader.step(state.moving, self.input_dropout(self.embedding(inputs[:, 0])))
        return Step(self.logits(after.output).unsqueeze(1), State(state.fixed, after.state), after.attended)

    def read(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """The logits after each token, and the reader's state after the last."""
        hidden, state = self.reader(self.input_dropout(self.embedding(ids)), state)
        return self.logits(hidden), state

    def logits(self, hidden: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead vocabulary"]:
        """Logits of the next token."""
        logits: Tensor = self.readout(self.narrow(self.output_dropout(hidden)))
        return logits

    def forward(self, ids: Int[Tensor, "batch positions"], smoothing: float = 0.0) -> Objective:
        """The loss of each token of some windows but the first, given those before it in the window.

        Args:
            ids: as many in each row.
            smoothing: of the labels.
        """
        logits, _ = self.read(ids[:, :-1], self.start(None, len(ids)).moving)
        return objective(logits.flatten(0, 1), ids[:, 1:].flatten(), smoothing)
