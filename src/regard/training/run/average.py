"""The mean of several weights of one model: its last checkpoints, or several trainings from one initialization."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import RunError
from regard.files import replace_atomically
from regard.training.run.checkpoint import MODEL, checkpoints, damage_of

# A checkpoint's moments and generators are for training on from it; the mean of its weights needs neither.


def last_checkpoints(folder: Path, count: int | None) -> list[Path]:
    """The weights of a run's newest checkpoints, newest first.

    Args:
        folder: holds the run's checkpoints.
        count: how many; all that were kept if None.

    Raises:
        RunError: fewer than two were kept, or fewer than asked for; or one of them is damaged.
    """
    found = checkpoints(folder)
    wanted = len(found) if count is None else count
    if len(found) < max(2, wanted):
        raise RunError(
            f"{folder} holds {len(found)} checkpoints, and {max(2, wanted)} are wanted; a run keeps as many as "
            f"training.keep says, one every training.save_every updates: train with training.keep={max(2, wanted)}, "
            "or for longer, or average several runs"
        )
    for checkpoint in found[:wanted]:
        damage = damage_of(checkpoint)
        if damage is not None:
            raise RunError(f"{checkpoint} is damaged ({damage}); average fewer: --last, or several runs")
    for checkpoint in found[:wanted]:
        if not (checkpoint / MODEL).is_file():
            raise RunError(
                f"{checkpoint} was written in parts by several processes; resume the run in one, which writes it whole"
            )
    return [checkpoint / MODEL for checkpoint in found[:wanted]]


def average_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each weight, summed in float64 and given back in its own kind.

    What is not a real number, such as a count, has no mean: it must be the same in all files.

    Args:
        files: safetensors files of one model; a file that comes twice counts twice.

    Raises:
        RunError: a file is absent or damaged, the files do not hold the same weights, or one is not finite.
    """
    first = _read(files[0])
    kinds = {name: tensor.dtype for name, tensor in first.items()}
    sums = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in first.items()}
    for file in files[1:]:
        tensors = _read(file)
        shapes, its_shapes = ({name: tuple(one.shape) for name, one in side.items()} for side in (first, tensors))
        differing = sorted(
            name for name in shapes.keys() | its_shapes.keys() if shapes.get(name) != its_shapes.get(name)
        )
        if differing:
            name = differing[0]
            raise RunError(
                f"{files[0]} and {file} are not of one model: {len(differing)} of their weights differ in shape, first "
                f"{name!r}: {shapes.get(name, 'not there')} and {its_shapes.get(name, 'not there')}"
            )
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                sums[name] += tensor.double()
            elif not torch.equal(sums[name], tensor):
                raise RunError(f"{files[0]} and {file}: {name!r} is no real number and differs, so it has no mean")
    means = {}
    for name, total in sums.items():
        means[name] = (total / len(files)).to(kinds[name]) if kinds[name].is_floating_point else total
        if not means[name].isfinite().all():
            raise RunError(f"the mean of the weights {name!r} is not finite; was one of these trainings damaged?")
    return means


def save_average(file: Path, files: Sequence[Path]) -> int:
    """Write the mean of several weights as a run's weights are written; returns how many numbers they have."""
    with _opened(files[0]) as content:
        metadata = content.metadata()  # names of tied weights, which are saved once
    means = average_weights(files)
    replace_atomically(file, lambda to: save_file(means, to, metadata=metadata))
    return sum(mean.numel() for mean in means.values())


def _read(file: Path) -> dict[str, Tensor]:
    with _opened(file) as content:
        return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - not a dict


def _opened(file: Path) -> safe_open:
    if not file.is_file():
        raise RunError(f"{file} is absent: no weights have been saved there yet")
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        raise RunError(f"{file} is damaged: {error}") from error
