"""Where weights are: W12 (a Transformer's block), W18 (the encyclopaedia's translator)."""

import math
from typing import Any

from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import count, counts


def _weights(given: dict[str, Any]) -> list[Step]:
    import torch
    from torch import nn

    from regard.attention.parts.score import score

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


def _block(given: dict[str, Any]) -> list[Step]:
    import torch
    from torch import nn

    from regard.attention.modules.heads import CrossHeads, SelfHeads
    from regard.layers.transformer.block import Block
    from regard.layers.transformer.feed_forward import FeedForward

    width, times, heads = given["width"], given["times"], given["heads"]

    def weights(part: nn.Module | None) -> int:
        """Its matrices; a block's norms have vectors alone, 2 · width a norm."""
        return 0 if part is None else sum(weight.numel() for weight in part.parameters() if weight.ndim == 2)

    def block(count: int, across: bool) -> Block:
        return Block(
            SelfHeads(width, count, bias=False),
            FeedForward(width, times * width, "relu", bias=False),
            lambda: nn.LayerNorm(width),
            across=CrossHeads(width, count, bias=False) if across else None,
        )

    with torch.device("meta"):
        encoders, decoder = [block(count, False) for count in heads], block(heads[-1], True)
    attention, network = [weights(one.attention) for one in encoders], weights(encoders[-1].feed_forward)
    both = weights(decoder.attention) + weights(decoder.across)
    square, names = width**2, [str(count) for count in heads]
    return [
        Step(
            Text("self-attention, by the number of heads", "自注意力，按头数"),
            "W_q, W_k, W_v, W_o: 4 d²",
            attention,
            Claim(Text("4 d², whatever the number of heads", "都是 4 d²，与头数无关"), set(attention) == {4 * square}),
            columns=names,
        ),
        Step(
            Text("feed-forward network", "前馈网络"),
            f"d × {times}d + {times}d × d",
            network,
            Claim(Text("8 d²", "8 d²"), network == 8 * square, always=False),
        ),
        Step(
            Text("the feed-forward network's share of the block", "前馈网络在整个块中的占比"),
            f"{network} / {weights(encoders[-1])}",
            network / weights(encoders[-1]),
            Claim(Text("two thirds", "三分之二"), 3 * network == 2 * weights(encoders[-1]), always=False),
        ),
        Step(
            Text("a decoder's block: self-attention and cross-attention", "解码器的块：自注意力加交叉注意力"),
            "4 d² + 4 d²",
            both,
            Claim(Text("8 d²", "8 d²"), both == 8 * square),
        ),
        Step(
            Text("a decoder's block: the feed-forward network's share", "解码器的块：前馈网络的占比"),
            f"{weights(decoder.feed_forward)} / {weights(decoder)}",
            weights(decoder.feed_forward) / weights(decoder),
            Claim(Text("one half", "一半"), 2 * weights(decoder.feed_forward) == weights(decoder), always=False),
        ),
    ]


ROWS = (
    Worked(
        id="W12",
        title=Text("where the weights of a Transformer's block are", "Transformer 的块，参数在哪里"),
        source=Text("Vaswani 2017, sections 3.2.2 and 3.3, counted", "Vaswani 2017，3.2.2 和 3.3 节，数出来的"),
        answer=Text(
            "self-attention 4d², feed-forward 8d²: two thirds in the feed-forward network, whatever the number of "
            "heads; a decoder's block with cross-attention: 8d² and 8d²",
            "自注意力 4d²，前馈 8d²：三分之二在前馈网络，与头数无关；带交叉注意力的解码器块：8d² 与 8d²",
        ),
        inputs=(
            count("width", "512", "the width d", "宽度 d", most=100_000),
            counts("heads", "1, 2, 4, 8", "numbers of heads", "头数", "counts", most=1000),
            count("times", "4", "the feed-forward network is wider by", "前馈网络宽几倍", most=100),
        ),
        steps=_block,
    ),
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
