import pytest

from regard.errors import RunError
from regard.training.run.run import RunFolder


def test_a_new_run_keeps_its_configuration(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"task": "translation", "data": {"name": "短语"}, "rate": 0.1})
    assert RunFolder.open(run.path).read_config() == {"task": "translation", "data": {"name": "短语"}, "rate": 0.1}
    assert "短语" in run.config.read_text(encoding="utf-8")


def test_a_folder_in_use_is_not_taken(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="not an empty folder"):
        RunFolder.create(tmp_path, {})
    with pytest.raises(RunError, match="not an empty folder"):
        RunFolder.create(tmp_path / "thesis.tex", {})
    with pytest.raises(RunError, match=r"no config\.yaml"):
        RunFolder.open(tmp_path)


def test_configuration_is_never_code(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.config.write_text("!!python/object/apply:os.mkdir [" + str(tmp_path / "made") + "]")
    with pytest.raises(RunError, match="cannot be read"):
        run.read_config()
    assert not (tmp_path / "made").exists()


def test_metrics_are_read_but_for_a_line_cut_short(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    assert run.read_metrics() == []
    run.metrics.write_bytes(b'{"step": 1}\n{"step": 2, "name": "\xe7\x9f')
    assert run.read_metrics() == [{"step": 1}]


def test_results_of_a_run_that_has_not_ended(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(RunError, match="has not ended"):
        run.read_results()
    run.write_results({"steps": 3})
    assert run.read_results() == {"steps": 3}
