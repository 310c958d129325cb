"""Position parts written out, one number at a time. Slow and obviously right."""

import cmath
import math

import torch
from torch import Tensor


def sinusoid(position: int, dim: int, base: float = 10000.0) -> list[float]:
    """Vaswani 2017, section 3.5."""
    row = []
    for feature in range(dim):
        angle = position / base ** (2 * (feature // 2) / dim)
        row.append(math.sin(angle) if feature % 2 == 0 else math.cos(angle))
    return row


def rotate(vector: list[float], position: float, convention: str, base: float = 10000.0) -> list[float]:
    """Su 2021, equation 13: each pair of features is a complex number, multiplied by e^(i m θ)."""
    dim = len(vector)
    result = [0.0] * dim
    for pair in range(dim // 2):
        first, second = (2 * pair, 2 * pair + 1) if convention == "interleaved" else (pair, pair + dim // 2)
        number = complex(vector[first], vector[second]) * cmath.exp(1j * position * base ** (-2 * pair / dim))
        result[first], result[second] = number.real, number.imag
    return result


def t5_bucket(relative: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Raffel 2020, by logarithms; relative is key minus query. An integer power decides where a logarithm is a tie."""
    start = 0
    if bidirectional:
        buckets //= 2
        start = buckets if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(-relative, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    place = math.log(distance / exact) / math.log(max_distance / exact) * (buckets - exact)
    return start + min(exact + math.floor(place + 1e-9), buckets - 1)


def shaw(query: Tensor, key: Tensor, table: Tensor, clip: int, query_at: list[int], key_at: list[int]) -> Tensor:
    """Shaw 2018, equation 4, for (queries, dim) and (keys, dim)."""
    rows = []
    for i, q in enumerate(query):
        row = []
        for j, k in enumerate(key):
            distance = max(-clip, min(clip, key_at[j] - query_at[i]))
            row.append(q @ (k + table[distance + clip]) / math.sqrt(len(q)))
        rows.append(torch.stack(row))
    return torch.stack(rows)
