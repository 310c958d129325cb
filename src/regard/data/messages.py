"""What reading data reports: most messages are warnings, such as of sentences that are cut; some only inform."""


class Information(str):
    """A message that needs no attention: how much data there is, or how far a long job has come.

    A callback can distinguish such messages from warnings, as the command line does.
    """

    __slots__ = ()
