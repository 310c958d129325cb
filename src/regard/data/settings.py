"""What settings of all kinds of data share: the parts of a data set, paths, one origin of several. No torch here."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

Part = Literal["training", "validation", "test"]
PARTS: tuple[Part, ...] = ("training", "validation", "test")

WordUnit = Literal["whitespace", "tokenizer"]
"""What is a word to a link: what stands between white space, or a unit of regard's own (`data/text/units.py`)."""


def as_list(given: Any) -> Any:
    """One path or text as a list of it; whatever else is given stays."""
    return [given] if isinstance(given, str | Path) else given


Paths = Annotated[list[Path], BeforeValidator(as_list), Field(min_length=1)]
"""One path, or several."""


class OneOrigin(BaseModel):
    """Settings of which at most one says where the data come from.

    Attributes:
        origins: the names of these settings.
        items: what comes from there, as in "pairs".
    """

    origins: ClassVar[tuple[str, ...]]
    items: ClassVar[str]

    @model_validator(mode="after")
    def _one_origin(self) -> "OneOrigin":
        named = [f"`{name}`" for name in self.origins if getattr(self, name)]
        if len(named) > 1:
            raise ValueError(f"choose one origin of {self.items}; given are {' and '.join(named)}")
        return self

    @property
    def given(self) -> bool:
        """Whether any origin is named."""
        return any(getattr(self, name) for name in self.origins)


def leave_some(validation_share: float, test_share: float) -> None:
    """Check that both shares leave a part for training.

    Raises:
        ValueError: they do not.
    """
    if validation_share + test_share >= 1:
        raise ValueError(f"validation_share {validation_share} and test_share {test_share} leave nothing to train on")
