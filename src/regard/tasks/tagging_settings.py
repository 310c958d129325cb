"""The settings of a run of tagging, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from regard.data.conllu_settings import TaggingData, TestedTreebank
from regard.models.tagger_settings import TaggerSettings
from regard.tasks.settings import Better, RunSettings


class TaggingSettings(RunSettings):
    """From the words of a sentence to a tag of each."""

    tests: ClassVar[type[BaseModel]] = TestedTreebank
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min"}

    task: Literal["tagging"] = Field("tagging", description="What the model is for.")
    data: TaggingData = Field(default=TaggingData(), description="The treebanks.")
    model: TaggerSettings = Field(default=TaggerSettings(), description="The tagger.")
