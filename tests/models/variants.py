"""Small translators of every kind, and a batch for them; all sizes are different primes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings

SOURCE_WORDS, TARGET_WORDS = 19, 23

# Every cell, order, feeding, window, score and kind of coverage occurs, most pairs of them together.
VARIANTS: dict[str, dict] = {
    "luong-additive": {},
    "luong-gru-general": {"cell": "gru", "attention": "general", "decoder_layers": 2},
    "luong-dot": {"attention": "dot", "decoder_dim": 6, "tied": "target"},
    "luong-scaled_dot-local-m": {"cell": "gru", "attention": "scaled_dot", "decoder_dim": 6, "window": "local-m"},
    "luong-location": {"attention": "location", "attention_options": {"positions": 11}, "encoder_layers": 2},
    "luong-additive-local-p": {"cell": "gru", "window": "local-p"},
    "luong-feed_forward": {"attention": "feed_forward", "attention_options": {"positions": 7}},
    "luong-feeding": {"input_feeding": True, "encoder_layers": 2, "decoder_layers": 2, "readout_dim": 13},
    "luong-feeding-gru-local-m": {"cell": "gru", "input_feeding": True, "window": "local-m"},
    "luong-feeding-local-p": {"input_feeding": True, "window": "local-p", "attention": "general"},
    "luong-feeding-coverage": {"cell": "gru", "input_feeding": True, "attention": "location_aware", "coverage": True},
    "luong-coverage": {"attention": "location_aware", "coverage": True},
    "luong-location_aware": {"cell": "gru", "attention": "location_aware", "tied": "target"},
    "bahdanau-gru": {"cell": "gru", "order": "bahdanau"},
    "bahdanau-dot": {"order": "bahdanau", "attention": "dot", "decoder_dim": 6, "decoder_layers": 2},
    "bahdanau-local-m": {"order": "bahdanau", "window": "local-m", "encoder_layers": 2},
    "bahdanau-gru-local-p": {"cell": "gru", "order": "bahdanau", "window": "local-p", "tied": "target"},
    "bahdanau-coverage": {"order": "bahdanau", "attention": "location_aware", "coverage": True},
    "bahdanau-coverage-local-p": {
        "cell": "gru",
        "order": "bahdanau",
        "attention": "location_aware",
        "coverage": True,
        "window": "local-p",
    },
    "bahdanau-feed_forward": {
        "cell": "gru",
        "order": "bahdanau",
        "attention": "feed_forward",
        "attention_options": {"positions": 5},
    },
    "fixed-every_step": {"attention": "none"},
    "fixed-gru-start": {"cell": "gru", "attention": "none", "fixed_context": "start", "decoder_layers": 2},
}


@dataclass
class Pairs:
    source: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor

    def row(self, row: int) -> "Pairs":
        """One pair by itself, without padding."""
        source, target = int(self.source_lengths[row]), int(self.target_lengths[row])
        one = slice(row, row + 1)
        return Pairs(
            self.source[one, :source],
            self.source_lengths[one],
            self.target_in[one, :target],
            self.target_out[one, :target],
            self.target_lengths[one],
        )


def settings(**chosen) -> RecurrentSettings:
    sizes = {"embedding_dim": 5, "encoder_dim": 3, "decoder_dim": 7, "attention_dim": 2, "dropout": 0.0, "radius": 2}
    return RecurrentSettings(**(sizes | chosen))


def translator(name: str = "luong-additive", **chosen) -> RecurrentTranslator:
    """A variant in float64, with every parameter (biases too) away from 0."""
    torch.manual_seed(0)
    model = RecurrentTranslator(settings(**(VARIANTS[name] | chosen)), SOURCE_WORDS, TARGET_WORDS).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.weight[0] = 0
    return model.eval()


def pairs(source_lengths=(5, 3, 1), target_lengths=(2, 5, 3)) -> Pairs:
    """B22's lengths; ids from 1, padding 0."""
    torch.manual_seed(1)
    rows, positions, steps = len(source_lengths), max(source_lengths), max(target_lengths)
    lengths, target_lengths = torch.tensor(source_lengths), torch.tensor(target_lengths)
    source = torch.randint(1, SOURCE_WORDS, (rows, positions))
    targets = torch.randint(1, TARGET_WORDS, (2, rows, steps))
    source[torch.arange(positions) >= lengths[:, None]] = 0
    targets[:, torch.arange(steps) >= target_lengths[:, None]] = 0
    return Pairs(source, lengths, targets[0], targets[1], target_lengths)


def run(model, batch):
    """Teacher-forced: memory, first state and the step over all target words."""
    memory = model.encode(batch.source, batch.source_lengths)
    state = model.decoder.start(memory, len(batch.source))
    return memory, state, model.decoder.step(state, batch.target_in)
