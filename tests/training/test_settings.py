import subprocess
import sys

import pytest
from pydantic import ValidationError

from regard.training.settings import CHANGEABLE, UNBOUNDED_EPOCHS, TrainingSettings


def test_a_run_always_ends():
    assert TrainingSettings().epochs == UNBOUNDED_EPOCHS == 20
    assert TrainingSettings(steps=None).epochs == 20
    assert TrainingSettings(minutes=3).epochs is None
    assert TrainingSettings(steps=7).epochs is None


def test_settings_survive_a_file():
    settings = TrainingSettings(minutes=3, clip=None, learning_rate=0.1 + 0.2)
    assert TrainingSettings(**settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"learnin_rate": 1},
        {"steps": 0},
        {"learning_rate": float("inf")},
        {"beta2": 1.0},
        {"decay": "cosin"},
        {"better": "high"},
        {"keep": 0},
        {"floor": 1.1},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        TrainingSettings(**wrong)


def test_every_setting_is_described():
    assert all(field.description for field in TrainingSettings.model_fields.values())
    assert set(TrainingSettings.model_fields) >= CHANGEABLE


def test_settings_are_read_without_torch():
    check = "import sys, regard.training.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_rmsprop_has_no_weight_decay():
    assert TrainingSettings(optimizer="rmsprop").weight_decay == 0
    assert TrainingSettings(**TrainingSettings(optimizer="rmsprop").model_dump()).weight_decay == 0
    with pytest.raises(ValueError, match="rmsprop has no weight_decay"):
        TrainingSettings(optimizer="rmsprop", weight_decay=0.1)
