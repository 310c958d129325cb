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

from regard.attention.call.checks import are_plain_tensors, check_sides
from regard.attention.call.guard import finite_rows
from regard.attention.parts.functional import full_precision, wide
from regard.attention.parts.projection import project_each
from regard.attention.parts.score_base import DotProduct, Prepared, scores
from regard.errors import ConfigError, MaskError, ShapeError, nearest
from regard.kernels.linear import linear as kernel

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

    Raises:
        ConfigError: an unknown feature map.
    """

    def __init__(self, feature_map: str | FeatureMap = "elu") -> None:
        super().__init__()
        self.feature_map = _feature_map(feature_map)

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """φ(k), at least float32, `(batch, [key_heads,] keys, features)`."""
        return Prepared(key, project_each(lambda rows: self.feature_map(wide(rows)), key))

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        """φ(q) and φ(k), with a factor of 1."""
        left = self.feature_map(wide(query))
        check_sides(query, left, prepared.key, prepared.projected)
        return left, prepared.projected, 1.0


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
        causal: the last query stands at the last key and attends to what is before it, as `masks.causal()`.
        keep: `(batch, keys)`, bool, True at real keys; the others contribute nothing, whatever they hold.

    Returns:
        In the type of the values. A fully masked query gets a zero context.

    Raises:
        ShapeError: shapes that do not fit together.
        MaskError: `keep` is not bool.
        ConfigError: an unknown feature map.
    """
    phi = _feature_map(feature_map)
    real = _real_keys(query, key, value, keep)
    group = _Group.of(query, key)
    # The kernel checks the numbers while it reads them; its answer is dropped where one is not finite.
    if kernel.serves(query):
        found = _by_kernel(group, phi, query, key, value, None, keep, causal)
        if found is not None:
            return group.undo(found.context).to(value.dtype)
    # What is not finite must not touch the queries that may not attend to it; those that may get NaN.
    key, nonfinite_key = finite_rows(key)
    clean, nonfinite_value = finite_rows(value)
    query, nonfinite_query = finite_rows(query)
    nonfinite = (nonfinite_key | nonfinite_value) & real
    found = _by_kernel(group, phi, query, key, clean, None, keep, causal) if kernel.serves(query) else None
    context = found.context if found is not None else _by_formula(group, phi, query, key, clean, real, causal)
    any_of = _up_to if causal else _anywhere
    nonfinite, real = (group.repeat(any_of(flag, query.shape[-2])) for flag in (nonfinite, real))
    reads_nan = (nonfinite | (nonfinite_query & real)).unsqueeze(-1)
    return torch.where(reads_nan, torch.nan, group.undo(context)).to(value.dtype)


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

    Raises:
        ShapeError: not as many keys as queries, or shapes that do not fit.
        MaskError: `keep` is not bool.
        ConfigError: an unknown feature map.
    """
    if query.shape[-2] != key.shape[-2]:
        raise ShapeError(f"linear_step takes keys at the queries' positions: {tuple(query.shape)}, {tuple(key.shape)}")
    phi = _feature_map(feature_map)
    real = _real_keys(query, key, value, keep)
    group = _Group.of(query, key)
    if query.shape[-2] > 1 and kernel.serves(query):
        found = _by_kernel(group, phi, query, key, value, state, keep, causal=True)
        if found is not None:
            return group.undo(found.context).to(value.dtype), LinearState(group.undo_heads(found.memory))
    # Masked-out keys are cleared before φ as well: the gradient of φ at NaN is NaN, and 0 · NaN is NaN.
    values = group.heads(_zero_out(wide(value), real)).unsqueeze(2)
    memory = None if state is None else group.heads(state.memory).unsqueeze(2)
    chunk = kernel.CHUNK if query.shape[-2] > 1 else 1
    with full_precision(query):
        features = group.heads(_zero_out(phi(_zero_out(wide(key), real)), real)).unsqueeze(2)
        context, memory = kernel.read_past(group.queries(phi(wide(query))), features, values, memory, chunk)
    return group.undo(context).to(value.dtype), LinearState(group.undo_heads(memory.squeeze(2)))


class _Group(NamedTuple):
    """Heads that share a key head as an axis, (batch, key_heads, size, …), so that no key is copied; 0: no heads."""

    size: int

    @classmethod
    def of(cls, query: Tensor, key: Tensor) -> "_Group":
        return cls(query.shape[1] // key.shape[1] if query.ndim == 4 else 0)

    def queries(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(1, (-1, self.size)) if self.size else tensor[:, None, None]

    def heads(self, tensor: Tensor) -> Tensor:
        return tensor if self.size else tensor.unsqueeze(1)

    def undo(self, tensor: Tensor) -> Tensor:
        return tensor.flatten(1, 2) if self.size else tensor[:, 0, 0]

    def undo_heads(self, tensor: Tensor) -> Tensor:
        return tensor if self.size else tensor.squeeze(1)

    def repeat(self, flags: Tensor) -> Tensor:
        return flags.repeat_interleave(self.size, dim=1) if self.size else flags


def _by_kernel(
    group: _Group,
    phi: FeatureMap,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: LinearState | None,
    keep: Tensor | None,
    causal: bool,
) -> kernel.Read | None:
    """Context and memory in the kernel's groups; None where something real is not finite, or something does not fit."""
    query, key, value = wide(query), wide(key), wide(value)
    of_one_type = query.dtype == key.dtype == value.dtype and query.is_floating_point()
    if not of_one_type or key.shape[:-1] != value.shape[:-1] or query.shape[0] != key.shape[0]:
        return None  # torch's own operations say what does not fit
    elu = phi is elu_plus_one
    with full_precision(query):  # sums over the whole length
        if not elu:
            if keep is not None:  # cleared before φ: its gradient at NaN is NaN, and 0 · NaN is NaN
                key = _zero_out(key, _for_heads(keep, key))
            query, key = phi(query), phi(key)
        three = group.queries(query), group.heads(key), group.heads(value)
        memory = None if state is None else group.heads(state.memory).to(query.dtype)
        if not are_plain_tensors(*three, memory, keep):
            return None
        if memory is not None and memory.shape != (*three[1].shape[:2], query.shape[-1], value.shape[-1] + 1):
            return None
        found = kernel.read(*three, memory=memory, keep=keep, causal=causal, elu=elu)
    return found if found.finite else None


