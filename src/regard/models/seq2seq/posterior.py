"""Where a known word came from: attention given the word that was written (Shankar & Sarawagi 2019, ICLR, "Posterior
attention models").

The weights α_t are the decoder's attention before it knows the word y_t that it is about to write. With the word known,

    P(i | y_t) = α_ti p(y_t | position i alone) / Σ_j α_tj p(y_t | position j alone)

which is what alignment models since Brown et al. (1993) call the posterior of a link. p(y_t | i) is the decoder's own,
had it read position i alone at step t; what it read before stays as it was.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils._pytree import tree_map

from regard.errors import RegardError
from regard.models.seq2seq.recurrent_decoder import BahdanauDecoder, LuongDecoder, Memory, RecurrentDecoder


@torch.no_grad()
def posterior(
    decoder: RecurrentDecoder,
    memory: Memory,
    inputs: Int[Tensor, "batch steps"],
    targets: Int[Tensor, "batch steps"],
) -> Float[Tensor, "batch steps positions"]:
    """P(i | y_t), each row summing to 1 over the source positions; padding has exactly 0.

    A step costs one decoder step more for each source position; rows beyond a target's end are of no use.

    Args:
        decoder: in eval mode; its weights sum to 1 over the whole source, or p(y | i) would not be defined.
        memory: what its encoder gave.
        inputs: y_0 … y_{T−1}, BOS first.
        targets: y_1 … y_T.

    Raises:
        RegardError: the decoder has no attention, a window, or weights that do not sum to 1.
    """
    _check(decoder)
    batch, positions, _ = memory.states.shape
    state = decoder.start(memory, batch)
    moving, alone = state.moving, _alone(decoder, memory)
    rows = []
    for embedded, target in zip(decoder.embedding(inputs).split(1, dim=1), targets.T, strict=True):
        reading = decoder.read(state.fixed, moving, embedded)
        assert reading.attended is not None
        weights = reading.attended.weights.squeeze(1)
        each = decoder.read(
            alone.fixed, {**alone.moving, **_repeated(_kept(moving), positions)}, _repeated(embedded, positions)
        )
        logits = decoder.vocabulary(each.features.squeeze(1))
        wanted = target.repeat_interleave(positions).unsqueeze(-1)
        likelihood = logits.gather(-1, wanted) - logits.logsumexp(-1, keepdim=True)
        rows.append((weights.log() + likelihood.view(batch, positions)).softmax(-1))
        moving = reading.moving
    return torch.stack(rows, dim=1)


def _alone(decoder: RecurrentDecoder, memory: Memory) -> Any:
    """The start from memories of one position each, batch · positions of them: any weights over one position are 1."""
    positions = memory.states.shape[1]
    states = memory.states.flatten(0, 1).unsqueeze(1)
    lengths = torch.ones(len(states), dtype=memory.lengths.dtype, device=states.device)
    return decoder.start(Memory(states, lengths, _repeated(memory.final, positions)), len(states))


def _kept(moving: dict[str, Any]) -> dict[str, Any]:
    """What of the decoder's state is not about source positions: the recurrence, and what was fed."""
    return {name: part for name, part in moving.items() if name in ("carried", "fed")}


def _repeated(tree: Any, times: int) -> Any:
    return tree_map(lambda leaf: leaf.repeat_interleave(times, dim=0), tree)


def _check(decoder: RecurrentDecoder) -> None:
    if not isinstance(decoder, LuongDecoder | BahdanauDecoder):
        raise RegardError("a model without attention (model.attention is none) has no posterior; take another run")
    if decoder.source.focus is not None:
        raise RegardError(
            "the posterior is what the model would write from each position alone, and this model's window "
            "(model.window) masks some of them out; take a run without one"
        )
    if not decoder.source.attention.normalizer.sums_to_one:
        raise RegardError(
            "the posterior is of weights that sum to 1, and this model's normalizer does not make them so; "
            "take a run with softmax, sparsemax or entmax15"
        )
