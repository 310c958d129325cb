"""How wide a search among words may be."""

from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError

_ALWAYS = 128  # hypotheses that any machine holds: to find all answers of a small vocabulary is a fair wish


def check_beam(search: SearchSettings, vocabulary: int) -> None:
    """Refuse a large beam that is wider than the vocabulary: it takes all the time and memory there is.

    Args:
        search: of a search; with `sample` its beam counts independent draws, of which there may be any number.
        vocabulary: entries that are chosen among at each step.

    Raises:
        ConfigError: the beam is wider than both the vocabulary and 128.
    """
    most = max(vocabulary, _ALWAYS)
    if not search.sample and search.beam > most:
        raise ConfigError(
            f"the beam is {search.beam} hypotheses, and the vocabulary has {vocabulary} entries; give at most {most}. "
            "A hypothesis takes the time and the memory of a line of its own, and a handful is usual"
        )
