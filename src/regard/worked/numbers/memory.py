"""The Neural Turing machine (Graves, Wayne & Danihelka 2014): W11 (sharpening), W21 (one whole step)."""

from typing import Any

from regard.worked.example import Printed, Step, Text, Worked
from regard.worked.inputs import number, numbers, rows
from regard.worked.library import one, tensor


def _sharpening(given: dict[str, Any]) -> list[Step]:
    from regard.attention.parts.refocus import sharpen

    weights = one([given["weights"]])
    powers = weights ** given["exponent"]
    sharp = sharpen(given["exponent"])(weights)
    return [
        Step(Text("powers", "取幂"), "w^γ", powers[0, 0].tolist()),
        Step(
            Text("sharpened", "锐化后"),
            "w^γ / Σ w^γ",
            sharp[0, 0].tolist(),
            Printed([0.64, 0.27, 0.08, 0.01], places=2),
        ),
    ]


def _whole_step(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend
    from regard.attention.parts.refocus import interpolate, sharpen, shift
    from regard.attention.parts.score import score

    memory, query = one(given["memory"]), one([given["key"]])
    content_score = score("cosine", strength=given["strength"])
    stages = [
        interpolate(tensor([given["previous"]]), given["gate"]),
        shift(tensor(given["shift"])),
        sharpen(given["exponent"]),
    ]
    # What each stage leaves is seen by stopping after it.
    attended: list[Any] = [
        attend(query, memory, memory, score=content_score, refocus=stages[:count]) for count in range(4)
    ]
    content, gated, shifted, sharpened = (each.weights[0, 0] for each in attended)
    erased = memory[0] * (1 - sharpened[:, None] * tensor(given["erase"]))
    written = erased + sharpened[:, None] * tensor(given["add"])
    return [
        Step(
            Text("by content", "按内容寻址"),
            "softmax(β cos(k, M)), (5)–(6)",
            content.tolist(),
            Printed([0.5910, 0.0800, 0.3290]),
        ),
        Step(Text("gated", "插值"), "g w + (1 − g) w_{t−1}, (7)", gated.tolist(), Printed([0.2955, 0.5400, 0.1645])),
        Step(Text("shifted", "移位"), "Σ w(j) s(i − j), (8)", shifted.tolist(), Printed([0.3069, 0.4780, 0.2151])),
        Step(Text("sharpened", "锐化"), "w^γ / Σ w^γ, (9)", sharpened.tolist(), Printed([0.2552, 0.6193, 0.1255])),
        Step(
            Text("read, before writing", "读出（写入之前）"),
            "Σ w(i) M(i), (2)",
            attended[-1].context[0, 0].tolist(),
            Printed([0.3807, 0.7448]),
        ),
        Step(Text("memory after erasing", "擦除后的存储器"), "M(i) (1 − w(i) e), (3)", erased.tolist()),
        Step(
            Text("memory after adding", "写入后的存储器"),
            "+ w(i) a, (4)",
            written.tolist(),
            Printed([[0.7448, 0.2552], [0, 1.3097], [0.8745, 1.0627]]),
        ),
    ]


_PAPER = Text("Graves, Wayne & Danihelka 2014, {}", "Graves、Wayne、Danihelka 2014，式 {}")

ROWS = (
    Worked(
        id="W11",
        title=Text("sharpening in the Neural Turing machine", "神经图灵机的锐化"),
        source=Text(_PAPER.en.format("equation 9"), _PAPER.zh.format("(9)")),
        answer=Text(
            "(0.4, 0.3, 0.2, 0.1)³ → (0.64, 0.27, 0.08, 0.01)", "(0.4, 0.3, 0.2, 0.1)³ → (0.64, 0.27, 0.08, 0.01)"
        ),
        inputs=(
            numbers("weights", "0.4, 0.3, 0.2, 0.1", "weights", "权重", "keys", least=0),
            number("exponent", "3", "exponent γ", "指数 γ", least=1),
        ),
        steps=_sharpening,
    ),
    Worked(
        id="W21",
        title=Text("one whole step of the Neural Turing machine", "神经图灵机完整的一步"),
        source=Text(_PAPER.en.format("equations 2–9"), _PAPER.zh.format("(2)–(9)")),
        answer=Text(
            "read [0.3807, 0.7448]; memory after [0.7448, 0.2552], [0, 1.3097], [0.8745, 1.0627]",
            "读出 [0.3807, 0.7448]；写入后存储器为 [0.7448, 0.2552]、[0, 1.3097]、[0.8745, 1.0627]",
        ),
        inputs=(
            rows(
                "memory",
                "1, 0; 0, 1; 1, 1",
                "memory, one location per row",
                "存储器，每行一个位置",
                ("places", "width"),
            ),
            numbers("key", "1, 0", "the key", "键", "width"),
            number("strength", "2", "key strength β", "键强度 β", least=0),
            number("gate", "0.5", "interpolation gate g", "插值门 g", least=0, most=1),
            numbers("previous", "0, 1, 0", "the weights of the step before", "上一步的权重", "places", least=0),
            numbers("shift", "0.1, 0.8, 0.1", "shifts −1, 0, +1", "移位 −1、0、+1", 3, least=0),
            number("exponent", "2", "exponent γ", "指数 γ", least=1),
            numbers("erase", "1, 0.5", "erase vector e", "擦除向量 e", "width", least=0, most=1),
            numbers("add", "0, 1", "add vector a", "写入向量 a", "width"),
        ),
        steps=_whole_step,
    ),
)
