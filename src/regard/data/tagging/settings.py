"""Which treebanks to read, and how their sentences are split and batched. No torch here."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.data.settings import Paths, leave_some

Column = Literal["upos", "xpos", "deprel"]

NAMED = "data.treebank=FILE.conllu"


class TestedTreebank(BaseModel):
    """Sentences to test on; none named: those that the run's own split holds out for it."""

    __test__ = False  # no test of pytest's, whatever its name
    model_config = ConfigDict(extra="forbid", frozen=True)

    treebank: Paths | None = Field(default=None, description="file or files in CoNLL-U")


class TaggingData(TestedTreebank):
    """Sentences to train, validate and test on, and the batches. A file may be gzipped, or lie in a zip archive."""

    column: Column = Field(
        default="upos",
        description="the tags: parts of speech of all languages, those of the treebank, or relations to the head",
    )
    validation_share: float = Field(default=0.1, gt=0, lt=1, description="part of the texts that chooses a checkpoint")
    test_share: float = Field(default=0.1, ge=0, lt=1, description="part of the texts that only an evaluation reads")
    max_length: int = Field(default=256, ge=1, description="words of a sentence at most; a longer one is cut")
    least: int = Field(
        default=2, ge=1, description="a word, an ending or a beginning is known if training has it this often"
    )
    affix: int = Field(default=4, ge=1, le=8, description="characters of a beginning or an ending at most")
    tokens: int = Field(default=1_500, ge=1, description="positions of a batch at most, padding counted")

    @model_validator(mode="after")
    def _rest(self) -> "TaggingData":
        leave_some(self.validation_share, self.test_share)
        return self
