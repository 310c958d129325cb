"""The choices that make a reader that points at its answer in the text. No torch here."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SpanReaderSettings(BaseModel):
    """A text is read with the question in mind, and two pointers say where the answer begins and ends in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["span"] = Field("span", description="points at the first and the last word of the answer in the text")
    width: int = Field(default=64, ge=2, multiple_of=2, description="width of words and states; both ways share it")
    cell: Literal["gru", "lstm"] = Field(default="lstm", description="what reads")
    rounds: int = Field(
        default=1,
        ge=1,
        description="rounds of attention to the question, self-attention over the text, and a bidirectional layer",
    )
    heads: int = Field(default=4, ge=1, description="heads of the self-attention over the text; they divide the width")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="on words and on what each round reads")
    word_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of words that training replaces with unknown; beginnings, endings and shape remain",
    )
    longest: int = Field(default=15, ge=1, description="words of an answer at most; no longer one can be pointed at")
    least: int = Field(default=2, ge=1, description="a feature of words that training has less often is not known")
    affix: int = Field(default=3, ge=0, description="characters of the beginnings and endings by which words are known")

    @model_validator(mode="after")
    def _dividing(self) -> "SpanReaderSettings":
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide the width {self.width}")
        return self
