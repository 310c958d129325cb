"""Greedy search that guesses several ids ahead and checks them in one step (Leviathan et al. 2023; Chen et al. 2023).

A guess changes the speed alone: what is kept is what the decoder itself finds most probable. It pays where a step of
many ids costs little more than one of a single id, and where guesses are often right, as in text that repeats itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.rows import device_of
from regard.errors import ConfigError, RegardError
from regard.layers.decoder import Decoder

Draft = Callable[[Sequence[int], int], Sequence[int]]
"""All ids so far, and how many are wanted at most: those that may come next."""

_ALIKE = (3, 2, 1)
"""How many last ids must have stood in the text before, the most first."""


def repeats(ids: Sequence[int], most: int) -> list[int]:
    """What followed when the text's last ids stood in it last (prompt lookup, Saxena 2023); nothing if they never did.

    Args:
        ids: the text so far.
        most: how many ids are wanted at most.
    """
    for alike in _ALIKE:
        last = list(ids[-alike:])
        for at in range(len(ids) - alike - 1, -1, -1):
            if list(ids[at : at + alike]) == last:
                return list(ids[at + alike : at + alike + most])
    return []


@torch.no_grad()
def speculate(
    decoder: Decoder,
    memory: Any,
    *,
    begin: Int[Tensor, "1 prompt"],
    end: int | None,
    length: int,
    ahead: int,
    draft: Draft = repeats,
    forbidden: Sequence[int] = (),
) -> tuple[list[int], bool]:
    """What greedy search finds for one item.

    A decoder's state is a value, so that nothing has to be taken back: after a wrong guess the ids that were right are
    read again from the state before them, together with the next guess. Logits of several ids read at once may differ
    from those of single steps by rounding, and so may a choice between ids that are as good as equal.

    Args:
        decoder: in eval mode.
        memory: the encoder's output, or None.
        begin: the ids that the output starts from.
        end: the id that ends it; None: only the length does.
        length: the most ids of it, EOS counted.
        ahead: how many ids are guessed at most before the decoder's step.
        draft: guesses.
        forbidden: ids that are never chosen.

    Returns:
        The ids after `begin`, without EOS, and whether they ended by it.

    Raises:
        ConfigError: nothing is to be guessed, or nothing to start from.
        RegardError: the decoder is in training mode.
    """
    if ahead < 1 or begin.shape[1] < 1:
        raise ConfigError(f"guess 1 id ahead or more, from 1 id or more; given ahead={ahead} and {begin.shape[1]} ids")
    if getattr(decoder, "training", False):
        raise RegardError("the decoder is in training mode, so dropout would change what it finds: call eval() first")
    state = decoder.start(memory, 1)
    device = device_of(decoder, state)
    ids: list[int] = begin[0].tolist()
    prompt = len(ids)
    if prompt > 1:
        state = decoder.step(state, begin[:, :-1].to(device)).state
    unread = ids[-1:]  # what the state has not read yet
    while len(ids) - prompt < length:
        guesses = list(draft(ids, min(ahead, length - (len(ids) - prompt) - 1)))
        step = decoder.step(state, torch.tensor([unread + guesses], device=device))
        logits = step.logits[0, len(unread) - 1 :].clone()
        logits[:, list(forbidden)] = -torch.inf
        chosen = logits.argmax(-1).tolist()
        right = 0
        while right < len(guesses) and guesses[right] == chosen[right]:
            right += 1
        kept = chosen[: right + 1]
        if end in kept:
            return ids[prompt:] + kept[: kept.index(end)], True
        ids += kept
        if right == len(guesses):
            state, unread = step.state, kept[-1:]
            continue
        unread += kept
        if len(unread) > ahead:  # or what is read again would grow
            state = decoder.step(state, torch.tensor([unread[:-1]], device=device)).state
            unread = unread[-1:]
    return ids[prompt:], False
