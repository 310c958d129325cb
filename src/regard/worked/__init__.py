"""Numbers worked by hand in the literature, computed by the library step by step (`regard worked`).

Listing them needs no torch; it is imported when one is computed.
"""

from regard.worked.table import catalogue, run, run_all, work

__all__ = ["catalogue", "run", "run_all", "work"]
