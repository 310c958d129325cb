"""The settings of a run of translation, and of its tests."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from regard.data.translation.settings import CorpusSettings, DataSettings
from regard.decoding.settings import SearchSettings
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.translator_settings import TranslatorSettings
from regard.tasks.core.settings import Better, RunSettings

_OF_PAIRS = (
    *("source", "target", "tsv", "jsonl", "columns", "separator"),
    *("links", "links-from", "words", "links-reversed", "edges", "predictions"),
)
_OF_SEARCHES = ("beam", "max-length", "length-penalty", "coverage-penalty", "with", "mean", "batch")


class TestedPairs(CorpusSettings):
    """Pairs to test on, and how they are divided by length."""

    edges: list[int] | None = Field(
        default=None, min_length=1, description="source lengths in words at which the next row by length begins"
    )
    shuffled: bool = Field(
        default=False,
        description="translate the sources a second time with their words in another order, and report for how many of "
        "those that have one the translation stays the same (`unmoved`)",
    )


class TranslationSettings(RunSettings):
    """From a sentence to a sentence, with the alignment between them."""

    verb: ClassVar[str] = "translate"
    options: ClassVar[Mapping[str, Sequence[str]]] = {"evaluate": (*_OF_PAIRS, *_OF_SEARCHES)}
    tests: ClassVar[type[BaseModel]] = TestedPairs
    measures: ClassVar[dict[str, Better]] = {
        "bleu": "max",
        "chrf": "max",
        "exact": "max",
        "perplexity": "min",
        "entropy": "min",
        "aer": "min",
        "unmoved": "min",
    }

    task: Literal["translation"] = Field("translation", description="What the model is for.")
    data: DataSettings = Field(default=DataSettings.model_validate({}), description="The pairs of sentences.")
    model: TranslatorSettings = Field(default=RecurrentSettings(), description="The translator.")
    search: SearchSettings = Field(default=SearchSettings(), description="How a translation is searched for.")
    guided_alignment: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Weight of the loss that teaches the attention the links of the data; 0: none.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_kind(cls, given: Any) -> Any:
        """Settings from before there were kinds are those of a recurrent translator."""
        model = given.get("model") if isinstance(given, dict) else None
        if isinstance(model, dict) and "kind" not in model:
            return {**given, "model": {"kind": RecurrentSettings().kind, **model}}
        return given

    @model_validator(mode="after")
    def _fit(self) -> "TranslationSettings":
        if not isinstance(self.model, RecurrentSettings):
            if self.guided_alignment and self.training.recompute:
                raise ValueError(
                    "guided_alignment trains the attention weights, which "
                    "training.recompute does not keep; leave one out"
                )
            most = self.data.max_length
            longest = max(most, *self.search.limits([most]))
            if self.model.position == "learned" and longest > self.model.context:
                raise ValueError(
                    f"learned positions end at model.context, {self.model.context}; a line may have {most} tokens "
                    f"(data.max_length) and its translation {longest} (search.max_length, or by the source's length): "
                    f"give model.context={longest}, or a smaller data.max_length"
                )
            return self  # a Transformer attends, its weights can be taught, and every word is read after the right ones
        if self.search.coverage_penalty and not self.model.attends:
            raise ValueError("search.coverage_penalty counts attention, and model.attention is none; leave one out")
        if self.guided_alignment:
            _guidable(self.model)
        return self


def _guidable(model: RecurrentSettings) -> None:
    if not model.attends:
        raise ValueError("guided_alignment teaches the attention, and model.attention is none; leave one out")
    if model.normalizer in ("hard", "sample", "gumbel"):
        raise ValueError(
            f"guided_alignment teaches weights, and model.normalizer {model.normalizer} draws or chooses one "
            "position, which cannot be taught so; take softmax, sparsemax or entmax15"
        )
    if model.teacher_forcing < 1:
        raise ValueError("guided_alignment reads the given translations: model.teacher_forcing must be 1")


SETTINGS = TranslationSettings
