"""Lines with gaps as a model reads them, whatever the tokenizer."""

import pytest

from regard.data.tokenizers.factory import train_tokenizer
from regard.models.text.masked import MaskedLanguageModel
from regard.models.text.masked_settings import MaskedModelSettings
from regard.tasks.masked.predictor import MASK, MaskedPredictor
from regard.tasks.masked.settings import MaskedSettings
from regard.vocabulary import END


@pytest.fixture(params=["words", "characters", "bpe"])
def filler(request):
    tokenizer = train_tokenizer(request.param, ["the cat sat on the mat"] * 3, 31)
    model = MaskedLanguageModel(MaskedModelSettings(dim=4, heads=1, layers=1), len(tokenizer))
    return MaskedPredictor(model, tokenizer, MaskedSettings())


def test_a_gap_is_one_token_in_the_place_of_one(filler):
    """What is hidden in training is a piece; a gap of a text stands for one, with the space that belongs to it."""
    whole = filler.tokenizer.encode("the cat sat" if filler.tokenizer.kind != "characters" else "the c sat").ids
    line = filler.read(f"the {MASK} sat")
    [gap] = line.gaps
    assert line.ids[gap] == filler.model.mask == len(filler.tokenizer) and line.tokens[gap] == MASK
    assert len(line.ids) == len(whole) + 2 and line.ids[0] == line.ids[-1] == END
    assert line.ids[1:gap] == whole[: gap - 1] and line.ids[gap + 1 : -1] == whole[gap:]


GAPS = [MASK, MASK * 2, f"{MASK}\u0301 {MASK}\u200d", f"\ue000{MASK}\ue001", f" the {MASK}\t"]


@pytest.mark.parametrize("text", GAPS)
def test_every_gap_is_filled_wherever_it_stands(filler, text):
    [filled] = filler.fill([text], top=2)
    assert len(filled.gaps) == text.count(MASK) and MASK not in filled.filled
    rest = text.split(MASK)
    assert filled.filled.startswith(rest[0]) and filled.filled.endswith(rest[-1])
