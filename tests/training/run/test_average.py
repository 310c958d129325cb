"""The mean of weights, by hand."""

import pytest
import torch
from safetensors.torch import save_file

from regard.errors import RunError
from regard.training.run.average import average_weights


def test_the_mean_by_hand(tmp_path):
    """Float32 sums would lose the ones beside 2²⁴ (16,777,216 + 1 = 16,777,216); the mean of three is exact here."""
    rows = [(2.0**24, 1.0), (1.0, 2.0), (1.0, 6.0)]
    for number, row in enumerate(rows):
        save_file({"w": torch.tensor(row), "seen": torch.tensor([7])}, tmp_path / f"{number}.safetensors")
    files = [tmp_path / f"{number}.safetensors" for number in range(3)]
    mean = average_weights(files)
    assert mean["w"].dtype == torch.float32 and mean["w"].tolist() == [5592406.0, 3.0]
    assert mean["seen"].tolist() == [7]
    assert average_weights([files[1], files[1], files[2]])["w"].tolist() == pytest.approx([1.0, 10 / 3])
    save_file({"w": torch.tensor([1.0, 2.0]), "seen": torch.tensor([8])}, files[0])
    with pytest.raises(RunError, match="'seen' is no real number"):
        average_weights(files)
    save_file({"w": torch.tensor([1.0, 2.0, 3.0]), "seen": torch.tensor([7])}, files[0])
    with pytest.raises(RunError, match=r"'w': \(3,\) and \(2,\)"):
        average_weights(files)
    save_file({"w": torch.tensor([1.0, torch.inf]), "seen": torch.tensor([7])}, files[0])
    with pytest.raises(RunError, match="not finite"):
        average_weights(files)
