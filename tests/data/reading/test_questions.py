"""Questions whose answers stand in a text: places of words and sentences, bAbI's stories, SQuAD's files, batches."""

import json
import time

import pytest

from regard.data.reading.babi import Story, StoryLine, read_stories
from regard.data.reading.question_batches import (
    NO_ANSWER,
    QuestionBatch,
    QuestionBatches,
    QuestionEncoder,
    batches_in_use,
    read_length,
)
from regard.data.reading.questions import (
    GivenAnswer,
    Question,
    question_of,
    questions_of,
    sentences_in,
    span_of,
    words_in,
)
from regard.data.reading.squad import read_squad
from regard.data.tagging.word_features import WordFeatures
from regard.errors import DataError
from tests.shared import SHARED, needs_shared

CONTEXT = "Zoë 🙂 wrote “On  Light” in 1704.\r\nIt costs 3.14 €!"


def squad(*asked, context=CONTEXT, title="Light"):
    return {"version": "v2.0", "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(asked)}]}]}


def asked(text, start, name="q1", **more):
    return {"id": name, "question": "Who wrote it?", "answers": [{"text": text, "answer_start": start}], **more}


def write(tmp_path, tree):
    path = tmp_path / "train.json"
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree), encoding="utf-8")
    return path


# Places -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [CONTEXT, "他住在北京。e\u0301te\u0301 x", " \ta  b\n\nc ", "a" * 100_000, "‏שלום‏ hi"])
def test_words_stand_where_they_say_k8(text):
    words = words_in(text)
    assert all(text[one.start : one.start + len(one.text)] == one.text for one in words)
    left = "".join(text[one.start + len(one.text) : other.start] for one, other in zip(words, words[1:], strict=False))
    assert not left.strip()  # nothing but spaces is between them


def test_words_are_units_and_han_is_read_by_the_character():
    assert [one.text for one in words_in("It's 3.14 €!")] == ["It", "'", "s", "3", ".", "14", "€", "!"]
    assert [one.text for one in words_in("他住在北京。")] == list("他住在北京。")


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(DataError, match="half of a surrogate pair at place 2"):
        words_in("ab\ud83d")


def test_a_sentence_ends_with_its_mark_or_its_line():
    def cut(text):
        return [text[start:end] for start, end in sentences_in(text)]

    assert cut("He paid 3.14 €. “Really?” she said!  Yes…\n no mark \n\nU.S. law.") == [
        "He paid 3.14 €.", "“Really?”", "she said!", "Yes…", "no mark", "U.S.", "law.",
    ]  # fmt: skip
    assert cut("他住在北京。“是吗？”他问。") == ["他住在北京。", "“是吗？”", "他问。"]
    assert cut(" \n\t") == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, (0, 0)), (3, 8, (1, 1)), (0, 8, (0, 1)), (4, 6, (1, 1)), (1, 4, (0, 1)), (2, 3, None), (8, 9, (2, 2))],
)
def test_the_words_of_some_characters(start, end, expected):
    assert span_of(words_in("ab cdefg."), start, end) == expected  # words at 0–2, 3–8 and 8–9


# bAbI ---------------------------------------------------------------------------------------------------------------


def story(*lines):
    return Story(tuple(lines), "it, line 1")


def test_an_answer_of_a_story_is_given_wherever_it_stands():
    asks = StoryLine("Where is Mary?", True, "garden", (2,))
    told = [
        StoryLine("John left the Garden."),
        StoryLine("Who?", True, "John"),
        StoryLine("Mary is in the garden."),
        asks,
    ]
    _, one = questions_of(story(*told))
    assert one.text == "John left the Garden.\nMary is in the garden."
    assert one.answers == (GivenAnswer("Garden", 14), GivenAnswer("garden", 37))
    assert [one.text[start:end] for start, end in one.sentences] == ["John left the Garden.", "Mary is in the garden."]
    assert one.supports == (1,)  # the second sentence of the text, not the third line of the story


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [StoryLine("Mary left."), StoryLine("Did she?", True, "yes")],
            "the answer 'yes' to 'Did she\\?' stands nowhere",
        ),
        ([StoryLine("Where?", True, "here")], "comes before any sentence"),
        ([StoryLine("Mary left."), StoryLine("?", True, "Mary")], "the question '\\?' has no words"),
    ],
)
def test_what_cannot_be_pointed_at_is_reported(lines, told):
    with pytest.raises(DataError, match="it, line 1: .*" + told):
        questions_of(story(*lines))


