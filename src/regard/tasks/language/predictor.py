"""A trained language model: it continues a text, says how likely one is, and shows what each word attends to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.language.streams import borders
from regard.data.text.lines import several
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, DataError
from regard.layers.layout import lay_out_for_steps
from regard.models.text.language_models import Model, build_language_model
from regard.tasks.core.config import check
from regard.tasks.core.notes import unknown_words
from regard.tasks.core.predictor import Predictor
from regard.tasks.language.generation import continue_texts
from regard.tasks.language.settings import LanguageSettings
from regard.tasks.language.view import steps_view, text_view
from regard.views.view import View
from regard.vocabulary import BEGIN, END, PADDING, UNKNOWN

_NEWLINE = "↵"


class LanguagePredictor(Predictor[LanguageSettings, Tokenizer, Model]):
    """A language model with its vocabulary."""

    settings_type = LanguageSettings

    @classmethod
    def load(cls, folder: str | Path) -> "LanguagePredictor":
        """The language model of a run folder, laid out for single steps; see `Predictor.load`."""
        loaded: LanguagePredictor = super().load(folder)
        lay_out_for_steps(loaded.model)
        return loaded

    @classmethod
    def load_parts(cls, folder: Path) -> Tokenizer:
        """Its vocabulary."""
        return load_tokenizer(folder)

    @classmethod
    def build(cls, settings: LanguageSettings, parts: Tokenizer) -> Model:
        """A language model of the kind that the settings say, with fresh weights."""
        return build_language_model(settings.model, len(parts))

    @property
    def tokenizer(self) -> Tokenizer:
        """Its vocabulary."""
        return self.parts

    def write(self, prompt: str = "", *, count: int = 1, **how: Any) -> list[str]:
        """Continue a text: the prompt and what follows it, `count` times, each an independent draw.

        Args:
            prompt: may have several lines; the last one is continued. An empty one is the beginning of a line, or
                of a document where the text has them.
            count: texts to write.
            how: see `write_all`.
        """
        return self.write_all([prompt], count=count, **how)[0]

    def write_all(self, prompts: Sequence[str], *, count: int = 1, **how: Any) -> list[list[str]]:
        """Continue several texts at once; for each of them `count` texts, as `write` gives them.

        No text depends on the others but by its number, which decides its draws.

        Args:
            prompts: of any lengths.
            count: texts to write of each.
            how: `length` (100), the tokens to write, line ends counted, though a text whose documents have ends may be
                over before; `sample` (True): draw each token, otherwise take the likeliest; `temperature`, `top_k`,
                `top_p`, `seed`: of the draw, see `SearchSettings`; `one_line` (False): end with the line; `reach`:
                the context length of a Transformer, that of its training unless given. Where a text grows
                past it, the last half of them is read anew, and the writing continues from there; `ahead` (0): with
                sample=False, tokens that are guessed from the text's repetitions and checked at once.

        Raises:
            ConfigError: a number makes no sense, or several texts are asked for where nothing is drawn.
        """
        if count < 1 or (count > 1 and not how.get("sample", True)):
            raise ConfigError(f"{count} texts: without a draw there is one, the likeliest; with draws at least one")
        given = [self._prompt(prompt) for prompt in several(prompts) for _ in range(count)]
        written = self._continue([ids for ids, _ in given], **how)
        texts = [self._text([*ids, *more], spelt) for (ids, spelt), more in zip(given, written, strict=True)]
        return [texts[at : at + count] for at in range(0, len(texts), count)]

    def steps(self, prompt: str = "", *, language: str = "en", **how: Any) -> View:
        """How a text was generated: what each step attended to, and its most probable alternatives.

        Args:
            prompt: see `write`.
            language: of the words around it, en or zh.
            how: see `write_all`.

        Raises:
            DataError: nothing is written, or more than the model's context holds.
        """
        ids, spellings = self._prompt(prompt)
        [written] = self._continue([ids], **how)
        whole = [self._opening, *ids, *written]
        context_length = self._context_length if how.get("reach") is None else how["reach"]
        if context_length is not None and len(whole) - 1 > context_length:
            raise DataError(
                f"{len(whole) - 1} tokens were read, and the model's context is {context_length} "
                "tokens: its steps can be "
                f"shown of a shorter text; give a --length of {max(1, context_length - len(ids))} or less, or a "
                "shorter prompt"
            )
        notes, labels = unknown_words(spellings, language), self._labels(whole, spellings)
        return steps_view(self.model, whole, labels, len(written), self._spell, notes=notes, language=language)

    def _continue(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        length: int = 100,
        sample: bool = True,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        one_line: bool = False,
        reach: int | None = None,
        ahead: int = 0,
        seed: int = 0,
    ) -> list[list[int]]:
        """What is written after each prompt; see `write_all`."""
        draws = {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        settings = check(SearchSettings, {"max_length": length, **draws})
        if ahead < 0:
            raise ConfigError(f"ahead is how many tokens are guessed; it must be at least 0, and is {ahead}")
        if reach is not None and reach < 1:
            raise ConfigError(
                f"reach is how many tokens the model reads at most; it must be at least 1, and is {reach}"
            )
        model = self.settings.model
        if reach is not None and model.kind == "transformer" and model.position == "learned" and reach > model.context:
            raise ConfigError(
                f"reach is {reach} tokens, and this model has {model.context} learned positions "
                f"(model.context); give {model.context} or less"
            )
        # A text without documents continues across its lines, to the length that was asked for.
        end = END if one_line else BEGIN if borders(self.settings.data) else None
        self.model.eval()
        return continue_texts(
            self.model,
            [[self._opening, *ids] for ids in prompts],
            end=end,
            settings=settings,
            forbidden=[one for one in (PADDING, BEGIN, UNKNOWN) if one != end],
            context_length=self._context_length if reach is None else reach,
            padded=self.settings.model.kind == "transformer",
            ahead=ahead,
        )

    @property
    def _opening(self) -> int:
        return BEGIN if borders(self.settings.data) else END

    @property
    def _context_length(self) -> int | None:
        """Tokens that the model may read: those of a window, unless it carries a state any distance."""
        return self.settings.data.window if self.settings.model.kind == "transformer" else None

    def view(self, text: str, language: str = "en", heads: bool = False) -> View:
        """What each token of a text attended to; the text is read from the beginning of a line, or of a document.

        Raises:
            DataError: there is nothing to look at.
            RegardError: the model does not attend, or `heads` are asked for and it has none.
        """
        ids, spellings = self._prompt(text)
        whole = [self._opening, *ids]
        self.model.eval()
        return text_view(
            self.model,
            whole,
            self._labels(whole, spellings),
            self.settings.model.kind,
            heads=heads,
            notes=unknown_words(spellings, language),
            language=language,
        )

    def _spell(self, number: int) -> str:
        return _NEWLINE if number == END else self.tokenizer.token(number)

    def _labels(self, ids: Sequence[int], spellings: Sequence[str]) -> list[str]:
        """The tokens as they are shown; those that are unknown as they were spelt."""
        unknown = iter(spellings)
        return [next(unknown, self._spell(one)) if one == UNKNOWN else self._spell(one) for one in ids]

    def _prompt(self, text: str) -> tuple[list[int], list[str]]:
        """Ids of a text, of which the last line is not over, and the spelling of its unknown words."""
        ids: list[int] = []
        spellings: list[str] = []
        for number, line in enumerate(text.split("\n")):
            encoded = self.tokenizer.encode(line)
            ids += [END] * (number > 0) + encoded.ids
            pairs = zip(encoded.ids, encoded.tokens, strict=True)
            spellings += [token for one, token in pairs if one == UNKNOWN]
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
