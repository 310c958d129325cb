"""Which stories to read, and how they are batched. No torch here."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from regard.data.settings import OneOrigin

ORIGINS = ("babi", "squad", "made")
NAMED = (
    "data.babi=FILE for stories in the form of bAbI, data.squad=FILE.json for questions in the form of SQuAD, or "
    "data.made.facts=1 for synthetic stories"
)


class SyntheticStories(BaseModel):
    """Synthetic stories: people walk between places, and may carry things."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    facts: int = Field(
        default=1,
        ge=1,
        le=2,
        description="facts that an answer needs: 1: where is a person; 2: where is a thing (bAbI 1 and 2)",
    )
    questions: int = Field(default=5, ge=1, description="questions of a story")
    count: int = Field(default=1000, ge=1, description="stories of an epoch, or of a test; each epoch has new ones")
    seed: int | None = Field(default=None, ge=0, description="draws them; the run's seed unless given")


class StoriesSettings(OneOrigin):
    """Where stories come from."""

    origins: ClassVar[tuple[str, ...]] = ORIGINS
    items: ClassVar[str] = "stories"
    model_config = ConfigDict(extra="forbid", frozen=True)

    babi: Path | None = Field(
        default=None,
        description="file in the form of bAbI: numbered lines; a question, its answer and facts, with tabs",
    )
    squad: Path | None = Field(
        default=None, description="JSON file in the form of SQuAD, 1.1 or 2.0; its answers stand in its texts"
    )
    made: SyntheticStories | None = Field(default=None, description="synthetic stories")


class TestedStories(StoriesSettings):
    """Stories to test on; none named: those that the run holds out."""

    __test__ = False  # no test of pytest's, whatever its name


class ReadingData(StoriesSettings):
    """Stories to train on, those that are held out, and the batches."""

    validation: int = Field(
        default=100,
        ge=1,
        description="stories held out: synthetic ones of their own, or the last ones of a file; of SQuAD, texts with "
        "all their questions",
    )
    batch: int = Field(default=32, ge=1, description="stories read together; of model.kind=span, questions")
    max_words: int = Field(
        default=30, ge=1, description="words of a sentence at most; a longer one is cut. model.kind=span cuts nothing"
    )
    longest_text: int = Field(
        default=800,
        ge=1,
        description="words of a text that model.kind=span trains on at most; questions about longer ones are left out, "
        "with a warning",
    )
