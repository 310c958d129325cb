"""Saves a run's state and weights, and restores them: what makes a killed run the same run again."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.errors import ConfigError, RunError
from regard.training.processes.processes import Processes
from regard.training.processes.sharding import Shards, local
from regard.training.randomness import random_state, restore_random_state
from regard.training.run.checkpoint import load_tensors, newest_checkpoint, read_state, save_checkpoint, save_weights
from regard.training.run.run import RunFolder
from regard.training.settings import CHANGEABLE, TrainingSettings
from regard.training.state import BatchReader, TrainingState
from regard.training.update import Diverged

_FORMAT = 1


class Checkpointer:
    """Everything that a run saves, in one place.

    Args:
        run: where to.
        model: whose weights.
        optimizer: whose moments.
        reader: the data, which a resumed run must find unchanged.
        processes: only the first writes.
        settings: of this run; those saved must agree with them.
        seed: the same.
        say: reports a message to the user.
        shards: the model's, if it is in parts; then every process writes its own.
    """

    def __init__(
        self,
        run: RunFolder,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        reader: BatchReader,
        processes: Processes,
        settings: TrainingSettings,
        seed: int,
        say: Callable[[str], None],
        shards: Shards | None = None,
    ) -> None:
        self.shards = shards
        self.run, self.model, self.optimizer, self.processes = run, model, optimizer, processes
        self.say, self.keep = say, settings.keep
        self.options = {"seed": seed, **settings.model_dump(mode="json")}
        self.world = {
            "processes": processes.count,
            "threads": torch.get_num_threads(),
            "device": processes.device.type,
            "torch": torch.__version__,
        }
        self.plan = reader.digest(0)
        self.saved: int | None = None

    def save(self, run_state: TrainingState) -> None:
        """Write a checkpoint of this state, unless there is one."""
        if run_state.step == self.saved:
            return
        random = self.processes.gather(random_state(self.processes.device))
        self._refuse_bad_weights(run_state)
        state = {
            "format": _FORMAT,
            "place": run_state.to_json(),
            "options": self.options,
            "world": self.world,
            "plan": self.plan,
            "random": random,
        }
        together = self.processes if self.shards else None
        if together or self.processes.first:
            save_checkpoint(
                self.run.checkpoints, run_state.step, self.model, self.optimizer, state, self.keep, together
            )
        self.processes.wait()
        self.saved = run_state.step

    def save_best(self, run_state: TrainingState) -> None:
        """Make the weights the run's own, `model.safetensors`."""
        self._refuse_bad_weights(run_state)
        whole = self.shards.gather() if self.shards else self.model
        if self.processes.first and whole is not None:
            save_weights(self.run.weights, whole)

    def restore(self) -> TrainingState:
        """Put everything back as the newest whole checkpoint has it; without one, the run starts over.

        Raises:
            RunError: all checkpoints are damaged, or gone after the run's end; or they are of another model, of other
                data or of another format.
            ConfigError: an option differs from the saved one and may not.
        """
        newest = newest_checkpoint(self.run.checkpoints, self.say) if self.processes.first else None
        newest = self.processes.broadcast(newest)
        if newest is None:
            if self.run.results.is_file():
                raise RunError(
                    f"{self.run.path} has ended and its checkpoints are gone, so it cannot continue, and starting over "
                    "would replace its weights; train again in a new run folder"
                )
            self.say("There is no checkpoint yet: the run starts from its beginning.")
            return TrainingState()
        state = read_state(newest)
        if state.get("format") != _FORMAT:
            raise RunError(f"{newest} has format {state.get('format')!r}, this regard reads {_FORMAT}")
        self._compare_options(state["options"])
        if state["plan"] != self.plan:
            raise RunError(
                f"{newest} was saved with other data or batches; a resumed run would train on some items twice and "
                "others never. Give the same data, tokenizer and batch size, or start a new run"
            )
        self._compare_world(state["world"])
        load_tensors(newest, self.model, self.optimizer)
        if len(state["random"]) == self.processes.count:
            restore_random_state(state["random"][self.processes.rank], self.processes.device)
        run_state = TrainingState.from_json(state["place"])
        self.saved = run_state.step
        self.say(f"Resuming after step {run_state.step} (epoch {run_state.epoch}, batch {run_state.position}).")
        return run_state

    def _compare_options(self, saved: dict[str, Any]) -> None:
        differing = {name for name in saved.keys() | self.options.keys() if saved.get(name) != self.options.get(name)}
        refused = sorted(differing - CHANGEABLE)
        if refused:
            lines = [f"  {name}: saved {saved.get(name)}, now {self.options.get(name)}" for name in refused]
            raise ConfigError(
                "the run cannot continue with other options than it was started with:\n"
                + "\n".join(lines)
                + f"\nLeave them as saved, or start a new run. These may change: {', '.join(sorted(CHANGEABLE))}."
            )
        for name in sorted(differing):
            self.say(f"Changed on resume: {name} was {saved.get(name)} and is now {self.options.get(name)}.")

    def _compare_world(self, saved: dict[str, Any]) -> None:
        for name, value in self.world.items():
            if saved.get(name) != value:
                self.say(
                    f"Saved with {name} {saved.get(name)}, resumed with {value}: the run continues, "
                    "but not bit for bit as it would have unbroken."
                )

    def _refuse_bad_weights(self, run_state: TrainingState) -> None:
        for name, weights in self.model.state_dict().items():
            if weights.is_floating_point() and not self._finite(local(weights)):
                raise Diverged(
                    f"after step {run_state.step} the weights {name!r} are not finite and were not saved; the last "
                    "checkpoint is from before. Try a lower learning_rate or a smaller clip"
                )

    def _finite(self, part: torch.Tensor) -> bool:
        """Whether the weights are finite; of a model in parts, all parts of them, so that all processes agree."""
        good = part.isfinite().all()
        return bool(good) if self.shards is None else not self.processes.sum((~good).float()).item()
