"""Where the real inputs lie; tests that read them skip, with this reason, where they are absent."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder of real inputs is absent")
