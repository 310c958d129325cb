"""The settings of a run of a masked language model, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from regard.data.masked.settings import MaskedData, TestedMaskedText
from regard.models.text.masked_settings import MaskedModelSettings
from regard.tasks.core.settings import Better, RunSettings


class MaskedSettings(RunSettings):
    """From a text with gaps to the tokens that are masked there."""

    verb: ClassVar[str] = "fill"
    tests: ClassVar[type[BaseModel]] = TestedMaskedText
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min"}

    task: Literal["masked"] = Field("masked", description="What the model is for.")
    data: MaskedData = Field(default=MaskedData(), description="The text.")
    model: MaskedModelSettings = Field(default=MaskedModelSettings(), description="The masked language model.")

    @model_validator(mode="after")
    def _fits(self) -> "MaskedSettings":
        if self.model.position == "learned" and self.data.window > self.model.context:
            raise ValueError(
                f"data.window is {self.data.window}, and learned positions know {self.model.context}: set "
                f"model.context={self.data.window}"
            )
        return self


SETTINGS = MaskedSettings
