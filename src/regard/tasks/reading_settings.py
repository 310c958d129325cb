"""The settings of a run that reads stories, and of its tests."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from regard.data.story_settings import ReadingData, TestedStories
from regard.models.story_settings import StoryReaderSettings
from regard.tasks.settings import Better, RunSettings


class ReadingSettings(RunSettings):
    """From a story and a question to its answer."""

    tests: ClassVar[type[BaseModel]] = TestedStories
    measures: ClassVar[dict[str, Better]] = {"accuracy": "max", "loss": "min", "looked": "max"}

    task: Literal["reading"] = Field("reading", description="What the model is for.")
    data: ReadingData = Field(default=ReadingData(), description="The stories.")
    model: StoryReaderSettings = Field(default=StoryReaderSettings(kind="sentences"), description="The reader.")
