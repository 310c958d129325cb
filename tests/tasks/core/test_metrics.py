"""What a validation tells of labels, by hand; nothing held out is no best model."""

import pytest
import torch

from regard.errors import DataError
from regard.layers.objective import Objective
from regard.tasks.core.metrics import per_label


def of(total: float, count: int, correct: int) -> Objective:
    return Objective(torch.tensor(total), torch.tensor(count), torch.tensor(correct))


def test_accuracy_and_loss_are_of_labels_not_of_batches() -> None:
    assert per_label([of(3.0, 2, 1), of(2.0, 3, 3)]) == {"accuracy": 0.8, "loss": 1.0}


@pytest.mark.parametrize("objectives", ([], [of(0.0, 0, 0)]))
def test_nothing_held_out_is_an_error_and_not_a_loss_of_0(objectives: list[Objective]) -> None:
    with pytest.raises(DataError, match="held out to validate on; hold out more, or give more data"):
        per_label(objectives)
