"""The scores as functions: the formulas themselves, without parameters of their own.

Everything is computed in at least float32, inside autocast too: a half-precision score of 1,000 is off by one half,
which softmax would turn into a factor of 1.6.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.call.checks import are_plain_tensors
from regard.errors import ConfigError, ShapeError
from regard.kernels.additive import additive as pairs, inductor
from regard.kernels.autograd.plain import is_plain


def wide(tensor: Tensor) -> Tensor:
    """At least float32: scores and weights are computed there."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """A context in which autocast does not narrow what `wide` has widened."""
    kind = "cpu" if tensor.is_meta else tensor.device.type
    # Switching off what is not on takes longer than a small product.
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def dot(
    query: Float[Tensor, "*lead queries dim"], key: Float[Tensor, "*#lead keys dim"], scale: float = 1.0
) -> Float[Tensor, "*lead queries keys"]:
    """`q · k × scale` (Luong 2015, eq. 8 "dot"; with scale 1/√d Vaswani 2017, eq. 1)."""
    with full_precision(query):
        return torch.matmul(wide(query) * scale, wide(key).transpose(-2, -1))


def general(
    query: Float[Tensor, "*lead queries query_dim"],
    key: Float[Tensor, "*#lead keys key_dim"],
    weight: Float[Tensor, "query_dim key_dim"],
) -> Float[Tensor, "*lead queries keys"]:
    """`qᵀ W k` (Luong 2015, eq. 8 "general"; the bilinear score)."""
    return dot(torch.matmul(query, weight), key)


def additive(
    query: Float[Tensor, "*lead queries query_dim"],
    key: Float[Tensor, "*#lead keys key_dim"],
    query_weight: Float[Tensor, "hidden query_dim"],
    key_weight: Float[Tensor, "hidden key_dim"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(W q + U k)` (Bahdanau 2015, A.1.2; Luong 2015 eq. 8 "concat" with W split in two)."""
    return additive_pairs(F.linear(query, query_weight), F.linear(key, key_weight), vector)


