"""The picture of a reader at work: which sentences its heads read for an answer, and which slots are in use."""

from typing import TYPE_CHECKING, Any

import torch

from regard.data.reading.babi import Story
from regard.data.reading.story_batches import StoryBatch, encode_story
from regard.views.view import Matrix, View

if TYPE_CHECKING:
    from regard.tasks.reading.stories.predictor import Answered, StoriesPredictor

_WORDS = {
    "en": {
        "title": "A story read: {right} of {count} answers right",
        "unscored": "A story read",
        "asked": "{question} → {answer} ({probability:.0%})",
        "wrong": ", expected: {expected}",
        "head": "{head}, question",
        "thinking": "{head}, thinking {step}",
        "usage": "usage: how much of each slot is in use after each step",
        "step": "step",
        "slot": "slot",
        "row": "head",
        "column": "sentence",
        "asks": "question",
        "answer": "answer",
        "looked": "{question}: the sentence read most is {place}, {verdict}.",
        "is": "a fact that the answer needs",
        "not": "not a fact that the answer needs ({facts})",
        "how": "Of a sentence: what its step wrote to a slot × what later steps left of it × how much that is read.",
        "no_heads": "This model has no heads that read and write: what it remembers is in its state alone.",
        "thought": "…",
    },
    "zh": {
        "title": "读一个故事：{count} 个回答中 {right} 个正确",
        "unscored": "读一个故事",
        "asked": "{question} → {answer}（{probability:.0%}）",
        "wrong": "，标准答案：{expected}",
        "head": "{head}，读问题时",
        "thinking": "{head}，思考第 {step} 步",
        "usage": "使用率：每一步之后各槽被占用的程度",
        "step": "步",
        "slot": "槽",
        "row": "磁头",
        "column": "句子",
        "asks": "问题",
        "answer": "答案",
        "looked": "{question}：读得最多的是第 {place} 句，{verdict}。",
        "is": "正是回答所需的事实",
        "not": "不是回答所需的事实（{facts}）",
        "how": "对每个句子：该步写入各槽的量，乘以后来各步所留下的份额，再乘以该槽被读取的权重。",
        "no_heads": "这个模型没有读写磁头：它记住的一切都在自身的状态里。",
        "thought": "…",
    },
}


def reading_view(answerer: "StoriesPredictor", story: Story, language: str = "en") -> View:
    """Sentences × heads for every question of a story, and the usage of the memory over time where it is kept.

    Args:
        answerer: a trained reader.
        story: with its questions.
        language: "en" or "zh".
    """
    words, answered = _WORDS.get(language, _WORDS["en"]), answerer.answer([story])
    matrices = [_question(one, words) for one in answered if one.looks and one.facts]
    notes = [_looked(one, words) for one in answered if one.question.supports and one.most_read is not None]
    notes = [*notes, words["how"]] if matrices else [words["no_heads"]]
    usage = _usage(answerer, story, words)
    with_answers = [one for one in answered if one.question.answer is not None]
    right = sum(one.answer == one.question.answer for one in with_answers)
    title = words["title"].format(right=right, count=len(with_answers)) if with_answers else words["unscored"]
    notes += answerer.notes(story.lines)
    if not matrices:
        answers = list(answered[0].probabilities)
        rows = [[one.probabilities[answer] for answer in answers] for one in answered]
        asked = [one.question.text for one in answered]
        matrices = [Matrix(rows, asked, answers, row_axis=words["asks"], column_axis=words["answer"])]
        return View("answers", title, matrices, notes, language)
    return View("memory", title, [*matrices, *usage], notes, language)


def _question(one: "Answered", words: dict[str, str]) -> Matrix:
    facts = one.facts
    expected = one.question.answer
    title = words["asked"].format(question=one.question.text, answer=one.answer, probability=one.probability)
    if expected is not None and expected != one.answer:
        title += words["wrong"].format(expected=expected)
    rows = [words["thinking" if look.step else "head"].format(head=look.head, step=look.step) for look in one.looks]
    columns = [f"{place + 1} {one.story.lines[place].text}" for place in facts]
    return Matrix([look.weights[facts] for look in one.looks], rows, columns, title, words["row"], words["column"])


def _looked(one: "Answered", words: dict[str, str]) -> str:
    found = one.most_read in one.question.supports
    facts = ", ".join(str(place + 1) for place in one.question.supports)
    verdict = words["is" if found else "not"].format(facts=facts)
    return words["looked"].format(question=one.question.text, place=int(one.most_read or 0) + 1, verdict=verdict)


@torch.no_grad()
def _usage(answerer: "StoriesPredictor", story: Story, words: dict[str, str]) -> list[Matrix]:
    """Steps × slots, of a model whose state keeps the usage of its slots."""
    model: Any = answerer.model
    steps = encode_story(
        story, answerer.vocabulary, answerer.settings.sentences.thinking, answerer.settings.data.max_words
    )
    batch = StoryBatch.of([steps]).to(next(model.parameters()).device)
    state = model.machine.start(1)
    if not hasattr(state, "usage"):
        return []
    rows = []
    for now in model.sentences(batch.words, batch.kinds).unbind(1):
        state = model.machine.step(state, now).state
        rows.append(state.usage[0].tolist())
    labels = [f"{line + 1} {story.lines[line].text}" if text else words["thought"]
              for line, text in zip(steps.lines, steps.words, strict=True)]  # fmt: skip
    columns = [str(slot) for slot in range(len(rows[0]))]
    return [Matrix(rows, labels, columns, words["usage"], words["step"], words["slot"])]
