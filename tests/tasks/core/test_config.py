"""Settings: from YAML and key=value, all errors at once, the nearest name."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import ConfigError, RunError
from regard.tasks.core.config import as_yaml, check, keys, merge, parse_assignments, parse_yaml, read_yaml
from regard.tasks.translation.settings import TranslationSettings
from regard.training.run.run import RunFolder


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of numbers set to 0.")
    cell: Literal["gru", "lstm"] = "gru"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    model: Inner = Field(Inner(), description="The model.")
    maybe: Inner | None = None
    seed: int = Field(0, description="Seed of\n  all.")
    sizes: list[int] = [2, 3]
    options: dict[str, Any] = {}
    name: str = "雪 é"


def test_assignments_are_converted_by_the_setting_they_meet():
    tree = parse_assignments(
        ["model.dropout=3e-1", "model.cell=lstm", "seed=7", "sizes=[5, 7]", "maybe=null", "name=a=b"]
    )
    assert check(Outer, tree) == Outer(model=Inner(dropout=0.3, cell="lstm"), seed=7, sizes=[5, 7], name="a=b")


def test_malformed_assignments_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        parse_assignments(["oops", ".a=1", "b..c=2", "fine=1", "list=[1"])
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["'oops'", "'.a=1'", "'b..c=2'", "list:"]


def test_long_and_hostile_values_are_cut_and_escaped_in_an_error():
    for assignment in ("\x1b[2J" * 99, "list=[" + "\u202e" * 999, "model.cell=" + "z" * 999):
        with pytest.raises(ConfigError, match="…'") as caught:
            check(Outer, parse_assignments([assignment]))
        assert len(str(caught.value)) < 500 and all(line.isprintable() for line in str(caught.value).splitlines())


def test_a_branch_cannot_also_be_a_leaf():
    with pytest.raises(ConfigError, match=r"model\.cell: model is set to 'x' already"):
        parse_assignments(["model=x", "model.cell=gru"])


def test_all_errors_come_at_once_with_the_nearest_name():
    with pytest.raises(ConfigError) as caught:
        check(
            Outer,
            {
                "model": {"dropuot": 0.1, "cell": "gruu", "dropout": 2},
                "sed": 1,
                "dropout": 0.5,
                "maybe": {"sell": "gru"},
            },
        )
    text = str(caught.value)
    assert text.startswith("6 settings are wrong:")
    assert "model.dropuot: no such setting. Did you mean 'dropout'?" in text
    assert "model.cell: 'gruu' is not one of its values. Did you mean 'gru'? Known: gru, lstm." in text
    assert "model.dropout: Input should be less than 1, given 2" in text
    assert "sed: no such setting. Did you mean 'seed'?" in text
    assert "\n  dropout: no such setting. Did you mean 'model.dropout' or 'maybe.dropout'?" in text
    assert "maybe.sell: no such setting. Did you mean 'cell'?" in text


def test_merge_lets_the_second_win_key_by_key():
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 5}, "d": {"e": 7}}) == {
        "a": {"b": 1, "c": 5},
        "d": {"e": 7},
    }


def test_yaml_reads_back_to_the_same_settings_and_explains_itself():
    settings = Outer(model=Inner(dropout=0.25), maybe=Inner(cell="lstm"), seed=11)
    text = as_yaml(settings)
    assert "# Seed of all." in text and "雪 é" in text
    assert check(Outer, parse_yaml(text, "text")) == settings


def test_keys_are_dotted_leaves():
    assert list(keys(Outer)) == (
        ["model.dropout", "model.cell", "maybe.dropout", "maybe.cell", "seed", "sizes", "options", "name"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "line 2"),
        ("a: 1\na: 2", "line 2.*'a' is given twice"),
        ("- 1", "found a list"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_bad_yaml_names_file_and_line(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_yaml(text, "file.yaml")


def test_empty_yaml_is_no_settings_and_a_byte_order_mark_is_ignored(tmp_path):
    """B31: a mark at the start of a file is not part of its first key."""
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfseed: 5\n")
    assert read_yaml(file) == {"seed": 5}
    assert parse_yaml("", "empty") == {}
    file.write_bytes(b"seed: \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_yaml(file)
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")


def test_values_of_a_free_mapping_are_read_as_yaml():
    tree = parse_assignments(["options.rank=7", "options.kind=half", "options.on=true", "name=7"])
    settings = check(Outer, tree)
    assert settings.options == {"rank": 7, "kind": "half", "on": True} and settings.name == "7"
    assert check(Outer, parse_yaml(as_yaml(settings), "text")) == settings


def test_errors_found_elsewhere_come_with_the_others():
    with pytest.raises(ConfigError, match=r"2 settings are wrong:\n  sed: .*\n  name: taken"):
        check(Outer, {"sed": 1}, also=lambda tree: ["name: taken"])
    with pytest.raises(ConfigError, match="1 setting is wrong:\n  name: taken"):
        check(Outer, {}, also=lambda tree: ["name: taken"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: &a {b: *a}", "alias"),  # a value that holds itself
        ("a: &a {x: 1}\nb: &b {p: *a, q: *a}\nseed: *b", "alias"),  # nine such lines are a billion values
        ("[" * 3000, "nested too deeply"),
        ("? {a: b}\n: 2", "cannot be a key"),
        ("seed: 2020-99-99", "month"),
        ("x: !!python/object/apply:os.system [ls]", "constructor"),
        ("seed: 1\nseed: 2", "given twice"),
    ],
)
def test_hostile_yaml_is_refused_in_every_place_that_reads_it(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        parse_yaml(text, "settings.yaml")
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=said):
        RunFolder(tmp_path).read_config()


def test_a_free_value_that_is_no_yaml_is_named():
    for value in ("'", "!!python/object/apply:os.system [ls]", "*a"):
        with pytest.raises(ConfigError, match="options"):
            check(TranslationSettings, parse_assignments([f"model.attention_options.options={value}"]))


def test_a_message_does_not_repeat_a_huge_value():
    with pytest.raises(ConfigError) as caught:
        check(TranslationSettings, {"seed": ["x"] * 10_000})
    assert len(str(caught.value)) < 300


def test_a_folder_is_no_file_of_settings(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        read_yaml(tmp_path)
