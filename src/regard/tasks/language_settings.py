"""The settings of a run of a language model, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from regard.data.stream_settings import LanguageData, TestedText
from regard.models.language_settings import LanguageModelSettings, LSTMNLanguageSettings
from regard.tasks.settings import Better, RunSettings


class LanguageSettings(RunSettings):
    """From the words so far to the next one."""

    tests: ClassVar[type[BaseModel]] = TestedText
    measures: ClassVar[dict[str, Better]] = {"perplexity": "min", "accuracy": "max", "loss": "min"}

    task: Literal["language"] = Field("language", description="What the model is for.")
    data: LanguageData = Field(default=LanguageData(), description="The text.")
    model: LanguageModelSettings = Field(default=LSTMNLanguageSettings(), description="The language model.")
