"""Which stories to read, and how they are batched. No torch here."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

ORIGINS = ("babi", "made")
NAMED = "data.babi=FILE for stories in the form of bAbI, or data.made.facts=1 for made ones"


class MadeStories(BaseModel):
    """Stories that are made: people walk between places, and may carry things."""

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


class StoriesSettings(BaseModel):
    """Where stories come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    babi: Path | None = Field(
        default=None,
        description="file in the form of bAbI: numbered lines; a question, its answer and facts, with tabs",
    )
    made: MadeStories | None = Field(default=None, description="made stories")

    @model_validator(mode="after")
    def _one_origin(self) -> "StoriesSettings":
        if self.babi is not None and self.made is not None:
            raise ValueError("choose one origin of stories; given are `babi` and `made`")
        return self

    @property
    def given(self) -> bool:
        """Whether any origin is named."""
        return any(getattr(self, name) is not None for name in ORIGINS)


class TestedStories(StoriesSettings):
    """Stories to test on; none named: those that the run holds out."""

    __test__ = False  # no test of pytest's, whatever its name


class ReadingData(StoriesSettings):
    """Stories to train on, those that are held out, and the batches."""

    validation: int = Field(
        default=100, ge=1, description="stories held out: made ones of their own, or the last ones of a file"
    )
    batch: int = Field(default=32, ge=1, description="stories read together")
    max_words: int = Field(default=30, ge=1, description="words of a sentence at most; a longer one is cut")
