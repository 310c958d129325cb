from pathlib import Path

import pytest
import yaml

from regard.models.transformer.settings import vaswani2017
from regard.tasks.core.config import check
from regard.tasks.translation.settings import TranslationSettings
from regard.training.schedule import learning_rate

FILE = Path(__file__).resolve().parents[3] / "docs" / "settings" / "vaswani2017.yaml"


def test_the_base_model_is_trained_by_its_papers_schedule():
    """The file's model is the preset; its rates are equation 3's, d^−½ · min(n^−½, n · 4000^−1.5)."""
    settings = check(TranslationSettings, yaml.safe_load(FILE.read_text()))
    assert settings.model == vaswani2017()
    for step in (1, 100, 4000, 10_000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(settings.training, step - 1, step / 100_000) == pytest.approx(paper, rel=1e-4)
    assert (settings.training.smoothing, settings.data.vocabulary_size) == (0.1, 37_000)
