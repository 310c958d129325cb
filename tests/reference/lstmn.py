"""Cheng, Dong & Lapata (2016), equation by equation and one row at a time: slow, and obviously right."""

import torch
from torch import Tensor


def additive(vector: Tensor, keys: list[Tensor], key_weight: Tensor, query: Tensor) -> Tensor:
    """Weights over the keys, eq. 4 and 5 (10 and 11); `query` is projected already."""
    return torch.stack([vector @ torch.tanh(key_weight @ key + query) for key in keys]).softmax(0)


def mixed(weights: Tensor, tape: list[Tensor]) -> Tensor:
    return sum((weight * slot for weight, slot in zip(weights, tape, strict=True)), torch.zeros_like(tape[0]))


def cell(gates: Tensor, bias: Tensor, read: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
    """Eq. 7: input, forget and output gate, and the candidate."""
    opening, forgetting, leaving, candidate = (gates @ torch.cat([read, inputs]) + bias).chunk(4)
    return opening.sigmoid(), forgetting.sigmoid(), leaving.sigmoid(), candidate.tanh()


def lstmn(layer, inputs: Tensor, bound: int | None = None) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Hidden states and memories `(time, width)` of one row, and each step's weights over the slots that it sees."""
    score, width = layer.attention.score, layer.width
    hidden, memory, looks = [], [], []
    attended = inputs.new_zeros(width)
    for now in inputs:
        first = 0 if bound is None else max(0, len(hidden) - bound)
        attended, kept, weights = past(score, hidden[first:], memory[first:], now, attended)
        looks.append(weights)
        opening, forgetting, leaving, candidate = cell(layer.gates.weight, layer.gates.bias, attended, now)
        memory.append(forgetting * kept + opening * candidate)  # eq. 8
        hidden.append(leaving * torch.tanh(memory[-1]))  # eq. 9
    return torch.stack(hidden), torch.stack(memory), looks


def past(score, hidden: list[Tensor], memory: list[Tensor], now: Tensor, before: Tensor) -> tuple[Tensor, ...]:
    """Eq. 4, 5, 6: h̃, c̃ and the weights; 0 where there is no past."""
    if not hidden:
        return torch.zeros_like(before), torch.zeros_like(before), before.new_zeros(0)
    weights = additive(score.vector, hidden, score.key_weight, score.query_weight @ torch.cat([now, before]))
    return mixed(weights, hidden), mixed(weights, memory), weights


def shallow(model, source: Tensor, target: Tensor) -> Tensor:
    """The decoder's hidden states `(time, width)` over one source and one target."""
    gamma, _, _ = lstmn(model.encoder, source)
    inter, layer = model.inter.score, model.decoder
    hidden, memory = [], []
    attended = before = target.new_zeros(model.width)
    for now in target:
        weights = additive(inter.vector, list(gamma), inter.key_weight, inter.query_weight @ before)
        now = torch.cat([now, mixed(weights, list(gamma))])
        attended, kept, _ = past(layer.attention.score, hidden, memory, now, attended)
        opening, forgetting, leaving, candidate = cell(layer.gates.weight, layer.gates.bias, attended, now)
        memory.append(forgetting * kept + opening * candidate)
        before = leaving * torch.tanh(memory[-1])
        hidden.append(before)
    return torch.stack(hidden)


def deep(model, source: Tensor, target: Tensor) -> Tensor:
    """Likewise, eq. 10 to 15."""
    gamma, alpha, _ = lstmn(model.encoder, source)
    inter, layer = model.inter.score, model.decoder
    hidden, memory = [], []
    attended = found = target.new_zeros(model.width)
    for now in target:
        attended, kept, _ = past(layer.attention.score, hidden, memory, now, attended)
        query = inter.query_weight @ torch.cat([now, found])
        weights = additive(inter.vector, list(gamma), inter.key_weight, query)  # eq. 10, 11
        found, found_memory = mixed(weights, list(gamma)), mixed(weights, list(alpha))  # eq. 12
        opening, forgetting, leaving, candidate = cell(layer.gates.weight, layer.gates.bias, attended, now)
        transfer = torch.sigmoid(model.transfer.weight @ torch.cat([found, now]) + model.transfer.bias)  # eq. 13
        memory.append(transfer * found_memory + forgetting * kept + opening * candidate)  # eq. 14
        hidden.append(leaving * torch.tanh(memory[-1]))  # eq. 15
    return torch.stack(hidden)
