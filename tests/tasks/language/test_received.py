"""Beyond the lengths of training: where a model stops, the weight that each place receives, and the studies of it."""

import numpy as np
import pytest
import torch

from regard.data.algorithms.problem import problem
from regard.data.algorithms.settings import CopySettings
from regard.data.language.stream import TokenStream
from regard.models.memory.sequences import build
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings
from regard.tasks.algorithms.predictor import AlgorithmsPredictor
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.algorithms.task import TASK as ALGORITHMS
from regard.tasks.core.config import check, leaves
from regard.tasks.core.settings import settings_of
from regard.tasks.core.task import Nothing
from regard.tasks.experiments.studies import Study, find, find_all
from regard.tasks.experiments.study import Outcome
from regard.tasks.experiments.study_table import lengths_view, markdown, table, to_json
from regard.tasks.language.evaluation import evaluate_segments
from regard.tasks.language.received import received
from regard.tasks.language.task import TASK as LANGUAGE
from regard.tasks.translation.task import TASK as TRANSLATION

STUDIES = find_all("extrapolation")
KINDS = ["none", "learned", "sinusoidal", "shaw", "t5", "alibi", "rotary"]


def test_a_copy_that_receives_its_output_gets_the_row_before():
    copy = problem(CopySettings(bits=2, heard=True))
    item = copy.read("10 01 11")
    assert item.question.tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert item.answer_steps.tolist() == [3, 4, 5] and item.answer.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert copy.rows(item) == ["10", "01", "11", "?", "10", "01"]
    assert (item.time, copy.sources(item)) == (6, [0, 1, 2])


def solver(position: str) -> AlgorithmsPredictor:
    tree = {
        "task": "algorithms",
        "data": {"problem": "copy", "heard": True, "bits": 3, "shortest": 1, "longest": 4},
        "model": {"kind": "transformer", "dim": 8, "heads": 2, "layers": 1, "position": position, "context": 8},
    }
    settings = check(AlgorithmSettings, tree)
    torch.manual_seed(0)
    return AlgorithmsPredictor(build(settings.model, 4, 3), Nothing(), settings)


def test_where_positions_end_the_evaluation_raises(tmp_path):
    """Four rows are the eight positions that it knows; of five and more nothing is told but why."""
    measured = ALGORITHMS.evaluate(solver("learned"), tmp_path, {"sequences": 7, "lengths": [4, 5, 11]})
    assert measured.stopped.startswith("5: the learned position part holds positions 0 to 7")
    assert measured.to_json()["stopped"] == measured.stopped and measured.stopped in measured.notes[0]
    assert [row["length"] for row in measured.lengths] == ["1–4", "4", "5", "11"]
    assert [row["accuracy"] is None for row in measured.lengths] == [False, False, True, True]
    assert measured.items == 14 and 0.2 < measured.lengths[1]["accuracy"] < 0.8
    other = ALGORITHMS.evaluate(solver("rotary"), tmp_path, {"sequences": 7, "lengths": [5]})
    assert other.stopped == "" and other.lengths[1]["accuracy"] is not None and not other.notes


def model(position: str, **options) -> TransformerLanguageModel:
    torch.manual_seed(0)
    return TransformerLanguageModel(
        TransformerLanguageSettings(dim=12, heads=2, layers=2, position=position, dropout=0.0, context=5, **options), 13
    ).eval()


def test_a_text_is_read_up_to_the_last_position_that_is_known():
    stream = TokenStream(np.arange(23) % 9 + 4, 0)
    sums = evaluate_segments(model("learned"), stream, segment_length=11, window=5)
    assert [tokens for *_, tokens in sums.each] == [3] + [2] * 4 + [0] * 6  # of segments 11, 11 and 1 long
    assert "positions 0 to 4" in sums.stopped
    # The last part of a segment, one token, would have room again, at a place that is not its own.
    sums = evaluate_segments(model("learned"), stream, segment_length=9, window=4)
    assert [tokens for *_, tokens in sums.each] == [3] * 4 + [0] * 5
    whole = evaluate_segments(model("alibi"), stream, segment_length=11, window=5)
    assert whole.tokens == 23 and whole.stopped == ""


def test_even_weights_give_every_place_an_even_share():
    """Queries of 0 look everywhere alike: 1 for all places that each of the last three sees, less for the last two."""
    even = model("none")
    for block in even.stack.blocks:
        torch.nn.init.zeros_(block.attention.inputs.weight)
        torch.nn.init.zeros_(block.attention.inputs.bias)
    shares = received(even, torch.randint(4, 13, (2, 7)), 3)
    assert shares.tolist() == pytest.approx([1, 1, 1, 1, 1, 2 / 3, 1 / 3], abs=1e-6)


