"""Recurrent translators as regard trains them, and what their benchmarks share: sizes, batches, updates, rows."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.data.translation.batches import TextBatches
from regard.layers.objective import Objective
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings
from regard.training.optimizer import make_optimizer
from regard.training.processes.processes import Processes
from regard.training.settings import TrainingSettings
from regard.training.update import Updater
from turns import in_turns, peak_mebibytes

VARIANTS: dict[str, dict[str, Any]] = {
    "Bahdanau's score, input feeding": {"attention": "additive", "input_feeding": True},
    "Luong's general, no feeding": {"attention": "general", "input_feeding": False},
}
SMOOTHING = 0.1


class Sizes(NamedTuple):
    """Pairs a batch, positions of the longest (marks counted), widths and words."""

    pairs: int
    positions: int
    embedding: int
    hidden: int
    words: int


def translator(chosen: dict[str, Any], sizes: Sizes, dropout: float) -> RecurrentTranslator:
    """A GRU of `hidden` in all, half in each direction of the encoder."""
    settings = RecurrentSettings(
        cell="gru",
        embedding_dim=sizes.embedding,
        encoder_dim=sizes.hidden // 2,
        attention_dim=sizes.hidden,
        readout_dim=sizes.hidden,
        dropout=dropout,
        **chosen,
    )
    torch.manual_seed(0)
    return RecurrentTranslator(settings, sizes.words, sizes.words)


def sentences(sizes: Sizes, batches: int, shortest: int) -> TextBatches:
    """Pairs of random words, lengths even between the shortest and the longest, each side by itself."""
    chance = random.Random(0)

    def words(longest: int) -> list[int]:
        return [chance.randrange(4, sizes.words) for _ in range(chance.randint(shortest, longest))]

    sides = [[words(sizes.positions - 1) for _ in range(sizes.pairs * batches)] for _ in range(2)]
    return TextBatches(*sides, tokens=sizes.pairs * sizes.positions)


def regard_side(
    model: RecurrentTranslator, data: TextBatches, plan: list[list[int]], training: TrainingSettings
) -> Any:
    """Updates as `regard train` makes them."""

    def objective(model: nn.Module, batch: Any) -> Objective:
        outcome: Objective = model(batch, SMOOTHING)
        return outcome

    model.train()
    updater = Updater(model, objective, make_optimizer(model, training), data, Processes(), training)
    return lambda: [updater.update([indices], 1e-4, "benchmark") for indices in plan]


def other_side(
    model: nn.Module, plan: list[list[int]], training: TrainingSettings, gradients: Callable[[list[int]], None]
) -> Any:
    """Updates as others write them, with regard's AdamW.

    Args:
        model: the other side's.
        plan: the batches of a turn.
        training: settings of both sides.
        gradients: makes those of a batch, and reads its loss.
    """
    model.train()
    optimizer = make_optimizer(model, training)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4

    def update(indices: list[int]) -> None:
        gradients(indices)
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        optimizer.zero_grad()

    return lambda: [update(indices) for indices in plan]


def measured(
    what: dict[str, Any], tokens: int, sides: dict[str, Callable[[], Any]], ratios: dict[str, str], rounds: int
) -> dict[str, Any]:
    """One row of the table: each side's speed and peak memory, and regard's speed beside the others'.

    Args:
        what: how the row begins.
        tokens: target tokens of a turn.
        sides: a turn of each, "regard" among them.
        ratios: what the ratio to a side is called.
        rounds: turns of each side.
    """
    memory = {side: peak_mebibytes(turn) for side, turn in sides.items()}
    seconds = in_turns(sides, rounds)
    row = dict(what)
    for side in sides:
        row[f"{side} tokens/s"] = round(tokens / seconds[side]["processor"])
        row[f"{side} MiB"] = round(memory[side])
    for kind in ("processor", "clock"):
        for side, name in ratios.items():
            row[f"{name}, {kind}"] = seconds[side][kind] / seconds["regard"][kind]
    return row
