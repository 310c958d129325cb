"""Reading given translations: probabilities piece by piece, and alignments between words of either kind."""

import math

import pytest
import torch

from regard.data.pairs.parallel_text import Pair
from regard.data.text.units import split_words, units, whitespace_words
from regard.data.tokenizers.factory import train_tokenizer
from regard.data.translation.settings import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import RegardError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings
from regard.tasks.translation.align import Aligned, align, measure
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.ensemble import EnsembleModel
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings

TEXTS = ["l'accord sur la zone", "the agreement on the area .", "aujourd'hui , un accord", "today it is it's"]


def made(kind="bpe", seed=0, texts=TEXTS, **model):
    torch.manual_seed(seed)
    settings = RecurrentSettings(
        **{"cell": "gru", "embedding_dim": 7, "encoder_dim": 11, "decoder_dim": 13, "attention_dim": 5, **model}
    )
    tokenizer = train_tokenizer(kind, texts, 61)
    network = RecurrentTranslator(settings, len(tokenizer), len(tokenizer))
    return TranslationPredictor(
        network, Tokenizers(tokenizer, tokenizer), TranslationSettings(data=DataSettings(max_length=40))
    )


PAIRS = [
    ("l'accord sur", "the agreement on"),
    ("", "the area ."),
    ("la zone économique 👩‍👩‍👧 !", ""),
    ("un", "it's the agreement on the area today it is it's , the area"),
    ("zone", "area"),
]


@pytest.mark.parametrize("model", [{}, {"order": "bahdanau"}, {"input_feeding": True}, {"attention": "none"}])
def test_a_reading_is_what_the_search_found(model):
    """The score of given pieces is the log-probability with which a beam search found them."""
    translator = made("words", texts=["a b c d e"], **model)
    found = translator.translate(["a b e", "c"], SearchSettings(beam=9, n_best=9, max_length=3))
    # Unknown words are spelt as their source's, so these texts have other pieces.
    pairs = [(one.source, output) for one in found for output in one.outputs if "<unk>" not in output.tokens]
    pairs = [(source, output) for source, output in pairs if output.finished]
    readings = translator.score([source for source, _ in pairs], [output.text for _, output in pairs])
    assert len(pairs) > 2
    for (_, output), reading in zip(pairs, readings, strict=True):
        assert reading.tokens == output.tokens
        assert reading.log_probability == pytest.approx(output.log_probability, abs=1e-5)
        if output.alignment is not None:
            torch.testing.assert_close(reading.alignment, output.alignment, atol=1e-6, rtol=0)


def test_what_the_other_direction_cut_is_reported():
    """A run back with room for 3 pieces makes links of half a sentence; whoever reads them must know."""
    narrow = made(seed=1)
    narrow.settings = TranslationSettings(data=DataSettings(max_length=3))
    notes = [one.notes for one in align(made(), [PAIRS[0], ("un", "it")], backward=narrow)]
    assert len(notes[0]) == 2 and all("the other direction: " in note and "cut after 2" in note for note in notes[0])
    assert notes[1] == []


def test_log_probabilities_are_step_by_step():
    """Piece t is scored from the begin mark and the pieces before it; row t of the alignment is of that very step."""
    for order in ("luong", "bahdanau"):
        translator = made(order=order)
        [reading] = translator.score([PAIRS[0][0]], [PAIRS[0][1]])
        assert reading.length == len(reading.tokens) == len(reading.log_probabilities)
        ids = [*translator.target.encode(PAIRS[0][1]).ids, 3]
        source = torch.tensor([[*translator.source.encode(PAIRS[0][0]).ids, 3]])
        with torch.no_grad():
            decoder = translator.model.decoder
            state = decoder.start(translator.model.encode(source, torch.tensor([source.shape[1]])), 1)
            for place, (given, wanted) in enumerate(zip([2, *ids[:-1]], ids, strict=True)):
                step = decoder.step(state, torch.tensor([[given]]))
                state = step.state
                expected = step.logits[0, -1].log_softmax(-1)[wanted]
                assert reading.log_probabilities[place] == pytest.approx(float(expected), abs=1e-5)
                torch.testing.assert_close(
                    reading.alignment[place], step.attended["source"].weights[0, -1], atol=1e-6, rtol=0
                )


