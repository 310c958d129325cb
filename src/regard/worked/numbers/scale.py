"""Why scores are divided by √d: W3 (without it one word gets all the weight), W5 (variance and saturation)."""

from typing import Any

from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import count, counts, numbers, words
from regard.worked.library import from_scores, normal, one

_SHARPER = (1, 2, 4, 8, 16)
_KEYS, _DRAWS = 16, 400


def _unscaled(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend

    scores, width, names = given["scores"], given["width"], given["words"]
    # A head of this width whose scaled scores are the given ones: q = (√width, 0, …), k = (score, 0, …).
    query = one([[width**0.5, *[0.0] * (width - 1)]])
    key = one([[score, *[0.0] * (width - 1)] for score in scores])
    scaled = attend(query, key, score="scaled_dot").weights[0, 0]
    unscaled = attend(query, key, score="dot").weights[0, 0]
    largest = int(unscaled.argmax())
    others = _without(unscaled, largest)
    gradients, tops = zip(*(_top([factor * score for score in scores]) for factor in _SHARPER), strict=True)
    return [
        Step(Text("weights with the scale", "缩放后的权重"), "softmax(q·k / √d)", scaled.tolist(), columns=names),
        Step(
            Text("scores without the scale", "不缩放的分数"),
            "q·k = √d · s",
            (query @ key.transpose(1, 2))[0, 0].tolist(),
            columns=names,
        ),
        Step(Text("weights without the scale", "不缩放的权重"), "softmax(q·k)", unscaled.tolist(), columns=names),
        Step(
            Text("the largest weight", "最大的权重"),
            f"max softmax(q·k): {names[largest]}",
            unscaled[largest].item(),
            Printed(0.99999997, places=8),
            places=8,
        ),
        Step(
            Text("all the other weights", "其余权重之和"),
            "Σ weight, j ≠ argmax",
            others,
            Claim(
                Text(
                    "0.99999 for one word, less than 3 in 100,000 for the rest", "一个词占 0.99999，其余不到十万分之三"
                ),
                unscaled[largest].item() >= 0.99999 and others < 3e-5,
                always=False,
            ),
        ),
        Step(
            Text("the largest weight as the scores grow", "分数放大时最大的权重"),
            "max softmax(c · s)",
            list(tops),
            columns=[f"c = {factor}" for factor in _SHARPER],
            places=8,
        ),
        Step(
            Text("its gradient as the scores grow", "分数放大时它的梯度"),
            "∂ max softmax(c · s) / ∂ (c · s)",
            list(gradients),
            Claim(
                Text("tends to 0: the softmax is saturated", "趋于 0：softmax 饱和"),
                gradients[-1] < 1e-6 and list(gradients) == sorted(gradients, reverse=True),
                always=False,
            ),
            columns=[f"c = {factor}" for factor in _SHARPER],
        ),
    ]


def _without(weights: Any, position: int) -> float:
    """The sum of the other weights, added up by themselves: 1 − weight would lose their digits."""
    return sum(weight for other, weight in enumerate(weights.tolist()) if other != position)


def _top(scores: list[float]) -> tuple[float, float]:
    """The result of `_saturation` for one query with these scores."""
    query, key = from_scores([scores])
    return _saturation(query, key, "dot")


def _saturation(query: Any, key: Any, score: str) -> tuple[float, float]:
    """The gradient of each query's largest weight for its own score, and that weight; means over all queries.

    The scores' gradient is read at a bias of zeros, which is added to them.
    """
    import torch

    from regard.attention.attend import attend

    bias = torch.zeros(len(query), query.shape[1], key.shape[1], dtype=torch.float64, requires_grad=True)
    weights = attend(query, key, score=score, bias=bias).weights
    largest, where = weights.max(dim=-1, keepdim=True)
    largest.sum().backward()
    assert bias.grad is not None
    return bias.grad.gather(-1, where).mean().item(), largest.mean().item()


def _variance(given: dict[str, Any]) -> list[Step]:
    widths = given["widths"]
    measured = [_moments(width, given["samples"], given["seed"]) for width in widths]
    (plain, plain_error), (scaled, scaled_error) = (
        list(zip(*part, strict=True)) for part in zip(*measured, strict=True)
    )
    names = [f"d = {width}" for width in widths]
    saturated: dict[str, list[tuple[float, float]]] = {"dot": [], "scaled_dot": []}
    for width in widths:
        query, key = (normal(_DRAWS, positions, width, seed=given["seed"] + positions) for positions in (1, _KEYS))
        for score, results in saturated.items():
            results.append(_saturation(query, key, score))
    gradients, tops = (list(part) for part in zip(*saturated["dot"], strict=True))
    kept = [gradient for gradient, _ in saturated["scaled_dot"]]
    return [
        Step(
            Text("variance of the dot product, and its standard error", "点积的方差及其标准误差"),
            f"var(q·k), n = {given['samples']}",
            [list(plain), list(plain_error)],
            Claim(
                Text("d, within 4 standard errors", "等于 d（相差不超过 4 个标准误差）"),
                _within(plain, plain_error, widths),
            ),
            rows=["var", "±"],
            columns=names,
        ),
        Step(
            Text("variance of the scaled one, and its standard error", "缩放点积的方差及其标准误差"),
            "var(q·k / √d)",
            [list(scaled), list(scaled_error)],
            Claim(
                Text("1, within 4 standard errors", "等于 1（相差不超过 4 个标准误差）"),
                _within(scaled, scaled_error, [1] * len(widths)),
            ),
            rows=["var", "±"],
            columns=names,
        ),
        Step(
            Text("largest weight without the scale", "不缩放时最大的权重"),
            f"max softmax(q·k), T = {_KEYS}",
            tops,
            Claim(
                Text("tends to 1 as d grows", "随 d 增大趋于 1"), tops == sorted(tops) and tops[-1] > 0.9, always=False
            ),
            columns=names,
        ),
        Step(
            Text("its gradient without the scale", "不缩放时它的梯度"),
            "∂ max / ∂ score",
            gradients,
            Claim(
                Text("tends to 0 as d grows", "随 d 增大趋于 0"),
                gradients[-1] < 0.05 and gradients[-1] == min(gradients),
                always=False,
            ),
            columns=names,
        ),
        Step(
            Text("its gradient with the scale", "缩放后它的梯度"),
            "∂ max / ∂ score",
            kept,
            Claim(Text("does not fade", "不会消失"), min(kept) > 0.1, always=False),
            columns=names,
        ),
    ]


def _moments(width: int, samples: int, seed: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Variance and its standard error, of the dot products and of the scaled ones of this many pairs."""
    from regard.attention.parts.score import score

    query, key = normal(samples, 1, width, seed=seed), normal(samples, 1, width, seed=seed + 1)

    def measure(name: str) -> tuple[float, float]:
        part = score(name)
        deviation = part(query, part.prepare(key)).flatten()
        squares = (deviation - deviation.mean()).square()
        # The standard error of a mean of squares: their own deviation over √n.
        return squares.mean().item(), (squares.std() / samples**0.5).item()

    return measure("dot"), measure("scaled_dot")


def _within(means: Any, errors: Any, expected: list[int]) -> bool:
    return all(abs(mean - true) <= 4 * error for mean, error, true in zip(means, errors, expected, strict=True))


ROWS = (
    Worked(
        id="W3",
        title=Text("W2 without the scale √64 = 8", "W2 不做缩放（√64 = 8）"),
        source=Text("teaching example of self-attention, continued", "讲解自注意力的例子，续"),
        answer=Text(
            '猫 (cat) takes 0.99999997, the other six 2.7e-8 ("0.99999" and "less than 3 in 100,000")',
            "猫占 0.99999997，其余六个词合计 2.7e-8（文献写作“0.99999”和“不到十万分之三”）",
        ),
        inputs=(
            numbers("scores", "0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 0.6", "scaled scores", "缩放后的分数", "keys"),
            count("width", "64", "width of the head, d", "头的宽度 d", most=4096),
            words("words", "那只, 猫, 没, 过, 马路, ，, 因为", "the words attended to", "被看的词", "keys"),
        ),
        steps=_unscaled,
    ),
    Worked(
        id="W5",
        title=Text("why scores are divided by √d", "为什么要除以 √d"),
        source=Text("Vaswani 2017, section 3.2.1, footnote 4", "Vaswani 2017，3.2.1 节，脚注 4"),
        answer=Text(
            "var(q·k) = d, var(q·k / √d) = 1; without the scale the largest weight tends to 1 and its gradient to 0",
            "q·k 的方差是 d，q·k / √d 的方差是 1；不缩放时最大的权重趋于 1，梯度趋于 0",
        ),
        inputs=(
            counts("widths", "4, 16, 64, 256, 1024", "widths d", "宽度 d", "widths", least=1, most=4096),
            count("samples", "4000", "pairs of q and k", "q、k 的样本对数", least=100, most=10_000),
            count("seed", "0", "seed of the sample", "随机种子", least=0),
        ),
        steps=_variance,
    ),
)
