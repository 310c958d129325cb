"""Pieces of kernels that are written over numpy arrays, forward and backward."""

import numpy as np
import torch
from torch import Tensor

from regard.kernels.autograd.plain import is_plain

Array = np.ndarray

_SHORTEST = 1e-12  # a vector that is shorter has no direction, as in the score `cosine`


def numpy_serves(inputs: Tensor) -> bool:
    """Whether numpy's calls serve: a plain call, on a CPU, of a type that numpy has."""
    return inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64) and is_plain(inputs)


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    exponentials = np.exp(scores - np.maximum.reduce(scores, -1, keepdims=True))
    exponentials /= np.add.reduce(exponentials, -1, keepdims=True)
    return exponentials


def softmax_backward(upstream: Array, result: Array) -> Array:
    """Gradient of the scores from that of the softmax's result."""
    passed = upstream * result
    passed -= result * np.add.reduce(passed, -1, keepdims=True)
    return passed


def inverse_length(vectors: Array) -> Array:
    """One divided by the length of each vector, 0 where there is none."""
    length = np.sqrt((vectors * vectors) @ np.ones(vectors.shape[-1], vectors.dtype))
    inverse: Array = 1 / np.maximum(length, _SHORTEST)
    inverse *= length > _SHORTEST
    return inverse
