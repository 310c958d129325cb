"""Questions about texts as a run that points needs them: its words, its batches, and those that are held out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from regard.data.reading.babi import read_stories
from regard.data.reading.question_batches import (
    NO_ANSWER,
    EncodedQuestion,
    QuestionBatch,
    QuestionBatches,
    QuestionEncoder,
    batches_in_use,
    read_length,
)
from regard.data.reading.questions import Question, questions_of, words_in
from regard.data.reading.settings import StoriesSettings, SyntheticStories
from regard.data.reading.squad import read_squad
from regard.data.reading.stories import synthetic_stories, synthetic_story
from regard.data.tagging.word_features import WordFeatures
from regard.errors import ConfigError, DataError
from regard.files import read_json, write_json
from regard.models.reading.span_settings import SpanReaderSettings
from regard.tasks.core.task import Prepared
from regard.tasks.reading.settings import ReadingSettings

_FILE = "spans.json"
_SAMPLE = 300
"""Synthetic stories from which the words are taken: each of their few dozen comes in hundreds of them."""


@dataclass(frozen=True)
class Known:
    """What a run knows besides its weights.

    Attributes:
        features: of words.
        nothing: whether its training had unanswerable questions; only then may it predict that there is no answer.
    """

    features: WordFeatures
    nothing: bool

    @staticmethod
    def of(questions: list[Question], settings: SpanReaderSettings) -> "Known":
        """The words of some questions and their texts, a text counted once."""
        texts = [*dict.fromkeys(one.text for one in questions), *(one.question for one in questions)]
        words = (word.text for text in texts for word in words_in(text))
        features = WordFeatures.train(words, least=settings.least, affix=settings.affix)
        return Known(features, any(one.answers == () for one in questions))

    def save(self, folder: Path) -> None:
        """Write `words.json` and `spans.json`."""
        self.features.save(folder)
        write_json(folder / _FILE, {"nothing": self.nothing})

    @staticmethod
    def load(folder: Path) -> "Known":
        """Read what `save` wrote.

        Raises:
            RunError: a file is missing or damaged.
        """
        nothing = read_json(
            folder / _FILE, lambda kept: bool(kept["nothing"]), "whether it may predict that there is no answer"
        )
        return Known(WordFeatures.load(folder), nothing)


Questions = Prepared[Known, QuestionBatch, list[QuestionBatch]]
"""A run's questions, ready to train on."""


def prepare(settings: ReadingSettings, saved: Path | None, say: Callable[[str], None]) -> Questions:
    """Read or make the questions, count or load the words, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps what it knows, if it does already.
        say: called with what is left out of training.

    Raises:
        DataError: no question that is held out has an answer short enough to choose the best weights by.
    """
    data, model = settings.data, settings.span
    made = data.made
    training = _flat(_sample(made, settings.seed)) if made is not None else _flat(split(settings)[0])
    known = Known.of(training, model) if saved is None else Known.load(saved)
    encode = QuestionEncoder(known.features, model.longest)
    if made is not None:
        seed = settings.seed if made.seed is None else made.seed
        count = made.count * made.questions
        batches = QuestionBatches(
            lambda number: encode(_made(made, seed, number)), count, data.batch, settings.seed, None
        )
    else:
        kept = _usable(training, encode, data.longest_text, say)
        lengths = [len(words_in(one.text)) for one in kept]
        batches = QuestionBatches(lambda at: encode(kept[at]), len(kept), data.batch, settings.seed, lengths)
    held = held_out(settings)
    # Nothing bounds these texts as data.longest_text does those of training, so a long one is read by itself.
    batches_held = batches_in_use([read_length(one) for one in held], data.batch)
    encoded = [encode(one) for one in held]
    if not known.nothing:
        encoded = _possible(encoded, say)
    if not any(one.spans for one in encoded):
        raise DataError(
            f"no question that is held out has an answer of {model.longest} words or fewer to choose the best weights "
            "by; hold out more (data.validation), or allow longer ones (model.longest)"
        )
    return Prepared(known, batches, [QuestionBatch.of([encoded[at] for at in some]) for some in batches_held])


