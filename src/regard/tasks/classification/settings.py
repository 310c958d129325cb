"""The settings of a run of classification, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from regard.data.classification.settings import ClassificationData, TestedSentences
from regard.models.text.classifier_settings import ClassifierSettings, LSTMNClassifierSettings
from regard.tasks.core.settings import Better, RunSettings


class ClassificationSettings(RunSettings):
    """From a sentence to its label."""

    verb: ClassVar[str] = "classify"
    tests: ClassVar[type[BaseModel]] = TestedSentences
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min"}

    task: Literal["classification"] = Field("classification", description="What the model is for.")
    data: ClassificationData = Field(default=ClassificationData(), description="The sentences and their labels.")
    model: ClassifierSettings = Field(default=LSTMNClassifierSettings(), description="The classifier.")

    @model_validator(mode="after")
    def _fits(self) -> "ClassificationSettings":
        model, longest = self.model, self.data.max_length
        if model.kind == "transformer" and model.position == "learned" and longest > model.context:
            raise ValueError(
                f"learned positions end at model.context, {model.context}, and a sentence may have {longest}: set "
                f"data.max_length={model.context}, so that longer ones are cut"
            )
        return self


SETTINGS = ClassificationSettings
