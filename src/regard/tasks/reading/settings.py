"""The settings of a run that reads stories, and of its tests."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from regard.data.reading.settings import ReadingData, TestedStories
from regard.data.text.lines import ending_of
from regard.models.reading.span_settings import SpanReaderSettings
from regard.models.reading.story_settings import StoryReaderSettings
from regard.tasks.core.settings import Better, RunSettings


class ReadingSettings(RunSettings):
    """From a story and a question to its answer: a word of the vocabulary, or words of the story itself."""

    verb: ClassVar[str] = "answer"
    tests: ClassVar[type[BaseModel]] = TestedStories
    measures: ClassVar[dict[str, Better]] = {
        "accuracy": "max",
        "exact": "max",
        "f1": "max",
        "answerable": "max",
        "loss": "min",
        "looked": "max",
    }

    task: Literal["reading"] = Field("reading", description="What the model is for.")
    data: ReadingData = Field(default=ReadingData(), description="The stories.")
    model: Annotated[StoryReaderSettings | SpanReaderSettings, Field(discriminator="kind")] = Field(
        default=StoryReaderSettings(kind="sentences"), description="The reader."
    )

    @property
    def sentences(self) -> StoryReaderSettings:
        """The model's settings, of a reader that reads sentence by sentence."""
        assert isinstance(self.model, StoryReaderSettings)
        return self.model

    @property
    def span(self) -> SpanReaderSettings:
        """The model's settings, of a reader that points."""
        assert isinstance(self.model, SpanReaderSettings)
        return self.model

    @classmethod
    def of_file(cls, path: Path) -> dict[str, Any]:
        """Questions in the form of SQuAD have answers that stand in the text; stories are read by either reader."""
        if ending_of(path) == ".json":
            return {"data": {"squad": str(path)}, "model": {"kind": "span"}}
        return {"data": {"babi": str(path)}}


SETTINGS = ReadingSettings
