"""Run by itself, without run-time shape checks: one decoding step compiled whole, and exported for any lengths."""

import sys

import torch
from torch import nn

from regard.layers.decoder import State, Step
from regard.models.seq2seq.recurrent_decoder import RecurrentDecoder
from tests.models.variants import pairs, translator

tree_map = torch.utils._pytree.tree_map


class OneStep(nn.Module):
    def __init__(self, decoder: RecurrentDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, state: State, words: torch.Tensor) -> Step:
        return self.decoder.step(state, words)


def inputs(model, source_lengths: tuple[int, ...]):
    batch = pairs(source_lengths, (1,) * len(source_lengths))
    memory = model.encode(batch.source, batch.source_lengths)
    return model.decoder.start(memory, len(source_lengths)), batch.target_in


def agree(mine: Step, eager: Step) -> bool:
    looks = zip(mine.attended.values(), eager.attended.values(), strict=True)
    pairs_of = [(mine.logits, eager.logits), *((one.weights, other.weights) for one, other in looks)]
    return all(torch.allclose(one, other, atol=1e-5) for one, other in pairs_of)


@torch.no_grad()
def main(names: list[str]) -> None:
    for name in names:
        model = translator(name).float()
        state, words = inputs(model, (5, 3, 1))
        compiled = torch.compile(model.decoder.step, fullgraph=True, backend="aot_eager")
        assert agree(compiled(state, words), model.decoder.step(state, words)), name

        def free(tensor: torch.Tensor) -> dict:
            axes = [0] + [1] * (tensor.ndim > 1 and tensor.shape[1] == 5)  # rows, and keys
            return dict.fromkeys(axes, torch.export.Dim.AUTO)

        shapes = tree_map(free, (state, words))
        graph = torch.export.export(OneStep(model.decoder), (state, words), dynamic_shapes=shapes).module()
        for lengths in [(5, 3, 1), (1,), (7, 2), (8, 6, 4, 2)]:
            other = inputs(model, lengths)
            assert agree(graph(*other), model.decoder.step(*other)), (name, lengths)
        print(name, "agrees")


if __name__ == "__main__":
    main(sys.argv[1:])
