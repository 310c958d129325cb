"""Pictures of a model that points: where it pointed at each step, and its answer growing in the plane."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.data.points.problem import Answer, PointProblem, PointSet, RoundTrip, answer_of
from regard.data.points.tours import EXACT_UP_TO
from regard.views.view import Matrix, Plane, View

if TYPE_CHECKING:
    from regard.tasks.pointing.predictor import Pointed

_MOST_STEPS = 24
"""Of an answer of more steps so many are drawn, evenly spread."""

_WORDS = {
    "en": {
        "sort": "{count} numbers, largest first",
        "hull": "the convex hull of {count} points",
        "delaunay": "the Delaunay triangulation of {count} points",
        "tsp": "a round trip through {count} points",
        "set": "set {number}: {answer}",
        "pointer": "each step's pointer probabilities",
        "end": "end",
        "step": "step {number}",
        "right": "This is the right answer.",
        "wrong": "The right answer is {answer}.",
        "length": "Its length is {said:.4g}; the shortest has {right:.4g}.",
        "length_good": "Its length is {said:.4g}; the shortest that exchanges found has {right:.4g}.",
        "baseline": "This model has no attention: it outputs numbers from its state alone.",
        "thinned": "{drawn} of {steps} steps are drawn.",
    },
    "zh": {
        "sort": "{count} 个数，从大到小",
        "hull": "{count} 个点的凸包",
        "delaunay": "{count} 个点的 Delaunay 三角剖分",
        "tsp": "经过 {count} 个点的环游",
        "set": "第 {number} 组：{answer}",
        "pointer": "每一步指向哪里（概率）",
        "end": "结束",
        "step": "第 {number} 步",
        "right": "这就是正确答案。",
        "wrong": "正确答案是 {answer}。",
        "length": "长度为 {said:.4g}；最短的为 {right:.4g}。",
        "length_good": "长度为 {said:.4g}；用交换法找到的最短的为 {right:.4g}。",
        "baseline": "这个模型不看任何点：只凭自身的状态说出编号。",
        "thinned": "共 {steps} 步，画出其中 {drawn} 步。",
    },
}


def pointing_view(problem: PointProblem, pointed: "Pointed", language: str = "en") -> View:
    """Where a model pointed at each step, and, of points in the plane, its answer as it grew.

    Args:
        problem: of the model.
        pointed: what it answered.
        language: "en" or "zh".
    """
    words = _words(language)
    title = words[problem.name].format(count=len(pointed.points))
    notes = [_judged(problem, pointed, words)]
    matrices: list[Matrix] = []
    if pointed.weights is None:
        notes.append(words["baseline"])
    else:
        matrices.append(_pointer(pointed.points, pointed.answer, pointed.weights, words))
    steps = _steps(problem, pointed.answer)
    places = sorted({round(at) for at in np.linspace(0, len(steps) - 1, min(len(steps), _MOST_STEPS))})
    for place in places:
        matrices.append(plane(pointed.points, steps[place], words["step"].format(number=place + 1)))
    if len(places) < len(steps):
        notes.append(words["thinned"].format(drawn=len(places), steps=len(steps)))
    return View("pointing" if pointed.weights is not None else "plane", title, matrices, notes, language)


def answers_view(problem: PointProblem, answers: Sequence["Pointed"], language: str = "en") -> View:
    """The answers of some sets, each drawn once: points in the plane, or, for numbers, the pointer's weights."""
    words = _words(language)
    matrices: list[Matrix] = []
    for number, one in enumerate(answers, start=1):
        title = words["set"].format(number=number, answer=problem.write(one.answer))
        if problem.axes == 2:
            matrices.append(plane(one.points, [_closed(cycle) for cycle in problem.cycles(one.answer)], title))
        elif one.weights is not None:
            matrices.append(_pointer(one.points, one.answer, one.weights, words, title))
    sizes = sorted({len(one.points) for one in answers})
    title = words[problem.name].format(count="–".join(str(size) for size in (sizes[:1] + sizes[-1:])[: len(sizes)]))
    return View("plane" if problem.axes == 2 else "pointing", title if answers else "", matrices, (), language)


def plane(points: PointSet, cycles: Sequence[Answer], title: str = "") -> Plane:
    """Points, numbered from 1, and walks between them."""
    stops: list[tuple[str, list[float]]] = []
    walked = {item for cycle in cycles for item in cycle}
    for cycle in [*cycles, *([item] for item in range(len(points)) if item not in walked)]:
        stops += [(str(item + 1), points[item].tolist()) for item in cycle]
        stops.append(("", [np.nan, np.nan]))
    return Plane([place for _, place in stops[:-1]], [label for label, _ in stops[:-1]], ["x", "y"], title)


def _pointer(points: PointSet, answer: Answer, weights: np.ndarray, words: dict[str, str], title: str = "") -> Matrix:
    columns = [words["end"], *(_name(number, point) for number, point in enumerate(points, start=1))]
    rows = [words["end"] if step == len(answer) else columns[answer[step] + 1] for step in range(len(weights))]
    return Matrix(weights, rows, columns, title or words["pointer"])


def _name(number: int, point: np.ndarray) -> str:
    """A number by itself, a point by its number."""
    return f"{point[0]:.4g}" if len(point) == 1 else str(number)


def _steps(problem: PointProblem, answer: Answer) -> list[list[Answer]]:
    """The walks after each step that shows something new; the last one closes them."""
    cycles = problem.cycles(answer)
    if len(cycles) > 1 or problem.rule == "triangles":
        return [[_closed(cycle) for cycle in cycles[: count + 1]] for count in range(len(cycles))]
    return [[cycle[:count]] for cycle in cycles for count in range(1, len(cycle) + 1)] + [
        [_closed(cycle)] for cycle in cycles
    ]


def _closed(cycle: Answer) -> Answer:
    return [*cycle, cycle[0]] if len(cycle) > 2 else list(cycle)


def _judged(problem: PointProblem, pointed: "Pointed", words: dict[str, str]) -> str:
    right = answer_of(problem, pointed.points)
    if right is None:
        return problem.write(pointed.answer)
    if isinstance(problem, RoundTrip):
        said, least = problem.length(pointed.points, pointed.answer), problem.length(pointed.points, right)
        return words["length" if len(pointed.points) <= EXACT_UP_TO else "length_good"].format(said=said, right=least)
    if problem.is_correct(pointed.points, pointed.answer, right):
        return words["right"]
    return words["wrong"].format(answer=problem.write(right))


def _words(language: str) -> dict[str, str]:
    return _WORDS.get(language, _WORDS["en"])
