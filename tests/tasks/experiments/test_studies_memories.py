"""The study of memories: its rows differ in their model alone, are of one size, and each of them learns."""

import numpy as np
import pytest
import torch

from regard.layers.objective import bits_objective
from regard.models.memory.sequences import build
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.core.config import check, leaves
from regard.tasks.core.task import find_task
from regard.tasks.experiments.reproduce import tested as data_of
from regard.tasks.experiments.studies import find

STUDY = find("memories")
TASK = find_task({"task": "algorithms"})


def settings(row) -> AlgorithmSettings:
    return check(AlgorithmSettings, STUDY.experiment(row).config, also=TASK.faults)


def test_the_rows_differ_in_their_model_and_are_of_one_size():
    trees = [dict(leaves(settings(row).model_dump(mode="json"))) for row in STUDY.rows]
    differing = {key for tree in trees for key in tree.keys() | trees[0].keys() if tree.get(key) != trees[0].get(key)}
    assert all(key.startswith("model.") for key in differing)
    assert len({tree["model.kind"] for tree in trees}) == len(STUDY.rows) == 7
    sizes = [sum(one.numel() for one in build(settings(row).model, 9, 5).parameters()) for row in STUDY.rows]
    assert max(abs(size - 20_000) for size in sizes) <= 600
    assert data_of(STUDY, None) == {"sequences": 400, "lengths": [8, 12, 16, 24]}


@pytest.mark.parametrize("row", STUDY.rows, ids=lambda row: row.name)
def test_each_row_can_be_trained(row):
    chosen = settings(row)
    torch.manual_seed(0)
    drawn = TASK.data(chosen.model_copy(update={"data": chosen.data.model_copy(update={"validation": 1})}), None, print)
    model = TASK.model(chosen, drawn)
    batch = drawn.batches.load([0, 1])
    made = bits_objective(model(batch.inputs), batch.answers, batch.answer_steps)
    made.total.backward()
    assert int(made.count) == 5 * int(batch.answer_steps.sum()) > 0
    lacking = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.isfinite().all()]
    assert not lacking and np.isfinite(made.total.item())
