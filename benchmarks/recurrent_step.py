"""Target tokens a second in training, beside a good plain translator: equal weights, the same batches, in turns.

    python benchmarks/recurrent_step.py [--json] [--quick]

The other side is what one writes in torch: an encoder over packed sequences, keys projected once, one vocabulary
product over all positions, torch's cross-entropy with smoothing; or over the real positions alone ("unpadded"), which
fewer people write. With input feeding its decoder is a loop of cells; without it, one call of nn.GRU and one attention
of all positions. Dropout stands where regard has it.
An update is the loss, its gradient, clipped, and a step of the same fused AdamW; a batch is 80 pairs of random words,
lengths even from 10 to 30 (or all 30). Before anything is timed both sides must give one loss.
"""

import argparse
import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.data.translation.batches import TextBatch, TextBatches
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.training.settings import TrainingSettings
from translators import SMOOTHING, VARIANTS, Sizes, measured, other_side, regard_side, sentences, translator
from turns import report


class Plain(nn.Module):
    """The same translator as one writes it in torch.

    Args:
        sizes: of the model and its batches.
        additive: Bahdanau's score, or Luong's general one.
        feeding: whether what was read is part of the next input.
        dropout: on word vectors, encoder states, [state; context] and readout.
    """

    def __init__(self, sizes: Sizes, additive: bool, feeding: bool, dropout: float) -> None:
        super().__init__()
        self.unpadded = False  # whether the vocabulary's product leaves padding out
        hidden = sizes.hidden
        self.additive, self.feeding, self.hidden = additive, feeding, hidden
        self.source, self.target = (nn.Embedding(sizes.words, sizes.embedding, padding_idx=0) for _ in range(2))
        self.encoder = nn.GRU(sizes.embedding, hidden // 2, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(hidden, hidden)
        if feeding:
            self.cell = nn.GRUCell(sizes.embedding + hidden, hidden)
        else:
            self.recurrence = nn.GRU(sizes.embedding, hidden, batch_first=True)
        self.keys = nn.Linear(hidden, hidden, bias=False)
        if additive:
            self.queries = nn.Linear(hidden, hidden, bias=False)
            self.energy = nn.Linear(hidden, 1, bias=False)
        self.readout = nn.Linear(2 * hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, sizes.words)
        self.dropout = nn.Dropout(dropout)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
        """What each of the n queries reads."""
        if self.additive:
            scores = self.energy(torch.tanh(self.queries(query).unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)
        else:
            scores = query @ keys.transpose(1, 2)
        return scores.masked_fill(hidden.unsqueeze(1), -torch.inf).softmax(-1) @ values

    def read(self, state: Tensor, looked: Tensor) -> Tensor:
        """What the output layer reads."""
        return self.dropout(torch.tanh(self.readout(self.dropout(torch.cat([state, looked], -1)))))

    def forward(self, batch: TextBatch) -> Tensor:
        """The summed loss of the real target words."""
        packed = pack_padded_sequence(
            self.dropout(self.source(batch.source)), batch.source_lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.encoder(packed)
        values = self.dropout(pad_packed_sequence(states, batch_first=True, total_length=batch.source.shape[1])[0])
        keys = self.keys(values)
        hidden = torch.arange(values.shape[1]) >= batch.source_lengths.unsqueeze(1)
        state = torch.tanh(self.bridge(last.transpose(0, 1).flatten(1)))
        words = self.dropout(self.target(batch.target_in))
        if self.feeding:
            fed, each = torch.zeros_like(state), []
            for word in words.unbind(1):
                state = self.cell(torch.cat([word, fed], -1), state)
                fed = self.read(state, self.attend(state.unsqueeze(1), keys, values, hidden).squeeze(1))
                each.append(fed)
            features = torch.stack(each, 1)
        else:
            every, _ = self.recurrence(words, state.unsqueeze(0))
            features = self.read(every, self.attend(every, keys, values, hidden))
        targets = batch.target_out
        if self.unpadded:
            features, targets = features[targets != 0], targets[targets != 0]
        logits = self.output(features).flatten(0, -2)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=0, label_smoothing=SMOOTHING, reduction="sum")


def plain_of(ours: RecurrentTranslator, sizes: Sizes, chosen: dict[str, Any]) -> Plain:
    """The plain model with the weights of ours."""
    plain = Plain(sizes, chosen["attention"] == "additive", chosen["input_feeding"], ours.settings.dropout)
    held = ours.state_dict()
    score = "decoder.source.attention.score"
    names = {
        "source.weight": "embedding.weight",
        "target.weight": "decoder.embedding.weight",
        "bridge.weight": "decoder.bridge.0.weight",
        "bridge.bias": "decoder.bridge.0.bias",
        "readout.weight": "decoder.readout.weight",
        "output.weight": "decoder.output",
        "output.bias": "decoder.output_bias",
    }
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        names[f"cell.{name}" if plain.feeding else f"recurrence.{name}_l0"] = f"decoder.recurrence.each.0.{name}"
        for direction in ("l0", "l0_reverse"):
            names[f"encoder.{name}_{direction}"] = f"encoder.each.0.{name}_{direction}"
    if plain.additive:
        names |= {"queries.weight": f"{score}.query_weight", "keys.weight": f"{score}.key_weight"}
        names["energy.weight"] = f"{score}.vector"
    else:
        names["keys.weight"] = f"{score}.weight"
    plain.load_state_dict({name: held[of].reshape(plain.state_dict()[name].shape) for name, of in names.items()})
    return plain


def plain_side(model: Plain, data: TextBatches, plan: list[list[int]], training: TrainingSettings) -> Any:
    """Updates as one writes them, with regard's AdamW."""

    def gradients(indices: list[int]) -> None:
        batch = data.load(indices)
        total = model(batch)
        (total / batch.target_lengths.sum()).backward()
        total.item()

    return other_side(model, plan, training, gradients)


def same_loss(chosen: dict[str, Any], sizes: Sizes, batch: TextBatch) -> None:
    """Refuse to compare what does not compute the same."""
    ours = translator(chosen, sizes, dropout=0.0).eval()
    with torch.no_grad():
        one, other = ours.objective(batch, SMOOTHING).total, plain_of(ours, sizes, chosen).eval()(batch)
    if not torch.allclose(one, other, rtol=1e-5):
        raise SystemExit(f"the two models differ: loss {float(one)} and {float(other)}")


def compare(name: str, sizes: Sizes, shortest: int, dropout: float, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    chosen = VARIANTS[name]
    data = sentences(sizes, 1, shortest)
    plan = [list(range(sizes.pairs))]
    tokens = int(data.load(plan[0]).target_lengths.sum())
    same_loss(chosen, sizes, data.load(plan[0]))
    training = TrainingSettings(weight_decay=0.0)
    model = translator(chosen, sizes, dropout)
    plain, unpadded = (plain_of(model, sizes, chosen) for _ in range(2))
    unpadded.unpadded = True
    sides = {
        "plain": plain_side(plain, data, plan, training),
        "unpadded": plain_side(unpadded, data, plan, training),
        "regard": regard_side(model, data, plan, training),
    }
    what = {"model": name, "lengths": f"{shortest + 1}-{sizes.positions}", "dropout": dropout}
    return measured(what, tokens, sides, {"plain": "ratio", "unpadded": "to unpadded"}, rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dropout", type=float, default=0.2)
    options = parser.parse_args(arguments)
    sizes = Sizes(5, 7, 11, 26, 31) if options.quick else Sizes(80, 30, 256, 512, 8192)
    torch.set_num_threads(1)
    shortest = (2,) if options.quick else (9, sizes.positions - 1)
    rounds = 1 if options.quick else options.rounds
    rows = [compare(name, sizes, least, options.dropout, rounds) for name in VARIANTS for least in shortest]
    report(rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
