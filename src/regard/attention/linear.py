"""Linear attention: scores that are products of features, read without ever forming queries × keys.

Katharopoulos et al. 2020: weights φ(q)·φ(k) / Σ φ(q)·φ(k), so that keys and values are summed once for all queries. The
same numbers come from `attend(…, score="linear", normalizer="sum")`, from `linear_attention` in one pass over the
length, and from `linear_step` position by position.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.functional import full_precision, wide
from regard.attention.guard import finite_rows
from regard.attention.projection import apart
from regard.attention.score import DotProduct, Prepared, scores
from regard.errors import ConfigError, MaskError, ShapeError, nearest
from regard.kernels import linear as kernel

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """`elu(x) + 1`, the paper's φ (equation 7), written as x + 1 or eˣ: small features keep their digits."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


FEATURE_MAPS: dict[str, FeatureMap] = {"elu": elu_plus_one, "relu": torch.relu}


@scores.register("linear")
class Linear(DotProduct):
    """`φ(q) · φ(k)`, to be normalised by "sum".

    Args:
        feature_map: φ: "elu" (elu + 1), "relu", or a function of the last axis whose values are never negative.
    """

    def __init__(self, feature_map: str | FeatureMap = "elu") -> None:
        super().__init__()
        self.feature_map = _feature_map(feature_map)

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        return Prepared(key, apart(lambda rows: self.feature_map(wide(rows)), key))

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        return self.feature_map(wide(query)), prepared.projected, 1.0


class LinearState(NamedTuple):
    """All that later positions need of earlier ones, whatever their number; a pytree, batch first.

    Attributes:
        memory: Σ φ(k) [v, 1], at least float32.
    """

    memory: Float[Tensor, "batch *heads features value_dim_and_one"]


def linear_attention(
    query: Float[Tensor, "batch *heads queries dim"],
    key: Float[Tensor, "batch *key_heads keys dim"],
    value: Float[Tensor, "batch *key_heads keys value_dim"],
    *,
    feature_map: str | FeatureMap = "elu",
    causal: bool = False,
    keep: Shaped[Tensor, "_ _"] | None = None,
) -> Float[Tensor, "batch *heads queries value_dim"]:
    """The context, in work and memory that grow with the length (Katharopoulos 2020, equations 5–12).

    Args:
        query: `(batch, [heads,] queries, dim)`.
        key: `(batch, [key_heads,] keys, dim)`; key heads divide the heads.
        value: `(batch, [key_heads,] keys, value_dim)`.
        feature_map: φ; see `Linear`.
        causal: the last query stands at the last key and sees what is before it, as `masks.causal()`.
        keep: `(batch, keys)`, bool, True at real keys; the others contribute nothing, whatever they hold.

    Returns:
        In the type of the values. A query that may see nothing reads 0.
    """
    phi = _feature_map(feature_map)
    seen = _seen(query, key, value, keep)
    # What is not finite must not touch the queries that do not see it, and turns those that do to NaN.
    key, spoiled_key = finite_rows(key)
    clean, spoiled_value = finite_rows(value)
    query, spoiled_query = finite_rows(query)
    spoiled = (spoiled_key | spoiled_value) & seen
    group = _Group.of(query, key)
    read = _read_causal if causal else kernel.read_all
    with full_precision(query):  # sums over the whole length
        features, values = group.keys(_hide(phi(wide(key)), seen)), group.keys(_hide(wide(clean), seen))
        context = group.undo(read(group.queries(phi(wide(query))), features, values))
    reach = _up_to if causal else _anywhere
    spoiled, seen = (group.repeat(reach(flag, query.shape[-2])) for flag in (spoiled, seen))
    return torch.where((spoiled | (spoiled_query & seen)).unsqueeze(-1), torch.nan, context).to(value.dtype)


