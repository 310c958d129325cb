"""A position part by its name. The files that define the parts are imported here, which registers them."""

from typing import Any

from regard.attention.parts import position_bias, relative, rotary
from regard.attention.parts.position import POSITIONS

_KINDS = position_bias, relative, rotary  # each registers its parts when it is imported


def position(name: str, **sizes: Any) -> Any:
    """Make a position part by name: sinusoidal, learned, rotary, t5, alibi, shaw.

    Args:
        name: a registered name.
        **sizes: the constructor's arguments, such as `dim=64`.

    Raises:
        ConfigError: an unknown name (with the nearest one) or sizes that do not fit.
    """
    return POSITIONS.make(name, **sizes)