def test_probabilities_of_all_next_tokens_sum_to_1():
    translator = made("characters")
    every = [translator.target.token(number) for number in range(4, len(translator.target))]
    whole = math.fsum(math.exp(one.log_probabilities[0]) for one in translator.score(["un"] * len(every), every)
                      if one.target.ids)  # fmt: skip
    ended = math.exp(translator.score(["un"], [""])[0].log_probability)
    # What is left is for the space (no text begins with one), padding, unknown and begin.
    assert 0.5 < whole + ended < 1


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_neither_batch_nor_order_change_a_reading_B24(batch):
    translator = made()
    alone = [translator.score([source], [target])[0] for source, target in PAIRS]
    together = translator.score(*zip(*PAIRS, strict=True), batch=batch)
    for one, other in zip(alone, together, strict=True):
        assert one.tokens == other.tokens
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)
        torch.testing.assert_close(one.alignment, other.alignment, atol=1e-6, rtol=0)


def test_readings_come_while_pairs_are_read():
    """No more than the chunk is taken before the first reading comes: constant memory, whatever the file's length."""
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "un", "accord"

    readings = made().readings(endless(), batch=2, chunk=3)
    assert [next(readings).source.line for _ in range(4)] == [1, 2, 3, 4]
    assert len(taken) == 6


@pytest.mark.parametrize(
    "text, words, of",
    [
        ("l' accord .", ["l'", "accord", "."], [0, 0, 1, 2]),
        ("aujourd'hui,  un", ["aujourd'hui,", "un"], [0, 0, 0, 0, 1]),
        ("\u3000经济区 ok\u00a0？", ["经济区", "ok", "？"], [0, 0, 0, 1, 2]),
        ("👩‍👩‍👧 e\u0301te\u0301 \u0301x", ["👩‍👩‍👧", "été", "\u0301x"], [0, 1, 2]),
        ("", [], []),
        (" \t", [], []),
    ],
)
def test_words_between_white_space(text, words, of):
    assert split_words(text, "whitespace") == words
    assert whitespace_words(text) == of
    assert len(split_words(text, "tokenizer")) == len(of)


def test_every_unit_is_in_the_word_that_holds_it():
    """Any text: as many words as Python's split has, and the units of a word, put together, are the word."""
    alphabet = "a é\u0301 '.\u00a0中の👩\u200d👧\u2028-—\u200b\u0301ﬁ\x1c\x85９\tİ"
    state = 7
    for _ in range(500):
        text = ""
        for _ in range(state % 19):
            state = (state * 1103515245 + 12345) % 2**31
            text += alphabet[(state >> 8) % len(alphabet)]
        state = (state * 1103515245 + 12345) % 2**31
        words = split_words(text, "whitespace")
        put_together = [""] * len(words)
        for unit, word in zip(split_words(text, "tokenizer"), whitespace_words(text), strict=True):
            put_together[word] += unit
        assert put_together == words, repr(text)
        assert all(not unit.text.isspace() for unit in units(text))


def test_tokens_are_merged_to_either_kind_of_word():
    translator = made("words")
    [reading] = translator.score(["l'accord sur"], ["it's on"])
    units_ = translator.shown(reading)
    spaced = translator.shown(reading, "whitespace")
    assert units_.source_words == ["l", "'", "accord", "sur"] and units_.target_words == ["it", "'", "s", "on"]
    assert spaced.source_words == ["l'accord", "sur"] and spaced.target_words == ["it's", "on"]
    weights = reading.alignment
    merged = torch.stack([weights[:3].mean(0), weights[3]])  # a mean over a target word's pieces
    merged = torch.stack([merged[:, :3].sum(1), merged[:, 3]], dim=1)  # a sum over a source word's
    torch.testing.assert_close(spaced.between_words(), merged)
    torch.testing.assert_close(units_.between_words(), weights[:4, :4])


