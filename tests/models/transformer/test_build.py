"""The three buildings: cached as uncached, padded as alone, and the published size."""

from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, RegardError
from regard.models.transformer.encoder import TransformerEncoder
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import (
    TransformerFields,
    TransformerLanguageSettings,
    TransformerTranslatorSettings,
    vaswani2017,
)
from regard.models.transformer.translator import TransformerTranslator

WORDS = 23
POSITIONS = ["none", "sinusoidal", "learned", "rotary", "alibi", "t5", "shaw"]
LENGTHS = [7, 3, 5]


def noisy(model):
    """Weights large enough that every part matters; 0.02 would hide a mistake."""
    torch.manual_seed(13)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def language(**chosen):
    settings = {"dim": 12, "heads": 6, "key_heads": 3, "layers": 2, "dropout": 0.0, "feed_forward_dim": 17}
    return noisy(TransformerLanguageModel(TransformerLanguageSettings(**(settings | chosen)), WORDS))


def translator(**chosen):
    settings = {"dim": 12, "heads": 3, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0, "feed_forward_dim": 17}
    return noisy(TransformerTranslator(TransformerTranslatorSettings(**(settings | chosen)), WORDS, WORDS))


def rows(lengths, left):
    """Ids of each row alone, and all of them padded with 0 to one length."""
    each = [torch.randint(1, WORDS, (1, length)) for length in lengths]
    longest = max(lengths)
    pads = [torch.zeros(1, longest - length, dtype=torch.long) for length in lengths]
    padded = [torch.cat((pad, row) if left else (row, pad), 1) for row, pad in zip(each, pads, strict=True)]
    return each, torch.cat(padded)


def chunked(model, state, ids, chunk):
    """Logits of all positions, read `chunk` at a time through the cache."""
    logits = []
    with torch.no_grad():
        for part in ids.split(chunk, dim=1):
            step = model.step(state, part)
            state = step.state
            logits.append(step.logits)
    return torch.cat(logits, 1)


