"""Texts that grow: token by token, and beyond a model's context length."""

from collections.abc import Sequence

import torch

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.decoding.speculation import speculate
from regard.errors import ConfigError
from regard.models.text.language_models import Model
from regard.vocabulary import PADDING

_ROUND = 1 << 32
"""Added to a text's number for each time that it is read anew, so that its draws continue and do not repeat."""


def continue_texts(
    model: Model,
    texts: Sequence[Sequence[int]],
    *,
    end: int | None,
    settings: SearchSettings,
    forbidden: Sequence[int],
    context_length: int | None,
    padded: bool,
    ahead: int = 0,
) -> list[list[int]]:
    """What follows each text, at most `settings.max_length` tokens of it, without EOS.

    A model of `context_length` tokens reads the last half of them anew where a text grows past it. Each text is
    cut by its own length, so that none depends on the others.

    Args:
        model: in eval mode.
        texts: ids, one or more of each.
        end: the id that ends a text; None: only the length does.
        settings: of the search; `max_length` and the draws.
        forbidden: ids that are never generated.
        context_length: tokens that the model may read from one fresh state; None: any number.
        padded: whether the model leaves padding out of account; then texts of all lengths are read together, with
            padding on their left. Otherwise those of one length are.
        ahead: ids guessed before each call of the model (`decoding.speculation`), each text by itself; 0: none.

    Raises:
        ConfigError: `ahead` is given with draws or a beam, or `settings` has no `max_length`.
    """
    length = settings.max_length
    if length is None:
        raise ConfigError("the length of the output is not limited: give max_length")
    if ahead and (settings.sample or settings.beam > 1):
        raise ConfigError("guesses are checked against the likeliest token: ahead= goes with neither draws nor a beam")
    written: list[list[int]] = [[] for _ in texts]
    over = [length == 0] * len(texts)
    rounds = 0
    while not all(over):
        seen = {at: _within([*texts[at], *written[at]], context_length) for at in range(len(texts)) if not over[at]}
        for some in [[at] for at in seen] if ahead else _together(seen, padded):
            limits = [length - len(written[at]) for at in some]
            if context_length is not None:
                limits = [
                    min(limit, context_length - len(seen[at]) + 1) for at, limit in zip(some, limits, strict=True)
                ]
            longest = max(len(seen[at]) for at in some)
            begin = torch.tensor([[PADDING] * (longest - len(seen[at])) + seen[at] for at in some])
            if ahead:
                [at], [limit] = some, limits
                more, finished = speculate(
                    model, None, begin=begin, end=end, length=limit, ahead=ahead, forbidden=forbidden
                )
                written[at] += more
                over[at] = finished or len(written[at]) >= length
                continue
            found = search(
                model,
                None,
                len(some),
                begin=begin,
                end=end,
                settings=settings,
                limits=limits,
                indices=[at + rounds * _ROUND for at in some],
                forbidden=forbidden,
            )
            for at, hypotheses in zip(some, found, strict=True):
                written[at] += hypotheses[0].ids
                over[at] = hypotheses[0].finished or len(written[at]) >= length
        rounds += 1
    return written


def _within(ids: list[int], context_length: int | None) -> list[int]:
    """The end of a text that the model reads: all of it, or so much that as much again has room."""
    return ids if context_length is None or len(ids) <= context_length else ids[-max(1, context_length // 2) :]


def _together(seen: dict[int, list[int]], padded: bool) -> list[list[int]]:
    """Which texts are read together."""
    if padded:
        return [list(seen)]
    groups: dict[int, list[int]] = {}
    for at, ids in seen.items():
        groups.setdefault(len(ids), []).append(at)
    return list(groups.values())
