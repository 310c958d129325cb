"""What every score is: prepared once a sequence, called once for each set of queries; `score.py` has the kinds."""

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.parts.functional import dot
from regard.registry import Registry


class Prepared(NamedTuple):
    """Keys made ready once a sequence: a pytree of tensors, batch first, so that search can select and save it.

    Attributes:
        key: as given, `(batch, [heads,] keys, key_dim)`.
        projected: what the score compares queries with, `(batch, [heads,] keys, …)`.
    """

    key: Float[Tensor, "*lead keys key_dim"]
    projected: Float[Tensor, "*lead keys width"]


class Score(nn.Module):
    """The base of all scores.

    Class attributes:
        by_content: whether permuting the keys permutes the scores; False where the score knows fixed positions.
        is_dot: whether the score is the dot product of what `dot_form` returns, which the fast paths can use.
        kind: "score" where it is a position part as well, which is bound to positions at each call; see `position`.
    """

    by_content: bool = True
    is_dot: bool = False
    kind: str | None = None

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """What depends on the keys alone."""
        return Prepared(key, key)

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """The score of each query and key.

        Args:
            query: `(batch, [heads,] queries, query_dim)`.
            prepared: what `prepare` gave; its key heads divide the heads.

        Returns:
            `(batch, [heads,] queries, keys)`, at least float32.
        """
        raise NotImplementedError

    def in_blocks(self, query: Float[Tensor, "*lead queries query_dim"], keys: int, **now: Any) -> str | None:
        """How the pairs of such a call are gone through block by block, in words; None where their table is formed."""
        return None

    def bind(self, **now: Any) -> "Bound":
        """This score with what changes by step fixed for one call, e.g. `location_aware.bind(previous=weights)`."""
        return Bound(self, now)


class Bound:
    """A score and the step's own arguments; used in a score's place for one call, never stored."""

    is_dot = False

    def __init__(self, score: Score, now: dict[str, Any]) -> None:
        self.score, self.now = score, now
        self.by_content = score.by_content

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """What the score makes of the keys."""
        return self.score.prepare(key)

    def in_blocks(self, query: Tensor, keys: int) -> str | None:
        """As the score says, with what is bound."""
        return self.score.in_blocks(query, keys, **self.now)

    def __call__(self, query: Tensor, prepared: Prepared) -> Tensor:
        """The scores, `(batch, [heads,] queries, keys)`, with what is bound."""
        scores: Tensor = self.score(query, prepared, **self.now)
        return scores


scores: Registry[Score] = Registry("score")


class LoopForm(NamedTuple):
    """`scale · left · right`, where the two are yet to be divided by their lengths if `directions` says so."""

    left: Tensor
    right: Tensor
    scale: float
    directions: tuple[bool, bool]


class DotProduct(Score):
    """A score that is a dot product of something made of the query and something made of the key."""

    is_dot = True

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        """`(left, right, scale)` with score = scale · left · right."""
        raise NotImplementedError

    def loop_form(self, query: Tensor, key: Tensor, prepared: Prepared | None) -> LoopForm:
        """The same for a loop that can divide by lengths itself; `prepared` is None where nobody has prepared."""
        left, right, scale = self.dot_form(query, self.prepare(key) if prepared is None else prepared)
        return LoopForm(left, right, scale, (False, False))

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """`scale · left · right` of `dot_form`."""
        left, right, scale = self.dot_form(query, prepared)
        return dot(left, right, scale)
