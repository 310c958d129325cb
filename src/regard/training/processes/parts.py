"""Tensors in several files: each process of a sharded training writes its rows, and any number of them reads them all.

`model-1-of-2.safetensors` holds the first rows of each tensor, the next file those after them. What is not sharded
stands in the first file alone.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RunError
from regard.files import replace_atomically
from regard.training.processes.processes import Processes
from regard.training.processes.sharding import is_part, local, part_of


def save_part(file: Path, tensors: dict[str, Tensor], processes: Processes) -> Path:
    """Write this process's part of some tensors beside the whole file's name."""
    mine = {
        name: local(tensor).detach().contiguous()
        for name, tensor in tensors.items()
        if is_part(tensor) or processes.first
    }
    path = file.with_name(f"{file.stem}-{processes.rank + 1}-of-{processes.count}{file.suffix}")
    return replace_atomically(path, lambda to: save_file(mine, to))


def files_of(name: str, there: Iterable[str]) -> list[str]:
    """The files that hold the tensors of a whole file's name: this one, or all of its parts in order.

    Parts that are not there are named all the same, so that opening them names the missing one.
    """
    stem, _, suffix = name.rpartition(".")
    found = (re.fullmatch(rf"{re.escape(stem)}-\d+-of-(\d+)\.{suffix}", one) for one in there)
    count = next((int(match[1]) for match in found if match), 0)
    return [f"{stem}-{rank}-of-{count}.{suffix}" for rank in range(1, count + 1)] or [name]


def read_whole(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, or of all of its parts put together.

    Raises:
        RunError: a file is damaged.
    """
    parts: dict[str, list[Tensor]] = {}
    for name in files_of(file.name, (one.name for one in file.parent.iterdir())):
        try:
            for key, tensor in load_file(file.with_name(name)).items():
                parts.setdefault(key, []).append(tensor)
        except SafetensorError as error:
            raise RunError(f"{file.with_name(name)} is damaged: {error}") from error
    return {key: torch.cat(those) if len(those) > 1 else those[0] for key, those in parts.items()}


def named_once(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and buffers, tied ones under the first of their names."""
    once: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), (name, tensor))
    return dict(once.values())


@torch.no_grad()
def put_whole(model: nn.Module, weights: dict[str, Tensor], origin: Path) -> None:
    """Give a model, sharded or not, the values of whole tensors; tied ones may come under any of their names.

    Raises:
        RunError: they are of another model; the message names the weights that differ.
    """
    aliases: dict[int, list[str]] = {}
    own = model.state_dict(keep_vars=True)
    for name, tensor in own.items():
        aliases.setdefault(id(tensor), []).append(name)
    given = {names[0]: next((weights[name] for name in names if name in weights), None) for names in aliases.values()}
    wrong = [name for name, tensor in given.items() if tensor is None or tensor.shape != own[name].shape]
    if wrong or (other := sorted(weights.keys() - own.keys())):
        raise RunError(
            f"the weights in {origin} are not of this model; build it with the run's own settings. "
            + (f"Missing or of another shape: {', '.join(wrong)}" if wrong else f"Not its own: {', '.join(other)}")
        )
    for name, tensor in given.items():
        assert tensor is not None
        own[name].copy_(part_of(tensor, own[name]))