def _by_formula(
    group: _Group, phi: FeatureMap, query: Tensor, key: Tensor, value: Tensor, real: Tensor, causal: bool
) -> Tensor:
    """The context in the kernel's groups by torch's own operations, for calls of any kind."""
    with full_precision(query):
        features, values = group.heads(_zero_out(phi(wide(key)), real)), group.heads(_zero_out(wide(value), real))
        call = kernel.Call(group.queries(phi(wide(query))), features, values, None, None, causal, elu=False)
        return kernel.formula(call)[0]


def _anywhere(flags: Tensor, queries: int) -> Tensor:
    """(…, keys) -> (…, queries): whether any key is flagged."""
    return flags.any(-1, keepdim=True).expand(*flags.shape[:-1], queries)


def _up_to(flags: Tensor, queries: int) -> Tensor:
    """(…, keys) -> (…, queries): whether a key that stands at the query or before it is flagged."""
    keys = flags.shape[-1]
    return F.pad(flags.long().cumsum(-1) > 0, (max(queries - keys, 0), 0))[..., max(keys - queries, 0) :]


def _zero_out(tensor: Tensor, real: Tensor) -> Tensor:
    return torch.where(real.unsqueeze(-1), tensor, 0.0)


def _real_keys(query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None) -> Tensor:
    """Which keys are real, (batch, [key_heads,] keys), after a check of all shapes."""
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"linear attention needs one width of query and key: {shapes}")
    if query.ndim not in (3, 4) or not query.ndim == key.ndim == value.ndim:  # the loop would read elsewhere
        raise ShapeError(f"linear attention takes all of (batch, length, width), or all with heads: {shapes}")
    if not query.device == key.device == value.device:
        places = f"{query.device}, {key.device} and {value.device}"
        raise ShapeError(f"linear attention takes query, key and value of one device; they lie on {places}")
    if query.ndim == 4 and (0 in (query.shape[1], key.shape[1]) or query.shape[1] % key.shape[1]):
        raise ShapeError(f"the key heads must divide the heads: {shapes}")
    if keep is None:
        return torch.ones(key.shape[:-1], dtype=torch.bool, device=key.device)
    if keep.dtype != torch.bool:
        raise MaskError(f"keep must be bool, True at real keys; it is {keep.dtype}. Use keep.bool()")
    if keep.shape != (key.shape[0], key.shape[-2]):
        raise ShapeError(f"keep has shape {tuple(keep.shape)}, expected {(key.shape[0], key.shape[-2])}: {shapes}")
    return _for_heads(keep, key)


def _for_heads(keep: Tensor, key: Tensor) -> Tensor:
    return (keep if key.ndim == 3 else keep.unsqueeze(1)).expand(key.shape[:-1])


def _feature_map(feature_map: str | FeatureMap) -> FeatureMap:
    if not isinstance(feature_map, str):
        return feature_map
    if feature_map not in FEATURE_MAPS:
        raise ConfigError(f"no feature map is named {feature_map!r}.{nearest(feature_map, FEATURE_MAPS)}")
    return FEATURE_MAPS[feature_map]
