"""Reading by pointing: the task from settings to answers, on synthetic stories and on a small SQuAD file."""

import json

import numpy as np
import pytest

from regard.data.reading import question_batches
from regard.data.reading.questions import GivenAnswer, Question, question_of, sentences_in
from regard.errors import ConfigError, DataError
from regard.tasks.core.config import check
from regard.tasks.core.fit import fit
from regard.tasks.core.load import load
from regard.tasks.core.task import find_task
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.spans import predictor as span_answerer
from regard.tasks.reading.spans.data import prepare
from regard.tasks.reading.spans.evaluation import evaluate
from regard.tasks.reading.spans.task import TASK

MODEL = {"kind": "span", "width": 12, "heads": 3, "least": 1, "affix": 1, "longest": 4}
TRAINING = {"steps": 2, "validate_every": 2, "warmup_steps": 0}
MADE = {
    "task": "reading",
    "data": {"made": {"facts": 1, "questions": 1, "count": 4}, "validation": 3, "batch": 2},
    "model": MODEL,
    "training": {**TRAINING, "monitor": "exact", "better": "max"},
    "threads": 1,
}
CONTEXTS = {
    "Anna lives in the old town of Bern. Ben lives in Rome.": [
        ("Where does Anna live?", "the old town of Bern"), ("Where does Ben live?", "Rome"),
        ("Where does Carl live?", None),
    ],
    "他住在北京，我住在上海。": [("他住在哪里？", "北京"), ("你住在哪里？", None)],
    "Dora paid 3.14 € in 1990s Oslo.\nShe left.": [("How much?", "3.14 €"), ("When?", "1990")],
}  # fmt: skip


