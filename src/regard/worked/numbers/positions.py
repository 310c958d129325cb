"""Two identities of positions: W20 (rotary: only the distance counts; sinusoids: a shift is a rotation)."""

from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Step, Text, Worked
from regard.worked.inputs import count, counts, numbers
from regard.worked.library import far, tensor

_NEAR = 1e-9


def _identities(given: dict[str, Any]) -> list[Step]:
    width = len(given["query"])
    if width % 2:
        raise ConfigError(
            f"W20: --query and --key have {width} numbers; expected an even count (features turn in pairs)."
        )
    return [*_rotary(given, "interleaved"), *_rotary(given, "half"), *_sinusoidal(given, width)]


def _rotary(given: dict[str, Any], convention: str) -> list[Step]:
    import torch

    from regard.attention.parts.position_factory import position

    m, n = given["m"], given["n"]
    pairing = {"interleaved": "相邻两维配对", "half": "前后两半配对"}[convention]
    query, key = tensor([[given["query"]]]), tensor([[given["key"]]])
    rotary = position("rotary", dim=query.shape[-1], convention=convention)
    turned_query, turned_key = rotary.rotate(query, key, torch.tensor([[m]]), torch.tensor([[n]]))
    (_, moved_key) = rotary.rotate(query, key, torch.tensor([[0]]), torch.tensor([[n - m]]))
    absolute, relative = (turned_query * turned_key).sum().item(), (query * moved_key).sum().item()
    rounding = _NEAR * (1 + (query.norm() * key.norm()).item())
    return [
        Step(
            Text(f"rotary, {convention}: both turned", f"旋转位置编码（{pairing}）：两边都旋转"),
            f"⟨R_{m} q, R_{n} k⟩",
            absolute,
        ),
        Step(
            Text(f"rotary, {convention}: the distance alone", f"旋转位置编码（{pairing}）：只看距离"),
            f"⟨q, R_{n - m} k⟩",
            relative,
            Claim(Text("the same number", "与上一步相同"), abs(absolute - relative) <= rounding),
        ),
    ]


def _sinusoidal(given: dict[str, Any], width: int) -> list[Step]:
    import torch

    from regard.attention.parts.position_factory import position

    offset, places = given["offset"], given["positions"]
    sinusoidal = position("sinusoidal", dim=width)

    def encode(positions: list[int]) -> Any:
        zero = torch.zeros(1, len(positions), width, dtype=torch.float64)
        return sinusoidal.add(zero, torch.tensor([positions]))[0]

    here, there, by = encode(places), encode([place + offset for place in places]), encode([offset])[0]
    # PE(offset) holds the sine and cosine of each pair's turn, so one rotation is read from it for every position.
    sine, cosine = by[0::2], by[1::2]
    turned = torch.stack(
        (here[:, 0::2] * cosine + here[:, 1::2] * sine, here[:, 1::2] * cosine - here[:, 0::2] * sine), dim=-1
    ).flatten(-2)
    largest, apart = torch.cat((here, there)).abs().max().item(), far(there, turned)
    names = [f"p = {place}" for place in places]
    return [
        Step(Text("sinusoids", "正弦位置编码"), "PE(p)", here.tolist(), rows=names),
        Step(
            Text("largest magnitude", "最大的绝对值"),
            "max |PE|",
            largest,
            Claim(Text("in [−1, 1]", "在 [−1, 1] 之内"), largest <= 1),
        ),
        Step(Text(f"moved on by {offset}", f"向后移 {offset}"), f"PE(p + {offset})", there.tolist(), rows=names),
        Step(
            Text("difference from one rotation of all of them", "与同一个旋转的结果之差"),
            f"max |PE(p + {offset}) − R PE(p)|",
            apart,
            Claim(Text("none: the rotation does not depend on p", "没有差别：这个旋转与 p 无关"), apart <= _NEAR),
        ),
    ]


ROWS = (
    Worked(
        id="W20",
        title=Text("rotary and sinusoidal positions", "旋转位置编码与正弦位置编码"),
        source=Text("Su 2021, section 3.2; Vaswani 2017, section 3.5", "Su 2021，3.2 节；Vaswani 2017，3.5 节"),
        answer=Text(
            "⟨R_m q, R_n k⟩ = ⟨q, R_(n−m) k⟩; PE(p + k) is a rotation of PE(p) that does not depend on p",
            "⟨R_m q, R_n k⟩ = ⟨q, R_(n−m) k⟩；PE(p + k) 是 PE(p) 的旋转，与 p 无关",
        ),
        inputs=(
            numbers("query", "1, 2, 3, 4", "q", "q", "width"),
            numbers("key", "2, -1, 0.5, 1", "k", "k", "width"),
            count("m", "5", "position of q", "q 的位置", least=0, most=10**6),
            count("n", "12", "position of k", "k 的位置", least=0, most=10**6),
            counts("positions", "0, 1, 7", "positions p", "位置 p", "positions", least=0, most=10**6),
            count("offset", "3", "how far they move", "移动多远", least=0, most=10**6),
        ),
        steps=_identities,
    ),
)
