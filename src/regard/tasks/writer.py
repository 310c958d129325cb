"""A trained language model: it writes on, tells how likely a text is, and shows what each word looks back at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.texts import borders
from regard.data.tokenizers import Tokenizer, load_tokenizer
from regard.data.vocabulary import BEGIN, END, PADDING, UNKNOWN
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError
from regard.models.language_models import Model, build_language_model
from regard.tasks.config import check
from regard.tasks.going_on import go_on
from regard.tasks.language_settings import LanguageSettings
from regard.tasks.past_view import looks_back, past_matrices, past_view
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

    def __init__(self, model: Model, tokenizer: Tokenizer, settings: LanguageSettings) -> None:
        model.eval()
        self.model, self.tokenizer, self.settings = model, tokenizer, settings

    def write(self, prompt: str = "", *, count: int = 1, **how: Any) -> list[str]:
        """Go on with a text: the prompt and what follows it, `count` times, each an independent draw.

        Args:
            prompt: may have several lines; the last one is gone on with. An empty one is the beginning of a line, or
                of a document where the text has them.
            count: texts to write.
            how: see `write_all`.
        """
        return self.write_all([prompt], count=count, **how)[0]

    def write_all(
        self,
        prompts: Sequence[str],
        *,
        length: int = 100,
        count: int = 1,
        sample: bool = True,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        one_line: bool = False,
        context: int | None = None,
        seed: int = 0,
    ) -> list[list[str]]:
        """Go on with several texts at once; for each of them `count` texts, as `write` gives them.

        No text depends on the others but by its number, which decides its draws.

        Args:
            prompts: of any lengths.
            length: pieces to write; line ends count. A text whose documents have ends may be over before.
            count: texts to write of each.
            sample: draw each piece; otherwise take the likeliest.
            temperature, top_k, top_p: of the draw, see `SearchSettings`.
            one_line: end with the line.
            context: pieces that a Transformer sees at most; as many as its training read unless given. Where a text
                grows past it, the last half of them is read anew, and the writing goes on from there.
            seed: of the draws.

        Raises:
            ConfigError: a number makes no sense, or several texts are asked for where nothing is drawn.
        """
        if count < 1 or (count > 1 and not sample):
            raise ConfigError(f"{count} texts: without a draw there is one, the likeliest; with draws at least one")
        draws = {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        settings = check(SearchSettings, {"max_length": length, **draws})
        if context is not None and context < 1:
            raise ConfigError(f"context is how many pieces are seen; it must be at least 1, and is {context}")
        starts = [self._prompt(prompt) for prompt in prompts]
        # Padding is never told of anything and ends nothing, so that a text without documents goes on across its lines.
        end = END if one_line else BEGIN if borders(self.settings.data) else PADDING
        forbidden = [one for one in (PADDING, BEGIN, UNKNOWN) if one != end]
        self.model.eval()
        written = go_on(
            self.model,
            [[self._opening, *ids] for ids, _ in starts for _ in range(count)],
            end=end,
            settings=settings,
            forbidden=forbidden,
            reach=self._reach if context is None else context,
            padded=self.settings.model.kind == "transformer",
        )
        texts = [self._text([*starts[at // count][0], *ids], starts[at // count][1]) for at, ids in enumerate(written)]
        return [texts[at : at + count] for at in range(0, len(texts), count)]

    @property
    def _opening(self) -> int:
        return BEGIN if borders(self.settings.data) else END

    @property
    def _reach(self) -> int | None:
        """Pieces that the model may see: those of a window, but for a state that is carried any distance."""
        return self.settings.data.window if self.settings.model.kind == "transformer" else None

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
    model = build_language_model(settings.model, len(tokenizer))
    load_weights(model, run.weights)
    return Writer(model, tokenizer, settings)
