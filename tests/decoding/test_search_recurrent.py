"""The search over the real recurrent decoders: batches of any size and order give the same, and beam 1 is greedy."""

import pytest
import torch

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings

BEGIN, END = 2, 3
LENGTHS = [5, 2, 3, 7, 1, 4, 6]


def translator(**settings):
    torch.manual_seed(0)
    small = {"embedding_dim": 11, "encoder_dim": 6, "decoder_dim": 7, "readout_dim": 11}
    model = RecurrentTranslator(RecurrentSettings(**{**small, **settings}), 17, 13).eval()
    with torch.no_grad():  # sharper than at the start, so that outputs differ
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def run(model, sources, settings, items):
    lengths = torch.tensor([LENGTHS[item] for item in items])
    padded = torch.zeros(len(items), int(lengths.max()), dtype=torch.long)
    for row, item in enumerate(items):
        padded[row, : LENGTHS[item]] = sources[item]
    with torch.no_grad():
        memory = model.encode(padded, lengths)
    return search(model.decoder, memory, len(items), begin=BEGIN, end=END, settings=settings, source_lengths=lengths,
                  indices=items, forbidden=(0, 1, BEGIN))  # fmt: skip


@pytest.mark.parametrize("model", [
    {"order": "bahdanau"}, {"order": "luong", "input_feeding": True}, {"attention": "none"},
    {"order": "luong", "cell": "lstm", "attention": "location_aware", "coverage": True},
])  # fmt: skip
@pytest.mark.parametrize("options", [{"beam": 3, "n_best": 3}, {"beam": 2, "n_best": 2, "sample": True}])
def test_batch_size_and_order_change_nothing(model, options):
    """B21, B41, with real states, keys and coverage."""
    model = translator(**model)
    sources = [torch.randint(4, 17, (length,), generator=torch.Generator().manual_seed(length)) for length in LENGTHS]
    settings = SearchSettings(max_ratio=1.0, max_extra=3, **options)
    alone = [run(model, sources, settings, [item])[0] for item in range(7)]
    assert len({tuple(found[0].ids) for found in alone}) > 3
    for order in ([4, 0], [3, 1, 4, 0, 6, 2, 5]):
        for item, found in zip(order, run(model, sources, settings, order), strict=True):
            assert [(h.ids, h.finished) for h in found] == [(h.ids, h.finished) for h in alone[item]]
            for mine, other in zip(found, alone[item], strict=True):
                assert mine.score == pytest.approx(other.score, abs=1e-5)
                if model.decoder.alignment is None:
                    assert mine.alignment is None
                    continue
                assert mine.alignment.shape == (len(mine.ids) + mine.finished, LENGTHS[item])
                torch.testing.assert_close(mine.alignment, other.alignment, atol=1e-5, rtol=0)


def test_the_search_sums_what_teacher_forcing_gives():
    """A hypothesis read again in one call has the same log-probability and the same weights."""
    model = translator(order="luong", input_feeding=True)
    sources = [torch.arange(4, 4 + length) for length in LENGTHS]
    for item, found in enumerate(run(model, sources, SearchSettings(beam=4, n_best=3), [0, 1, 2])):
        for hypothesis in found:
            tokens = hypothesis.ids + [END] * hypothesis.finished
            lengths = torch.tensor([LENGTHS[item]])
            with torch.no_grad():
                state = model.decoder.start(model.encode(sources[item][None], lengths), 1)
                step = model.decoder.step(state, torch.tensor([[BEGIN, *tokens[:-1]]]))
            picked = step.logits.log_softmax(-1)[0].gather(1, torch.tensor(tokens)[:, None])
            assert hypothesis.log_probability == pytest.approx(picked.sum().item(), abs=1e-4)
            torch.testing.assert_close(hypothesis.alignment, step.attended["source"].weights[0], atol=1e-5, rtol=0)
