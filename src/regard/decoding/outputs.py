"""What one item of a search has found so far, and the hypotheses made of it when it leaves."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.decoding.history import History
from regard.decoding.scoring import coverage_term, length_norm
from regard.decoding.settings import SearchSettings


class Hypothesis(NamedTuple):
    """One output.

    Attributes:
        ids: its tokens, without prompt and EOS.
        score: what hypotheses are ranked by (see `scoring`).
        log_probability: the sum over its tokens and EOS, in nats, as the model gives it (before temperature).
        finished: whether it ended by itself; if not, it was cut off at its limit.
        alignment: `(tokens, source)` weights on the CPU, one row for each id and, if finished, a last one for
            EOS; heads are averaged, padding is left out. None where the decoder attends to no source.
    """

    ids: list[int]
    score: float
    log_probability: float
    finished: bool
    alignment: Tensor | None


@dataclass
class _Found:
    steps: int
    place: int
    log_probability: float
    score: float
    finished: bool


@dataclass
class Item:
    """One item of the batch while it is searched.

    Attributes:
        number: its row in the batch as given.
        limit: the most tokens it may have.
        columns: its real source positions; None: as many as the weights have.
        settings: the search's.
        random: where its draws come from, its own.
        cut: what a live hypothesis has to reach: the worst of the n_best finished scores; −inf while there are fewer.
    """

    number: int
    limit: int
    columns: int | None
    settings: SearchSettings
    random: np.random.Generator
    cut: float = -math.inf
    found: list[_Found] = field(default_factory=list)

    def keep(self, history: History, steps: int, place: int, log_probability: float, finished: bool) -> None:
        """Score the hypothesis that stands at `place` after `steps` steps, and keep it if it can be among the best."""
        score = log_probability / float(length_norm(steps, self.settings))
        if self.settings.coverage_penalty and history.aligned:
            score += self.settings.coverage_penalty * coverage_term(self._alignment(history, steps, place))
        self.found.append(_Found(steps, place, log_probability, score, finished))
        scores = sorted(found.score for found in self.found if found.finished)
        if not self.settings.sample and len(scores) >= self.settings.n_best:
            self.cut = scores[-self.settings.n_best]
            self.found = [found for found in self.found if found.score >= self.cut]

    def hypotheses(self, history: History) -> list[Hypothesis]:
        """The n_best different ones: finished before cut off, then by score, then by lower ids."""
        ranked = sorted(
            (not found.finished, -found.score, history.ids(self.number, found.steps, found.place), index)
            for index, found in enumerate(self.found)
        )
        best: dict[tuple[int, ...], Hypothesis] = {}
        for _, _, tokens, index in ranked:
            if len(best) == self.settings.n_best:
                break
            if tuple(tokens) in best:  # the same draw twice
                continue
            found = self.found[index]
            weights = torch.from_numpy(self._alignment(history, found.steps, found.place)) if history.aligned else None
            ids = tokens[:-1] if found.finished else tokens
            best[tuple(tokens)] = Hypothesis(ids, found.score, found.log_probability, found.finished, weights)
        return list(best.values())

    def _alignment(self, history: History, steps: int, place: int) -> np.ndarray:
        return history.alignment(self.number, steps, place, history.width if self.columns is None else self.columns)
