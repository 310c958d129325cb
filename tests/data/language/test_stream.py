"""Running text: streams, windows, evaluation segments."""

import numpy as np
import pytest
import torch

from regard.data.chance import Chance
from regard.data.language.stream import TokenStream, WindowBatches, evaluation_segments
from regard.data.text.documents import Line
from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import DataError
from regard.vocabulary import BEGIN, END, PADDING, UNKNOWN


def test_a_line_end_is_a_piece_and_unknown_words_are_counted():
    tokenizer = train_tokenizer("words", ["a b", "", "b a"], 6)
    stream = TokenStream.of(["a b", "", "a zork"], tokenizer)
    [a, b] = tokenizer.encode("a b").ids
    assert stream.ids.tolist() == [a, b, END, END, a, UNKNOWN, END]
    assert stream.unknown == 1 and stream.start_id == END


def test_a_document_ends_with_a_mark_and_the_front_of_a_split_line_has_no_end():
    tokenizer = train_tokenizer("words", ["a b"], 6)
    [a, b] = tokenizer.encode("a b").ids
    lines = [Line("a", first=True), Line("b"), Line("b a", first=True, ends=False)]
    marked = TokenStream.of(lines, tokenizer, borders=True)
    assert marked.ids.tolist() == [a, END, b, END, BEGIN, b, a, BEGIN] and marked.start_id == BEGIN
    assert TokenStream.of(lines, tokenizer).ids.tolist() == [a, END, b, END, b, a]
    assert marked.ids.dtype == np.uint16


def test_windows_of_an_epoch_follow_each_other_and_move_with_the_epoch():
    ids, firsts = list(range(100, 153)), set()
    batches = WindowBatches(ids, window=5, batch=3, seed=1)
    for epoch in range(20):
        plan = list(batches.plan(epoch))
        starts = sorted(at for batch in plan for at in batch)
        assert all(after - before == 5 for before, after in zip(starts, starts[1:], strict=False))
        assert 9 <= len(starts) <= 10 and starts[0] < 5
        assert plan == list(WindowBatches(ids, window=5, batch=3, seed=1).plan(epoch))
        firsts.add(starts[0])
    assert len(firsts) > 2
    batch = batches.load([0, 47])
    assert batch.ids.tolist() == [ids[:6], ids[47:53]]
    assert len(batch) == 2 and batch.to(torch.device("cpu")).ids.shape == (2, 6)


def test_a_plan_is_a_list_of_lists_that_is_not_held_as_one():
    plan = WindowBatches(range(100, 153), window=5, batch=3).plan(0)
    whole = [plan[at] for at in range(len(plan))]
    assert plan[1:3] == whole[1:3] and plan[-1] == whole[-1] and list(plan) == whole
    assert {len(batch) for batch in whole[:-1]} == {3} and all(type(at) is int for at in whole[0])
    with pytest.raises(IndexError):
        plan[len(plan)]


def test_an_order_of_places_is_that_of_a_shuffled_list():
    for seed in range(3):
        places = Chance("x", seed).order(53)
        assert places.tolist() == Chance("x", seed).shuffled(range(53))


def test_a_text_shorter_than_a_window_is_one_window():
    batches = WindowBatches([5, 6, 7], window=64, batch=8)
    assert list(batches.plan(0)) == [[0]] and batches.load([0]).ids.tolist() == [[5, 6, 7]]
    with pytest.raises(DataError, match="no next one"):
        WindowBatches([5], window=64, batch=8)


def test_documents_of_a_window_are_numbered_from_their_marks():
    batch = WindowBatches([7, 8, END, BEGIN, 9, BEGIN, 7, 7], window=7, batch=1).load([0])
    assert batch.documents.tolist() == [[0, 0, 0, 1, 1, 2, 2, 2]]


@pytest.mark.parametrize(("length", "window"), [(4, 3), (4, 4), (64, 2), (1, 1), (13, 100)])
def test_segments_have_every_token_once_from_the_one_before_it(length, window):
    ids, told, row = list(range(10, 23)), {}, 0
    for part in evaluation_segments(TokenStream(np.array(ids), 0), length, window, ignored=-1):
        for row, (read, wanted) in enumerate(zip(part.inputs.tolist(), part.targets.tolist(), strict=True)):
            for place, (before, one) in enumerate(zip(read, wanted, strict=True)):
                if one != -1:
                    told[row * min(length, 64) + part.start + place] = (before, one)
    assert [told[at] for at in range(13)] == list(zip([END, *ids], ids, strict=False))


def test_segments_of_documents_begin_with_each():
    """K5: what stands before a border is not read; a long document is cut, and its parts begin afresh."""
    ids = np.array([7, END, BEGIN, 8, 9, 10, END, BEGIN, 6, BEGIN])
    [part] = evaluation_segments(TokenStream(ids, 0, borders=True), 3, 8, ignored=-1, by_document=True)
    rows = sorted(zip(part.inputs.tolist(), part.targets.tolist(), strict=True))
    assert rows == [
        ([BEGIN, 6, PADDING], [6, BEGIN, -1]),
        ([BEGIN, 7, END], [7, END, BEGIN]),
        ([BEGIN, 8, 9], [8, 9, 10]),
        ([10, END, PADDING], [END, BEGIN, -1]),
    ]


def test_many_rows_are_read_in_several_groups():
    ids = np.arange(10, 10 + 70_000) % 60_000 + 10
    parts = list(evaluation_segments(TokenStream(ids, 0), 1000, 1000, ignored=-1))
    assert len(parts) > 1 and {part.start for part in parts} == {0}
    told = torch.cat([part.targets.flatten() for part in parts])
    assert told[told != -1].tolist() == ids.tolist()
