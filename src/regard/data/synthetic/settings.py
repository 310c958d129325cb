"""Which synthetic sentence pairs to make. No torch here: the command line reads this file first."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.data.settings import Part

Language = Literal["en", "fr", "de", "es", "zh"]


class PhraseSettings(BaseModel):
    """The built-in phrases: dates, times, durations, numbers and prices, with their true alignment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Language = Field(default="en", description="language that is read")
    target: Language = Field(default="fr", description="language that is written")
    count: int = Field(default=20_000, ge=1, description="how many phrases to make")
    seed: int = Field(
        default=0, ge=0, description="draws the phrases; one seed gives the same phrases on every machine"
    )

    @model_validator(mode="after")
    def _two_languages(self) -> "PhraseSettings":
        if self.source == self.target:
            raise ValueError(f"source and target are both {self.source!r}; choose two languages")
        return self


class ReversalSettings(BaseModel):
    """The built-in problem "reverse the digits": "3 1 4" becomes "4 1 3"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(default=50_000, ge=1, description="how many sequences to make, all different")
    shortest: int = Field(default=1, ge=1, description="digits at least")
    longest: int = Field(default=25, ge=1, le=1000, description="digits at most; all lengths are equally often")
    seed: int = Field(default=0, ge=0, description="draws the digits; one seed gives the same ones on every machine")
    part: Part = Field(
        default="training", description="training, validation and test share no sequence, whatever their seeds"
    )

    @model_validator(mode="after")
    def _enough(self) -> "ReversalSettings":
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) is more than longest ({self.longest})")
        return self
