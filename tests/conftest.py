"""Run-time shape checks for the whole suite: jaxtyping annotations become beartype checks."""

import os
import random
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("REGARD_CHECK_LOOPS", "1")

# Beartype draws which element of a list it looks at; not from the generator whose place a resumed run must find again.
with patch("random.getrandbits", random.Random(0).getrandbits):
    import tests.typecheck  # noqa: F401

from jaxtyping import install_import_hook  # noqa: E402

# The hook must be in place before regard's modules are imported, so nothing above imports them.
_hook = install_import_hook("regard", "tests.typecheck.checked")


def pytest_collection_modifyitems(items):
    """Tests for a GPU run wherever one is at hand, unasked."""
    import pytest
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