def squad(contexts):
    def one(number, context, question, answer):
        given = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
        return {"id": str(number), "question": question, "answers": given, "is_impossible": answer is None}

    paragraphs = [
        {"context": context, "qas": [one(f"{at}-{number}", context, *each) for number, each in enumerate(asked)]}
        for at, (context, asked) in enumerate(contexts.items())
    ]
    return {"version": "v2.0", "data": [{"title": "Places", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("squad") / "train.json"
    path.write_text(json.dumps(squad(CONTEXTS)), encoding="utf-8")
    return path


def of(file, **more):
    data = {"squad": str(file), "validation": 1, "batch": 3}
    return {"task": "reading", "data": data, "model": MODEL, "training": TRAINING, "threads": 1, **more}


@pytest.fixture(scope="module")
def run(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spans") / "run"
    fit(check(ReadingSettings, of(file), TASK.faults), folder, progress="silent")
    return folder


@pytest.fixture(scope="module")
def answerer(run):
    return load(run)


def test_questions_held_out_that_no_training_could_answer_do_not_choose_the_weights(tmp_path):
    """A reader that never had a question without an answer cannot say that there is none: infinite loss."""
    contexts = {
        "Ben lives in Rome.": [("Where does Ben live?", "Rome")],
        "Anna lives in Bern.": [("Where does Anna live?", "Bern"), ("Where does Carl live?", None)],
    }
    (tmp_path / "few.json").write_text(json.dumps(squad(contexts)), encoding="utf-8")
    settings, said = check(ReadingSettings, of(tmp_path / "few.json")), []
    prepared = prepare(settings, None, said.append)
    assert "1 of 2 questions that are held out have no answer" in said[0]
    model = TASK.model(settings, prepared).eval()
    assert 0 < TASK.metrics(settings, prepared)(model)["loss"] < 10


def test_a_run_is_trained_kept_and_loaded(run, answerer, file):
    assert {path.name for path in (run / "tokenizers").iterdir()} == {"words.json", "spans.json"}
    assert isinstance(answerer, span_answerer.SpansPredictor) and answerer.known.nothing
    evaluation = TASK.evaluate(answerer, run, {"squad": str(file)})
    assert evaluation.items == 7 and set(evaluation.measures) == {"exact", "f1", "answerable"}
    assert evaluation.baselined == "exact" and 0 < evaluation.baselines["word"] < 1
    json.dumps(evaluation.to_json())
    assert TASK.evaluate(load(run), run, {"squad": str(file)}).measures == evaluation.measures
    assert TASK.evaluate(answerer, run, {}).items == 2  # the last text with its questions was held out


def test_made_stories_are_pointed_at(tmp_path):
    fit(check(ReadingSettings, MADE, TASK.faults), tmp_path / "run", progress="silent")
    answerer = load(tmp_path / "run")
    evaluation = TASK.evaluate(answerer, tmp_path / "run", {})
    assert evaluation.items == 3 and set(evaluation.measures) == {"exact", "f1", "looked"}
    assert evaluation.baselined == "looked" and "a word drawn at random" in evaluation.signatures["exact"]
    assert answerer.answer([question_of("Mary left. Who left?")])[0].nothing is None  # it was never taught to say so
    path = tmp_path / "story.txt"
    path.write_text("1 Mary moved to the office.\n2 Is she there?\tyes\t1\n")
    with pytest.raises(DataError, match=r"story.txt, line 1: the answer 'yes' .* stands nowhere before it"):
        TASK.evaluate(answerer, tmp_path / "run", {"babi": str(path)})


def test_b28_answers_are_in_order_and_batch_mates_change_none(answerer, file, monkeypatch):
    questions = [question_of(text, asked) for text, rows in CONTEXTS.items() for asked, _ in rows]
    together = answerer.answer(questions)
    monkeypatch.setattr(question_batches, "MAX_WORDS_TOGETHER", 1)
    for one, other in zip(together, answerer.answer(questions), strict=True):
        assert one.question is other.question and (one.text, one.span) == (other.text, other.span)
        assert one.probability == pytest.approx(other.probability, rel=1e-4)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-6)
        assert one.nothing == pytest.approx(other.nothing, rel=1e-4)


def test_an_answer_stands_in_the_text_letter_for_letter(answerer):
    text = "  Zoë\t🙂 wrote\r\n“On  Light”,  in 1704 。"
    (one,) = answerer.answer([question_of(text, "Who wrote it?")])
    assert one.span is None or text[slice(*one.span)] == one.text == one.text.strip()
    assert one.weights.sum() + one.nothing == pytest.approx(1)
    assert one.sums(one.weights).sum() == pytest.approx(1 - one.nothing)
    assert answerer.answer([]) == []


def test_measures_by_hand(answerer, monkeypatch):
    """Three questions: one right, one half right, one to which the model has an answer and the data have none."""
    text = "Mary went to the old garden. John slept."
    given = ((GivenAnswer("the old garden", 13),), (GivenAnswer("old garden", 17), GivenAnswer("garden", 21)), ())
    questions = [Question(text, f"q{at}?", one, sentences_in(text), (0,) * (at == 0)) for at, one in enumerate(given)]

    def found(question, words, span, first):
        weights = np.eye(10)[first]
        return span_answerer.Found(question, words, span, text[slice(*span)], 0.5, 0.1, weights, [])

    answers = [
        found(questions[0], (4, 5), (17, 27), 4),
        found(questions[1], (4, 4), (17, 20), 7),
        found(questions[2], (7, 7), (29, 33), 7),
    ]
    monkeypatch.setattr(answerer, "answer", lambda questions: answers)
    evaluation = evaluate(answerer, questions)
    # "old garden" is "the old garden" without its article; "old" has 1 of 1 words of "old garden", which has 2.
    expected = {"exact": 1 / 3, "f1": (1 + 2 / 3) / 3, "answerable": 2 / 3, "looked": 1.0}
    assert evaluation.measures == pytest.approx(expected)
    assert evaluation.baselines == {"chance": 0.5}
    # Of the 10 words of the text: "garden" is an answer to the second; the third has none, and "." and "the" are "".
    assert evaluation.signatures["exact"] == f"a word drawn at random {(0 / 10 + 1 / 10 + 0) / 3:.3f}"


def test_what_training_leaves_out_or_changes_is_reported(file):
    said = []
    settings = check(ReadingSettings, of(file, data={"squad": str(file), "validation": 1, "longest_text": 13}))
    with pytest.raises(DataError, match="no question is left to train on"):
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"longest_text": 3})})
        prepare(settings, None, said.append)
    assert said == ["5 of 5 questions are left out of training: their texts have more than data.longest_text=3 words"]
    said.clear()
    prepare(check(ReadingSettings, of(file)), None, said.append)
    assert said == ["1 of 5 questions are left out of training: their answers have more than model.longest=4 words"]
    said.clear()
    contexts = dict(reversed(CONTEXTS.items()))
    file.with_name("other.json").write_text(json.dumps(squad(contexts)))
    prepare(check(ReadingSettings, of(file.with_name("other.json"))), None, said.append)
    assert said == ["the answers to 1 questions begin or end within a word; the whole words are learned"]
    with pytest.raises(DataError, match="has 3 texts with questions, of which data.validation=3"):
        prepare(check(ReadingSettings, of(file, data={"squad": str(file), "validation": 3})), None, print)


