"""beartype as the suite uses it: with Python's own rule that an int may stand where a float is expected (PEP 484)."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
