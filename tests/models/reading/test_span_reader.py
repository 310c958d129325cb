"""The reader that points: a distribution over spans, the likeliest of them found exactly, and the loss written out."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from regard.data.reading.question_batches import EncodedQuestion, QuestionBatch
from regard.models.reading.span_reader import SpanReader, point
from regard.models.reading.span_settings import SpanReaderSettings

FEATURES, LONGEST = 13, 3


def reader(nothing=True, **more):
    torch.manual_seed(0)
    settings = SpanReaderSettings(kind="span", width=6, heads=3, rounds=2, longest=LONGEST, dropout=0.3, **more)
    model = SpanReader(settings, FEATURES, 1, nothing)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that pointers are not all alike
    return model.eval()


def encoded(words, asked, spans=()):
    one = torch.Generator().manual_seed(17 * words + asked)
    text, question = (
        [[int(torch.randint(1, FEATURES, (), generator=one)), 3] for _ in range(count)] for count in (words, asked)
    )
    return EncodedQuestion(text, question, [place % 2 for place in range(words)], list(spans))


def probabilities(model, batch):
    """p(start, end), `(batch, places, places)`, from the two pointers."""
    read = model.read(batch)
    places = read.open.shape[1]
    every = torch.arange(places).expand(len(batch), -1)
    return model.starts(read).weights.transpose(1, 2) * model.ends(read, every).weights


@pytest.mark.parametrize("nothing", [True, False])
def test_spans_have_a_distribution_and_no_end_before_the_start(nothing):
    model, lengths = reader(nothing), (7, 2, 5)
    table = probabilities(model, QuestionBatch.of([encoded(words, 3) for words in lengths])).detach()
    assert_close(table.sum((1, 2)), torch.ones(3))
    for row, words in enumerate(lengths):
        for start, end in itertools.product(range(8), range(8)):
            within = 1 <= start <= end < start + LONGEST and end <= words
            may = within or (nothing and start == end == 0)
            assert (float(table[row, start, end]) > 0) == may, (row, start, end)


@pytest.mark.parametrize("beam", [1, 2, 5, 100])
def test_the_likeliest_span_is_found_whatever_the_beam_k7(beam):
    for seed in range(2):
        model = reader()
        torch.manual_seed(seed)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
        batch = QuestionBatch.of([encoded(words + seed, 2) for words in (11, 1, 7)])
        with torch.no_grad():
            table = probabilities(model, batch).flatten(1)
            found = point(model, model.read(batch), beam)
        best = table.argmax(-1)
        places = batch.text.shape[1] + 1
        assert (found.first * places + found.last).tolist() == best.tolist()
        assert_close(found.log_probability.exp(), table.max(-1).values)
        assert_close(found.nothing, table[:, 0])


def test_b21_b22_batch_mates_and_padding_change_nothing_k6():
    model = reader()
    several = [encoded(words, asked) for words, asked in ((4, 5), (11, 2), (1, 1))]
    together = point(model, model.read(QuestionBatch.of(several)))
    for row, one in enumerate(several):
        alone = point(model, model.read(QuestionBatch.of([one])))
        assert (int(alone.first), int(alone.last)) == (int(together.first[row]), int(together.last[row]))
        places = len(one.text) + 1
        assert_close(alone.starts[0], together.starts[row, :places], rtol=1e-5, atol=1e-6)
        assert not together.starts[row, places:].any()
    batch = QuestionBatch.of(several)
    batch.text[2, 1:], batch.question[2, 1:], batch.in_question[2, 1:] = (
        5,
        7,
        1,
    )  # what is behind the end may be anything
    assert_close(point(model, model.read(batch)).starts, together.starts, rtol=1e-5, atol=1e-6)


def test_the_loss_is_that_of_all_given_answers_together():
    model = reader()
    told = [encoded(7, 3, [(2, 3), (5, 5), (1, 3)]), encoded(4, 2, [(0, 0)]), encoded(5, 3)]
    batch = QuestionBatch.of(told)
    table = probabilities(model, batch)
    given = table[0, 2, 3] + table[0, 5, 5] + table[0, 1, 3]
    expected = -(given.log() + table[1, 0, 0].log())
    found = model.loss(batch)
    assert_close(found.total, expected)
    assert int(found.count) == 2  # of the third nothing is told
    alone = [model.loss(QuestionBatch.of([one])) for one in told]
    assert_close(sum(one.total for one in alone), expected)
    found.total.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model.words.weight.grad[2:].any() and model.end.score.query_weight.grad.any()


def test_a_question_is_correct_if_start_and_end_are():
    model = reader(nothing=False)
    table = probabilities(model, QuestionBatch.of([encoded(7, 3)]))[0]
    start = int(table.sum(1).argmax())
    end = int(table[start].argmax())
    other = (start, next(place for place in range(start, start + LONGEST) if place != end))
    for spans, right in ([(start, end)], 1), ([other], 0), ([other, (start, end)], 1):
        assert int(model.loss(QuestionBatch.of([encoded(7, 3, spans)])).correct) == right


def test_dropped_words_are_unknown_in_training_alone():
    model = reader(word_dropout=0.99)
    ids = torch.tensor([[[5, 3], [7, 3], [0, 0]]])
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        hidden = model._embedded(ids)
    assert_close(hidden[0, 0], model.words.weight[1] + model.words.weight[3])
    assert not hidden[0, 2].any()  # padding stays nothing
    assert_close(model.eval()._embedded(ids)[0, 0], model.words.weight[5] + model.words.weight[3])


def test_it_learns_where_answers_stand():
    """Eight texts of five words: the loss of an answer falls from that of a guess to nearly nothing."""
    torch.manual_seed(0)
    model = SpanReader(SpanReaderSettings(kind="span", width=20, longest=3, dropout=0), FEATURES, 1, True)
    answers = [(0, 0), (1, 1), (2, 4), (3, 3), (4, 5), (5, 5), (1, 2), (2, 2)]
    batch = QuestionBatch.of([encoded(5, 1 + at, [span]) for at, span in enumerate(answers)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(20):
        told = model.loss(batch)
        losses.append(float(told.total.detach() / told.count))
        optimizer.zero_grad()
        told.total.backward()
        optimizer.step()
    assert losses[0] > 2 and losses[-1] < 0.5
