"""The recurrent translator written out: one sentence, one word, one key at a time. Slow and obviously right.

It reads a model's parameters by name and shares no code with it; gradients come from autograd through these loops.
"""

import torch
from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, targets: list[int | None], smoothing: float) -> Tensor:
    """The smoothed loss of each row, added up; a target None is left out."""
    total = logits.new_zeros(())
    for row, target in zip(logits, targets, strict=True):
        if target is None:
            continue
        probabilities = torch.exp(row) / torch.exp(row).sum()
        for choice in range(len(row)):
            share = smoothing / len(row) + (1 - smoothing if choice == target else 0)
            total = total - share * torch.log(probabilities[choice])
    return total


def cell(kind: str, inputs: Tensor, state: tuple[Tensor, ...], weights: list[Tensor]) -> tuple[Tensor, ...]:
    """One step of a GRU (torch's reset gate) or an LSTM; `weights` as torch names and orders them."""
    from_input = weights[0] @ inputs + weights[2]
    from_state = weights[1] @ state[0] + weights[3]
    if kind == "gru":
        size = len(state[0])
        reset = torch.sigmoid(from_input[:size] + from_state[:size])
        update = torch.sigmoid(from_input[size : 2 * size] + from_state[size : 2 * size])
        candidate = torch.tanh(from_input[2 * size :] + reset * from_state[2 * size :])
        return ((1 - update) * candidate + update * state[0],)
    entering, forgetting, candidate, leaving = (from_input + from_state).chunk(4)
    memory = torch.sigmoid(forgetting) * state[1] + torch.sigmoid(entering) * torch.tanh(candidate)
    return torch.sigmoid(leaving) * torch.tanh(memory), memory


