"""Which text a language model reads, and how it is split, cut and batched. No torch here."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from regard.data.settings import Paths, as_list, leave_some

DEFAULT_SEGMENT = 1024
"""Tokens of an evaluation segment, unless the model sets another length."""


class TestedText(BaseModel):
    """Text to test on; none named: what the run held out for it."""

    __test__ = False  # no test of pytest's, whatever its name
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Paths | None = Field(default=None, description="files or folders of text")
    part: Literal["test", "validation"] = Field(default="test", description="what is read where no `text` is named")
    stretch: int | None = Field(
        default=None,
        ge=1,
        description="tokens of an evaluation segment, which starts from a fresh state; null: "
        f"{DEFAULT_SEGMENT:,}, or, of a Transformer, as many as its training read (data.window)",
    )
    edges: list[int] | None = Field(
        default=None,
        min_length=1,
        description="positions in a segment, from 2, at which a row of the table begins",
    )
    received: int = Field(
        default=0,
        ge=0,
        description="of a Transformer, segments whose received attention is measured: the weight that each "
        "position gets from the last ones (as many as a window has), 1 being an even share",
    )

    @field_validator("edges")
    @classmethod
    def _rising(cls, edges: list[int] | None) -> list[int] | None:
        if edges is not None and (edges != sorted(set(edges)) or edges[0] < 2):
            raise ValueError(f"edges are positions from 2 on, each greater than the one before; given {edges}")
        return edges


class LanguageData(BaseModel):
    """Text to train, validate and test on, the vocabulary and the windows.

    A file may be gzipped, or lie in a zip archive: `a.zip/b.txt`. A folder stands for its files of text. Of a `.jsonl`
    file each line is a document, of a `.json` file each entry of its list; any other file is one document.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Paths | None = Field(default=None, description="files or folders of text")
    fields: Annotated[list[str], BeforeValidator(as_list), Field(min_length=1)] = Field(
        default=["text"], description="of .jsonl and .json: the fields that are read, in this order"
    )
    documents: Literal["running", "marked", "apart"] = Field(
        default="running",
        description="running: one text, without borders; marked: each document ends with a special token; apart: "
        "besides, other documents are masked out",
    )
    validation: Paths | None = Field(
        default=None, description="text that chooses a checkpoint, in place of a share of `text`"
    )
    test: Paths | None = Field(default=None, description="text that only an evaluation reads, likewise")
    validation_share: float = Field(default=0.1, gt=0, lt=1, description="part of the text, before that of the test")
    test_share: float = Field(default=0.1, ge=0, lt=1, description="part of the text, the last one; 0: no test")
    split: Literal["lines", "characters"] = Field(default="lines", description="what the shares count")
    tokenizer: Literal["words", "characters", "bpe"] = Field(default="words", description="units of the text")
    vocabulary_size: int = Field(default=10_000, ge=5, description="entries at most, with the four special ones")
    vocabulary_lines: int | None = Field(
        default=None, ge=1, description="learn the vocabulary from so many lines, evenly spread; null: from all"
    )
    lower: bool = Field(default=False, description="fold upper case to lower case")
    tokens: Path | None = Field(
        default=None,
        description="a folder that keeps the ids, made once and read from the disk: for more text than memory holds",
    )
    window: int = Field(default=64, ge=1, description="tokens of a training window, which starts from a fresh state")
    batch: int = Field(default=32, ge=1, description="windows of a batch")

    @model_validator(mode="after")
    def _rest(self) -> "LanguageData":
        leave_some(0 if self.validation else self.validation_share, 0 if self.test else self.test_share)
        return self
