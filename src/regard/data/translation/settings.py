"""What to read, how to cut it into units and how to batch it. No torch here: the command line reads this file first."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, PositiveInt, model_validator

from regard.data.settings import OneOrigin, WordUnit
from regard.data.synthetic.settings import PhraseSettings, ReversalSettings

TokenizerKind = Literal["words", "characters", "bpe", "sentencepiece"]
OnLong = Literal["error", "drop", "cut"]


ORIGINS = ("source", "tsv", "jsonl", "phrases", "reversal")
NAMED = "source and target, tsv, jsonl, phrases or reversal"


class CorpusSettings(OneOrigin):
    """Where sentence pairs come from: line-aligned files, one TSV, one JSONL, or a built-in maker.

    A file may lie in a zip archive, which a path enters like a folder: `fra-eng.zip/fra.txt`.
    """

    origins: ClassVar[tuple[str, ...]] = ORIGINS
    items: ClassVar[str] = "pairs"
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Path | None = Field(default=None, description="file of source lines, plain or .gz, UTF-8")
    target: Path | None = Field(default=None, description="file of target lines, line i translates line i of `source`")
    tsv: Path | None = Field(
        default=None, description="file of columns, such as source<TAB>target; others are left alone"
    )
    jsonl: Path | None = Field(default=None, description='file of {"source": …, "target": …} lines, "links" optional')
    phrases: PhraseSettings | None = Field(
        default=None, description="make the built-in phrases instead of reading a file"
    )
    reversal: ReversalSettings | None = Field(
        default=None, description="make digits to reverse instead of reading a file"
    )
    most_words: int | None = Field(
        default=None, ge=1, description="leave out pairs with more words on a side, marks counted as words"
    )
    joined: int = Field(
        default=1,
        ge=1,
        le=100,
        description="pairs joined at random by ones, twos … up to this many, each equally often",
    )
    columns: tuple[PositiveInt, PositiveInt] = Field(
        default=(1, 2), description="which columns of `tsv` are source and target, from 1"
    )
    separator: str = Field(default="\t", min_length=1, description='between the columns of `tsv`; e.g. " ||| "')
    links: Path | None = Field(
        default=None,
        description="file of true links beside source and target or tsv, one line per pair: 0-0 1-2, 1p2 if possible",
    )
    links_from: int = Field(default=0, ge=0, le=1, description="the number of the first word in `links`")
    links_words: WordUnit = Field(
        default="whitespace", description="what `links` count: words between white space, or regard's own (tokenizer)"
    )
    links_reversed: bool = Field(default=False, description="`links` name the target word first")

    @model_validator(mode="after")
    def _fit(self) -> "CorpusSettings":
        if (self.source is None) != (self.target is None):
            there, missing = ("source", "target") if self.target is None else ("target", "source")
            raise ValueError(f"`{there}` is given without `{missing}`; line-aligned text needs both files")
        if self.links is not None and self.source is None and self.tsv is None:
            raise ValueError("`links` stand beside source and target, or tsv; others bring their own")
        if self.columns != (1, 2) and self.tsv is None:
            raise ValueError("`columns` describe a `tsv`; name the file, or leave them out")
        if self.columns[0] == self.columns[1]:
            raise ValueError(f"`columns` name column {self.columns[0]} twice; source and target are two")
        return self


class DataSettings(CorpusSettings):
    """Training pairs, held-out pairs, tokenizers and batches."""

    validation: CorpusSettings | None = Field(
        default=None, description="held-out pairs; left out, some training pairs are kept"
    )
    held_out: int | None = Field(
        default=None,
        ge=1,
        description="pairs kept for validation where none are given (default: a twentieth, at most 1000)",
    )
    tokenizer: TokenizerKind = Field(default="bpe", description="units of the text")
    vocabulary_size: int = Field(
        default=4_000, ge=5, description="entries at most, with the four special ones, per side"
    )
    shared_vocabulary: bool = Field(default=False, description="one vocabulary for source and target")
    sentencepiece_model: Path | None = Field(
        default=None, description="a trained .model file, for tokenizer=sentencepiece"
    )
    sentencepiece_target_model: Path | None = Field(default=None, description="another .model for the target side")
    lower: bool = Field(default=False, description="fold upper case to lower case")
    max_length: int = Field(default=256, ge=2, description="tokens in a line at most, EOS counted")
    on_long: OnLong = Field(
        default="drop", description="what happens to a longer line: an error, dropping the pair, or a cut"
    )
    tokens: int = Field(default=2_000, ge=1, description="positions of a batch at most, per side, padding counted")
    bucket: Literal["length", "equal"] = Field(
        default="equal", description="batches of similar, or of equal, source length"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "DataSettings":
        if self.tokenizer == "sentencepiece" and self.sentencepiece_model is None:
            raise ValueError("tokenizer=sentencepiece reads a trained model; name it: sentencepiece_model=FILE.model")
        if self.tokenizer != "sentencepiece" and (self.sentencepiece_model or self.sentencepiece_target_model):
            raise ValueError(
                f"a SentencePiece model is given, but tokenizer={self.tokenizer}; use tokenizer=sentencepiece"
            )
        if self.shared_vocabulary and self.sentencepiece_target_model is not None:
            raise ValueError("shared_vocabulary uses one model; leave out sentencepiece_target_model")
        if self.validation is not None and not self.validation.given:
            raise ValueError(f"`validation` names no files; give {NAMED}")
        if self.validation is not None and self.held_out is not None:
            raise ValueError("`held_out` takes pairs from the training data, but `validation` is given; leave one out")
        return self