@needs_shared
def test_the_real_stories_can_be_pointed_at():
    """Counted by a plain loop over the file beforehand."""
    path = SHARED / "data" / "babi" / "en" / "qa1_single-supporting-fact_train.txt"
    questions = [one for each in read_stories(path) for one in questions_of(each)]
    lengths = [len(words_in(one.text)) for one in questions]
    assert (len(questions), max(lengths)) == (1000, 66) and sum(lengths) / 1000 == pytest.approx(37.136)
    for one in questions:
        assert all(one.text[given.start :].startswith(given.text) for given in one.answers)
        facts = " ".join(one.text[slice(*one.sentences[place])] for place in one.supports)
        assert one.answers[0].text in facts


# As a person writes it ----------------------------------------------------------------------------------------------


def test_the_last_sentence_may_be_the_question():
    one = question_of("  Mary left. \n John came. Who left?  ")
    assert (one.text, one.question) == ("  Mary left. \n John came.", "Who left?")
    assert one.text[13:] == "\n John came." and one.answers is None
    assert question_of("玛丽走了。谁走了？").question == "谁走了？"


@pytest.mark.parametrize(
    ("text", "question", "told"),
    [
        ("", "Who?", "the story is empty"),
        (" \n…!", "Who?", "the story is empty"),
        ("Who left?", None, "the story is empty"),
        ("Mary left.", None, "there is no question"),
        ("", None, "there is no question"),
        ("Mary left.", " ?! ", "has no words"),
        ("Mary \udc80 left.", "Who?", "here: .*surrogate"),
    ],
)
def test_an_empty_text_or_question_is_reported_k8(text, question, told):
    with pytest.raises(DataError, match=told):
        question_of(text, question, "here")


# SQuAD --------------------------------------------------------------------------------------------------------------


def test_squad_1_and_2_are_read(tmp_path):
    none = {"id": "q2", "question": "Who burnt it?", "answers": [], "is_impossible": True,
            "plausible_answers": [{"text": "Zoë", "answer_start": 0}]}  # fmt: skip
    several = asked("On  Light", 13, "q3", is_impossible=False)
    several["answers"] += [{"text": "“On  Light”", "answer_start": 12}, {"text": "On  Light", "answer_start": 13}]
    tree = squad(asked("Zoë", 0), none, several)
    tree["data"][0]["paragraphs"].append({"context": "No questions.", "qas": []})
    [[first, second, third]] = read_squad(write(tmp_path, tree))
    assert first.answers == (GivenAnswer("Zoë", 0),) and first.text == CONTEXT and first.id == "q1"
    assert second.answers == () and "article 'Light', question 'q2'" in second.place
    assert third.answers == (GivenAnswer("On  Light", 13), GivenAnswer("“On  Light”", 12))  # the emoji is one character
    [[untold, *_]] = read_squad(tmp_path / "train.json", answered=False)
    assert untold.answers is None


@pytest.mark.parametrize("answers", [{"answers": None}, {"answers": []}, {}])
def test_an_impossible_question_has_no_answers_however_that_is_written(tmp_path, answers):
    none = {"id": "q2", "question": "Who burnt it?", "is_impossible": True, **answers}
    [[one]] = read_squad(write(tmp_path, squad(none)))
    assert one.answers == ()


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ("{", "train.json: this is not JSON"),
        ("[" * 100_000, "train.json: this is not JSON"),
        ([], "train.json: an object is expected, not a list"),
        ({"articles": []}, "there is no field 'data'"),
        ({"data": []}, "there is no question in it"),
        ({"data": [{"title": "A"}]}, "article 'A': there is no field 'paragraphs'"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "article 1, paragraph 1: there is no field 'context'"),
        (
            squad(asked("Zoe", 0)),
            "'Light', question 'q1': at answer_start 0 stands 'Zoë', not the answer 'Zoe'",
        ),
        (squad(asked("wrote", 7)), "question 'q1'.*it stands at 6; places are counted in characters"),
        (squad(asked("Zoë", -3)), "question 'q1': at answer_start -3"),
        (squad(asked(" ", 3)), "question 'q1': an answer is empty"),
        (squad(asked("Zoë", True)), "question 'q1', answer_start: a whole number is expected, not true or false"),
        (squad(asked("Zoë", 0.0)), "answer_start: a whole number is expected, not a number"),
        (squad(asked("Zoë", 0, is_impossible=True)), "question 'q1': it is_impossible and has answers"),
        (squad(asked("Zoë", 0), asked("Zoë", 0)), "question 'q1': an earlier question has the same id"),
        (squad({"id": "q7", "question": "Who?", "answers": []}), "question 'q7': it has no answers"),
        (squad({"id": "q7", "question": "Who?"}), "question 'q7': there is no field 'answers'"),
        (
            squad({"id": "q7", "question": "Who?", "answers": None}),
            "question 'q7', answers: a list is expected, not null",
        ),
        (
            squad({"id": "q7", "question": "Who?", "answers": "", "is_impossible": True}),
            "question 'q7', answers: a list is expected, not a string",
        ),
        (squad({"id": "q7", "question": None, "answers": []}), "question: a string is expected, not null"),
        (squad(asked("Zoë", 0), context="\n"), "question 'q1': at answer_start 0 stands"),
        (squad(asked("!", 0), context="!"), "question 'q1': the story is empty"),
        (squad("no"), "paragraph 1, question 1: an object is expected, not a string"),
    ],
)
def test_a_file_that_is_otherwise_is_refused_with_article_and_question(tmp_path, tree, told):
    with pytest.raises(DataError, match=told):
        read_squad(write(tmp_path, tree))


