"""Local attention with a predicted centre (Luong, Pham & Manning 2015): W17."""

import math
from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import number, numbers
from regard.worked.library import from_scores, one, tensor


def _local_p(given: dict[str, Any]) -> list[Step]:
    import torch

    from regard.attention.attend import attend
    from regard.attention.parts import masks

    center, radius, length = given["center"], given["radius"], len(given["scores"])
    if not 0 < center < length:
        raise ConfigError(f"W17: --center is {center:g}, expected between 0 and {length}, the number of --scores.")
    if radius <= 0:
        raise ConfigError(f"W17: --radius is {radius:g}, expected more than 0.")
    query, key = from_scores([given["scores"]])
    focus = _focus(center, radius, length)
    # The window stands at the centre as given: it went through a sigmoid, whose rounding could lose a key on the edge.
    window = masks.around(tensor([[center]]), radius)
    flat = attend(query, key, score="dot", mask=window).weights[0, 0]
    soft = attend(query, key, score="dot", mask=window, refocus=focus.refocus).weights[0, 0]
    hard = attend(query, key, score="dot", mask=masks.around(focus.center, radius)).weights
    # The expected position, Σ s · weight: it follows p through the Gaussian alone.
    focus.center.retain_grad()
    (soft * torch.arange(length)).sum().backward()
    slope = focus.center.grad
    assert slope is not None
    outside = (torch.arange(length) - center).abs() > radius
    names = [str(place) for place in range(length)]
    return [
        Step(
            Text("centre", "中心"),
            f"p = S · sigmoid(vᵀ tanh(W h)), S = {length}",
            focus.center.item(),
            Printed(4.3, places=1),
        ),
        Step(
            Text("softmax over the window alone", "只在窗口内做 softmax"),
            "|s − p| ≤ D",
            flat.tolist(),
            Printed([0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0, 0], places=2),
            columns=names,
        ),
        Step(
            Text("times the Gaussian, not renormalised", "乘以高斯，不再归一化"),
            "· exp(−(s − p)² / 2σ²), σ = D/2",
            soft.tolist(),
            Printed([0, 0, 0, 0.1074, 0.2390, 0.1957, 0.0589, 0, 0, 0]),
            columns=names,
        ),
        Step(
            Text("weight outside the window", "窗口之外的权重"),
            "Σ weight, |s − p| > D",
            soft[outside].sum().item(),
            Claim(Text("exactly 0", "恰好为 0"), bool((soft[outside] == 0).all())),
        ),
        Step(
            Text("whether the hard edge has a gradient", "窗口的硬边界有没有梯度"),
            "∂ softmax / ∂ p",
            hard.requires_grad,
            Claim(Text("no", "没有"), not hard.requires_grad),
        ),
        Step(
            Text("gradient of the expected position, through the Gaussian", "经过高斯，对所看位置的梯度"),
            "∂ Σ s · weight / ∂ p",
            slope.item(),
            Claim(Text("not 0: p learns", "不为 0：p 学得到"), slope.item() != 0, always=False),
        ),
    ]


def _focus(center: float, radius: float, length: int) -> Any:
    """The library's local-p, its v set as if it had learned this centre: W = 1, h = 1, vᵀ tanh(W h) = logit(p / S)."""
    import torch

    from regard.attention.modules.local import Predictive

    predictive = Predictive(radius, query_dim=1).double()
    with torch.no_grad():
        predictive.hidden.weight.fill_(1)
        predictive.vector.weight.fill_(math.log(center / (length - center)) / math.tanh(1))
    return predictive(one([[1.0]]), torch.tensor([length]))


ROWS = (
    Worked(
        id="W17",
        title=Text("local attention with a predicted centre (local-p)", "预测中心的局部注意力（local-p）"),
        source=Text("Luong, Pham & Manning 2015, equations 9 and 10", "Luong、Pham、Manning 2015，式 (9)、(10)"),
        answer=Text(
            "positions 3 to 6 get 0.25 each, then 0.1074, 0.2390, 0.1957, 0.0589; exactly 0 elsewhere",
            "位置 3 到 6 各得 0.25，再变为 0.1074、0.2390、0.1957、0.0589；其余恰好为 0",
        ),
        inputs=(
            numbers(
                "scores",
                "0, 0, 0, 0, 0, 0, 0, 0, 0, 0",
                "one score per position, from 0",
                "每个位置的分数，从 0 数起",
                "S",
            ),
            number("center", "4.3", "centre p", "中心 p"),
            number("radius", "2", "window D on each side; σ = D/2", "两侧窗口 D；σ = D/2"),
        ),
        steps=_local_p,
    ),
)
