"""Search settings: contradictions are refused together, at once, before torch is even loaded."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from regard.decoding.settings import SearchSettings


def test_every_contradiction_is_in_one_message():
    """B25: 10 n-best of 5 beams is refused at the start, with both numbers named."""
    with pytest.raises(ValidationError) as caught:
        SearchSettings(beam=5, n_best=10, max_length=3, min_length=3, temperature=0.7, top_k=4)
    message = str(caught.value)
    for part in ("n_best 10", "beam 5", "min_length 3", "max_length 3", "temperature, top_k", "sample"):
        assert part in message


@pytest.mark.parametrize(
    "wrong",
    [{"beam": 0}, {"n_best": 0}, {"length_penalty": -1.0}, {"coverage_penalty": -0.1}, {"seed": -1}, {"beams": 3},
     {"temperature": 0.0, "sample": True}, {"top_p": 1.5, "sample": True}, {"max_length": -1},
     {"length_penalty": float("nan")}],
)  # fmt: skip
def test_impossible_values(wrong):
    with pytest.raises(ValidationError):
        SearchSettings(**wrong)


def test_the_length_rule():
    assert SearchSettings(max_ratio=1.5, max_extra=3).limits([0, 1, 7]) == [3, 5, 14]  # ceil(1.5), ceil(10.5)
    assert SearchSettings(max_length=5).limits([0, 1, 7]) == [5, 5, 5]


def test_settings_are_read_without_torch():
    code = "import sys, regard.decoding.settings, regard.decoding.batches; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
