"""The settings of a run that learns an algorithm, and of its tests."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.data.algorithms.settings import AlgorithmData, CopySettings
from regard.models.memory.settings import NTMSettings, SequenceSettings
from regard.tasks.core.settings import Better, RunSettings

TWICE, SIXFOLD = 2, 6
"""How much longer than the longest of training the sequences are that an evaluation tests beside it."""


class TestedSequences(BaseModel):
    """Which sequences a run is tested on: of the lengths of its training, and of some longer ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sequences: int = Field(
        default=100, ge=1, description="sequences of the lengths of training, and of each longer one"
    )
    lengths: list[Annotated[int, Field(ge=1)]] | None = Field(
        default=None,
        description=f"the longer lengths; {TWICE} and {SIXFOLD} times the longest of training unless given",
    )
    seed: int = Field(default=0, ge=0, description="draws the test sequences, which no training has seen by number")


class AlgorithmSettings(RunSettings):
    """From a sequence to what an algorithm makes of it."""

    verb: ClassVar[str] = "solve"
    tests: ClassVar[type[BaseModel]] = TestedSequences
    by_length: ClassVar[tuple[str, ...]] = ("accuracy",)
    measures: ClassVar[dict[str, Better]] = {
        "wrong_bits": "min",
        "exact": "max",
        "wrong_bits_twice": "min",
        "median_twice": "min",
        "exact_twice": "max",
        "wrong_bits_sixfold": "min",
        "median_sixfold": "min",
        "exact_sixfold": "max",
    }

    task: Literal["algorithms"] = Field("algorithms", description="What the model is for.")
    data: AlgorithmData = Field(default=CopySettings(problem="copy"), description="The algorithm.")
    model: SequenceSettings = Field(default=NTMSettings(kind="ntm"), description="What learns it.")


SETTINGS = AlgorithmSettings
