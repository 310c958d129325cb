"""The settings of the task `greater` of these tests: its model is one of two kinds."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.tasks.core.settings import Better, RunSettings


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GreaterData(Part):
    count: int = Field(11, ge=1, description="Pairs of numbers.")


class GreaterTest(Part):
    count: int = Field(13, ge=1, description="Pairs of numbers.")
    seed: int = Field(2, ge=0, description="Of the draw.")


class Flat(Part):
    kind: Literal["flat"] = Field("flat", description="One layer.")
    bias: bool = Field(True, description="Whether it has a bias.")


class Deep(Part):
    kind: Literal["deep"] = Field("deep", description="Two layers.")
    width: int = Field(3, ge=1, description="Of the first.")


class GreaterSettings(RunSettings):
    verb: ClassVar[str] = "compare"
    tests: ClassVar[type[BaseModel]] = GreaterTest
    measures: ClassVar[dict[str, Better]] = {"right": "max"}
    task: Literal["greater"] = Field("greater", description="What the model is for.")
    data: GreaterData = Field(GreaterData(), description="The numbers.")
    model: Flat | Deep = Field(default=Flat(), discriminator="kind", description="The model.")


SETTINGS = GreaterSettings
