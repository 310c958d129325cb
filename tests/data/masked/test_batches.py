"""Masked text: which tokens are masked and how, windows, and the standard library."""

import pytest
import torch
from pydantic import ValidationError

from regard.data.masked.batches import MaskedBatches, mask_tokens, read_text, token_stream
from regard.data.masked.settings import MaskedData, Masking
from regard.data.text.standard_library import standard_library
from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import ConfigError, DataError
from regard.vocabulary import BEGIN, END, PADDING, UNKNOWN

MASK = 23  # with a vocabulary of 23


def test_each_draw_decides_as_it_says():
    """Predicted below .15; of these masked below .8, replaced below .9, else kept; never an unknown or special one."""
    ids = torch.tensor([7, 7, 7, 7, 7, UNKNOWN, PADDING, BEGIN, END, 7])
    draws = torch.tensor(
        [
            [0.1499, 0.15, 0.0, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.9],
            [0.7999, 0.0, 0.8, 0.8999, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, 0.5, 0.0, 0.9999, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        ]
    )
    inputs, predicted = mask_tokens(ids, Masking(), MASK, draws)
    # The third is replaced by the first entry after the special ones, the fourth by the last of the vocabulary.
    assert inputs.tolist() == [MASK, 7, 4, 22, 7, UNKNOWN, PADDING, BEGIN, MASK, 7]
    assert predicted.tolist() == [True, False, True, True, True, False, False, False, True, False]


def test_of_many_tokens_15_in_100_are_predicted_80_10_10():
    """Devlin et al. 2019, section 3.1; a replaced token is by chance itself in 1 of 19."""
    stream = torch.full((64_000,), 7)
    batches = MaskedBatches(stream, 64, 1000, Masking(), MASK, seed=1)
    batch = batches.load(batches.plan(0)[0])
    predicted, count = batch.predicted, int(batch.predicted.sum())
    masked, left = int((batch.ids == MASK).sum()), int((batch.ids[predicted] == 7).sum())
    assert count / batch.ids.numel() == pytest.approx(0.15, abs=0.006)
    assert masked / count == pytest.approx(0.8, abs=0.015)
    assert left / count == pytest.approx(0.1 + 0.1 / 19, abs=0.012)
    assert (batch.ids[~predicted] == 7).all() and (batch.targets == 7).all() and len(batch.targets) == count


def test_gaps_are_new_each_epoch_and_the_same_for_a_resumed_run():
    stream = torch.arange(4, 23).repeat(30)
    batches, again = (MaskedBatches(stream, 17, 5, Masking(), MASK, seed=3) for _ in range(2))
    first, second = batches.plan(0), batches.plan(1)
    assert first == again.plan(0) and not {n for b in first for n in b} & {n for b in second for n in b}
    for plan in (first, second):
        starts = sorted(number % len(stream) for batch in plan for number in batch)
        assert all(other - one == 17 for one, other in zip(starts, starts[1:], strict=False))  # no token twice
        assert len(starts) >= len(stream) // 17 - 1
    # A window is masked the same alone as beside others: several processes may share a batch.
    whole, alone = batches.load(first[0]), again.load(first[0][1:2])
    assert torch.equal(whole.ids[1], alone.ids[0]) and torch.equal(whole.predicted[1], alone.predicted[0])
    other = MaskedBatches(stream, 17, 5, Masking(), MASK, seed=4)
    assert not torch.equal(other.load(first[0]).predicted, whole.predicted)


@pytest.mark.parametrize("length", [2, 17, 18, 19, 90, 171])
def test_an_evaluation_reads_each_piece_once_in_order(length):
    stream = torch.arange(length) + 4
    batches = MaskedBatches(stream, 17, 5, Masking(share=0.5, masked=1.0, replaced=0.0), 500, seed=0)
    whole = batches.whole()
    read = []
    for batch in whole:
        ids = batch.ids.clone()
        assert (ids[batch.predicted] == 500).all()  # masked, all of them
        ids[batch.predicted] = batch.targets
        read += ids.flatten().tolist()
    # A last window of one token has nothing to predict it from.
    assert read == stream[: length - (length % 17 == 1)].tolist()
    if length == 2:
        assert len(whole) == 1 and whole[0].ids.shape == (1, 2)
    again = batches.whole()
    assert all(torch.equal(one.predicted, other.predicted) for one, other in zip(whole, again, strict=True))


def test_too_little_to_mask():
    with pytest.raises(DataError, match="too short"):
        MaskedBatches(torch.tensor([4]), 5, 1, Masking(), MASK, 0)
    with pytest.raises(DataError, match="nothing to predict"):
        MaskedBatches(torch.tensor([1, 1]), 5, 1, Masking(), 4, 0)


def test_parts_of_a_file_are_its_last_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n\n" for number in range(20)), encoding="utf-8")
    parts = read_text(MaskedData(text=path, validation_share=0.1, test_share=0.2))
    assert [len(parts[name]) for name in ("training", "validation", "test")] == [14, 2, 4]
    assert parts["test"] == [f"line {number}" for number in range(16, 20)]
    tokenizer = train_tokenizer("words", parts["training"], 9)
    stream = token_stream(["line 0", "line x"], tokenizer)
    line = tokenizer.encode("line").ids[0]
    assert stream.tolist() == [END, line, tokenizer.encode("line 0").ids[1], END, line, UNKNOWN, END]
    with pytest.raises(DataError, match="no line of it is for validation"):
        read_text(MaskedData(text=path, validation_share=0.001))
    with pytest.raises(ConfigError, match="no text is named"):
        read_text(MaskedData())
    with pytest.raises(ValidationError, match="choose one origin"):
        MaskedData(text=path, standard_library=True)
    with pytest.raises(ValidationError, match="parts of one whole"):
        Masking(masked=0.8, replaced=0.3)


def test_the_standard_library_is_found_and_its_tests_are_left_out(tmp_path):
    first = next(standard_library())
    assert first.name == "__future__.py" and any("all_feature_names" in line for line in first.lines)
    sources = {"a.py": b"x = 1\n", "b.py": "# -*- coding: latin-1 -*-\ns = 'é'\n".encode("latin-1"), "test/c.py": b"y"}
    for name, content in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = list(standard_library(tmp_path))
    assert [source.name for source in found] == ["a.py", "b.py"]
    assert found[1].lines[1] == "s = 'é'"  # by its own mark of the encoding
    (tmp_path / "d.py").write_bytes(b"\xff")
    with pytest.raises(DataError, match="d.py cannot be read"):
        list(standard_library(tmp_path))
    with pytest.raises(DataError, match="no source of a standard library"):
        list(standard_library(tmp_path / "test" / "none"))