def test_long_texts_are_read_whole_and_reported(answerer):
    text = "John slept. " * 300
    (one,) = answerer.answer([question_of(text, "Who xyzzy?")])
    assert len(one.weights) == 900 and one.notes == [
        "the question has words that the model has never read: 'Who', 'xyzzy'",
        "the text has 900 words, and training had none of more than 800; all of them were read",
    ]
    with pytest.raises(DataError, match="the text has 12000 words, and at most 10000 can be read here"):
        answerer.answer([question_of("John slept. " * 4000, "Who slept?")])


def test_the_picture_shows_sentences_words_and_the_question(answerer):
    view = TASK.view(answerer, "Anna lives in Bern. Ben lives in Rome. Where does Ben live?", language="zh")
    sentences, pointers, asked = view.matrices
    assert sentences.rows == ("1 Anna lives in Bern.", "2 Ben lives in Rome.") and sentences.columns[0] == "首词"
    assert pointers.columns == ("Anna", "lives", "in", "Bern", ".", "Ben", "lives", "in", "Rome", ".")
    assert asked.rows == ("Where", "does", "Ben", "live", "?")
    np.testing.assert_allclose(asked.values.sum(0), 1, atol=1e-5)
    np.testing.assert_allclose(sentences.values[:, 0].sum(), pointers.values[0].sum(), atol=1e-6)
    long = TASK.view(answerer, "Ben slept. " * 40 + "Who slept?")
    assert long.matrices[1].values.shape[1] == 40 and any("of 120 are drawn" in note for note in long.notes)
    assert TASK.view(answerer, None).matrices  # the first question that was held out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {}}, "no stories to train on. Give data.babi=FILE"),
        ({"data": {"squad": "a.json", "made": {}}}, "choose one origin of stories; given are `squad` and `made`"),
        ({"model": {"kind": "sentences"}}, "data.squad: its answers stand in its texts.*set model.kind=span"),
        ({"model": {**MODEL, "heads": 5}}, "5 heads do not divide the width 12"),
        ({"model": {**MODEL, "width": 7, "heads": 1}}, "model.width"),
        ({"training": {"monitor": "accuracy", "better": "max"}}, "model.kind=span has no accuracy; watch one of exact"),
        ({"training": {"smoothing": 0.1}}, "training.smoothing: most places cannot be an answer's end"),
    ],
)
def test_settings_that_cannot_be_are_refused(file, change, message):
    tree = {**of(file), **change}
    with pytest.raises(ConfigError, match=message):
        check(ReadingSettings, tree, find_task(tree).faults)
