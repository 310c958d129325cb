"""The textbook's translator and the reversed digits: what their recipes say is what they are."""

from regard.data.text.lines import iterate_lines
from regard.data.translation.corpus import read_corpus
from regard.data.translation.settings import CorpusSettings
from regard.tasks.core.config import check
from regard.tasks.experiments.experiment import locate, resolved
from regard.tasks.experiments.ledger import find
from regard.tasks.translation.settings import TranslationSettings
from tests.shared import SHARED, needs_shared


def settings(name, folder=None):
    return check(TranslationSettings, resolved(find(name).config, folder))


def test_w18_the_sizes_of_the_encyclopaedias_translator():
    made = settings("textbook-en-fr", SHARED)
    model = made.model
    assert (model.embedding_dim, model.readout_dim, model.state_dim, 2 * model.encoder_dim) == (300, 500, 500, 500)
    assert (made.data.vocabulary_size, made.data.shared_vocabulary) == (10_000, False)
    assert made.data.max_length == 100  # source slots


@needs_shared
def test_the_textbooks_sentences_lie_in_an_archive():
    folder = SHARED / "data" / "tatoeba"
    locate(find("textbook-en-fr"), folder)  # checks the archive's sha256
    path = settings("textbook-en-fr", folder).data.tsv
    assert next(iterate_lines(path)) == "Go.\tVa !"


def test_digits_that_test_are_never_trained_on():
    data = settings("reverse-digits").data
    tested = check(CorpusSettings, find("reverse-digits").evaluate)
    small = [
        origin.reversal.model_copy(update={"count": 80, "longest": 2}) for origin in (data, data.validation, tested)
    ]
    small = [small[0], *(one.model_copy(update={"count": 11}) for one in small[1:])]  # all there are of two digits
    train, validation, test = ({pair.source for pair in read_corpus(CorpusSettings(reversal=one))} for one in small)
    assert not train & validation and not train & test and not validation & test
    assert tested.reversal.count == 1000 and (tested.reversal.shortest, tested.reversal.longest) == (1, 25)