# Batches ------------------------------------------------------------------------------------------------------------


def encoder(longest=3):
    words = ["zoë", "wrote", "light", "who", "it"]
    return QuestionEncoder(WordFeatures.train(words, least=1, affix=0), longest)


def test_places_count_from_one_and_long_answers_are_none():
    def spans(*answers):
        return encoder().spans(Question(CONTEXT, "Who?", answers, sentences_in(CONTEXT)))

    # Zoë 🙂 wrote “ On Light ” in 1704 .
    assert spans(GivenAnswer("Zoë", 0)) == [(1, 1)] and spans(GivenAnswer("On  Light", 13)) == [(5, 6)]
    assert spans(GivenAnswer("Zo", 0), GivenAnswer("Zoë", 0)) == [(1, 1)]  # within a word is the word
    assert spans(GivenAnswer("“On  Light”", 12), GivenAnswer("Light”", 17)) == [(6, 7)]  # 4 words are more than 3
    assert spans() == [NO_ANSWER]


def test_what_stands_in_the_question_is_marked_in_any_case():
    one = encoder()(question_of("It WROTE it. Light.", "wrote it?"))
    assert one.in_question == [1, 1, 1, 0, 0, 0]
    assert one.spans == [] and len(one.question) == 3


def test_a_batch_pads_with_nothing():
    given = (GivenAnswer("Light", 0), GivenAnswer("light", 7))
    two = [encoder()(question_of("Who wrote it?", "who")), encoder()(Question("Light. light", "it", given, ((0, 12),)))]
    batch = QuestionBatch.of(two)
    assert batch.lengths.tolist() == [4, 3] and batch.text[1, 3].tolist() == [0] * batch.text.shape[-1]
    assert batch.spans.tolist() == [[[0, 0], [0, 0]], [[1, 1], [3, 3]]] and batch.is_answer.tolist() == [
        [False] * 2,
        [True] * 2,
    ]


def test_a_long_row_of_marks_is_gone_through_once():
    """A text of 200,000 dots took minutes, since each was tried as the one that ends the sentence (B32's kind).

    Eight times as many dots take eight times as long; each tried with all that follow, 64 times.
    """

    def seconds(count):
        each = []
        for _ in range(3):
            began = time.process_time()
            assert sentences_in("." * count + "a b. c") == ((0, count + 4), (count + 5, count + 6))
            each.append(time.process_time() - began)
        return min(each)

    assert seconds(200_000) < 24 * seconds(25_000)


def test_each_question_comes_once_an_epoch_with_others_of_its_length():
    lengths = [7, 3, 5, 3, 2, 7, 5]
    batches = QuestionBatches(lambda number: None, 7, 3, 11, lengths)
    assert batches.plan(0) == batches.plan(0) != batches.plan(1)
    for epoch in range(3):
        plan = batches.plan(epoch)
        assert sorted(sum(plan, [])) == list(range(7))
        spans = sorted(sorted(lengths[at] for at in one) for one in plan)
        assert spans == [[2, 3, 3], [5, 5, 7], [7]]
    assert QuestionBatches(lambda number: None, 5, 2, 11, None).plan(1) == [[5, 6], [7, 8], [9]]


def test_long_texts_are_read_by_themselves_and_too_long_ones_not_at_all():
    """Held-out texts, which nothing bounds, were read a whole batch together: the square of the longest, each."""
    lengths = [7, 5000, 3, 3000, 11]
    assert batches_in_use(lengths) == [[1], [4, 3], [2, 0]]
    assert batches_in_use([5, 2, 3], 2) == [[2, 0], [1]] and batches_in_use([]) == []
    assert all(len(some) * max(lengths[at] for at in some) <= 8000 for some in batches_in_use(lengths))
    with pytest.raises(DataError, match="q7: the text has 10001 words, and at most 10000"):
        read_length(Question("a " * 10_001, "a?", None, (), place="q7"))
