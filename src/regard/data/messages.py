"""What reading data reports: most of it should be looked at, such as sentences that are cut; some only informs."""


class Information(str):
    """A line that asks nothing of anybody: how much there is, or how far a long work has come.

    Whoever is called with such lines can tell them from warnings, as the command line does.
    """

    __slots__ = ()
