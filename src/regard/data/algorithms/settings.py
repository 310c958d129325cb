"""Which algorithm is to be learned, and from how many sequences. No torch here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SequencesSettings(BaseModel):
    """What the problems have in common. A sequence is made from its number, so all of training can be new ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: str = Field(description="Its name.")
    shortest: int = Field(default=1, ge=1, description="The smallest length; what a length counts is the problem's.")
    longest: int = Field(default=20, ge=1, description="The largest length; all between are drawn equally often.")
    sequences: int = Field(default=1000, ge=1, description="Sequences per epoch; each epoch has new ones.")
    batch: int = Field(default=1, ge=1, description="Sequences read together.")
    validation: int = Field(default=200, ge=1, description="Sequences held out of training, of the same lengths.")

    @model_validator(mode="after")
    def _ordered(self) -> "SequencesSettings":
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) must not be above longest ({self.longest})")
        return self


class CopySettings(SequencesSettings):
    """Output the rows again (Graves 2014, section 4.1); a length counts rows."""

    problem: Literal["copy"] = Field("copy", description="Rows of bits, to be copied.")
    bits: int = Field(default=8, ge=1, description="Bits of a row.")
    heard: bool = Field(
        default=False,
        description="Teacher forcing: during the answer the input is the row before the one to output; else zeros.",
    )


class RepeatCopySettings(SequencesSettings):
    """Output the rows so many times, then an end mark (section 4.2); a length counts rows."""

    problem: Literal["repeat_copy"] = Field("repeat_copy", description="Rows of bits, to be copied several times.")
    longest: int = Field(default=10, ge=1, description="The largest number of rows.")
    bits: int = Field(default=8, ge=1, description="Bits of a row.")
    repeats: int = Field(default=10, ge=1, description="The largest number of times; each is drawn equally often.")


class RecallSettings(SequencesSettings):
    """Output the item that followed the one asked for (section 4.3); a length counts items."""

    problem: Literal["recall"] = Field("recall", description="Items; one is shown again, the next is to be output.")
    shortest: int = Field(default=2, ge=2, description="The smallest number of items.")
    longest: int = Field(default=6, ge=2, description="The largest number of items.")
    bits: int = Field(default=6, ge=1, description="Bits of a row.")
    rows: int = Field(default=3, ge=1, description="Rows of an item.")

    @model_validator(mode="after")
    def _distinct(self) -> "RecallSettings":
        if 2 ** min(self.bits * self.rows, 62) < 2 * self.longest:
            raise ValueError(
                f"items of {self.rows} rows of {self.bits} bits are too few to be told apart in a sequence of "
                f"{self.longest}; give more bits or rows"
            )
        return self


class PrioritySortSettings(SequencesSettings):
    """Output the rows of the highest priorities, highest first (section 4.5); a length counts rows given."""

    problem: Literal["priority_sort"] = Field("priority_sort", description="Rows with priorities, to be sorted.")
    bits: int = Field(default=8, ge=1, description="Bits of a row.")
    kept: float = Field(default=0.8, gt=0, le=1, description="The share of rows asked for, rounded up: 16 of 20.")


class CountAndRecallSettings(SequencesSettings):
    """Output how often each key that is asked for came, and its last value; a length counts pairs."""

    problem: Literal["count_and_recall"] = Field(
        "count_and_recall",
        description="Pairs of a key and a value; of some keys the count and the last value are asked.",
    )
    longest: int = Field(default=8, ge=1, description="The largest number of pairs.")
    key_bits: int = Field(default=5, ge=1, le=62, description="Bits of a key.")
    value_bits: int = Field(default=3, ge=1, le=62, description="Bits of a value.")
    most: int = Field(default=3, ge=1, description="The largest number of times that a key comes.")
    questions: int = Field(default=4, ge=1, description="How many of the keys are asked for at most, each once.")

    @model_validator(mode="after")
    def _enough_keys(self) -> "CountAndRecallSettings":
        if 2**self.key_bits < 2 * self.longest:
            raise ValueError(
                f"{self.longest} pairs may need as many keys, and half of those of {self.key_bits} bits should "
                "stay free; give more key_bits"
            )
        return self


class ReuseCopySettings(SequencesSettings):
    """Output the rows of each episode after it, in a memory smaller than all of them; a length counts episodes."""

    problem: Literal["reuse_copy"] = Field("reuse_copy", description="Episodes of rows, each to be copied.")
    longest: int = Field(default=4, ge=1, description="The largest number of episodes.")
    bits: int = Field(default=4, ge=1, description="Bits of a row.")
    rows: int = Field(default=4, ge=1, description="Rows of an episode at most; each number is drawn equally often.")


AlgorithmData = Annotated[
    CopySettings
    | RepeatCopySettings
    | RecallSettings
    | PrioritySortSettings
    | CountAndRecallSettings
    | ReuseCopySettings,
    Field(discriminator="problem"),
]
"""The settings of one problem; `problem` says which."""
