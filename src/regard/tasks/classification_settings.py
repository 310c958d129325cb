"""The settings of a run of classification, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from regard.data.labelled_settings import ClassificationData, TestedSentences
from regard.models.classifier_settings import ClassifierSettings, LSTMNClassifierSettings
from regard.tasks.settings import Better, RunSettings


class ClassificationSettings(RunSettings):
    """From a sentence to its label."""

    tests: ClassVar[type[BaseModel]] = TestedSentences
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min"}

    task: Literal["classification"] = Field("classification", description="What the model is for.")
    data: ClassificationData = Field(default=ClassificationData(), description="The sentences and their labels.")
    model: ClassifierSettings = Field(default=LSTMNClassifierSettings(), description="The classifier.")