def test_two_directions_are_turned_the_same_way():
    forward, backward = made(), made(seed=1)
    several = list(align(forward, PAIRS, backward=backward, counted="tokenizer", batch=2))
    for one, (source, target) in zip(several, PAIRS, strict=True):
        assert one.source_words == split_words(source, "tokenizer")
        assert one.weights.shape == (len(one.target_words), len(one.source_words))
        alone = backward.shown(backward.score([target], [source])[0]).links()
        assert one.backward == {(there, here) for here, there in alone}
        if source and target:
            assert {target for _, target in one.forward} == set(range(len(one.target_words)))
            assert {source for source, _ in one.backward} == set(range(len(one.source_words)))
        assert one.links("intersection") <= one.links("grow-diag-final") <= one.links("union")
        assert one.links(None) == one.forward
    many = next(align(forward, PAIRS[:1], threshold=0.0))
    assert many.forward == {(source, target) for source in range(2) for target in range(3)} and many.backward is None
    with pytest.raises(RegardError, match="without attention"):
        next(align(forward, PAIRS, backward=made(attention="none")))


def test_error_rates_by_hand():
    """Two words each side; sure 0-0 and 1-1, possible 0-1 too. Forward 0-0 0-1: AER 1 − (1 + 2) / (2 + 2)."""

    def aligned(forward, backward):
        return Aligned(["a", "b"], ["x", "y"], torch.zeros(2, 2), frozenset(forward), frozenset(backward), [])

    gold = Pair("a b", "x y", "f", 1, frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (0, 1)}))
    scores = measure([aligned({(0, 0), (0, 1)}, {(0, 0), (1, 0)})], [gold])
    assert scores["forward"] == pytest.approx((0.25, 1.0, 0.5, 2, 2))
    assert scores["backward"] == pytest.approx((0.5, 0.5, 0.5, 2, 2))
    assert scores["intersection"] == pytest.approx((1 - 2 / 3, 1.0, 0.5, 1, 2))
    assert scores["union"] == pytest.approx((0.4, 2 / 3, 0.5, 3, 2))
    assert scores["diagonal"] == (0.0, 1.0, 1.0, 2, 2)
    assert "uniform" in scores and "grow-diag-final-and" in scores


@pytest.mark.parametrize("model", [{}, {"order": "bahdanau"}])
def test_posteriors_reach_the_links_and_the_picture(model):
    """Texts in, posteriors out: those of the model (tests/models), each row summing to 1, padding left out."""
    translator = made(**model)
    plain, known = (list(translator.readings(PAIRS, batch=2, posterior=way)) for way in (False, True))
    for before, after in zip(plain, known, strict=True):
        assert before.alignment.shape == after.alignment.shape
        torch.testing.assert_close(after.alignment.sum(-1), torch.ones(len(after.alignment)))
        assert before.log_probabilities == after.log_probabilities
    aligned = list(align(translator, PAIRS[:1], posterior=True))
    weights = translator.shown(known[0], "whitespace").between_words()
    torch.testing.assert_close(aligned[0].weights, weights)
    view = translator.view("l'accord sur", "the agreement on", units="words", posterior=True, language="zh")
    assert [matrix.title for matrix in view.matrices] == [
        "l'accord sur → the agreement on",
        "知道这个词之后再判断：它来自何处",
    ]
    assert view.matrices[1].values == pytest.approx(translator.shown(known[0]).between_words().numpy(), abs=1e-6)


def test_several_runs_as_one_have_no_posterior():
    one = made()
    both = TranslationPredictor(EnsembleModel([one.model, one.model]), one.parts, one.settings)
    with pytest.raises(RegardError, match="one run"):
        list(both.readings(PAIRS, posterior=True))