def test_an_even_share_is_of_what_a_window_shows():
    narrow = model("none", window=3)
    for block in narrow.stack.blocks:
        torch.nn.init.zeros_(block.attention.inputs.weight)
        torch.nn.init.zeros_(block.attention.inputs.bias)
    assert received(narrow, torch.randint(4, 13, (2, 7)), 1).tolist() == pytest.approx([0, 0, 0, 0, 1, 1, 1], abs=1e-6)


def test_received_is_the_mean_of_the_weights_themselves():
    known = model("rotary")
    ids = torch.randint(4, 13, (2, 7))
    with torch.no_grad():
        step = known.step(known.start(None, 2), ids)
    each = [step.attended[f"self {layer}"].weights for layer in (0, 1)]
    wanted = [
        sum(float(one[text, head, query, key]) * (query + 1) for one in each for text in (0, 1) for head in (0, 1))
        for query in (5, 6)
        for key in range(7)
    ]
    by_hand = [(wanted[key] + wanted[7 + key]) / 2 / 8 for key in range(7)]
    assert received(known, ids, 2).tolist() == pytest.approx(by_hand, abs=1e-6)


def test_the_tests_of_a_text_take_edges_that_rise():
    with pytest.raises(Exception, match="edges are positions from 2 on"):
        check(settings_of("language").tests, {"edges": [1, 5]})


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_rows_differ_in_positions_alone(study):
    assert [row.name for row in study.rows] == KINDS
    settings = settings_of(study.task)
    for row in study.rows:
        task = {"algorithms": ALGORITHMS, "language": LANGUAGE}[study.task]
        made = check(settings, study.experiment(row).config, also=task.faults)
        assert dict(leaves(row.config)) == {"model.position": row.name}
        trained = 2 * made.data.longest if study.task == "algorithms" else made.data.window
        assert made.model.position == row.name and made.model.context == trained <= 64


def test_the_study_of_order_asks_every_kind_and_shuffles():
    study = find("order")
    assert sorted(row.name for row in study.rows) == sorted(KINDS)
    assert study.evaluate["shuffled"] and "unmoved" in study.columns
    for row in study.rows:
        made = check(settings_of("translation"), study.experiment(row).config, also=TRANSLATION.faults)
        assert (made.model.kind, made.model.position) == ("transformer", row.name)


def test_together_with_order_they_train_for_twenty_minutes_at_most():
    studies = [*STUDIES, find("order")]
    assert sum(len(one.rows) * one.config["training"]["processor_minutes"] for one in studies) <= 20.001


def test_a_table_says_where_a_row_stops():
    study = check(
        Study,
        {
            "name": "tiny",
            "title": "A study",
            "minutes": 1,
            "terms": ["All alike."],
            "columns": ["exact"],
            "lengths": [{"measure": "accuracy"}, {"measure": "exact"}],
            "config": {"task": "algorithms"},
            "rows": [
                {"name": "one", "title": "learned", "config": {}},
                {"name": "two", "title": "rotary", "config": {}},
            ],
        },
    )

    def lengths(*values: float | None) -> list[dict]:
        return [
            {"length": name, "sequences": 7, "accuracy": value, "exact": value}
            for name, value in zip(("4", "5"), values, strict=True)
        ]

    one = Outcome(
        study.rows[0], 0, {"exact": 1.0}, lengths(1.0, None), {}, None, "sequences", "length", "5: too   long"
    )
    two = Outcome(study.rows[1], 0, {"exact": 0.5}, lengths(0.5, 0.25), {}, None, "sequences", "length")
    heads, rows = table(study, [one, two])
    assert heads == ["row", "", "exact", "remark"]
    assert rows == [["one", "learned", "1.0000", "stops at 5: too long"], ["two", "rotary", "0.5000", ""]]
    text = markdown(study, [one, two])
    assert "| learned | 1 | stops |" in text and "| rotary | 0.5 | 0.25 |" in text
    assert "learned stops at 5: too long" in text and "exact by length:" in text
    assert to_json(study, [one])["rows"][0]["stopped"] == "5: too   long"
    view = lengths_view(study, study.lengths[0], [one, two])
    assert np.isnan(view.matrices[0].values[0, 1]) and view.matrices[0].values[1, 1] == 0.25


def test_sources_in_another_order_are_the_same_words():
    from regard.tasks.translation.evaluation import _shuffled

    orders = _shuffled(["7", "1 2", "5 5", *["1 2 3"] * 40])
    assert set(orders) == {1, *range(3, 43)} and orders[1] == "2 1"  # 7 has no other order, and 5 5 looks the same
    assert {order for at, order in orders.items() if at > 2} == {"1 3 2", "2 1 3", "2 3 1", "3 1 2", "3 2 1"}
    assert orders == _shuffled(["7", "1 2", "5 5", *["1 2 3"] * 40])
