"""Stories as a run needs them: its vocabulary, its batches, and those that are held out."""

from collections.abc import Callable
from pathlib import Path

from regard.data.reading.babi import Story, read_stories
from regard.data.reading.settings import ReadingData, StoriesSettings, SyntheticStories
from regard.data.reading.stories import synthetic_stories, synthetic_story
from regard.data.reading.story_batches import StoryBatch, StoryBatches, StoryVocabulary, encode_story
from regard.errors import ConfigError, DataError
from regard.tasks.core.task import Prepared
from regard.tasks.reading.settings import ReadingSettings

_SAMPLE = 300
"""Synthetic stories from which the vocabulary is taken: each of their few dozen words comes in hundreds of them."""


Stories = Prepared[StoryVocabulary, StoryBatch, list[StoryBatch]]
"""A run's stories, ready to train on."""


def prepare_stories(settings: ReadingSettings, saved: Path | None, say: Callable[[str], None]) -> Stories:
    """Read or make the stories, take or load the vocabulary, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps its vocabulary, if it has one already.
        say: not called here: stories are used as they are.

    Raises:
        DataError: the training stories have no question.
    """
    data, made = settings.data, settings.data.made
    training = _sample(made, settings.seed) if made is not None else split(data)[0]
    vocabulary = StoryVocabulary.of(training) if saved is None else StoryVocabulary.load(saved)
    if not vocabulary.answers:
        raise DataError("there is no question in the training stories; there is nothing to learn")
    reading = vocabulary, settings.sentences.thinking, data.max_words
    seed = settings.seed if made is None or made.seed is None else made.seed
    if made is not None:
        batches = StoryBatches(
            lambda number: encode_story(synthetic_story(made, seed, "training", number), *reading),
            made.count, data.batch, settings.seed, new=True,
        )  # fmt: skip
    else:
        steps = [encode_story(story, *reading) for story in training]
        batches = StoryBatches(steps.__getitem__, len(steps), data.batch, settings.seed, new=False)
    held = [encode_story(story, *reading) for story in held_out(settings)]
    return Prepared(
        vocabulary, batches, [StoryBatch.of(held[at : at + data.batch]) for at in range(0, len(held), data.batch)]
    )


def split(data: ReadingData) -> tuple[list[Story], list[Story]]:
    """The stories of the file: those for training, and the last ones, which are held out.

    Raises:
        ConfigError: no file of stories is named.
        DataError: so many stories are to be held out that none is left to train on.
    """
    if data.babi is None:
        raise ConfigError("no stories are named to split")
    stories = read_stories(data.babi)
    if len(stories) <= data.validation:
        raise DataError(
            f"{data.babi} has {len(stories)} stories, of which data.validation={data.validation} are to be held out: "
            "none is left to train on; hold out fewer"
        )
    return stories[: -data.validation], stories[-data.validation :]


def held_out(settings: ReadingSettings) -> list[Story]:
    """The stories that a run holds out from its training."""
    data = settings.data
    if data.made is None:
        return split(data)[1]
    return synthetic_stories(data.made.model_copy(update={"count": data.validation}), settings.seed, "validation")


def tested(data: StoriesSettings, seed: int) -> list[Story]:
    """The stories of a test."""
    return read_stories(data.babi) if data.babi is not None else synthetic_stories(_given(data.made), seed, "test")


def example(settings: ReadingSettings) -> Story:
    """A story to look at: a synthetic one of the test part, or the first that is held out."""
    made = settings.data.made
    return held_out(settings)[0] if made is None else synthetic_story(made, settings.seed, "test", 0)


def _sample(made: SyntheticStories, seed: int) -> list[Story]:
    return synthetic_stories(made.model_copy(update={"count": _SAMPLE}), seed, "training")


def _given(made: SyntheticStories | None) -> SyntheticStories:
    if made is None:
        raise ConfigError("no stories are named to test on")
    return made
