"""Run-time shape checks for the whole suite: jaxtyping annotations become beartype checks."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook  # noqa: E402

# The hook must be in place before regard's modules are imported, so nothing above imports them.
_hook = install_import_hook("regard", "beartype.beartype")
