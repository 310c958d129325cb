"""What a decoder attends to: W4 (three words, padded), W7 (a pointer that sorts), W8 (a signal over a distance)."""

from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import count, number, numbers, rows, words
from regard.worked.library import context, from_scores, one


def _translation(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend
    from regard.attention.parts import masks

    table, length, source, target = given["scores"], given["length"], given["source"], given["target"]
    present = len(table[0])
    wrong = []
    if length > present:
        wrong.append(f"--length is {length}, but --scores has only {present} numbers per row.")
    if len(source) != length:
        wrong.append(f"--source has {len(source)} words, expected {length}, as --length says.")
    if given["slots"] < present:
        wrong.append(f"--slots is {given['slots']}, expected at least {present}, as many as a row of --scores.")
    if wrong:
        raise ConfigError("W4: " + "\n".join(wrong))

    query, key = from_scores(table)
    masked = attend(query, key, score="dot", mask=masks.padding([length])).weights[0]
    forgotten = attend(query, key, score="dot").weights[0]
    # More padding like the last slot's, up to the article's number of slots.
    longer = [[*row, *[row[-1]] * (given["slots"] - present)] for row in table]
    far_forgotten = attend(*from_scores(longer), score="dot").weights[0]
    padding = masked[:, length:].sum().item()
    attended = [source[position] for position in masked.argmax(-1).tolist()]
    slots = [*source, *["·"] * (present - length)]
    return [
        Step(Text("scores", "打分"), "e", table, rows=target, columns=slots),
        Step(
            Text("weights, padding masked", "权重（掩码去掉填充）"),
            f"softmax(e), j ≤ {length}",
            masked.tolist(),
            Printed(
                [[0.9386, 0.0204, 0.0410, 0, 0], [0.1109, 0.0101, 0.8790, 0, 0], [0.0304, 0.9492, 0.0204, 0, 0]],
            ),
            rows=target,
            columns=slots,
        ),
        Step(
            Text("weight of all the padding", "填充得到的权重"),
            f"Σ weight, j > {length}",
            padding,
            Claim(Text("exactly 0", "恰好为 0"), padding == 0),
        ),
        Step(
            Text("where each target word attends most", "每个目标词最关注的源词"),
            ", ".join(f"{word} → {other}" for word, other in zip(target, attended, strict=True)),
            [position + 1 for position in masked.argmax(-1).tolist()],
            Claim(
                Text("the matrix is not diagonal", "对齐矩阵不是对角的"),
                masked.argmax(-1).tolist() != list(range(len(target))),
                always=False,
            ),
            columns=target,
        ),
        Step(
            Text(f"weight of {source[0]} when the mask is forgotten", f"忘了掩码时 {source[0]} 的权重"),
            f"softmax(e), T = {present}",
            forgotten[0, 0].item(),
            Printed(0.3544),
        ),
        Step(
            Text("the same with the article's slots", "同上，槽位数取文中的个数"),
            f"softmax(e), T = {given['slots']}",
            far_forgotten[0, 0].item(),
            Printed(0.0116),
        ),
    ]


def _sorting(given: dict[str, Any]) -> list[Step]:
    import torch

    from regard.attention.attend import attend
    from regard.attention.parts import masks

    listed = given["numbers"]
    query, key = from_scores([listed])
    keep = torch.ones(1, 1, len(listed), dtype=torch.bool)
    chosen: list[int] = []
    distributions = []
    for _ in listed:
        mask = masks.keep(keep)
        distributions.append(attend(query, key, score="dot", mask=mask).weights[0, 0].tolist())
        pointer = attend(query, key, score="dot", normalizer="hard", mask=mask)
        chosen.append(int(pointer.weights[0, 0].argmax()))
        keep = keep.clone()
        keep[..., chosen[-1]] = False
    picks = [str(position) for position in range(1, len(listed) + 1)]
    return [
        Step(
            Text("the pointer's weights, chosen ones masked", "指针的权重（已选的被掩码）"),
            "softmax(e), j ∉ {j₁, …}",
            distributions,
            rows=picks,
            columns=[f"{value:g}" for value in listed],
        ),
        Step(
            Text("positions pointed at, from 1", "指向的位置（从 1 数起）"),
            "argmax",
            [position + 1 for position in chosen],
            Printed([1, 3, 2], places=0),
        ),
        Step(
            Text("the numbers there", "这些位置上的数"),
            "x[argmax]",
            [listed[position] for position in chosen],
            Claim(
                Text("sorted downwards", "从大到小"),
                [listed[position] for position in chosen] == sorted(listed, reverse=True),
            ),
        ),
    ]


def _distance(given: dict[str, Any]) -> list[Step]:
    factor, steps = given["factor"], given["steps"]
    distances = sorted({1, steps, 10 * steps})
    faded = 1.0
    for _ in range(steps):
        faded *= factor
    through = [_through_attention(distance) for distance in distances]
    return [
        Step(
            Text("through a chain of steps", "逐步传递之后"),
            f"{factor:g}^{steps}",
            faded,
            Printed(0.00124, places=5),
            places=5,
        ),
        Step(
            Text("through attention: the context", "经过注意力：上下文"),
            "hard(q₁·k) v",
            [context for context, _ in through],
            Claim(
                Text("one step, whatever the distance: nothing fades", "无论多远都只要一步：不会衰减"),
                all(context == 1 for context, _ in through),
            ),
            columns=[f"T = {distance}" for distance in distances],
        ),
        Step(
            Text("through attention: the gradient of the first value", "经过注意力：对第一个值的梯度"),
            "∂ context / ∂ v₁",
            [gradient for _, gradient in through],
            Claim(Text("1 at any distance", "任何距离都是 1"), all(gradient == 1 for _, gradient in through)),
            columns=[f"T = {distance}" for distance in distances],
        ),
    ]


def _through_attention(distance: int) -> tuple[float, float]:
    """Read the first position from `distance` later: the context, and its gradient for the first value."""
    import torch

    signal = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    rest = torch.zeros(distance, dtype=torch.float64)
    key = one([[1.0], *[[0.0]] * distance])
    value = torch.cat((signal[None], rest))[None, :, None]
    read = context(one([[1.0]]), key, value, score="dot", normalizer="hard").squeeze()
    read.backward()
    assert signal.grad is not None
    return read.item(), signal.grad.item()


ROWS = (
    Worked(
        id="W4",
        title=Text("I love you → je t' aime, with padding after it", "I love you → je t' aime，后面有填充"),
        source=Text("an encyclopaedia's six-step example of translation", "百科条目中的六步翻译示例"),
        answer=Text(
            "padding gets exactly 0 and the matrix is not diagonal; forgetting the mask leaves .3544 or .0116 of .9386",
            "填充恰好得 0，对齐矩阵不是对角的；忘了掩码，0.9386 就只剩 0.3544 或 0.0116",
        ),
        inputs=(
            rows(
                "scores",
                "0.63, -3.2, -2.5, 0.5, 0.5; -1.5, -3.9, 0.57, 0.5, 0.5; -2.8, 0.64, -3.2, 0.5, 0.5",
                "one target word per row, one source slot per column",
                "每行一个目标词，每列一个源槽位",
                ("target", "slots"),
            ),
            count("length", "3", "real source words; the slots after them are padding", "真实源词数，其后的槽位是填充"),
            words("source", "I, love, you", "the source words", "源词", "source"),
            words("target", "je, t', aime", "the target words", "目标词", "target"),
            count("slots", "100", "slots when the mask is forgotten", "忘了掩码时的槽位数", most=100_000),
        ),
        steps=_translation,
    ),
    Worked(
        id="W7",
        title=Text("a pointer sorts 20, 5, 10", "指针网络给 20、5、10 排序"),
        source=Text("textbook example; pointer networks: Vinyals 2015", "教科书例题；指针网络：Vinyals 2015"),
        answer=Text("1, 3, 2", "1、3、2"),
        inputs=(
            numbers(
                "numbers", "20, 5, 10", "what to sort, downwards", "要从大到小排序的数", "numbers", least=-1e6, most=1e6
            ),
        ),
        steps=_sorting,
    ),
    Worked(
        id="W8",
        title=Text("a signal through 30 steps of × 0.8", "信号经过 30 步，每步乘以 0.8"),
        source=Text("textbook example of long distances", "教科书中关于长距离依赖的例题"),
        answer=Text("0.8^30 = 0.00124; through attention one step", "0.8^30 = 0.00124；经过注意力只要一步"),
        inputs=(
            number("factor", "0.8", "what each step keeps", "每步保留的比例", least=-1, most=1),
            count("steps", "30", "number of steps", "步数", most=1000),
        ),
        steps=_distance,
    ),
)
