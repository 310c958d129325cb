"""Every random choice from one seed, and the generators' states saved and restored."""

import base64
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

_BETWEEN_PROCESSES = 1_000_003  # a prime: processes of neighbouring seeds do not share a stream


def seed_everything(seed: int, process: int = 0) -> None:
    """Seed Python's, numpy's and torch's generators, on every device.

    Args:
        seed: the run's seed, from 0.
        process: the rank in a run of several processes, each of which draws its own dropout.
    """
    own = seed + _BETWEEN_PROCESSES * process
    random.seed(own)
    numpy.random.seed(own % 2**32)
    torch.manual_seed(own)


def set_threads(threads: int) -> None:
    """Compute with this many threads; a run is the same bit for bit only at the same number of them."""
    torch.set_num_threads(threads)


def random_state(device: torch.device) -> dict[str, Any]:
    """Where the generators stand, as plain JSON."""
    version, internal, gauss = random.getstate()
    drawn: Any = numpy.random.get_state(legacy=True)
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [part.tolist() if isinstance(part, numpy.ndarray) else part for part in drawn],
        "torch": _to_text(torch.get_rng_state()),
    }
    if device.type == "cuda":
        state["cuda"] = _to_text(torch.cuda.get_rng_state(device))
    elif device.type == "mps":
        state["mps"] = _to_text(torch.mps.get_rng_state())
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Put the generators where `random_state` found them; a device that was not there then keeps its own state."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    torch.set_rng_state(_from_text(state["torch"]))
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(_from_text(state["cuda"]), device)
    elif device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(_from_text(state["mps"]))


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Whatever is drawn inside leaves no trace: a validation does not change the training."""
    state = random_state(device)
    try:
        yield
    finally:
        restore_random_state(state, device)


def _to_text(state: torch.Tensor) -> str:
    return base64.b64encode(state.cpu().numpy().tobytes()).decode("ascii")


def _from_text(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