def linear_step(
    query: Float[Tensor, "batch *heads positions dim"],
    key: Float[Tensor, "batch *key_heads keys dim"],
    value: Float[Tensor, "batch *key_heads keys value_dim"],
    state: LinearState | None = None,
    *,
    feature_map: str | FeatureMap = "elu",
    keep: Shaped[Tensor, "_ _"] | None = None,
) -> tuple[Float[Tensor, "batch *heads positions value_dim"], LinearState]:
    """The next positions of causal linear attention, and the state after them (equations 16–20).

    Args:
        query: of one new position, or of several (a prompt).
        key: at the same positions.
        value: at the same positions.
        state: what the call before returned; None at the start. It is not changed.
        feature_map: φ; see `Linear`.
        keep: `(batch, positions)`, bool, True at real positions; the others add nothing to the state.

    Returns:
        The context in the type of the values, and the new state.
    """
    if query.shape[-2] != key.shape[-2]:
        raise ShapeError(f"linear_step takes keys at the queries' positions: {tuple(query.shape)}, {tuple(key.shape)}")
    phi = _feature_map(feature_map)
    seen = _seen(query, key, value, keep)
    group = _Group.of(query, key)
    # Hidden keys are cleared before φ as well: the gradient of φ at NaN is NaN, and 0 · NaN is NaN.
    values = group.keys(_hide(wide(value), seen))
    memory = None if state is None else group.keys(state.memory)
    chunk = kernel.CHUNK if query.shape[-2] > 1 else 1
    with full_precision(query):
        features = group.keys(_hide(phi(_hide(wide(key), seen)), seen))
        context, memory = kernel.read_past(group.queries(phi(wide(query))), features, values, memory, chunk)
    return group.undo(context).to(value.dtype), LinearState(memory.squeeze(2) if group.size else memory)


class _Group(NamedTuple):
    """Heads that share a key head as one more axis, (batch, key_heads, size, …), so that no key is copied."""

    size: int

    @classmethod
    def of(cls, query: Tensor, key: Tensor) -> "_Group":
        return cls(query.shape[1] // key.shape[1] if query.ndim == 4 else 0)

    def queries(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(1, (-1, self.size)) if self.size else tensor

    def keys(self, tensor: Tensor) -> Tensor:
        return tensor.unsqueeze(2) if self.size else tensor

    def undo(self, tensor: Tensor) -> Tensor:
        return tensor.flatten(1, 2) if self.size else tensor

    def repeat(self, flags: Tensor) -> Tensor:
        return flags.repeat_interleave(self.size, dim=1) if self.size else flags


def _read_causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Unequal lengths as `masks.causal()` has them: the last query stands at the last key."""
    queries, keys = query.shape[-2], key.shape[-2]
    early = max(keys - queries, 0)
    memory = kernel.summed(key[..., :early, :], value[..., :early, :])
    before = (0, 0, max(queries - keys, 0), 0)  # the first queries of too many stand before every key
    key, value = F.pad(key[..., early:, :], before), F.pad(value[..., early:, :], before)
    context, _ = kernel.read_past(query, key, value, memory)
    return context


def _anywhere(flags: Tensor, queries: int) -> Tensor:
    """(…, keys) -> (…, queries): whether any key is flagged."""
    return flags.any(-1, keepdim=True).expand(*flags.shape[:-1], queries)


def _up_to(flags: Tensor, queries: int) -> Tensor:
    """(…, keys) -> (…, queries): whether a key that stands at the query or before it is flagged."""
    keys = flags.shape[-1]
    return F.pad(flags.long().cumsum(-1) > 0, (max(queries - keys, 0), 0))[..., max(keys - queries, 0) :]


def _hide(tensor: Tensor, seen: Tensor) -> Tensor:
    return torch.where(seen.unsqueeze(-1), tensor, 0.0)


def _seen(query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None) -> Tensor:
    """Which keys are real, (batch, [key_heads,] keys), after a look at all shapes."""
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"linear attention needs one width of query and key: {shapes}")
    if query.ndim == 4 and (key.shape[1] == 0 or query.shape[1] % key.shape[1]):
        raise ShapeError(f"the key heads must divide the heads: {shapes}")
    if keep is None:
        return torch.ones(key.shape[:-1], dtype=torch.bool, device=key.device)
    if keep.dtype != torch.bool:
        raise MaskError(f"keep must be bool, True at real keys; it is {keep.dtype}. Use keep.bool()")
    if keep.shape != (key.shape[0], key.shape[-2]):
        raise ShapeError(f"keep has shape {tuple(keep.shape)}, expected {(key.shape[0], key.shape[-2])}: {shapes}")
    return (keep if key.ndim == 3 else keep.unsqueeze(1)).expand(key.shape[:-1])


def _feature_map(feature_map: str | FeatureMap) -> FeatureMap:
    if not isinstance(feature_map, str):
        return feature_map
    if feature_map not in FEATURE_MAPS:
        raise ConfigError(f"no feature map is named {feature_map!r}.{nearest(feature_map, FEATURE_MAPS)}")
    return FEATURE_MAPS[feature_map]
