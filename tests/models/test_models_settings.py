import subprocess
import sys

import pytest
from pydantic import ValidationError

from regard.models.settings import RecurrentSettings


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"order": "bahdanau", "input_feeding": True}, "belongs to order: luong"),
        ({"coverage": True}, "location_aware only.*'additive'"),
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
    code = "import sys; import regard.models.settings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