def _usable(
    questions: list[Question], encode: QuestionEncoder, longest_text: int, say: Callable[[str], None]
) -> list[Question]:
    """The questions that can be learned from; what is left out, or learned otherwise than the data say, is reported."""
    short = [one for one in questions if len(words_in(one.text)) <= longest_text]
    kept = [one for one in short if encode.spans(one)]
    if short != questions:
        say(
            f"{len(questions) - len(short)} of {len(questions)} questions are left out of training: their texts have "
            f"more than data.longest_text={longest_text} words"
        )
    if kept != short:
        say(
            f"{len(short) - len(kept)} of {len(short)} questions are left out of training: their answers have more "
            f"than model.longest={encode.longest} words"
        )
    if not kept:
        raise DataError("no question is left to train on")
    if within := sum(_cuts_words(one) for one in kept):
        say(f"the answers to {within} questions begin or end within a word; the whole words are learned")
    return kept


def _possible(held: list[EncodedQuestion], say: Callable[[str], None]) -> list[EncodedQuestion]:
    """Unanswerable questions are treated as unlabelled: a reader trained without any cannot predict them."""
    without = sum(NO_ANSWER in one.spans for one in held)
    if without:
        say(
            f"{without} of {len(held)} questions that are held out have no answer, and training has none such: they do "
            "not count when the best weights are chosen"
        )
    return [one._replace(spans=[]) if NO_ANSWER in one.spans else one for one in held]


def _cuts_words(question: Question) -> bool:
    words = words_in(question.text)
    starts, ends = {one.start for one in words}, {one.start + len(one.text) for one in words}
    return any(
        one.start + len(one.text) - len(one.text.lstrip()) not in starts
        or one.start + len(one.text.rstrip()) not in ends
        for one in question.answers or ()
    )


def split(settings: ReadingSettings) -> tuple[list[list[Question]], list[list[Question]]]:
    """The stories or texts of the file with their questions: those for training, and the last ones, held out.

    Raises:
        DataError: so many texts are to be held out that none is left to train on.
    """
    data = settings.data
    groups, name = _read(data), data.squad or data.babi
    if len(groups) <= data.validation:
        raise DataError(
            f"{name} has {len(groups)} texts with questions, of which data.validation={data.validation} are to be held "
            "out: none is left to train on; hold out fewer"
        )
    return groups[: -data.validation], groups[-data.validation :]


def held_out(settings: ReadingSettings) -> list[Question]:
    """The questions that a run holds out from its training."""
    data = settings.data
    if data.made is None:
        return _flat(split(settings)[1])
    made = synthetic_stories(data.made.model_copy(update={"count": data.validation}), settings.seed, "validation")
    return _flat([questions_of(story) for story in made])


def tested(data: StoriesSettings, seed: int) -> list[Question]:
    """The questions of a test."""
    if data.made is not None:
        return _flat([questions_of(story) for story in synthetic_stories(data.made, seed, "test")])
    return _flat(_read(data))


def example(settings: ReadingSettings) -> Question:
    """A question to look at: of a synthetic story of the test part, or the first that is held out."""
    made = settings.data.made
    return held_out(settings)[0] if made is None else questions_of(synthetic_story(made, settings.seed, "test", 0))[-1]


def _read(data: StoriesSettings) -> list[list[Question]]:
    if data.squad is not None:
        return read_squad(data.squad)
    if data.babi is None:
        raise ConfigError("no stories are named")
    found = [questions_of(story) for story in read_stories(data.babi)]
    if not any(found):
        raise DataError(f"{data.babi}: there is no question in it")
    return [one for one in found if one]


def _sample(made: SyntheticStories, seed: int) -> list[list[Question]]:
    stories = synthetic_stories(made.model_copy(update={"count": _SAMPLE}), seed, "training")
    return [questions_of(story) for story in stories]


@lru_cache(maxsize=64)
def _story(made: SyntheticStories, seed: int, number: int) -> tuple[Question, ...]:
    return tuple(questions_of(synthetic_story(made, seed, "training", number)))


def _made(made: SyntheticStories, seed: int, number: int) -> Question:
    """Question number n of synthetic stories without end."""
    story, question = divmod(number, made.questions)
    return _story(made, seed, story)[question]


def _flat(groups: list[list[Question]]) -> list[Question]:
    return list(chain.from_iterable(groups))
