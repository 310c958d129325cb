"""Whether the native loops are here; tests of what only they do skip, with this reason, where they are not."""

import pytest

from regard.kernels.native import compiler

needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="no C++ compiler is here, or loops are off")
