"""Which labelled sentences to read, and how they are split, cut and batched. No torch here."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, PositiveInt, model_validator

from regard.data.settings import OneOrigin, Part, leave_some

ORIGINS = ("tsv", "jsonl", "files")
NAMED = "data.tsv=FILE, data.jsonl=FILE, or a file for each label: data.files.positive=FILE data.files.negative=FILE"


class LabelledSettings(OneOrigin):
    """Where sentences with labels come from. A file may be gzipped, or lie in a zip archive: `a.zip/b.txt`."""

    origins: ClassVar[tuple[str, ...]] = ORIGINS
    items: ClassVar[str] = "sentences"
    model_config = ConfigDict(extra="forbid", frozen=True)

    tsv: Path | None = Field(default=None, description="file of columns, a text and its label among them")
    columns: tuple[PositiveInt, PositiveInt] = Field(
        default=(1, 2), description="which columns of `tsv` are text and label, from 1"
    )
    separator: str = Field(default="\t", min_length=1, description="between the columns of `tsv`")
    jsonl: Path | None = Field(default=None, description='file of {"text": …, "label": …} lines')
    files: dict[str, Path] | None = Field(default=None, min_length=1, description="a file of sentences for each label")

    @model_validator(mode="after")
    def _two_columns(self) -> "LabelledSettings":
        if self.columns[0] == self.columns[1]:
            raise ValueError(f"`columns` name column {self.columns[0]} twice; text and label are two")
        return self


class TestedSentences(LabelledSettings):
    """Sentences to test on; none named: those that the run's own split holds out for it."""

    __test__ = False  # no test of pytest's, whatever its name

    part: Part | Literal["all"] = Field(
        default="all", description="of named files: all, or only what the run's split gives to this part"
    )


class ClassificationData(LabelledSettings):
    """Sentences to train, validate and test on, the vocabulary and the batches."""

    validation_share: float = Field(default=0.1, gt=0, lt=1, description="part of the texts that chooses a checkpoint")
    test_share: float = Field(default=0.1, gt=0, lt=1, description="part of the texts that only an evaluation reads")
    tokenizer: Literal["words", "characters", "bpe"] = Field(default="words", description="units of the text")
    vocabulary_size: int = Field(default=20_000, ge=5, description="entries at most, with the four special ones")
    lower: bool = Field(default=True, description="fold upper case to lower case")
    max_length: int = Field(default=256, ge=1, description="tokens of a sentence at most; a longer one is cut")
    tokens: int = Field(default=1_500, ge=1, description="positions of a batch at most, padding counted")

    @model_validator(mode="after")
    def _rest(self) -> "ClassificationData":
        leave_some(self.validation_share, self.test_share)
        return self
