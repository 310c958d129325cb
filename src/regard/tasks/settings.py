"""The settings of a run, by task: those of its rooms together. No torch here, so that they are read at once."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.data.settings import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, nearest
from regard.models.settings import RecurrentSettings
from regard.training.settings import TrainingSettings


class RunSettings(BaseModel):
    """What every run has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str = Field(description="What the model is for.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of every random choice.")
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Threads to compute with; null: all cores. A run repeats bit for bit at the same number.",
    )
    training: TrainingSettings = Field(default=TrainingSettings(), description="How it is trained.")


class TranslationSettings(RunSettings):
    """From a sentence to a sentence, with the alignment between them."""

    task: Literal["translation"] = Field("translation", description="What the model is for.")
    data: DataSettings = Field(default=DataSettings.model_validate({}), description="The pairs of sentences.")
    model: RecurrentSettings = Field(default=RecurrentSettings(), description="The translator.")
    search: SearchSettings = Field(default=SearchSettings(), description="How it looks for a translation.")
    guided_alignment: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Weight of the loss that teaches the attention the links of the data; 0: none.",
    )

    @model_validator(mode="after")
    def _fit(self) -> "TranslationSettings":
        if self.search.coverage_penalty and not self.model.attends:
            raise ValueError("search.coverage_penalty counts attention, and model.attention is none; leave one out")
        if self.guided_alignment:
            self._guidable()
        return self

    def _guidable(self) -> None:
        if not self.model.attends:
            raise ValueError("guided_alignment teaches the attention, and model.attention is none; leave one out")
        if self.model.normalizer in ("hard", "sample", "gumbel"):
            raise ValueError(
                f"guided_alignment teaches weights, and model.normalizer {self.model.normalizer} draws or chooses one "
                "position, which cannot be taught so; take softmax, sparsemax or entmax15"
            )
        if self.model.teacher_forcing < 1:
            raise ValueError("guided_alignment reads the given translations: model.teacher_forcing must be 1")


_KINDS: dict[str, type[RunSettings]] = {"translation": TranslationSettings}


def settings_of(task: str) -> type[RunSettings]:
    """The settings class of a task; an unknown name is an error with the nearest."""
    if task not in _KINDS:
        raise ConfigError(f"no task is named {task!r}.{nearest(task, _KINDS)}")
    return _KINDS[task]
