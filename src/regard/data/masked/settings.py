"""Which text a masked language model reads, which share of it is masked, and how it is split and cut. No torch here."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.data.settings import OneOrigin, Paths, leave_some

NAMED = "data.text=FILE, or data.standard_library=true for the source of Python's own"


class TestedMaskedText(BaseModel):
    """Text to test on; none named: what the run held out for it."""

    __test__ = False  # no test of pytest's, whatever its name
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Paths | None = Field(default=None, description="file or files of text")
    asked: float = Field(
        default=0.15, gt=0, lt=1, description="part of the known tokens that a validation or a test masks and predicts"
    )


class Masking(BaseModel):
    """How training masks tokens (Devlin et al. 2019, section 3.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(default=0.15, gt=0, lt=1, description="tokens to predict, of all that are known")
    masked: float = Field(default=0.8, ge=0, le=1, description="of these, part that is read as [MASK]")
    replaced: float = Field(default=0.1, ge=0, le=1, description="part that is read as another token, drawn at random")

    @model_validator(mode="after")
    def _whole(self) -> "Masking":
        if self.masked + self.replaced > 1:
            raise ValueError(f"masked {self.masked} and replaced {self.replaced} are parts of one whole")
        return self


class MaskedData(TestedMaskedText, OneOrigin):
    """Text to train, validate and test on, the vocabulary and the windows.

    A file may be gzipped, or lie in a zip archive: `a.zip/b.txt`. The last lines of named files are for the test, those
    before them for the validation. Of the standard library each module is in one part, by its name.
    """

    origins: ClassVar[tuple[str, ...]] = ("text", "standard_library")
    items: ClassVar[str] = "text"

    standard_library: bool = Field(
        default=False, description="read the source of Python's standard library in place of files"
    )
    validation_share: float = Field(default=0.05, gt=0, lt=1, description="part that chooses a checkpoint")
    test_share: float = Field(default=0.1, gt=0, lt=1, description="part that only an evaluation reads")
    tokenizer: Literal["words", "characters", "bpe"] = Field(default="words", description="units of the text")
    vocabulary_size: int = Field(default=10_000, ge=6, description="entries at most, with the four special ones")
    lower: bool = Field(default=False, description="fold upper case to lower case")
    window: int = Field(default=64, ge=2, description="tokens that are read together, line ends among them")
    batch: int = Field(default=32, ge=1, description="windows of a batch")
    masking: Masking = Field(default=Masking(), description="how training masks")

    @model_validator(mode="after")
    def _rest(self) -> "MaskedData":
        leave_some(self.validation_share, self.test_share)
        return self
