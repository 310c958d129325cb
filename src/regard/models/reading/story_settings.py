"""The choices that make a reader of stories. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.models.memory.settings import DNCSettings, SequenceSettings


class StoryReaderSettings(BaseModel):
    """Sentences as vectors, one after the other, into a model with a memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["sentences"] = Field("sentences", description="reads sentence by sentence, answers in one word")
    embedding_dim: int = Field(default=40, ge=1, description="width of words, sentences and questions")
    thinking: int = Field(default=1, ge=0, description="empty steps between a question and its answer")
    machine: SequenceSettings = Field(default=DNCSettings(kind="dnc"), description="what remembers the sentences")