class Reference:
    """Built from a translator's settings and parameters."""

    def __init__(self, settings, parameters: dict[str, Tensor]) -> None:
        self.settings, self.p = settings, parameters

    def weights(self, prefix: str, suffix: str = "") -> list[Tensor]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [self.p[f"{prefix}.{name}{suffix}"] for name in names]

    def zeros(self, dim: int) -> tuple[Tensor, ...]:
        zero = next(iter(self.p.values())).new_zeros(dim)
        return (zero, zero) if self.settings.cell == "lstm" else (zero,)

    def encode(self, source: list[int]) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        """States of the top layer, and the last state of each layer, both directions side by side."""
        kind, dim = self.settings.cell, self.settings.encoder_dim
        inputs = [self.p.get("embedding.weight", self.p["decoder.embedding.weight"])[word] for word in source]
        finals = []
        for layer in range(self.settings.encoder_layers):
            prefix = f"encoder.each.{layer}"
            forwards, backwards = [], []
            state = self.zeros(dim)
            for vector in inputs:
                state = cell(kind, vector, state, self.weights(prefix, "_l0"))
                forwards.append(state)
            state = self.zeros(dim)
            for vector in reversed(inputs):
                state = cell(kind, vector, state, self.weights(prefix, "_l0_reverse"))
                backwards.insert(0, state)
            ends = (forwards[-1], backwards[0]) if source else (self.zeros(dim), self.zeros(dim))
            finals.append(tuple(torch.cat(pair) for pair in zip(*ends, strict=True)))
            inputs = [torch.cat([f[0], b[0]]) for f, b in zip(forwards, backwards, strict=True)]
        return inputs, finals

    def start(self, finals: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
        """The first state of each decoder layer."""
        parts = []
        for number, part in enumerate(finals[-1]):
            mapped = self.p[f"decoder.bridge.{number}.weight"] @ part + self.p[f"decoder.bridge.{number}.bias"]
            parts.append((torch.tanh(mapped) if number == 0 else mapped).chunk(self.settings.decoder_layers))
        return [tuple(part[layer] for part in parts) for layer in range(self.settings.decoder_layers)]

    def recur(self, inputs: Tensor, state: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
        after = []
        for layer, before in enumerate(state):
            after.append(cell(self.settings.cell, inputs, before, self.weights(f"decoder.recurrence.each.{layer}")))
            inputs = after[-1][0]
        return after

    def score(self, query: Tensor, inputs: Tensor, keys: list[Tensor], position: int, earlier: Tensor) -> Tensor:
        name = self.settings.attention
        own = {
            key.rpartition("attention.score.")[2]: value for key, value in self.p.items() if "attention.score" in key
        }
        key = keys[position]
        if name == "dot":
            return query @ key
        if name == "scaled_dot":
            return query @ key / len(key) ** 0.5
        if name == "general":
            return query @ own["weight"] @ key
        if name == "location":
            return own["weight"][position] @ query
        if name == "feed_forward":
            return own["weight"][position] @ torch.cat([inputs, query]) + own["bias"][position]
        hidden = own["query_weight"] @ query + own["key_weight"] @ key
        if name == "location_aware":
            filters = own["features.weight"][:, 0]  # (channels, width)
            reach = filters.shape[1] // 2
            feature = query.new_zeros(len(filters))
            for offset in range(-reach, reach + 1):
                if 0 <= position + offset < len(keys):
                    feature = feature + filters[:, offset + reach] * earlier[position + offset]
            hidden = hidden + own["feature_weight"] @ feature
        return own["vector"] @ torch.tanh(hidden)

    def attend(
        self, query: Tensor, inputs: Tensor, keys: list[Tensor], step: int, earlier: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The context and the weights of one query."""
        width = 2 * self.settings.encoder_dim
        if self.settings.window == "local-m":
            center = query.new_tensor(float(step))
        elif self.settings.window == "local-p":
            inner = torch.tanh(self.p["decoder.source.focus.hidden.weight"] @ query)
            center = len(keys) * torch.sigmoid(self.p["decoder.source.focus.vector.weight"] @ inner)[0]
        exponentials = []
        for position in range(len(keys)):
            seen = self.settings.window == "none" or abs(position - float(center.detach())) <= self.settings.radius
            one = torch.exp(self.score(query, inputs, keys, position, earlier)) if seen else query.new_zeros(())
            exponentials.append(one)
        total = sum(exponentials, query.new_zeros(()))
        weights = [one / total if float(total.detach()) else one for one in exponentials]
        if self.settings.window == "local-p":
            sigma = self.settings.radius / 2
            weights = [w * torch.exp(-((s - center) ** 2) / (2 * sigma**2)) for s, w in enumerate(weights)]
        context = query.new_zeros(width)
        for weight, key in zip(weights, keys, strict=True):
            context = context + weight * key
        return context, torch.stack(weights) if weights else query.new_zeros(0)

    def translate(self, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
        """Teacher-forced logits (steps, choices), and weights (steps, keys)."""
        settings, p = self.settings, self.p
        keys, finals = self.encode(source)
        state, last = self.start(finals), finals[-1][0]
        earlier = last.new_zeros(len(source))
        fed = last.new_zeros(settings.readout_dim or settings.embedding_dim)
        logits, looks = [], []
        for step, word in enumerate(target):
            inputs = p["decoder.embedding.weight"][word]
            weights = earlier
            if settings.attention == "none":
                context = [last] if settings.fixed_context == "every_step" else []
                state = self.recur(torch.cat([inputs, *context]), state)
                read = torch.tanh(p["decoder.readout.weight"] @ torch.cat([state[-1][0], *context]))
            elif settings.order == "luong":
                state = self.recur(torch.cat([inputs, fed]) if settings.input_feeding else inputs, state)
                context, weights = self.attend(state[-1][0], inputs, keys, step, earlier)
                read = fed = torch.tanh(p["decoder.readout.weight"] @ torch.cat([state[-1][0], context]))
            else:
                context, weights = self.attend(state[-1][0], inputs, keys, step, earlier)
                state = self.recur(torch.cat([inputs, context]), state)
                pairs = p["decoder.readout.weight"] @ torch.cat([state[-1][0], inputs, context])
                read = torch.stack([torch.maximum(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)])
            earlier = earlier + weights if settings.coverage else weights
            table = p.get("decoder.output", p["decoder.embedding.weight"])
            logits.append(table @ read + p["decoder.output_bias"])
            looks.append(weights)
        return torch.stack(logits), torch.stack(looks)
