"""Where a translator's weights are: W18 (the encyclopaedia's translator)."""

import math
from typing import Any

from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import count


def _weights(given: dict[str, Any]) -> list[Step]:
    import torch
    from torch import nn

    from regard.attention.score import score

    word, state, targets, slots = (given[name] for name in ("word", "state", "targets", "slots"))
    # On the meta device a layer has shapes and no numbers, so that any sizes are counted at once.
    with torch.device("meta"):
        output = nn.Linear(state, targets, bias=False)
        cell = nn.RNNCell(word, state, bias=False)
        table = score("feed_forward", query_dim=word + state, positions=slots)
        dot = score("dot")
    last, recurrent, fixed, none = (
        sum(part.numel() for part in layer.parameters()) for layer in (output, cell, table, dot)
    )
    return [
        Step(
            Text("output layer", "输出层"),
            f"{state} × {targets}",
            last,
            Printed(5_000_000, places=0),
        ),
        Step(
            Text("the encoder's recurrent input", "编码器的循环输入"),
            f"({word} + {state}) × {state}",
            recurrent,
            Printed(400_000, places=0),
        ),
        Step(
            Text("how many times larger the output layer is", "输出层是它的多少倍"),
            f"{last} / {recurrent}",
            last / recurrent,
            Claim(
                Text("about 10 times, as the article says; 12.5 exactly", "文中说约 10 倍；准确值是 12.5"),
                round(math.log10(last / recurrent)) == 1,
                always=False,
            ),
        ),
        Step(
            Text("attention by dot products", "点积注意力"),
            "s · h",
            none,
            Claim(Text("no weights of its own", "自身没有参数"), none == 0),
        ),
        Step(
            Text(
                "attention by a layer from [word; state] to the slots, biases counted",
                "由 [词; 状态] 到各槽位的全连接打分（含偏置）",
            ),
            f"({word} + {state} + 1) × {slots}",
            fixed,
        ),
    ]


ROWS = (
    Worked(
        id="W18",
        title=Text("where the weights of the encyclopaedia's translator are", "百科条目中的翻译器，参数在哪里"),
        source=Text("an encyclopaedia's six-step example of translation", "百科条目中的六步翻译示例"),
        answer=Text(
            "output layer 500 × 10,000 = 5,000,000; the encoder's input (300 + 500) × 500 = 400,000: 12.5 times",
            "输出层 500 × 10,000 = 5,000,000，编码器输入 (300 + 500) × 500 = 400,000：相差 12.5 倍",
        ),
        inputs=(
            count("word", "300", "width of a word", "词向量的宽度", most=100_000),
            count("state", "500", "width of a state", "状态的宽度", most=100_000),
            count("targets", "10000", "target words", "目标词数", most=10_000_000),
            count("slots", "100", "source slots", "源槽位数", most=100_000),
        ),
        steps=_weights,
    ),
)
