"""Reading stories: the task from settings to answers, and what its heads read."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data.reading.babi import parse_stories
from regard.data.reading.settings import SyntheticStories
from regard.data.reading.stories import synthetic_story
from regard.data.reading.story_batches import KINDS, StoryVocabulary
from regard.errors import ConfigError, DataError
from regard.models.reading.story_reader import StoryReader
from regard.models.reading.story_settings import StoryReaderSettings
from regard.tasks.core.config import check
from regard.tasks.core.fit import fit
from regard.tasks.core.load import load
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.stories.evaluation import evaluate
from regard.tasks.reading.stories.predictor import StoriesPredictor, _left, story_of
from regard.tasks.reading.stories.task import TASK
from regard.tasks.reading.stories.view import reading_view

SETTINGS = {
    "task": "reading",
    "data": {"made": {"facts": 1, "questions": 3, "count": 6}, "validation": 4, "batch": 3},
    "model": {
        "embedding_dim": 7,
        "thinking": 1,
        "machine": {"kind": "dnc", "width": 11, "slots": 5, "slot_dim": 3, "read_heads": 2},
    },
    "training": {"steps": 2, "validate_every": 2, "warmup_steps": 0},
    "threads": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading") / "run"
    fit(check(ReadingSettings, SETTINGS, TASK.faults), folder, progress="silent")
    return folder


@pytest.fixture(scope="module")
def answerer(run):
    return load(run)


def untrained(machine):
    """A reader of synthetic stories with fresh weights."""
    torch.manual_seed(0)
    stories = [synthetic_story(SyntheticStories(facts=1), 0, "training", number) for number in range(20)]
    vocabulary = StoryVocabulary.of(stories)
    settings = check(ReadingSettings, {**SETTINGS, "model": {**SETTINGS["model"], "machine": machine}})
    model = StoryReader(settings.model, len(vocabulary), KINDS, len(vocabulary.answers))
    return StoriesPredictor(model, vocabulary, settings), stories


def test_a_sentence_is_the_position_weighted_sum_of_its_words():
    torch.manual_seed(0)
    model = StoryReader(StoryReaderSettings(kind="sentences", embedding_dim=5), 9, KINDS, 2)
    words, kinds = torch.tensor([[[3, 4, 8, 0], [5, 0, 0, 0]]]), torch.tensor([[1, 2]])
    found = model.sentences(words, kinds)
    for step, ids in enumerate(([3, 4, 8], [5])):
        expected = model.kinds.weight[kinds[0, step]].clone()
        count = len(ids)
        for place, word in enumerate(ids, 1):
            for part in range(1, 6):
                weight = (1 - place / count) - (part / 5) * (1 - 2 * place / count)  # Sukhbaatar 2015, section 4.1
                expected[part - 1] += weight * model.words.weight[word, part - 1]
        assert_close(found[0, step], expected)
    assert_close(model.sentences(words[..., :3], kinds), found)  # padding behind the words is nothing


@pytest.mark.parametrize("kind", ["dnc", "ntm", "lstm", "lstmn"])
def test_b21_b22_batch_mates_change_no_answer(kind):
    answerer, stories = untrained({"kind": kind})
    short = synthetic_story(SyntheticStories(facts=1, questions=1), 0, "test", 0)
    alone, together = answerer.answer([short]), answerer.answer([stories[0], short, stories[1]])
    assert [one.story.place for one in together] == [stories[0].place] * 5 + [short.place] + [stories[1].place] * 5
    assert_close(alone[0].probability, together[5].probability, rtol=1e-5, atol=1e-6)
    assert len(alone[0].looks) == len(together[5].looks)
    for one, other in zip(alone[0].looks, together[5].looks, strict=True):
        assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)
    assert bool(alone[0].looks) == (kind in ("dnc", "ntm"))


def test_a_run_is_trained_kept_and_loaded(run, answerer):
    assert (run / "tokenizers" / "stories.json").is_file() and not list(run.rglob("*.pkl"))
    evaluation = TASK.evaluate(answerer, run, {})
    assert evaluation.items == 12 and set(evaluation.measures) == {"accuracy", "loss", "looked"}
    assert evaluation.baselined == "looked" and 0 < evaluation.baselines["chance"] < 1
    json.dumps(evaluation.to_json())
    again = TASK.evaluate(load(run), run, {})
    assert again.measures == evaluation.measures
    view = TASK.view(answerer, None, language="zh")
    assert view.kind == "memory" and len(view.matrices) == 3 + 1
    assert view.matrices[0].values.shape == (2 * 2, 2)  # two heads, at the question and in one thinking step


def test_tests_may_be_a_file_or_made_stories(answerer, run, tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("1 Mary moved to the office.\n2 Where is Mary?\toffice\t1\n")
    evaluation = TASK.evaluate(answerer, run, {"babi": str(path)})
    assert evaluation.items == 1 and evaluation.baselines == {"chance": 1.0}
    assert TASK.evaluate(answerer, run, {"made": {"count": 3, "questions": 1}}).items == 3
    path.write_text("1 Mary moved to the office.\n2 Where is Mary?\tgym\t1\n")
    with pytest.raises(DataError, match="the answer 'gym' does not occur in training"):
        TASK.evaluate(answerer, run, {"babi": str(path)})


def test_what_a_head_reads_of_each_step_by_hand():
    """Slot 0 is written at step 0, and half of it again at step 1; slot 1 at step 2. The head then reads both."""
    write = torch.tensor([[1.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 0.0]])
    read = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.4, 0.6]])
    table = _left({"write 0": write, "read 0": read})["read 0"]
    assert_close(table[3], np.array([0.2, 0.2, 0.6, 0.0]))
    assert_close(table[1], np.array([0.5, 0.5, 0.0, 0.0]))


def test_the_most_read_sentence_is_no_question(answerer):
    (one,) = answerer.answer([story_of("Mary went to the office. John went to the garden. Where is Mary?")])
    assert one.facts == [0, 1] and one.most_read in (0, 1)
    assert one.read is not None and one.read[2] == 0


def test_a_story_as_a_person_writes_it():
    story = story_of("Mary went home. John fell!  Where is\nMary?", "Who fell")
    assert [line.text for line in story.lines] == ["Mary went home.", "John fell!", "Where is", "Mary?", "Who fell"]
    assert [line.is_question for line in story.lines] == [False, False, False, True, True]
    numbered = story_of("1 Mary went.\n2 Where is Mary?\toffice\t1")
    assert numbered.lines[1] == ("Where is Mary?", True, None, ())
    assert story_of("玛丽去了厨房。玛丽在哪里？").lines[1].is_question


@pytest.mark.parametrize(
    ("text", "question", "message"),
    [
        ("", "Where is Mary?", "the story is empty"),
        (" \n\t\n", "Where?", "the story is empty"),
        ("…!?", "Where?", "the story is empty"),
        ("Where is Mary?", None, "the story is empty"),
        ("Mary went home.", None, "there is no question"),
        ("Mary went home.", " ?! ", "has no words"),
    ],
)
def test_an_empty_story_or_question_is_reported(text, question, message):
    with pytest.raises(DataError, match=message):
        story_of(text, question)


def test_hostile_words_are_read_as_unknown_and_reported(answerer):
    text = "Mary \x00 went\x1b[31m to " + "zork" * 5000 + ". " + "John went " * 40 + ". Where is Mary?"
    (one,) = answerer.answer([story_of(text)])
    assert "the model has never read" in one.notes[0] and len(one.notes[0]) < 300
    assert one.notes[1] == "1 sentences have more than 30 words and were cut"


def test_a_question_before_any_sentence_is_refused(answerer):
    (story,) = parse_stories(["1 Where is Mary?", "2 Mary went."], "it", answered=False)
    with pytest.raises(DataError, match="it, line 1: the question 'Where is Mary\\?' comes before any sentence"):
        answerer.answer([story])


def test_settings_without_stories_or_with_two_origins_are_refused():
    with pytest.raises(ConfigError, match="no stories to train on. Give data.babi=FILE"):
        check(ReadingSettings, {"task": "reading"}, TASK.faults)
    with pytest.raises(ConfigError, match="choose one origin of stories"):
        check(ReadingSettings, {"data": {"babi": "a.txt", "made": {}}}, TASK.faults)


def test_a_machine_that_waits_for_a_mark_reads_no_stories():
    with pytest.raises(ConfigError, match=r"model.machine.kind: fixed waits for an input that marks the question"):
        check(
            ReadingSettings,
            {"data": {"made": {}}, "model": {"machine": {"kind": "fixed"}}},
            TASK.faults,
        )


def test_words_unseen_in_training_are_named_once_for_all_stories_k13():
    answerer, _ = untrained({"kind": "lstm"})
    stories = [story_of(f"Mary went to {word}. Where is Mary? Where is {word}?") for word in ("mars", "venus")]
    stories = [
        one._replace(lines=tuple(line._replace(answer="garden" if line.is_question else None) for line in one.lines))
        for one in stories
    ]
    assert evaluate(answerer, stories).notes == ["the model has never read 'mars', 'venus'"]


def test_answers_of_a_model_without_heads_are_labelled_as_what_they_are():
    answerer, stories = untrained({"kind": "lstm"})
    [matrix] = reading_view(answerer, stories[0]).matrices
    assert (matrix.row_axis, matrix.column_axis) == ("question", "answer")
    assert matrix.columns == answerer.vocabulary.answers and matrix.values.sum(1) == pytest.approx(1)
    [matrix] = reading_view(answerer, stories[0], "zh").matrices
    assert (matrix.row_axis, matrix.column_axis) == ("问题", "答案")


def test_answers_of_a_file_train_and_its_last_stories_are_held_out(tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text("".join(f"1 Mary went to the {place}.\n2 Where is Mary?\t{place}\t1\n" for place in "abcab"))
    tree = {**SETTINGS, "data": {"babi": str(path), "validation": 2}}
    prepared = TASK.data(check(ReadingSettings, tree), None, print)
    assert prepared.parts.answers == ("a", "b", "c") and prepared.batches.count == 3
    with pytest.raises(DataError, match="has 5 stories, of which data.validation=5"):
        TASK.data(check(ReadingSettings, {**tree, "data": {"babi": str(path), "validation": 5}}), None, print)
