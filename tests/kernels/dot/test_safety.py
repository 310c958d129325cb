"""A look of the loop of dot products, without the products, finds what a call finds."""

import pytest
import torch

from regard.kernels.dot import dot
from regard.kernels.dot.safety import reads_safely
from tests.kernels.dot.dot_reference import ALL, CAUSAL
from tests.native import needs_compiler

pytestmark = needs_compiler  # it is a loop's look
RAGGED = ALL._replace(lengths=[211, 67], query_lengths=[97, 0])
APART = ALL._replace(window=(11, 5), offset=200)  # later queries see nothing
VISIBLE = {"all": ALL, "causal": CAUSAL, "ragged": RAGGED, "apart": APART}
FILLS = (0.0, torch.nan, -torch.inf, 1e19, 3e19, 1e30, 3e38)


@pytest.mark.parametrize("unit", (True, False))
@pytest.mark.parametrize("directions", (dot.NO_DIRECTIONS, (True, True), (True, False)))
@pytest.mark.parametrize("visible", VISIBLE)
def test_a_check_ahead_finds_what_a_call_finds(visible, directions, unit, monkeypatch):
    monkeypatch.setattr(dot, "_MATRIX_UNIT", unit)
    options = {"visible": VISIBLE[visible], "directions": directions}
    found = []
    for which in range(3):
        for place in (2, 61, 90, 150, 210):
            for fill in FILLS:
                torch.manual_seed(0)
                given = [torch.randn(2, 2, size, 7, requires_grad=True) for size in (97, 211, 211)]
                if place >= given[which].shape[2]:
                    continue
                with torch.no_grad():
                    given[which][1, 1, place, 3] = fill
                for scale in (0.3, 1e6):
                    check = dot.SafetyCheck()
                    dot.attention(*given, bias=None, scale=scale, dropout=0.0, check=check, **options)
                    found.append(check.safe)
                    assert reads_safely(*given, scale=scale, **options) is check.safe, (which, place, fill, scale)
    assert True in found and (False in found)


def test_a_check_of_empty_tensors():
    for shape in ((0, 2, 17, 5), (2, 2, 17, 0)):
        given = [torch.randn(shape) for _ in range(3)]
        assert reads_safely(*given, visible=ALL, scale=1.0, directions=dot.NO_DIRECTIONS)
