"""Running text: parts, streams, windows, stretches."""

import pytest
import torch

from regard.data.stream import Stream, WindowBatches, read_parts, stretches
from regard.data.stream_settings import LanguageData
from regard.data.tokenizers import train_tokenizer
from regard.data.vocabulary import END, UNKNOWN
from regard.errors import ConfigError, DataError


def test_the_last_lines_are_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(10)))
    training, validation, test = read_parts(LanguageData(text=path, validation_share=0.2, test_share=0.1))
    assert [len(training), validation, test] == [7, ["line 7", "line 8"], ["line 9"]]
    other = tmp_path / "b.txt"
    other.write_text("\ufeffother\n", encoding="utf-8")
    training, validation, test = read_parts(LanguageData(text=[path, other], validation=other, test=other))
    assert (len(training), validation, test) == (11, ["other"], ["other"])


def test_a_text_that_is_too_short_is_told(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one line\n")
    with pytest.raises(DataError, match="to validate on are none or blank"):
        read_parts(LanguageData(text=path))
    path.write_text("")
    with pytest.raises(DataError, match="has 0 lines"):
        read_parts(LanguageData(text=path))
    with pytest.raises(ConfigError, match="no text is named"):
        read_parts(LanguageData())
    with pytest.raises(DataError, match="no such file"):
        read_parts(LanguageData(text=tmp_path / "none.txt"))


def test_a_line_end_is_a_piece_and_unknown_words_are_counted():
    tokenizer = train_tokenizer("words", ["a b", "", "b a"], 6)
    stream = Stream.of(["a b", "", "a zork"], tokenizer)
    [a, b] = tokenizer.encode("a b").ids
    assert stream.ids == [a, b, END, END, a, UNKNOWN, END]
    assert stream.unknown == 1


def test_windows_of_an_epoch_follow_each_other_and_move_with_the_epoch():
    ids, firsts = list(range(100, 153)), set()
    batches = WindowBatches(ids, window=5, batch=3, seed=1)
    for epoch in range(20):
        plan = batches.plan(epoch)
        starts = sorted(at for batch in plan for at in batch)
        assert all(after - before == 5 for before, after in zip(starts, starts[1:], strict=False))
        assert 9 <= len(starts) <= 10 and starts[0] < 5
        assert plan == WindowBatches(ids, window=5, batch=3, seed=1).plan(epoch)
        firsts.add(starts[0])
    assert len(firsts) > 2
    batch = batches.load([0, 47])
    assert batch.ids.tolist() == [ids[:6], ids[47:53]]
    assert len(batch) == 2 and batch.to(torch.device("cpu")).ids.shape == (2, 6)


def test_a_text_shorter_than_a_window_is_one_window():
    batches = WindowBatches([5, 6, 7], window=64, batch=8)
    assert batches.plan(0) == [[0]] and batches.load([0]).ids.tolist() == [[5, 6, 7]]
    with pytest.raises(DataError, match="no next one"):
        WindowBatches([5], window=64, batch=8)


@pytest.mark.parametrize(("length", "window"), [(4, 3), (4, 4), (64, 2), (1, 1), (13, 100)])
def test_stretches_tell_every_piece_once_from_the_one_before_it(length, window):
    ids, told = list(range(10, 23)), {}
    for part in stretches(ids, length, window, ignored=-1):
        for row, (read, wanted) in enumerate(zip(part.read.tolist(), part.told.tolist(), strict=True)):
            for place, (before, one) in enumerate(zip(read, wanted, strict=True)):
                if one != -1:
                    told[row * min(length, 64) + part.first + place] = (before, one)
    assert [told[at] for at in range(13)] == list(zip([END, *ids], ids, strict=False))
