"""The settings of a search; every contradiction is refused here, before anything is read or written."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SearchSettings(BaseModel):
    """How outputs are searched for. The default is greedy: beam 1.

    Lengths and limits count generated tokens, EOS included; a prompt is never counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    beam: int = Field(
        default=1, ge=1, description="hypotheses kept per item; with sample, the number of independent draws"
    )
    n_best: int = Field(default=1, ge=1, description="hypotheses returned per item, best first; at most the beam")
    max_length: int | None = Field(
        default=None,
        ge=0,
        le=100_000,  # a model may never end, and a search that long would end only with the memory
        description="most tokens of an output, EOS included; null: from the source length",
    )
    max_ratio: float = Field(
        default=2.0, gt=0, description="without max_length an output has at most max_ratio x source + max_extra tokens"
    )
    max_extra: int = Field(default=10, ge=1, description="see max_ratio")
    min_length: int = Field(default=0, ge=0, description="tokens before EOS may come, itself not counted")
    length_rule: Literal["power", "gnmt"] = Field(
        default="power",
        description="what divides the log-probability: length^p, or ((5 + length) / 6)^p of Wu et al. 2016",
    )
    length_penalty: float = Field(default=1.0, ge=0, description="the p of length_rule; 0 leaves the plain sum")
    coverage_penalty: float = Field(
        default=0.0,
        ge=0,
        description="weight of the coverage term: sum over source tokens of log(min(attention mass, 1))",
    )
    sample: bool = Field(default=False, description="draw tokens at random instead of keeping the best")
    temperature: float | None = Field(default=None, gt=0, description="sampling: divides the scores; null is 1")
    top_k: int | None = Field(default=None, ge=1, description="sampling: only among the k most probable")
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="sampling: only among the fewest tokens that together reach this probability",
    )
    seed: int = Field(default=0, ge=0, description="sampling: together with an item's number it fixes the item's draws")

    @model_validator(mode="after")
    def _agree(self) -> "SearchSettings":
        wrong = []
        if self.n_best > self.beam:
            wrong.append(f"n_best {self.n_best} is more than beam {self.beam}: raise beam or lower n_best")
        if self.max_length is not None and 0 < self.max_length <= self.min_length:
            wrong.append(
                f"min_length {self.min_length} leaves no room for EOS within max_length {self.max_length}: "
                f"it must be below max_length"
            )
        if not self.sample:
            drawn = [name for name in ("temperature", "top_k", "top_p") if getattr(self, name) is not None]
            if drawn:
                wrong.append(
                    f"{', '.join(drawn)} would do nothing without sample: set sample to true or leave them out"
                )
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def limits(self, source_lengths: Sequence[int]) -> list[int]:
        """The most tokens, EOS included, that each item's output may have."""
        if self.max_length is not None:
            return [self.max_length for _ in source_lengths]
        return [math.ceil(self.max_ratio * length) + self.max_extra for length in source_lengths]
