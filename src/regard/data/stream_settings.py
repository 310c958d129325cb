"""Which text a language model reads, and how it is split, cut and batched. No torch here."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class TestedText(BaseModel):
    """Text to test on; none named: what the run held out for it."""

    __test__ = False  # no test of pytest's, whatever its name
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: list[Path] | None = Field(default=None, min_length=1, description="file or files of text")

    @field_validator("text", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        return [given] if isinstance(given, str | Path) else given


class LanguageData(TestedText):
    """Text to train, validate and test on, the vocabulary and the windows.

    A file may be gzipped, or lie in a zip archive: `a.zip/b.txt`.
    """

    validation: Path | None = Field(
        default=None, description="a file of text that chooses a checkpoint, in place of a share of `text`"
    )
    test: Path | None = Field(default=None, description="a file that only an evaluation reads, likewise")
    validation_share: float = Field(default=0.1, gt=0, lt=1, description="part of the lines, before those of the test")
    test_share: float = Field(default=0.1, gt=0, lt=1, description="part of the lines, the last ones")
    tokenizer: Literal["words", "characters", "bpe"] = Field(default="words", description="units of the text")
    vocabulary_size: int = Field(default=10_000, ge=5, description="entries at most, with the four special ones")
    lower: bool = Field(default=False, description="fold upper case to lower case")
    window: int = Field(default=64, ge=1, description="pieces that training reads from one fresh state")
    batch: int = Field(default=32, ge=1, description="windows of a batch")

    @model_validator(mode="after")
    def _rest(self) -> "LanguageData":
        held = (0 if self.validation else self.validation_share) + (0 if self.test else self.test_share)
        if held >= 1:
            raise ValueError("validation_share and test_share leave nothing to train on")
        return self