def additive_pairs(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*#lead keys hidden"],
    vector: Tensor,
    prepared: bool = False,
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` of projected queries and keys; the table of pairs × hidden is formed only where it must be.

    Args:
        query: a.
        key: b.
        vector: v.
        prepared: these keys serve many calls.

    Raises:
        ShapeError: queries, keys and vector of different widths.
    """
    if not query.shape[-1] == key.shape[-1] == vector.shape[-1]:  # a loop would read elsewhere
        raise ShapeError(
            f"an additive score needs as many hidden units in projected queries {tuple(query.shape)}, projected keys "
            f"{tuple(key.shape)} and its vector {tuple(vector.shape)}"
        )
    numbers = query.numel() * key.shape[-2]
    on_a_gpu = inductor.serves(query, numbers)
    served = on_a_gpu or (pairs.serves(query, numbers) and are_plain_tensors(key, vector))
    if query.is_meta or not served or not _are_of_one_kind(query, key, vector):
        return _additive_formula(query, key, vector)
    if key.shape[:-2] != query.shape[:-2]:
        key = key.expand(*query.shape[:-2], *key.shape[-2:])
    if on_a_gpu:
        return inductor.additive_scores(wide(query), wide(key), wide(vector), _additive_formula)
    # Nothing in there is an operation that autocast narrows.
    return pairs.additive_scores(wide(query), wide(key), wide(vector), _additive_formula, prepared)


def _are_of_one_kind(first: Tensor, *others: Tensor) -> bool:
    """Of one device and, once widened, of one type: what else they may be, torch's own operations judge."""
    return all(
        one.device == first.device and (one.dtype == first.dtype or _widened(one.dtype) == _widened(first.dtype))
        for one in others
    )


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _additive_formula(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return weigh_pairs(wide(query).unsqueeze(-2) + wide(key).unsqueeze(-3), vector)


_FEW = 2**13
"""Pairs × hidden units whose tanh takes no longer than some operations."""


def weigh_pairs(pairs: Tensor, vector: Tensor) -> Tensor:
    """`vᵀ tanh(pairs)`, (…, queries, keys, hidden) to (…, queries, keys); the pairs are used up.

    Many as `2 vᵀ σ(2 pairs) − Σ v`, for σ is the cheaper of the two where vectors are not of 512 bits. Of a few,
    operations count and not numbers.
    """
    with full_precision(pairs):
        vector = wide(vector)
        if not torch.compiler.is_compiling() and pairs.numel() <= _FEW:  # a traced call would be tied to its sizes
            return torch.matmul(pairs.tanh_(), vector)
        return 2 * torch.matmul(pairs.mul_(2).sigmoid_(), vector) - vector.sum()


def location_aware(
    query: Float[Tensor, "*lead queries query_dim"],
    key: Float[Tensor, "*#lead keys key_dim"],
    query_weight: Float[Tensor, "hidden query_dim"],
    key_weight: Float[Tensor, "hidden key_dim"],
    vector: Float[Tensor, " hidden"],
    previous: Float[Tensor, "batch ..."],
    filters: Float[Tensor, "channels 1 width"],
    feature_weight: Float[Tensor, "hidden channels"],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(W q + U k + T f)`, f = F ∗ previous (Chorowski 2015, eq. 8–9); `previous` as in `location_features`."""
    features = location_features(previous, tuple(query.shape[:-1]), filters, feature_weight)
    return located_pairs(F.linear(query, query_weight), F.linear(key, key_weight), features, vector)


def located_pairs(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    features: Float[Tensor, "*#lead #queries keys hidden"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b + f)`: the location features, f, are part of the key, of all queries' or of each one's own."""
    if features.shape[-3] == 1:
        return additive_pairs(query, wide(key) + features.squeeze(-3), vector)
    return additive_pairs(query.unsqueeze(-2), wide(key).unsqueeze(-3) + features, vector).squeeze(-2)


def location_features(
    previous: Float[Tensor, "batch ..."],
    rows: tuple[int, ...],
    filters: Float[Tensor, "channels 1 width"],
    feature_weight: Float[Tensor, "hidden channels"],
) -> Float[Tensor, "batch *rest keys hidden"]:
    """`T (F ∗ previous)`: the location features of each position, from the earlier weights around it.

    Args:
        previous: the earlier weights, (batch, keys) for all queries or (*rows, keys).
        rows: (batch, [heads,] queries).
        filters: F, of an odd width.
        feature_weight: T.
    """
    batch, keys = rows[0], previous.shape[-1]
    check_previous(previous, rows, keys)
    if keys == 0:
        return previous.new_zeros(*rows, 0, feature_weight.shape[0])
    filtered = F.conv1d(previous.to(filters.dtype).reshape(-1, 1, keys), filters, padding=filters.shape[-1] // 2)
    lead = (batch,) + (1,) * (len(rows) - 1) if previous.ndim == 2 else rows
    return F.linear(filtered.transpose(-2, -1), feature_weight).reshape(*lead, keys, feature_weight.shape[0])


def cosine(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*#lead keys dim"],
    strength: float | Tensor = 1.0,
) -> Float[Tensor, "*lead queries keys"]:
    """`β · q·k / (|q| |k|)` (Graves 2014, eq. 5–6); a vector without direction (length 0) is equally like all: 0."""
    return dot(unit(query) * per_query(strength, query, "strength"), unit(key))


def location(
    query: Float[Tensor, "*lead queries query_dim"], weight: Float[Tensor, "positions query_dim"], keys: int
) -> Float[Tensor, "*lead queries {keys}"]:
    """`W s`: the scores of fixed positions from the query alone (Luong 2015, eq. 8 "location")."""
    return _positions_of(F.linear(query, weight), keys)


def feed_forward(
    query: Float[Tensor, "*lead queries query_dim"],
    weight: Float[Tensor, "positions query_dim"],
    bias: Float[Tensor, " positions"],
    keys: int,
) -> Float[Tensor, "*lead queries {keys}"]:
    """One linear layer over the query [input; state] (the tutorial variant): fixed positions, no use of the keys."""
    return _positions_of(F.linear(query, weight, bias), keys)


def _positions_of(scores_of_all: Tensor, keys: int) -> Tensor:
    check_positions(scores_of_all.shape[-1], keys)
    return wide(scores_of_all[..., :keys])


def unit(vectors: Tensor) -> Tensor:
    """Each vector divided by its length; shorter than 1e-12 has no direction and becomes 0, with gradient 0."""
    vectors = wide(vectors)
    if vectors.device.type == "cpu" and vectors.numel() and is_plain(vectors):
        length = torch.linalg.vector_norm(vectors.detach(), dim=-1, keepdim=True)
        if length.amin() > _NO_DIRECTION and length.amax() < torch.inf:  # as almost always
            divided: Tensor = _Divided.apply(vectors, length)
            return divided
    return _unit_formula(vectors)


_NO_DIRECTION = 1e-12


def _unit_formula(vectors: Tensor) -> Tensor:
    if vectors.shape[-1]:
        # The square of 1e20 is no float32: long vectors are shortened first, which leaves their direction.
        vectors = vectors / vectors.detach().abs().amax(-1, keepdim=True).clamp_min(1.0)
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    has_direction = ~(length <= _NO_DIRECTION)  # what holds a NaN or inf has none either, and says so
    return torch.where(has_direction, vectors / torch.where(has_direction, length, 1.0), 0.0)


class _Divided(torch.autograd.Function):
    """Vectors divided by their lengths: few passes over them, where each one counts beside fast products."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, length: Tensor) -> Tensor:
        made = vectors / length
        ctx.save_for_backward(vectors, made, length)
        return made

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, None]:
        vectors, made, length = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            return torch.autograd.grad(_unit_formula(vectors), vectors, given, create_graph=True)[0], None
        along = torch.linalg.vecdot(given, made).unsqueeze(-1)
        return torch.addcmul(given, made, along, value=-1).div_(length), None


def per_query(number: float | Tensor, rows: Tensor, what: str) -> float | Tensor:
    """A number a query, made to multiply the rows, which are (batch, [heads,] queries, …).

    Of shape (), (batch,), (batch, queries) or (batch, heads, queries), an axis of 1 serving all; without an axis of
    heads it serves every head.

    Raises:
        ShapeError: a shape that is not one number for each query.
    """
    if not isinstance(number, Tensor):
        return number
    of_heads = number.unsqueeze(1) if number.ndim == 2 and rows.ndim == 4 else number
    wanted = (*rows.shape[:-1], 1)[: of_heads.ndim]
    if of_heads.ndim > rows.ndim or any(
        have not in (1, want) for have, want in zip(of_heads.shape, wanted, strict=True)
    ):
        raise ShapeError(
            f"{what} has shape {tuple(number.shape)}; expected a number, (batch,), (batch, queries) or (batch, heads, "
            f"queries) for {tuple(rows.shape[:-1])}"
        )
    return wide(of_heads).reshape(of_heads.shape + (1,) * (rows.ndim - of_heads.ndim))


def check_heads(query: Tensor, given: int) -> None:
    """Whether so many scores are one for each head.

    Raises:
        ShapeError: they are not.
    """
    if query.ndim != 4 or query.shape[1] != given:
        raise ShapeError(f"{given} scores were given, one a head; the query has shape {tuple(query.shape)}")


def check_previous(previous: Tensor, rows: tuple[int, ...], keys: int) -> None:
    """Whether earlier weights are those of such queries, `(batch, [heads,] queries)`, or of all, over so many keys.

    Raises:
        ShapeError: they are not.
    """
    if tuple(previous.shape) not in ((rows[0], keys), (*rows, keys)):
        raise ShapeError(f"previous has shape {tuple(previous.shape)}; expected {(rows[0], keys)} or {(*rows, keys)}")


def check_positions(known: int, keys: int) -> None:
    """Whether a score of fixed positions knows one for each key.

    Raises:
        ShapeError: there are more keys.
    """
    if keys > known:
        raise ShapeError(
            f"this score knows {known} positions and was given {keys} keys; make it with positions={keys} or more, "
            "or use a score by content (additive, general, scaled_dot)"
        )


def checked_size(name: str, size: int) -> int:
    """A width that something is made of: 1 at least.

    Raises:
        ConfigError: it is below 1.
    """
    if size < 1:
        raise ConfigError(f"{name} must be at least 1; got {size}")
    return size


def check_width(what: str, tensor: Tensor, expected: int) -> None:
    """Whether the last axis has the width that a score was made for.

    Raises:
        ShapeError: it has another.
    """
    if tensor.shape[-1] != expected:
        raise ShapeError(f"{what} has shape {tuple(tensor.shape)}, but this score was made for width {expected}")
