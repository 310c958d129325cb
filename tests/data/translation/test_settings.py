import pytest
from pydantic import ValidationError

from regard.data.synthetic.settings import PhraseSettings
from regard.data.translation.settings import CorpusSettings, DataSettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "a.txt"}, "`source` is given without `target`"),
        ({"target": "a.txt"}, "`target` is given without `source`"),
        ({"tsv": "a", "jsonl": "b"}, "given are `tsv` and `jsonl`"),
        ({"tsv": "a", "validation": {}}, "`validation` names no files"),
        ({"tsv": "a", "validation": {"tsv": "b"}, "held_out": 5}, "`held_out` takes pairs"),
        ({"tsv": "a", "tokenizer": "sentencepiece"}, "sentencepiece_model=FILE.model"),
        ({"tsv": "a", "sentencepiece_model": "m"}, "tokenizer=bpe"),
        ({"tsv": "a", "vocabulry_size": 5}, "Extra inputs"),
        ({"jsonl": "a", "links": "b"}, "`links` stand beside source and target, or tsv"),
        ({"tsv": "a", "links": "b", "links_from": 2}, "less than or equal to 1"),
        ({"phrases": {"source": "fr", "target": "fr"}}, "both 'fr'"),
        ({"phrases": {}, "reversal": {}}, "given are `phrases` and `reversal`"),
        ({"reversal": {"shortest": 7, "longest": 5}}, "shortest (7) is more than longest (5)"),
        ({"source": "a", "target": "b", "columns": [2, 1]}, "`columns` describe a `tsv`"),
        ({"tsv": "a", "columns": [3, 3]}, "`columns` name column 3 twice"),
        ({"tsv": "a", "columns": [0, 1]}, "greater than 0"),
        ({"tsv": "a", "joined": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_do_not_fit_say_so(given, message):
    with pytest.raises(ValidationError) as caught:
        DataSettings(**given)
    assert message in str(caught.value)


def test_settings_survive_json():
    made = DataSettings(phrases=PhraseSettings(target="zh"), tokenizer="words", validation=CorpusSettings(tsv="b.tsv"))
    assert DataSettings.model_validate_json(made.model_dump_json()) == made
    assert made.given
    assert not DataSettings().given
