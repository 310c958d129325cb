"""How the numbers of a worked example become tensors of the library; torch is imported when they do."""

from typing import Any

_NEAR = 1e-9


def tensor(values: Any) -> Any:
    """Numbers as a float64 tensor."""
    import torch

    return torch.tensor(values, dtype=torch.float64)


def one(values: Any) -> Any:
    """A table as a batch of one: `(1, positions, dim)`."""
    return tensor(values)[None]


def normal(*shape: int, seed: int) -> Any:
    """A float64 sample of the standard normal, the same for the same seed."""
    import torch

    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def from_scores(scores: Any) -> tuple[Any, Any]:
    """A query and a key whose dot products are exactly these scores.

    The queries are the unit vectors, so each product adds one score and zeros.

    Args:
        scores: `(queries, keys)`.

    Returns:
        query `(1, queries, queries)` and key `(1, keys, queries)`.
    """
    import torch

    table = tensor(scores)
    return torch.eye(len(table), dtype=torch.float64)[None], table.T[None]


def far(one_value: Any, other: Any) -> float:
    """The largest difference between two tensors of one shape."""
    return (one_value - other).abs().max().item()


def same(one_value: Any, other: Any) -> bool:
    """Whether two tensors hold the same numbers but for the rounding of float64."""
    return far(one_value, other) <= _NEAR * (1 + other.abs().max().item())


def context(query: Any, key: Any, value: Any, **options: Any) -> Any:
    """The context of `regard.attend`, for the steps that need nothing else."""
    from regard.attention.attend import attend

    return attend(query, key, value, **options).context
