"""The settings of a run that points, and of its tests."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.data.points.settings import PointData
from regard.models.pointing.settings import PointerSettings
from regard.tasks.core.settings import Better, RunSettings


class FromAnswers(BaseModel):
    """Supervised learning from the right answer of every set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    by: Literal["answers"] = Field("answers", description="What the model learns from.")


class FromLengths(BaseModel):
    """Learning from the lengths of its own tours, without right answers: REINFORCE with a baseline."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    by: Literal["lengths"] = Field("lengths", description="What the model learns from; of tsp alone.")
    draws: int = Field(
        default=8,
        ge=2,
        le=1024,
        description="Tours drawn for each set; the mean length of the others is a tour's baseline.",
    )


class TestedPoints(BaseModel):
    """Which sets a run is tested on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sets: int = Field(default=1000, ge=1, description="sets of each size")
    sizes: list[Annotated[int, Field(ge=1)]] | None = Field(
        default=None, description="the sizes; all those of training unless given"
    )
    beam: int = Field(
        default=1, ge=1, description="hypotheses kept; 1 is greedy. Of a beam's tours the shortest counts"
    )
    seed: int = Field(default=0, ge=0, description="draws the test sets, which no training has seen by number")


class PointingSettings(RunSettings):
    """From a set of points to an answer made of them."""

    verb: ClassVar[str] = "solve"
    options: ClassVar[Mapping[str, Sequence[str]]] = {"solve": ("draw", "beam", "format")}
    tests: ClassVar[type[BaseModel]] = TestedPoints
    measures: ClassVar[dict[str, Better]] = {
        "exact": "max",
        "exact_shortest": "max",
        "exact_longest": "max",
        "coverage": "max",
        "length": "min",
    }

    task: Literal["pointing"] = Field("pointing", description="What the model is for.")
    data: PointData = Field(default=PointData(), description="The problem.")
    model: PointerSettings = Field(default=PointerSettings(), description="What learns it.")
    learning: Annotated[FromAnswers | FromLengths, Field(discriminator="by")] = Field(
        default=FromAnswers(by="answers"), description="What it learns from."
    )


SETTINGS = PointingSettings
