"""The settings of a run of a language model, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from regard.data.language.settings import LanguageData, TestedText
from regard.models.text.language_settings import LanguageModelSettings, LSTMNLanguageSettings
from regard.tasks.core.settings import Better, RunSettings


class LanguageSettings(RunSettings):
    """From the words so far to the next one."""

    verb: ClassVar[str] = "write"
    tests: ClassVar[type[BaseModel]] = TestedText
    measures: ClassVar[dict[str, Better]] = {"perplexity": "min", "accuracy": "max", "loss": "min"}
    by_length: ClassVar[tuple[str, ...]] = ("received",)

    task: Literal["language"] = Field("language", description="What the model is for.")
    data: LanguageData = Field(default=LanguageData(), description="The text.")
    model: LanguageModelSettings = Field(default=LSTMNLanguageSettings(), description="The language model.")

    @model_validator(mode="after")
    def _fit(self) -> "LanguageSettings":
        model, data = self.model, self.data
        if data.documents == "apart" and model.kind != "transformer":
            raise ValueError(
                "documents=apart: a model that carries a state would carry it across "
                "documents; it needs model.kind=transformer. "
                "With documents=marked any model learns where documents end"
            )
        if model.kind == "transformer" and model.position == "learned" and data.window > model.context:
            raise ValueError(
                f"learned positions end at model.context, {model.context}, and data.window is {data.window}; give both "
                "the same"
            )
        return self


SETTINGS = LanguageSettings
