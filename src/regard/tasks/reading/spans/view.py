"""The picture of a reader that points: the weights of its two pointers, sentence by sentence and word by word."""

from typing import TYPE_CHECKING

import numpy as np

from regard.data.reading.questions import Question, words_in
from regard.views.view import Matrix, View

if TYPE_CHECKING:
    from regard.tasks.reading.spans.predictor import Found, SpansPredictor

_MOST = 40
"""Words of the text that are drawn one by one; of a longer one those around the answer."""

_WORDS = {
    "en": {
        "title": "{asked} → {answer} ({probability:.0%})",
        "nothing": "(the text does not answer)",
        "start": "start",
        "end": "end",
        "back": "back",
        "sentences": "by sentence",
        "words": "start and end pointer, and what the start attended to in the text, word by word",
        "asked": "what each word of the text attended to in the question",
        "pointer": "pointer",
        "sentence": "sentence",
        "word": "word of the text",
        "question": "word of the question",
        "here": "The answer: {before}[{answer}]{after}",
        "cut": "Words {first} to {last} of {count} are drawn.",
        "looked": "The start pointer's weight is highest on sentence {place}, {verdict}.",
        "is": "a fact that the answer needs",
        "not": "not a fact that the answer needs ({facts})",
        "right": "This is right.",
        "wrong": "Right is: {right}.",
    },
    "zh": {
        "title": "{asked} → {answer}（{probability:.0%}）",
        "nothing": "（文中没有答案）",
        "start": "首词",
        "end": "末词",
        "back": "回看",
        "sentences": "逐句",
        "words": "首词与末词指针，以及首词回看之处，逐词",
        "asked": "文中每个词看了问题的哪里",
        "pointer": "指针",
        "sentence": "句子",
        "word": "文中的词",
        "question": "问题的词",
        "here": "答案：{before}[{answer}]{after}",
        "cut": "共 {count} 个词，画出第 {first} 至 {last} 个。",
        "looked": "首词指针看得最多的是第 {place} 句，{verdict}。",
        "is": "正是回答所需的事实",
        "not": "不是回答所需的事实（{facts}）",
        "right": "回答正确。",
        "wrong": "正确答案是：{right}。",
    },
}


def span_view(answerer: "SpansPredictor", question: Question, language: str = "en") -> View:
    """Sentences and words by pointer, and the text's attention to the question.

    Args:
        answerer: a trained reader.
        question: about its text.
        language: "en" or "zh".
    """
    words, attention = _WORDS.get(language, _WORDS["en"]), answerer.attention(question)
    found, read = attention.found, words_in(question.text)
    answer = found.text or words["nothing"]
    title = words["title"].format(asked=question.question, answer=answer, probability=found.probability)
    rows = {words["start"]: found.weights, words["end"]: attention.ends}
    if found.words is not None:
        rows[words["back"]] = attention.back[found.words[0]]
    first, last = _shown(found, len(read))
    names = [one.text for one in read[first:last]]
    asked = [one.text for one in words_in(question.question)]
    notes = _notes(found, words)
    if last - first < len(read):
        notes.append(words["cut"].format(first=first + 1, last=last, count=len(read)))
    pointers = [each[first:last] for each in rows.values()]
    matrices = [
        Matrix(pointers, list(rows), names, words["words"], words["pointer"], words["word"]),
        Matrix(attention.asked[first:last].T, asked, names, words["asked"], words["question"], words["word"]),
    ]
    if len(question.sentences) > 1:
        sentences = [f"{number} {question.text[slice(*one)]}" for number, one in enumerate(question.sentences, 1)]
        each = [found.sums(one) for one in rows.values()]
        matrices.insert(
            0, Matrix(np.array(each).T, sentences, list(rows), words["sentences"], words["sentence"], words["pointer"])
        )
    return View("pointing", title, matrices, [*notes, *found.notes], language)


def _shown(found: "Found", count: int) -> tuple[int, int]:
    """The words that are drawn: all, or as many as there is room for with the answer amid them."""
    if count <= _MOST:
        return 0, count
    middle = int(found.weights.argmax()) if found.words is None else sum(found.words) // 2
    first = max(0, min(middle - _MOST // 2, count - _MOST))
    return first, first + _MOST


def _notes(found: "Found", words: dict[str, str]) -> list[str]:
    question, notes = found.question, []
    if found.span is not None:
        before, after = found.around()
        notes.append(words["here"].format(before=before, answer=found.text, after=after))
    if question.answers is not None:
        right = [one.text for one in question.answers] or [words["nothing"]]
        is_right = (found.text or words["nothing"]) in right
        notes.append(words["right"] if is_right else words["wrong"].format(right=" / ".join(dict.fromkeys(right))))
    if question.supports and found.most_read is not None:
        facts = ", ".join(str(place + 1) for place in question.supports)
        verdict = words["is" if found.most_read in question.supports else "not"].format(facts=facts)
        notes.append(words["looked"].format(place=found.most_read + 1, verdict=verdict))
    return notes
