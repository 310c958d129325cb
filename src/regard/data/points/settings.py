"""Which problem of points is to be solved, and how many of them. No torch here."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

LEAST = {"sort": 1, "hull": 3, "delaunay": 3, "tsp": 3}
"""The fewest numbers or points that each problem makes sense of."""

ProblemName = Literal["sort", "hull", "delaunay", "tsp"]


class PointData(BaseModel):
    """A problem, the sizes of its sets, and how many of them. A set is drawn by its number, so all can be new ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: ProblemName = Field(
        default="hull",
        description="sort: numbers, largest first; hull: the convex hull of points in the plane; delaunay: their "
        "triangulation; tsp: the shortest round trip through all of them.",
    )
    shortest: int = Field(default=5, ge=1, description="The fewest numbers or points of a set.")
    longest: int = Field(default=10, ge=1, le=1000, description="The most; all between are drawn equally often.")
    sets: int = Field(default=12_800, ge=1, description="Sets per epoch; each epoch has new ones.")
    batch: int = Field(default=128, ge=1, description="Sets read together.")
    starts: int | None = Field(
        default=2,
        ge=1,
        description="Of a tsp of more than 12 points, from how many a short tour is sought to learn from; null: all, "
        "which takes longer. Validation and tests always take all.",
    )
    validation: int = Field(default=500, ge=1, description="Sets held out of training, of the same sizes.")

    @model_validator(mode="after")
    def _possible(self) -> "PointData":
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) must not be above longest ({self.longest})")
        if self.shortest < LEAST[self.problem]:
            raise ValueError(f"{self.problem} begins with sets of {LEAST[self.problem]}; shortest is {self.shortest}")
        return self
