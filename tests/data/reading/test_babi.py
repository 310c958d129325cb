"""Stories in the form of bAbI: read, refused with file and line, and made."""

import re

import pytest

from regard.data.reading.babi import parse_stories, read_stories
from regard.data.reading.settings import SyntheticStories
from regard.data.reading.stories import DROP, GO, PEOPLE, PLACES, TAKE, THINGS, synthetic_story
from regard.data.reading.story_batches import (
    IGNORED,
    StoryBatch,
    StoryBatches,
    StoryVocabulary,
    encode_story,
    story_words,
)
from regard.errors import DataError, RunError
from tests.shared import SHARED, needs_shared

TEXT = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
1 Daniel got the milk there.
2 Where is it?\tgarden

"""


def test_reads_sentences_questions_and_facts():
    first, second = parse_stories(TEXT.splitlines(), "it")
    assert [line.text for line in first.lines] == [
        "Mary moved to the bathroom.",
        "John went to the hallway.",
        "Where is Mary?",
    ]
    assert first.lines[2] == ("Where is Mary?", True, "bathroom", (0,))
    assert second.lines[1] == ("Where is it?", True, "garden", ())
    assert (first.place, second.place) == ("it, line 1", "it, line 4")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Mary went.\n", "line 1: 'Mary went.' does not begin with its number"),
        ("1 Mary went.\n3 John went.\n", "line 2: it has the number 3; expected 2, or 1 for a new story"),
        ("2 Mary went.\n", "line 1: it has the number 2; expected 1"),
        ("1 A.\n2 Where?\tb\t2\n", "line 2: the fact '2' is no number of an earlier line, 1 to 1"),
        ("1 A.\n2 Where?\tb\tone\n", "line 2: the fact 'one'"),
        ("1 A.\n2 Where?\tb\n3 Where?\tb\t1 2\n", "line 3: the fact 2 is a question"),
        ("1 A.\n2 Where?\tb\t1\tc\n", "line 2: 4 columns"),
        ("1 A.\n2 Where?\n", "line 2: the question 'Where?' has no answer"),
        ("1 A.\n2 Where?\t\t1\n", "line 2: 3 columns"),
        ("\n\n", "there is no story"),
        ("", "there is no story"),
        ("99999999999999999999 A.\n", "line 1"),
        ("1 A.\n2 Where?\tb\t" + "9" * 5000 + "\n", "line 2"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, told):
    path = tmp_path / "story.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(told)) as error:
        read_stories(path)
    assert str(path) in str(error.value) and len(str(error.value)) < 6000


def test_a_question_may_go_without_its_answer_where_it_is_to_be_found():
    (story,) = parse_stories(["1 A went.", "2 Where is A?"], "it", answered=False)
    assert story.lines[1] == ("Where is A?", True, None, ())


@needs_shared
@pytest.mark.parametrize("number", [1, 2])
def test_made_stories_speak_as_the_real_training_files_do(number):
    (path,) = (SHARED / "data" / "babi" / "en").glob(f"qa{number}_*_train.txt")
    real = read_stories(path)
    made = [synthetic_story(SyntheticStories(facts=number), 0, "training", at) for at in range(150)]
    assert {word for story in real for line in story.lines for word in story_words(line.text)} == {
        word for story in made for line in story.lines for word in story_words(line.text)
    }
    assert StoryVocabulary.of(real) == StoryVocabulary.of(made)

    def forms(stories):
        named = re.compile("|".join((*PEOPLE, *PLACES, *THINGS)))
        return {named.sub("X", line.text) for story in stories for line in story.lines}

    assert forms(real) <= forms(made)
    assert all(len(story.lines) == 15 for story in made) or number == 2


@pytest.mark.parametrize("facts", [1, 2])
def test_the_facts_of_a_made_story_tell_its_answers(facts):
    for number in range(60):
        story = synthetic_story(SyntheticStories(facts=facts), 3, "test", number)
        assert sum(line.is_question for line in story.lines) == 5
        for at, line in enumerate(story.lines):
            if not line.is_question:
                continue
            assert len(line.supports) == facts and all(place < at for place in line.supports)
            last = story.lines[max(line.supports) if facts == 1 else line.supports[1]].text
            assert last.endswith(f" to the {line.answer}.")
            who = last.split()[0]
            before = story.lines[line.supports[0] if facts == 2 else at].text
            # Nobody named in the facts went anywhere else in between.
            until = line.supports[0] if facts == 2 and any(f" {word} " in before for word in DROP) else at
            later = [one.text for one in story.lines[line.supports[-1] + 1 : until]]
            assert not any(text.startswith(who) and " to the " in text for text in later)
            if facts == 2:
                assert any(f" {word} the " in before for word in (*TAKE, *DROP)) and before.startswith(who)


def test_a_made_story_depends_on_its_number_seed_and_part_alone():
    settings = SyntheticStories(facts=2)
    assert synthetic_story(settings, 0, "training", 5) == synthetic_story(settings, 0, "training", 5)
    others = [(1, "training", 5), (0, "test", 5), (0, "training", 6)]
    assert all(
        synthetic_story(settings, 0, "training", 5).lines != synthetic_story(settings, *other).lines for other in others
    )
    assert len(GO) == 5


def test_steps_and_batches_by_hand():
    first, second = parse_stories(TEXT.splitlines(), "it")
    vocabulary = StoryVocabulary.of([first, second])
    assert vocabulary.answers == ("bathroom", "garden")
    steps = encode_story(first, vocabulary, thinking=2, max_words=3)
    assert steps.kinds == [1, 1, 2, 3, 3] and steps.lines == [0, 1, 2, 2, 2]
    assert steps.answers == {4: 0}
    assert [len(words) for words in steps.words] == [3, 3, 3, 0, 0]  # cut at three words
    batch = StoryBatch.of([steps, encode_story(second, vocabulary, 2, 3)])
    assert batch.words.shape == (2, 5, 3)
    assert batch.kinds[1].tolist() == [1, 2, 3, 3, 0]
    assert batch.answers.tolist() == [[IGNORED] * 4 + [0], [IGNORED] * 3 + [1, IGNORED]]
    with pytest.raises(DataError, match="the answer 'garden' does not occur in training. Did you"):
        encode_story(second, StoryVocabulary(vocabulary.words, ("gardens",)), 0, 9)


def test_epochs_are_new_for_made_stories_and_another_order_for_those_of_a_file():
    made, read = (StoryBatches(lambda number: number, 7, 3, 0, new=new) for new in (True, False))
    assert made.plan(2) == [[14, 15, 16], [17, 18, 19], [20]]
    assert sorted(sum(read.plan(1), [])) == list(range(7)) and read.plan(1) != read.plan(2)
    assert read.plan(1) == read.plan(1)


def test_a_vocabulary_is_kept_as_json(tmp_path):
    vocabulary = StoryVocabulary(("a", "ü"), ("x",))
    vocabulary.save(tmp_path)
    assert StoryVocabulary.load(tmp_path) == vocabulary
    (tmp_path / "stories.json").write_text('{"words": "a"}')
    with pytest.raises(RunError, match="damaged"):
        StoryVocabulary.load(tmp_path)
    (tmp_path / "stories.json").unlink()
    with pytest.raises(RunError, match="missing"):
        StoryVocabulary.load(tmp_path)