# Cached as uncached -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("window", [None, 3])
def test_cached_equals_uncached_at_every_step_B16_B17_B18(kind, left, window):
    """Each row alone and at once, beside all rows padded on one side and read 1, 3 or 10 at a time."""
    model = language(position=kind, window=window)
    each, padded = rows(LENGTHS, left)
    with torch.no_grad():
        alone = [model.logits(model.stack(model.embedding(row)).output)[0] for row in each]
    for chunk in (1, 3, 10):
        logits = chunked(model, model.start(None, len(each)), padded, chunk)
        for at, length in enumerate(LENGTHS):
            real = logits[at, -length:] if left else logits[at, :length]
            torch.testing.assert_close(real, alone[at], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("left", [True, False])
def test_so_does_a_decoder_with_cross_attention_B18(kind, left):
    """Over sources of lengths 5, 2 and 3 in one batch, as over each alone."""
    model = translator(position=kind)
    sources, source = rows([5, 2, 3], left=False)
    each, padded = rows(LENGTHS, left)
    with torch.no_grad():
        memory = model.encode(source, torch.tensor([5, 2, 3]))
        alone = []
        for one, target in zip(sources, each, strict=True):
            read = model.encode(one, torch.tensor([one.shape[1]]))
            over = model.decoder.stack.memory(read.states, read.keep)
            alone.append(model.decoder.readout(model.decoder.read(over, target).output)[0])
    for chunk in (1, 3, 10):
        logits = chunked(model.decoder, model.decoder.start(memory, 3), padded, chunk)
        for at, length in enumerate(LENGTHS):
            real = logits[at, -length:] if left else logits[at, :length]
            torch.testing.assert_close(real, alone[at], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_more_padding_changes_nothing_B17(kind, side):
    """1 or 5 of it, beside a row that has none."""
    model = language(position=kind)
    row, other = torch.randint(1, WORDS, (1, 5)), torch.randint(1, WORDS, (1, 10))
    with torch.no_grad():
        alone, of_other = (model.read(ids, model.start(None, 1).moving)[0] for ids in (row, other))
        for pad in (1, 5):
            blank = torch.zeros(1, pad, dtype=torch.long)
            ids = torch.cat((blank, row) if side == "left" else (row, blank), 1)
            both = torch.cat((ids, other[:, : 5 + pad]))
            logits, _ = model.read(both, model.start(None, 2).moving)
            last = logits[0, -1] if side == "left" else logits[0, 4]
            torch.testing.assert_close(last, alone[0, -1], rtol=0, atol=1e-5)
            torch.testing.assert_close(logits[1], of_other[0, : 5 + pad], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", POSITIONS)
def test_long_inputs_are_not_remembered_B20(kind, tmp_path):
    """Short, long, short: bit for bit; and in a copy that was loaded."""
    model = language(position=kind)
    short, long = torch.randint(1, WORDS, (1, 5)), torch.randint(1, WORDS, (1, 31))
    with torch.no_grad():
        first = model.read(short, model.start(None, 1).moving)[0]
        model.read(long, model.start(None, 1).moving)
        again = model.read(short, model.start(None, 1).moving)[0]
        torch.save(model.state_dict(), tmp_path / "weights")
        copy = language(position=kind)
        copy.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
        loaded = copy.read(short, copy.start(None, 1).moving)[0]
    assert torch.equal(first, again)
    assert torch.equal(first, loaded)


def test_beams_that_cross_find_what_a_search_without_a_cache_finds():
    """Beam 3 over three prompts of different lengths, padded on the left, beside each prompt searched alone."""

    class Uncached:
        """The same model, which reads the whole text anew at each step; its state is the text."""

        alignment = None
        training = False

        def __init__(self, model):
            self.model = model

        def start(self, memory, batch):
            from regard.layers.decoder import State

            return State((), torch.zeros(batch, 0, dtype=torch.long))

        def step(self, state, inputs):
            from regard.layers.decoder import Step

            text = torch.cat((state.moving, inputs), 1)
            stacked = self.model.stack(self.model.embedding(text))
            return Step(self.model.logits(stacked.output)[:, -inputs.shape[1] :], state._replace(moving=text), {})

    model = language(position="rotary")
    each, padded = rows([5, 2, 3], left=True)
    settings = SearchSettings(beam=3, n_best=2, max_length=6)
    found = search(model, None, 3, begin=padded, end=3, settings=settings, forbidden=(0,))
    for at, prompt in enumerate(each):
        alone = search(Uncached(model), None, 1, begin=prompt, end=3, settings=settings, forbidden=(0,))[0]
        assert [one.ids for one in found[at]] == [one.ids for one in alone]
        assert [one.score for one in found[at]] == pytest.approx([one.score for one in alone], abs=1e-5)


# Who may see whom ---------------------------------------------------------------------------------------------------


def test_only_the_encoder_attends_to_what_follows():
    """The last piece is changed: an encoder's first state changes, a language model's first logits do not."""
    ids = torch.randint(1, WORDS, (1, 6))
    changed = ids.clone()
    changed[0, -1] = ids[0, -1] % (WORDS - 1) + 1
    encoder = noisy(TransformerEncoder(TransformerFields(dim=12, heads=3, layers=2, dropout=0.0), WORDS))
    model = language()
    with torch.no_grad():
        assert (encoder(ids) - encoder(changed))[0, 0].abs().max() > 1e-3
        one, other = (model.read(text, model.start(None, 1).moving)[0] for text in (ids, changed))
    assert torch.equal(one[:, :-1], other[:, :-1])
    assert not torch.equal(one[:, -1], other[:, -1])


def test_an_encoder_leaves_padding_out():
    encoder = noisy(TransformerEncoder(TransformerFields(dim=12, heads=3, layers=2, dropout=0.0), WORDS))
    each, padded = rows(LENGTHS, left=False)
    states = encoder(padded)
    for at, row in enumerate(each):
        torch.testing.assert_close(states[at, : row.shape[1]], encoder(row)[0], rtol=0, atol=1e-5)


def test_a_translators_objective_leaves_padding_out_B22():
    """A batch of three pairs is worth the sum of the pairs alone; its features are of the real pieces."""
    model = translator(tied="all", scale_embedding=True)
    sources, source = rows([5, 2, 3], left=False)
    targets, target = rows([4, 6, 1], left=False)

    def batch(source, target, source_lengths, target_lengths):
        return SimpleNamespace(
            source=source,
            source_lengths=torch.tensor(source_lengths),
            target_in=target,
            target_out=target.flip(1) if len(target) == 1 else target,
            target_lengths=torch.tensor(target_lengths),
        )

    whole = batch(source, target, [5, 2, 3], [4, 6, 1])
    with torch.no_grad():
        found = model(whole, 0.1)
    alone = []
    for one, other in zip(sources, targets, strict=True):
        pair = batch(one, other, [one.shape[1]], [other.shape[1]])
        pair.target_out = other
        with torch.no_grad():
            alone.append(model(pair, 0.1))
    assert int(found.count) == 11
    assert float(found.total) == pytest.approx(sum(float(one.total) for one in alone), abs=1e-4)
    features, words = model.features(whole)
    assert features.shape == (11, 12)
    assert torch.equal(words, torch.cat([row[0] for row in targets]))
    assert model.reading(whole).attended.weights.shape == (3, 3, 6, 5)


def test_word_dropout_drops_words_in_training_alone():
    model = translator(word_dropout=0.999)
    ids = torch.randint(2, WORDS, (2, 7))
    assert torch.equal(model._with_word_dropout(ids), ids)
    hidden = model.train()._with_word_dropout(ids)
    assert torch.equal(hidden[:, 0], ids[:, 0])
    assert (hidden[:, 1:] == 1).all()


# Sizes --------------------------------------------------------------------------------------------------------------


def test_the_base_model_has_its_papers_parameters():
    """Vaswani et al. 2017, table 3: 65 million with the shared 37,000 pieces. By hand: one table of 37,000 · 512; an
    encoder block 4d² + 4d, 2 · 4d² + 5d, 2 norms of 2d; a decoder block with 4d² + 4d and 2d more: 63.1 million."""
    settings = vaswani2017()
    assert (settings.encoder_layers, settings.decoder_layers) == (6, 6)
    model = TransformerTranslator(
        settings.model_copy(update={"encoder_layers": 1, "decoder_layers": 1}), 37_000, 37_000
    )
    d = 512
    attention, network, norm = 4 * d * d + 4 * d, 2 * d * 4 * d + 5 * d, 2 * d
    table, encoder, decoder = 37_000 * d, attention + network + 2 * norm, 2 * attention + network + 3 * norm
    counts = [sum(p.numel() for p in part.parameters()) for part in (model, model.encoder, model.decoder.stack)]
    assert counts == [table + encoder + decoder, encoder, decoder]
    assert table + 6 * (encoder + decoder) == 63_082_496
    blocks = [*model.encoder.blocks, *model.decoder.stack.blocks]
    assert [block.order for block in blocks] == ["post"] * 2
    assert {(block.attention.heads, block.attention.width) for block in blocks} == {(8, 64)}
    assert isinstance(model.encoder.norm, nn.Identity)
    assert model.decoder.embedding.scale == pytest.approx(512**0.5)
    assert model.decoder.readout.weight is model.decoder.embedding.weight


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_words_begin_no_smaller_than_their_positions(position):
    """Sinusoids have a mean square of ½ at each feature; vectors of N(0, 0.02²) would drown in them."""
    torch.manual_seed(3)
    model = TransformerLanguageModel(TransformerLanguageSettings(dim=64, heads=2, layers=1, position=position), 499)
    words = model.embedding(torch.arange(499))
    places = model.stack.position.add(torch.zeros(1, 31, 64), torch.arange(31)[None])
    assert float(words.detach().std()) == pytest.approx(1.0 if position == "sinusoidal" else 0.02, rel=0.05)
    assert float(words.detach().square().mean()) > 0.9 * float(places.detach().square().mean())
    chosen = TransformerLanguageSettings(position="sinusoidal", scale_embedding=False)
    assert not chosen.scales


def test_two_thirds_of_a_block_are_its_feed_forward_W12():
    for heads in (1, 2, 6):
        block = language(dim=12, heads=heads, key_heads=heads, feed_forward_dim=48, bias=False).stack.blocks[0]
        counts = [sum(p.numel() for p in part.parameters()) for part in (block.attention, block.feed_forward)]
        assert counts == [4 * 144, 8 * 144]


# What is refused ----------------------------------------------------------------------------------------------------


def test_settings_that_do_not_fit_are_refused():
    for wrong, words in [
        ({"dim": 10, "heads": 4}, "heads must share dim evenly; dim is 10, heads 4"),
        ({"heads": 4, "key_heads": 3}, "key_heads must divide heads"),
        ({"dim": 9, "heads": 3}, "dim must be even"),
        ({"dim": 9, "heads": 3, "position": "rotary"}, "dim / heads must be even"),
        ({"head": 4}, "Extra inputs are not permitted"),
        ({"window": 4}, "Extra inputs are not permitted"),  # an encoder looks to both sides
    ]:
        with pytest.raises(ValidationError, match=words):
            TransformerFields(**wrong)
    with pytest.raises(ValidationError, match="must be below decoder_layers"):
        TransformerTranslatorSettings(decoder_layers=2, alignment_layer=2)
    assert [TransformerTranslatorSettings(decoder_layers=n).aligning_layer for n in (1, 2, 5)] == [0, 0, 3]
    with pytest.raises(ConfigError, match="needs one vocabulary; the source has 23 tokens, the target 29"):
        TransformerTranslator(TransformerTranslatorSettings(tied="all"), 23, 29)


def test_learned_positions_end_with_an_error_that_says_so():
    model = language(position="learned", context=5)
    state = model.step(model.start(None, 1), torch.randint(1, WORDS, (1, 5))).state
    with pytest.raises(RegardError, match="holds positions 0 to 4, but was asked for 5 to 5"):
        model.step(state, torch.tensor([[7]]))
