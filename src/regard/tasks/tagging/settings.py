"""The settings of a run of tagging, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from regard.data.tagging.settings import TaggingData, TestedTreebank
from regard.models.text.tagger_settings import TaggerSettings
from regard.tasks.core.settings import Better, RunSettings


class TaggingSettings(RunSettings):
    """From the words of a sentence to a tag of each."""

    verb: ClassVar[str] = "tag"
    tests: ClassVar[type[BaseModel]] = TestedTreebank
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min"}

    task: Literal["tagging"] = Field("tagging", description="What the model is for.")
    data: TaggingData = Field(default=TaggingData(), description="The treebanks.")
    model: TaggerSettings = Field(default=TaggerSettings(), description="The tagger.")

    @model_validator(mode="after")
    def _fits(self) -> "TaggingSettings":
        if self.model.position == "learned" and self.data.max_length > self.model.context:
            raise ValueError(
                f"learned positions end at model.context, {self.model.context}, and a sentence may have "
                f"{self.data.max_length}: set data.max_length={self.model.context}, so that longer ones are cut"
            )
        return self


SETTINGS = TaggingSettings
