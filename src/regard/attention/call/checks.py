"""Checks of a call of `attend` that compute nothing: shapes and types, with errors that show all of them."""

import torch
from torch import Tensor, nn

from regard.attention.parts.mask_kinds import Sizes
from regard.errors import ConfigError, ShapeError, quoted
from regard.kernels.autograd.plain import is_plain_tensor

_USUAL = (Tensor, nn.Parameter)


def are_plain_tensors(*tensors: Tensor | None) -> bool:
    """Whether none is of a class that wraps another tensor, so that their numbers lie in memory as the query's do."""
    for one in tensors:  # noqa: SIM110 - `all` would enter a function for each
        if one is not None and type(one) not in _USUAL and not is_plain_tensor(one):
            return False
    return True


def checked_dropout(dropout: float) -> float:
    """Return the rate unchanged.

    Raises:
        ConfigError: it is not between 0 and 1.
    """
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError(f"dropout is a probability between 0 and 1; it was {dropout}")
    return dropout


def checked_sizes(query: Tensor, key: Tensor, value: Tensor | None) -> Sizes:
    """Batch, heads, queries and keys of a call, once its tensors are known to fit together.

    Args:
        query: `(batch, [heads,] queries, query_dim)`.
        key: `(batch, [key_heads,] keys, key_dim)`, where key_heads divides heads.
        value: `(batch, [key_heads,] keys, value_dim)`, or None.

    Raises:
        ShapeError: shapes, types or devices that do not fit together, with each of them.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and (value is None or isinstance(value, Tensor))):
        _check_tensors(query, key, value)
    of_query, of_key = query.shape, key.shape
    of_value = of_key if value is None else value.shape
    axes = len(of_query)
    if axes not in (3, 4) or len(of_key) != axes or len(of_value) != axes:
        raise ShapeError(
            "expected query, key and value all (batch, positions, dim) or all (batch, heads, positions, dim); "
            f"got {_given(query, key, value)}"
        )
    if of_key[0] != of_query[0] or of_value[0] != of_query[0]:
        raise ShapeError(f"query, key and value must have one batch size; got {_given(query, key, value)}")
    if of_value[-2] != of_key[-2] or (axes == 4 and of_value[1] != of_key[1]):
        raise ShapeError(
            f"key and value must agree in all axes but the last: a value for each key; got {_given(query, key, value)}"
        )
    if axes == 4 and (of_key[1] == 0 or of_query[1] % of_key[1] != 0):
        raise ShapeError(
            f"the number of key heads must divide the number of query heads; got {_given(query, key, value)}"
        )
    kind = query.dtype
    if key.dtype is not kind or (value is not None and value.dtype is not kind) or not kind.is_floating_point:
        _check_kinds(query, key, value)
    if not (query.is_cpu and key.is_cpu and (value is None or value.is_cpu)):
        _check_places(query, key, value)
    return Sizes(of_query[0], of_query[1] if axes == 4 else 1, of_query[-2], of_key[-2])


def check_prepared(key: Tensor, projected: Tensor) -> None:
    """Check that there is one prepared key for each key: loops read them side by side.

    Raises:
        ShapeError: there are more or fewer.
    """
    if projected.shape[:-1] != key.shape[:-1]:
        raise ShapeError(
            f"prepared keys must be one for each key; key {tuple(key.shape)}, projected {tuple(projected.shape)}"
        )


def check_sides(query: Tensor, left: Tensor, key: Tensor, right: Tensor) -> None:
    """Check that the two sides of dot products fit each other and the queries and keys: loops read them as they lie.

    Raises:
        ShapeError: they do not fit.
    """
    # Plain dot products make nothing of either, and small calls are short of time.
    lefts = left is query or left.shape[:-1] == query.shape[:-1]
    rights = right is key or right.shape[:-1] == key.shape[:-1]
    if not (lefts and rights) or left.shape[-1] != right.shape[-1]:
        raise ShapeError(
            "the sides of a dot product must be one for each query and each key, and of one width; the score made "
            f"{tuple(left.shape)} of query {tuple(query.shape)}, and {tuple(right.shape)} of key {tuple(key.shape)}"
        )


def _given(query: Tensor, key: Tensor, value: Tensor | None) -> str:
    given = f"query {tuple(query.shape)}, key {tuple(key.shape)}"
    # torch.compile knows formatting, not adding, of such text
    return given if value is None else f"{given}, value {tuple(value.shape)}"


def _check_tensors(query: object, key: object, value: object) -> None:
    for name, given in (("query", query), ("key", key), ("value", value)):
        if given is not None and not isinstance(given, Tensor):
            raise ShapeError(f"query, key and value must be tensors; {name} is {type(given).__name__}")
    raise ShapeError("query and key must be tensors; one of them is None")


def _check_kinds(query: Tensor, key: Tensor, value: Tensor | None) -> None:
    kinds = {query.dtype, key.dtype} if value is None else {query.dtype, key.dtype, value.dtype}
    if not all(kind.is_floating_point for kind in kinds):
        raise ShapeError(f"query, key and value must be floating point; got {sorted(map(str, kinds))}")
    if torch.float64 in kinds or not torch.is_autocast_enabled(query.device.type):
        raise ShapeError(
            "query, key and value must have one dtype (outside autocast, which never changes float64); "
            f"got {sorted(map(str, kinds))}"
        )


def _check_places(query: Tensor, key: Tensor, value: Tensor | None) -> None:
    place = query.device
    if key.device != place or (value is not None and value.device != place):
        places = [str(one.device) for one in (query, key, value) if one is not None]
        raise ShapeError(f"query, key and value must lie on one device; got {', '.join(places)}")


def checked_bias(bias: Tensor | None, sizes: Sizes, query: Tensor) -> Tensor | None:
    """The bias with as many axes as the scores: (queries, keys), (batch, queries, keys) or with heads, 1 = for all.

    Raises:
        ShapeError: no tensor, on another device, not floating point, or of a shape that does not broadcast to the
            scores.
    """
    if bias is None:
        return None
    axes, (batch, heads, queries, keys) = query.ndim, sizes
    if not isinstance(bias, Tensor):
        raise ShapeError(f"bias must be a tensor; it was {quoted(bias)}")
    if bias.device != query.device:
        raise ShapeError(f"bias= must lie where the query does, on {query.device}; it is on {bias.device}")
    if not bias.is_floating_point():
        raise ShapeError(
            f"bias= is added to the scores and must be floating point; it is {bias.dtype}. For a mask use mask="
        )
    allowed = {2: (queries, keys), 3: (batch, queries, keys), 4: (batch, heads, queries, keys)}
    wanted = allowed.get(bias.ndim)
    if (
        wanted is None
        or bias.ndim > axes
        or any(have not in (1, want) for have, want in zip(bias.shape, wanted, strict=True))
    ):
        raise ShapeError(
            f"bias has shape {tuple(bias.shape)}; expected one of {[allowed[n] for n in range(2, axes + 1)]}"
        )
    if bias.ndim == 2:
        return bias.reshape((1,) * (axes - 2) + tuple(bias.shape))
    return bias.unsqueeze(1) if bias.ndim < axes else bias
