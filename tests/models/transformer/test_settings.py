import subprocess
import sys

import pytest
from pydantic import ValidationError

from regard.errors import ConfigError
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.text.classifier_settings import TransformerClassifierSettings
from regard.models.text.masked_settings import MaskedModelSettings
from regard.models.text.tagger_settings import TaggerSettings
from regard.tasks.core.config import check


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"order": "bahdanau", "input_feeding": True}, "belongs to order: luong"),
        ({"coverage": True}, "location_aware uses coverage.*'additive'"),
        ({"attention": "none", "window": "local-m"}, "no window and no input_feeding"),
        ({"attention": "none", "input_feeding": True}, "no window and no input_feeding"),
        ({"tied": "target", "readout_dim": 13}, r"embedding_dim \(256\) or left out; it is 13"),
        ({"dropout": 1.0}, "less than 1"),
        ({"teacher_forcing": 1.5}, "less than or equal to 1"),
        ({"radius": 0}, "greater than 0"),
        ({"cel": "gru"}, "cel"),
    ],
)
def test_choices_that_do_not_fit(chosen, says):
    with pytest.raises(ValidationError, match=f"(?s){says}"):
        RecurrentSettings(**chosen)


def test_every_setting_is_described():
    assert all(field.description for field in RecurrentSettings.model_fields.values())


def test_reading_settings_does_not_load_torch():
    code = "import sys; import regard.models.seq2seq.settings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("kind", [TaggerSettings, TransformerClassifierSettings, MaskedModelSettings])
def test_runs_of_earlier_versions_are_read_where_they_ask_for_nothing(kind):
    """They held `window: null` and `scale_embedding: false` in every building."""
    old = {"kind": "transformer", "dim": 8, "heads": 2, "position": "rotary", "window": None, "scale_embedding": False}
    settings = check(kind, old)
    assert settings.dim == 8 and "window" not in settings.model_dump()
    with pytest.raises(ConfigError, match="window: no such setting"):
        check(kind, {**old, "window": 3})


@pytest.mark.parametrize("position", [{}, {"position": "sinusoidal"}])
def test_a_run_that_would_be_read_wrongly_is_refused_in_words(position):
    with pytest.raises(
        ConfigError, match="of an earlier version, .*; this one does, and would read them wrongly. Train"
    ):
        check(TaggerSettings, {"kind": "transformer", "dim": 8, "window": None, "scale_embedding": False, **position})
    assert check(MaskedModelSettings, {"kind": "transformer", "scale_embedding": False, **position}).scales is False
