"""Plain searches over tables: every complete output is listed, scored and ranked; greedy is one argmax after another.

A `rule(item, prefix)` gives the log-probabilities of the next token and the weights over the source, so each number can
be checked by hand. `TableDecoder` dresses a rule as a decoder.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.layers.decoder import State, Step

Rule = Callable[[int, tuple[int, ...]], tuple[Sequence[float], Sequence[float] | None]]


class Output(NamedTuple):
    ids: list[int]
    score: float
    log_probability: float
    finished: bool
    alignment: list[Sequence[float]]


class TableDecoder:
    """A decoder whose state is the item's number (fixed) and the prefix (moving); each row checks that the two agree.

    `memory` is a tensor of item numbers. Weights are padded to `columns` with NaN, which must never come out.
    """

    def __init__(self, rule: Rule, columns: int | None = None, aligned: bool = True) -> None:
        self.rule = rule
        self.columns = columns
        self.alignment = "source" if aligned else None
        self.rows_seen: list[int] = []

    def start(self, memory: Any, batch: int) -> State:
        assert len(memory) == batch
        return State({"item": memory}, {"item": memory.clone(), "prefix": torch.zeros(batch, 0, dtype=torch.long)})

    def step(self, state: State, inputs: Tensor) -> Step:
        assert torch.equal(state.fixed["item"], state.moving["item"]), "fixed and moving rows are of different items"
        self.rows_seen.append(len(inputs))
        prefix = torch.cat([state.moving["prefix"], inputs], dim=1)
        logits, weights = [], []
        for item, row in zip(state.fixed["item"].tolist(), prefix.tolist(), strict=True):
            scores, looked = self.rule(item, tuple(row))
            logits.append(list(scores))
            looked = list(looked if looked is not None else [])
            weights.append(looked + [math.nan] * ((self.columns or len(looked)) - len(looked)))
        attended = {"source": Attended(None, weights=torch.tensor(weights)[:, None])} if self.alignment else {}
        repeated = torch.tensor(logits, dtype=torch.float32)[:, None].expand(-1, inputs.shape[1], -1)
        return Step(repeated, State(state.fixed, {"item": state.moving["item"], "prefix": prefix}), attended)


def random_rule(choices: int, source: Sequence[int] | int = 3, seed: int = 0, sharpness: float = 1.5) -> Rule:
    """Log-probabilities and weights drawn anew for each prefix; `source` is each item's number of source positions."""

    @cache
    def rule(item: int, prefix: tuple[int, ...]) -> tuple[list[float], list[float]]:
        random = np.random.default_rng([seed, item, len(prefix), *prefix])
        scores = random.normal(size=choices) * sharpness
        looked = random.dirichlet(np.ones(source if isinstance(source, int) else source[item]))
        return (scores - np.logaddexp.reduce(scores)).astype(np.float32).tolist(), looked.astype(np.float32).tolist()

    return rule


def score_of(log_probability: float, alignment: list[Sequence[float]], length: int, settings: Any) -> float:
    """Wu et al. 2016, eq. 14, written out."""
    n = max(length, 1)
    norm = (
        n**settings.length_penalty if settings.length_rule == "power" else ((5 + length) / 6) ** settings.length_penalty
    )
    score = log_probability / norm
    if settings.coverage_penalty:
        for column in zip(*alignment, strict=True):
            score += settings.coverage_penalty * math.log(min(max(sum(column), 1e-6), 1.0))
    return score


def exhaustive(
    rule: Rule, item: int, prompt: tuple[int, ...], end: int, limit: int, settings: Any, forbidden: Sequence[int] = ()
) -> list[Output]:
    """All outputs of at most `limit` tokens, the end mark counted, best first."""
    found: list[Output] = []

    def grow(ids: list[int], log_probability: float, alignment: list[Sequence[float]]) -> None:
        if len(ids) == limit:
            score = score_of(log_probability, alignment, len(ids), settings)
            found.append(Output(ids, score, log_probability, False, alignment))
            return
        scores, looked = rule(item, prompt + tuple(ids))
        for token, one in enumerate(scores):
            if one == -math.inf or token in forbidden or (token == end and len(ids) < settings.min_length):
                continue
            rows = [*alignment, looked or []]
            if token == end:
                score = score_of(log_probability + one, rows, len(ids) + 1, settings)
                found.append(Output(ids, score, log_probability + one, True, rows))
            else:
                grow([*ids, token], log_probability + one, rows)

    grow([], 0.0, [])
    return sorted(found, key=lambda output: (not output.finished, -output.score, output.ids))


def greedy(rule: Rule, item: int, prompt: tuple[int, ...], end: int, limit: int) -> Output:
    """The most probable token at each step, the lowest of equal ones."""
    ids: list[int] = []
    total = 0.0
    rows: list[Sequence[float]] = []
    while len(ids) < limit:
        scores, looked = rule(item, prompt + tuple(ids))
        token = max(range(len(scores)), key=lambda one: (scores[one], -one))
        total += scores[token]
        rows.append(looked or [])
        if token == end:
            return Output(ids, total / len(rows), total, True, rows)
        ids.append(token)
    return Output(ids, total / max(len(rows), 1), total, False, rows)
