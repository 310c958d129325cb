"""The picture of a model with a memory at work: what it holds and where its heads are, at each time step."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.data.algorithms.problem import SequenceItem
from regard.data.algorithms.sequences import SequenceBatch
from regard.views.view import Matrix, View

if TYPE_CHECKING:
    from regard.tasks.algorithms.predictor import AlgorithmsPredictor

_USED = 0.05
"""A slot is drawn if some head ever gave it so much of its weight."""

_WORDS = {
    "en": {
        "title": "{problem}: {length} long, {wrong} of {bits} bits wrong",
        "written": "memory: how much each slot holds (length of its vector, of the largest)",
        "left_out": "{count} of {slots} slots, where no head ever had {used:.0%} of its weight, are not drawn.",
        "follows": "{head} stands where {writer} stood {when}at {found} of {steps} steps of the answer.",
        "later": "a step after that row was given, ",
        "at": "when that row was given, ",
        "no_heads": "This model has no heads: what it remembers is in its state alone.",
    },
    "zh": {
        "title": "{problem}：长度 {length}，{bits} 位中错 {wrong} 位",
        "written": "存储器：每个槽存了多少（向量的长度，以最长者为 1）",
        "left_out": "{slots} 个槽中有 {count} 个没有画出：没有磁头在那里放过 {used:.0%} 的权重。",
        "follows": "作答的 {steps} 步中有 {found} 步，{head} 所在的槽正是 {writer} {when}所在的槽。",
        "later": "在读入该行后一步时",
        "at": "在读入该行时",
        "no_heads": "这个模型没有磁头：它记住的一切都在自身的状态里。",
    },
}


@torch.no_grad()
def memory_view(solver: "AlgorithmsPredictor", item: SequenceItem, language: str = "en") -> View:
    """Where the heads were at each time step, and how much each slot of the memory held after it.

    Args:
        solver: a trained model.
        item: what it reads.
        language: "en" or "zh".
    """
    words, model = _WORDS.get(language, _WORDS["en"]), solver.model.eval()
    device = next(model.parameters()).device
    inputs = SequenceBatch.of([item]).inputs.to(device)
    state, logits, held = model.start(1), [], []
    looks: dict[str, list[Tensor]] = {}
    for now in inputs.unbind(1):
        result = model.step(state, now)
        state = result.state
        logits.append(result.output)
        for name, weights in _each_head(result.attended):
            looks.setdefault(name, []).append(weights.cpu())
        held.append(_held(state))
    chances = torch.cat(logits).sigmoid().cpu().numpy()[item.answer_steps]
    wrong = int(((chances > 0.5) != (item.answer > 0.5)).sum())
    title = words["title"].format(
        problem=solver.settings.data.problem, length=item.length, wrong=wrong, bits=item.answer.size
    )
    rows = [*solver.problem.rows(item), *[""] * (item.time - len(item.question))]
    for step, row in zip(item.answer_steps, chances, strict=True):
        rows[step] = f"→{solver.problem.write(row[None])}"
    heads = {name: _stacked(each) for name, each in looks.items()}
    if not heads:
        columns = [str(bit) for bit in range(chances.shape[1])]
        answers = Matrix(chances, [rows[step] for step in item.answer_steps], columns)
        return View("answers", title, [answers], [words["no_heads"]], language)

    slots = max(weights.shape[1] for weights in heads.values())
    most = np.max([_wide(weights, slots).max(0) for weights in heads.values()], 0)
    used = np.flatnonzero(most > _USED) if (most > _USED).any() else np.arange(slots)
    columns = [str(slot) for slot in used]
    matrices = [Matrix(_wide(weights, slots)[:, used], rows, columns, name) for name, weights in heads.items()]
    if held[-1] is not None:
        lengths = _stacked(held)
        matrices.append(Matrix(lengths[:, used] / max(lengths.max(), 1e-12), rows, columns, words["written"]))
    notes = _following(solver, item, heads, words)
    if len(used) < slots:
        notes.append(words["left_out"].format(count=slots - len(used), slots=slots, used=_USED))
    return View("memory", title, matrices, notes, language)


def _following(
    solver: "AlgorithmsPredictor", item: SequenceItem, heads: dict[str, np.ndarray], words: dict[str, str]
) -> list[str]:
    """How often each reading head stands where a writing one stood for the row to output."""
    sources = solver.problem.sources(item)
    steps = [(said, given) for said, given in zip(item.answer_steps, sources, strict=True) if given is not None]
    notes = []
    for head in (name for name in heads if name.startswith("read")):
        read = heads[head].argmax(1)
        counts = {
            (writer, later): sum(read[said] == heads[writer][given + later].argmax() for said, given in steps)
            for writer in heads
            if writer.startswith("write")
            for later in (0, 1)
        }
        if counts:
            (writer, later), found = max(counts.items(), key=lambda one: one[1])
            when = words["later" if later else "at"]
            notes.append(words["follows"].format(head=head, writer=writer, when=when, found=found, steps=len(steps)))
    return notes


def _each_head(attended: Mapping[str, Attended]) -> Iterator[tuple[str, Tensor]]:
    """The weights of one step of the first item; several heads of one name are counted from 0."""
    for name, one in attended.items():
        weights = one.weights[0, ..., 0, :]
        if weights.ndim == 1:
            yield name, weights
        else:
            yield from ((f"{name}, head {head}", row) for head, row in enumerate(weights))


def _held(state: Any) -> Tensor | None:
    """The length of each slot's vector, where the state has a memory."""
    memory = getattr(state, "memory", None)
    return memory[0].norm(dim=-1).cpu() if isinstance(memory, Tensor) and memory.ndim == 3 else None


def _stacked(rows: list[Any]) -> np.ndarray:
    """Rows of one head over time; what grows as a sequence continues is 0 where it was not yet."""
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row.double().numpy(), (0, longest - len(row))) for row in rows])


def _wide(weights: np.ndarray, slots: int) -> np.ndarray:
    return np.pad(weights, ((0, 0), (0, slots - weights.shape[1])))
