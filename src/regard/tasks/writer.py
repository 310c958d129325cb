"""A trained language model: it writes on, tells how likely a text is, and shows what each word looks back at."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.data.stream import Stream
from regard.data.tokenizers import Tokenizer, load_tokenizer
from regard.data.vocabulary import BEGIN, END, PADDING, UNKNOWN
from regard.decoding.search import search as search_for
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError
from regard.models.language import LanguageModel
from regard.tasks.config import check
from regard.tasks.language_settings import LanguageSettings
from regard.tasks.past_view import looks_back, past_matrices, past_view
from regard.tasks.reading_through import Told, read_through
from regard.tasks.runs import open_run
from regard.training.checkpoint import load_weights
from regard.views.view import View

_NEWLINE = "↵"


class Writer:
    """A language model with its vocabulary.

    Args:
        model: in eval mode from here on.
        tokenizer: its vocabulary.
        settings: those of its run.
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, settings: LanguageSettings) -> None:
        model.eval()
        self.model, self.tokenizer, self.settings = model, tokenizer, settings

    def write(
        self,
        prompt: str = "",
        *,
        length: int = 100,
        count: int = 1,
        sample: bool = True,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        one_line: bool = False,
        seed: int = 0,
    ) -> list[str]:
        """Go on with a text: the prompt and what follows it, `count` times.

        Args:
            prompt: may have several lines; the last one is gone on with. An empty one is the beginning of a line.
            length: pieces to write; line ends count.
            count: texts to write, each an independent draw.
            sample: draw each piece; otherwise take the likeliest.
            temperature, top_k, top_p: of the draw, see `SearchSettings`.
            one_line: end with the line.
            seed: of the draws.

        Raises:
            ConfigError: a number makes no sense, or several texts are asked for where nothing is drawn.
        """
        if count < 1 or (count > 1 and not sample):
            raise ConfigError(f"{count} texts: without a draw there is one, the likeliest; with draws at least one")
        settings = check(
            SearchSettings,
            {
                "max_length": length,
                "sample": sample,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "seed": seed,
            },
        )
        start, spellings = self._prompt(prompt)
        begin = torch.tensor([[END, *start]], device=self._device).expand(count, -1)
        # Padding is never told of anything and ends nothing, so that the text goes on across its lines.
        end, forbidden = (END, [PADDING, BEGIN, UNKNOWN]) if one_line else (PADDING, [BEGIN, UNKNOWN])
        self.model.eval()
        found = search_for(self.model, None, count, begin=begin, end=end, settings=settings, forbidden=forbidden)
        return [self._text([*start, *hypotheses[0].ids], spellings) for hypotheses in found]

    def read_through(self, stream: Stream) -> Told:
        """How well the model tells a text."""
        self.model.eval()
        return read_through(self.model, stream.ids, self.settings.data.window)

    @torch.no_grad()
    def view(self, text: str, language: str = "en") -> View:
        """What each word of a text looked back at; the text is read as the beginning of a line.

        Raises:
            DataError: there is nothing to look at.
            RegardError: the model does not attend.
        """
        ids, spellings = self._prompt(text)
        pieces = [_NEWLINE if one == END else self.tokenizer.piece(one) for one in ids]
        if spellings:
            unknown = iter(spellings)
            pieces = [next(unknown) if one == UNKNOWN else piece for one, piece in zip(ids, pieces, strict=True)]
        model = self.model
        read = model.embedding(torch.tensor([[END, *ids]], device=self._device))
        matrices = past_matrices(looks_back(model.reader, read), [_NEWLINE, *pieces] if ids else [], language)
        notes = []
        if spellings:
            notes.append(("Unknown words: " if language == "en" else "未登录词：") + " ".join(spellings))
        return past_view(matrices, self.settings.model.kind, notes, language)

    def _prompt(self, text: str) -> tuple[list[int], list[str]]:
        """Ids of a text, of which the last line is not over, and the spelling of its unknown words."""
        ids: list[int] = []
        spellings: list[str] = []
        for number, line in enumerate(text.split("\n")):
            encoded = self.tokenizer.encode(line)
            ids += [END] * (number > 0) + encoded.ids
            pairs = zip(encoded.ids, encoded.pieces, strict=True)
            spellings += [piece for one, piece in pairs if one == UNKNOWN]
        return ids, spellings

    def _text(self, ids: Sequence[int], spellings: Sequence[str]) -> str:
        """Ids as text, line by line."""
        lines: list[list[int]] = [[]]
        for one in ids:
            if one == END:
                lines.append([])
            else:
                lines[-1].append(one)
        rest = list(spellings)
        shown = []
        for line in lines:
            count = line.count(UNKNOWN)
            shown.append(self.tokenizer.decode(line, rest[:count]))
            rest = rest[count:]
        return "\n".join(shown)

    @property
    def _device(self) -> torch.device:
        parameter: Tensor = next(self.model.parameters())
        return parameter.device


def load_writer(folder: str | Path) -> Writer:
    """The language model of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(LanguageSettings, run.read_config())
    tokenizer = load_tokenizer(run.tokenizers)
    model = LanguageModel(settings.model, len(tokenizer))
    load_weights(model, run.weights)
    return Writer(model, tokenizer, settings)
