"""One token through a decoder-only model, without gradients: from its id to the logits in one native call.

Beside the stack's own step (`layers/transformer/step.py`) this saves the calls for the embedding, the positions and the
logits, which together took longer than the layers of a small model.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.parts.position import Learned, Sinusoidal
from regard.kernels.autograd.hooks import is_exactly
from regard.kernels.transformer.step import Steps, Words
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.stack import Stack
from regard.layers.transformer.step import LayerAttention, bias_of, ready, steps_with
from regard.models.transformer.embedding import Embedding


class OneWord(NamedTuple):
    """What one further token gives.

    Attributes:
        logits: `(1, 1, vocabulary)`.
        cache: longer by it.
        attended: each layer's attention.
    """

    logits: Tensor
    cache: Cache
    attended: LayerAttention


def one_word(model: Any, ids: Tensor, cache: Cache) -> OneWord | None:
    """The step of a `TransformerLanguageModel` for one token of one text, None where the plain path is to be taken.

    Args:
        model: with `embedding`, `stack` and `readout`.
        ids: what it reads.
        cache: what it read before.
    """
    if type(ids) is not Tensor or ids.shape != (1, 1) or ids.dtype is not torch.long or ids.device.type != "cpu":
        return None
    # These may have been replaced on the instance.
    own = vars(model)
    if cache.counted.shape != (1,) or "logits" in own or "_stacked" in own or "read" in own:
        return None
    stack = model.stack
    steps = ready(model, stack, cache, _steps)
    if steps is None or not steps.knows(word := int(ids), place := int(cache.counted)):
        return None
    after, bias, added = cache.one_more(), bias_of(stack, cache), None
    if type(stack.position) is Sinusoidal:
        added = stack.position.add(cache.states.new_zeros(1, 1, steps.dim), cache.counted.unsqueeze(-1))
    logits, shown = steps.write(word, place, added, after.states, bias)
    return OneWord(logits, after, LayerAttention(stack, shown, after, bias))


def _steps(model: Any) -> Steps | None:
    """The model's parts, where the loop knows them all."""
    stack, embedding = model.stack, model.embedding
    if type(model).__base__ is not nn.Module or type(stack) is not Stack or type(embedding) is not Embedding:
        return None  # a kind of them may do something else
    if embedding.max_norm is not None:
        return None
    position = stack.position
    adds = getattr(position, "kind", None) == "add"
    known = is_exactly(position, Learned, Sinusoidal)
    if adds and not known:
        return None
    learned = position if type(position) is Learned else None
    return steps_with(stack, Words(embedding, embedding.scale, learned, model.readout))
