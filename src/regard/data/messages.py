"""What reading data tells: most of it should be looked at, such as sentences that are cut; some of it is only news."""


class News(str):
    """A line that asks nothing of anybody: how much there is, or how far a long work has come.

    Whoever is told by `say(line)` may tell such lines from the others, as the command line does, which warns of those.
    """

    __slots__ = ()
