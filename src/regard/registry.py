"""Parts by name: one small table a kind of part, the same names in Python, YAML and on the command line."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from regard.errors import ConfigError, nearest

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """A table of named constructors.

    Args:
        kind: what the table holds, as the user calls it ("score", "normalizer"); used in errors.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._makers: dict[str, Callable[..., Part]] = {}

    def register(self, *names: str) -> Callable[[Any], Any]:
        """Decorator: enter a class or function under its name and aliases."""

        def enter(maker: Any) -> Any:
            for name in names:
                if name in self._makers:
                    raise ValueError(f"the {self.kind} {name!r} is registered already, as {self._makers[name]!r}")
                self._makers[name] = maker
            return maker

        return enter

    def maker(self, name: str) -> Callable[..., Part]:
        """The constructor of that name.

        Raises:
            ConfigError: there is none; the message names the nearest.
        """
        if name not in self._makers:
            raise ConfigError(f"no {self.kind} is named {name!r}.{nearest(name, self._makers)}")
        return self._makers[name]

    def make(self, name: str, **options: Any) -> Part:
        """Build the part of that name with some options.

        Raises:
            ConfigError: there is none of that name, or the options do not fit it.
        """
        maker = self.maker(name)
        try:
            return maker(**options)
        except TypeError as error:
            given = ", ".join(f"{key}={value!r}" for key, value in options.items())
            takes = ", ".join(str(part) for part in inspect.signature(maker).parameters.values())
            raise ConfigError(f"the {self.kind} {name!r} cannot be made with ({given}); it takes ({takes})") from error

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
