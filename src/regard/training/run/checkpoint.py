"""Checkpoints: whole or not there, checked before use, and never code.

A checkpoint is a folder `step-00000012` with `model.safetensors`, `optimizer.safetensors`, `state.json` and a
`manifest.json` that holds the size and sha256 of each. It is filled under another name, flushed to the disk, and
renamed as the last act. Where the model was in parts, so are the tensors: `model-1-of-2.safetensors` holds the first
rows of each of them, and any number of processes can read them together (`parts.py`).
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_file, save_model

from regard.errors import RunError
from regard.files import digest, replace_atomically, sync_folder, write_json
from regard.training.processes.parts import files_of, named_once, put_whole, read_whole, save_part
from regard.training.processes.processes import Processes
from regard.training.processes.sharding import part_of

MODEL, OPTIMIZER, STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"
_WHOLE = re.compile(r"step-(\d+)")


def save_checkpoint(
    folder: Path,
    step: int,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    keep: int,
    together: Processes | None = None,
) -> Path:
    """Write one checkpoint, then drop all but the newest `keep`.

    Args:
        folder: holds the run's checkpoints.
        step: updates made; names the checkpoint.
        model: its parameters and buffers are saved; tied ones once.
        optimizer: its tensors are saved under their parameters' names.
        state: everything else, as plain JSON.
        keep: how many checkpoints stay.
        together: the processes that write, each its part of a sharded model; None: this one writes all.

    Returns:
        The checkpoint's folder.
    """
    part, target = folder / f".part-{step:08d}", folder / f"step-{step:08d}"
    first = together is None or together.first
    if first:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        part.mkdir()
    if together is None:
        save_weights(part / MODEL, model)
        replace_atomically(part / OPTIMIZER, lambda to: save_file(_optimizer_tensors(model, optimizer), to))
    else:
        together.wait()  # for the folder
        save_part(part / MODEL, named_once(model), together)
        save_part(part / OPTIMIZER, _optimizer_tensors(model, optimizer), together)
        together.wait()  # for all files
    if not first:
        return target
    write_json(part / STATE, state)
    files = sorted(part.iterdir())
    write_json(part / MANIFEST, {file.name: {"bytes": file.stat().st_size, "sha256": digest(file)} for file in files})
    sync_folder(part)
    if target.exists():  # one that was found damaged, and is made anew
        os.replace(target, folder / f".old-{step:08d}")
    os.replace(part, target)
    sync_folder(folder)
    for old in checkpoints(folder)[keep:]:
        os.replace(old, folder / f".old-{old.name}")  # so that a kill while deleting leaves no half checkpoint
    _clear(folder)
    return target


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first; those being written do not count."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _WHOLE.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def newest_checkpoint(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The newest undamaged checkpoint, or None where there is none yet.

    Args:
        folder: holds the run's checkpoints.
        say: reports each damaged checkpoint that is passed over.

    Raises:
        RunError: there are checkpoints, and all are damaged.
    """
    found = checkpoints(folder)
    for path in found:
        damage = damage_of(path)
        if damage is None:
            return path
        say(f"The checkpoint {path.name} is damaged ({damage}) and is passed over for the one before it.")
    if found:
        raise RunError(f"all checkpoints in {folder} are damaged; train again in a new run folder")
    return None


def damage_of(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint's files, in words; None if nothing is."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        for name in (*files_of(MODEL, manifest), *files_of(OPTIMIZER, manifest), STATE):
            file, expected = checkpoint / name, manifest[name]
            if file.stat().st_size != expected["bytes"]:
                return f"{name} has {file.stat().st_size} bytes, not {expected['bytes']}"
            if digest(file) != expected["sha256"]:
                return f"the sha256 of {name} is not the one in {MANIFEST}"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{MANIFEST} cannot be used: {error}"
    return None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """A checkpoint's `state.json`."""
    return json.loads((checkpoint / STATE).read_text(encoding="utf-8"))


def load_tensors(checkpoint: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put a checkpoint's weights into the model and its moments into the optimizer.

    Raises:
        RunError: a file is damaged, or the model is another one; the message names the weights that differ.
    """
    put_whole(model, read_whole(checkpoint / MODEL), checkpoint / MODEL)
    tensors = read_whole(checkpoint / OPTIMIZER)
    names = {parameter: name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    number = {names[parameter]: run_state for run_state, parameter in enumerate(parameters)}
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition("/")
        parameter = parameters[number[name]]
        of_each = tensor.shape == parameter.shape  # a moment, and not a count of steps
        state.setdefault(number[name], {})[kind] = part_of(tensor, parameter) if of_each else tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def save_weights(file: Path, model: torch.nn.Module) -> Path:
    """Write a model's parameters and buffers as safetensors, tied ones once."""
    return replace_atomically(file, lambda to: save_model(model, str(to), metadata={"format": "pt"}))


def load_weights(model: torch.nn.Module, file: Path) -> None:
    """Put the weights of a safetensors file into the model.

    Raises:
        RunError: the file is absent or damaged, or the model is another one; the message names the weights that differ.
    """
    if not file.is_file():
        raise RunError(f"{file} is absent: no weights have been saved there yet")
    try:
        load_model(model, str(file))
    except SafetensorError as error:
        raise RunError(f"{file} is damaged: {error}") from error
    except RuntimeError as error:
        raise RunError(
            f"the weights in {file} are not of this model; build it with the run's own settings. {error}"
        ) from error


def _optimizer_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{kind}": value.contiguous()
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def _clear(folder: Path) -> None:
    """Remove what a kill left half written or half deleted."""
    for path in folder.iterdir():
        if path.name.startswith((".part-", ".old-")):
            shutil.rmtree(path)
