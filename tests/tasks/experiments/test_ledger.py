"""The ledger: every recipe is whole, its settings are valid, and its data are checked before use."""

import hashlib

import pytest

from regard.errors import ConfigError, DataError
from regard.tasks.core.config import check, leaves
from regard.tasks.core.settings import settings_of
from regard.tasks.experiments.experiment import locate, resolved
from regard.tasks.experiments.ledger import Band, find, shipped
from regard.tasks.experiments.reproduce import tested as data_of
from tests.shared import SHARED, needs_shared


@pytest.mark.parametrize("recipe", list(shipped()), ids=lambda recipe: recipe.name)
def test_every_recipe_of_the_wheel_has_valid_settings(recipe, tmp_path):
    settings = check(settings_of(recipe.config["task"]), resolved(recipe.config, tmp_path))
    assert {band.metric for band in recipe.bands} <= set(settings.measures)
    assert recipe.evaluate == {} or data_of(recipe, tmp_path)
    if recipe.data is not None:
        used = {str(tmp_path / file.name) for file in recipe.data.files}
        named = [*leaves(resolved(recipe.config["data"], tmp_path)), *leaves(resolved(recipe.evaluate, tmp_path))]
        values = [one for _, value in named for one in (value if isinstance(value, list) else [value])]
        read = {value for value in values if isinstance(value, str) and value.startswith(str(tmp_path))}
        assert read
        # A path may go on inside an archive.
        assert all(any(f"{path}/".startswith(f"{file}/") for file in used) for path in read)
        assert all(any(f"{path}/".startswith(f"{file}/") for path in read) for file in used)


def test_a_band_holds_its_edges_and_never_nan():
    band = Band(metric="bleu", at_least=36, at_most=45)
    assert [band.holds(value) for value in (35.99, 36, 45, 45.01, float("nan"))] == [False, True, True, False, False]
    assert str(band) == "≥ 36 and ≤ 45"
    with pytest.raises(ValueError, match="at_least, at_most or both"):
        Band(metric="bleu")


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'demo-en-fr'"):
        find("demo-en-fx")


RECIPE = """
name: tiny
title: t
paper: p
published: {value: 1.0, where: w}
bands: [{metric: exact, at_least: 0.5}]
ours: {}
minutes: 1
deviations: []
data:
  origin: https://example.org/tiny
  files: [{name: a.txt, sha256: SHA}, {name: b.txt, sha256: SHA}]
config: {task: translation, data: {source: "${data}/a.txt", target: "${data}/b.txt"}}
"""


@pytest.fixture
def tiny(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(RECIPE.replace("SHA", hashlib.sha256(b"right\n").hexdigest()))
    return find(str(file))


def test_absent_data_is_an_error_with_origin_and_sha256(tiny, tmp_path):
    digest = hashlib.sha256(b"right\n").hexdigest()
    for folder in (None, tmp_path, tmp_path / "none", tmp_path / "tiny.yaml"):
        with pytest.raises(DataError) as caught:
            locate(tiny, folder)
        text = str(caught.value)
        assert "https://example.org/tiny" in text and text.count(digest) == 2 and "a.txt" in text and "b.txt" in text
        named = f"there is no folder {folder}. Name their folder: --data DIR" in text
        assert named == (folder not in (None, tmp_path))


def test_other_data_is_an_error_unless_the_user_insists(tiny, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"right\n")
    (tmp_path / "b.txt").write_bytes(b"wrong\n")
    with pytest.raises(DataError, match="b.txt is another file(.|\n)*--unverified"):
        locate(tiny, tmp_path)
    warnings = []
    locate(tiny, tmp_path, unverified=True, warn=warnings.append)
    assert len(warnings) == 1 and "b.txt" in warnings[0]
    (tmp_path / "b.txt").write_bytes(b"right\n")
    locate(tiny, tmp_path, warn=lambda text: pytest.fail(text))


def test_the_data_folder_takes_its_place_in_the_settings(tiny, tmp_path):
    data = resolved(tiny.config, tmp_path)["data"]
    assert data == {"source": f"{tmp_path}/a.txt", "target": f"{tmp_path}/b.txt"}


@needs_shared
def test_the_multi30k_recipe_is_of_the_real_files():
    locate(find("multi30k-bahdanau-short"), SHARED / "data" / "multi30k", warn=lambda text: pytest.fail(text))
