"""Scores: W1 (two heads), W2 (a pronoun and its antecedent), W6 (dot product), W13 (bilinear)."""

from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Printed, Step, Text, Worked
from regard.worked.inputs import numbers, rows, words
from regard.worked.library import from_scores, one, same, tensor


def _two_heads(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend
    from regard.attention.parts.score import score

    query, second, key, value = one([given["query"]]), one([given["second"]]), one(given["keys"]), one(given["values"])
    width, output = value.shape[-1], tensor(given["output"])
    if len(output) != 2 * width:
        raise ConfigError(
            f"W1: --output has {len(output)} rows; expected {2 * width}, as two heads of width {width} are joined."
        )
    scaled_dot = score("scaled_dot")
    scores = scaled_dot(query, scaled_dot.prepare(key))[0, 0]
    # Both heads in one call: (batch, heads, queries, dim); the one head of keys and values serves both.
    heads: Any = attend(_as_heads(query, second), key[:, None], value[:, None], score="scaled_dot")
    weights, contexts = heads.weights[0, :, 0], heads.context[0, :, 0]
    joined = contexts.flatten()
    names = [f"k{position}" for position in range(1, len(scores) + 1)]
    return [
        Step(Text("scores", "打分"), "q·k / √d", scores.tolist(), columns=names),
        Step(Text("exponentials", "取指数"), "exp(score)", scores.exp().tolist(), columns=names),
        Step(
            Text("weights", "权重"),
            "softmax(scores)",
            weights[0].tolist(),
            Printed([0.2, 0.5, 0.3], places=1),
            columns=names,
        ),
        Step(Text("context", "上下文向量"), "Σ weight · v", contexts[0].tolist(), Printed([0.7, 0.7], places=3)),
        Step(
            Text("weights of the second head", "第二个头的权重"),
            "softmax(q₂·k / √d)",
            weights[1].tolist(),
            columns=names,
        ),
        Step(Text("context of the second head", "第二个头的上下文向量"), "Σ weight · v", contexts[1].tolist()),
        Step(
            Text("both heads, concatenated", "两个头拼接"),
            "[head₁; head₂]",
            joined.tolist(),
            Claim(
                Text(f"two heads of {width} make {2 * width} numbers", f"两个宽度为 {width} 的头拼成 {2 * width} 个数"),
                len(joined) == 2 * width,
            ),
        ),
        Step(
            Text("after the output projection", "经过输出投影"),
            "[head₁; head₂] W_o",
            (joined @ output).tolist(),
            Claim(
                Text("W_o (4 → 2) brings it back to 2", "W_o（4 → 2）把它变回 2 个数"),
                output.shape[1] == 2,
                always=False,
            ),
        ),
    ]


def _as_heads(first: Any, second: Any) -> Any:
    """Two queries as two heads: `(1, 2, 1, dim)`."""
    import torch

    return torch.stack((first, second), dim=1)


def _pronoun(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend

    names = given["words"]
    query, key = from_scores([given["scores"]])
    value = one([[number] for number in given["values"]])
    attended: Any = attend(query, key, value, score="dot")
    weights = attended.weights[0, 0]
    exponentials = tensor(given["scores"]).exp()
    rounded = tensor([float(f"{weight:.2g}") for weight in weights.tolist()])
    return [
        Step(Text("exponentials", "取指数"), "exp(s)", exponentials.tolist(), columns=names),
        Step(Text("their sum", "求和"), "Σ exp(s)", exponentials.sum().item()),
        Step(
            Text("weights", "权重"),
            "exp(s) / Σ exp(s)",
            weights.tolist(),
            Printed([0.0561, 0.6838, 0.0508, 0.0460, 0.0460, 0.0416, 0.0758]),
            columns=names,
        ),
        Step(Text("values", "值"), "v", given["values"], columns=names),
        Step(Text("context", "上下文"), "Σ weight · v", attended.context.item(), Printed(0.5971)),
        Step(
            Text("context from weights rounded to two digits", "权重先舍入到两位有效数字再加权"),
            "Σ round(weight) · v",
            (rounded @ value[0, :, 0]).item(),
            Printed(0.594, places=3),
        ),
    ]


def _dot(given: dict[str, Any]) -> list[Step]:
    from regard.attention.parts.score import score

    query, key = one([given["query"]]), one([given["key"]])
    dot = score("dot")
    return [
        Step(Text("products", "逐项相乘"), "qᵢ kᵢ", (query * key)[0, 0].tolist()),
        Step(Text("score", "打分"), "q·k = Σ qᵢ kᵢ", dot(query, dot.prepare(key)).item(), Printed(5, places=0)),
    ]


def _bilinear(given: dict[str, Any]) -> list[Step]:
    import torch

    from regard.attention.parts.score import score

    x, q, left, right = (tensor(given[name]) for name in ("x", "query", "left", "right"))
    weight = left.T @ right  # W = UᵀV

    def general(query: Any, key: Any, matrix: Any) -> float:
        """The library's `general` score, query M key, with this matrix for M."""
        part: Any = score("general", query_dim=matrix.shape[0], key_dim=matrix.shape[1]).double()
        with torch.no_grad():
            part.weight.copy_(matrix)
            return part(query[None, None], part.prepare(key[None, None])).item()

    def low_rank(query: Any, key: Any) -> float:
        """The library's `general` score made of U and V, which never forms W."""
        part: Any = score("general", query_dim=len(query), key_dim=len(key), rank=len(left)).double()
        with torch.no_grad():
            part.query_weight.copy_(left)
            part.key_weight.copy_(right)
            return part(query[None, None], part.prepare(key[None, None])).item()

    def dot(query: Any, key: Any) -> float:
        part = score("dot")
        return part(query[None, None], part.prepare(key[None, None])).item()

    full, projected = general(x, q, weight), low_rank(x, q)
    steps = [
        Step(Text("W", "W"), "W = UᵀV", weight.tolist()),
        Step(Text("bilinear score", "双线性打分"), "xᵀ W q", full),
        Step(
            Text("dot product of both sides projected", "两边各自投影后的点积"),
            "(U x)·(V q)",
            projected,
            Claim(Text("the same number", "与上一步相同"), same(tensor(full), tensor(projected))),
        ),
    ]
    if len(x) == len(q):
        swapped = general(q, x, weight)
        identity, plain = general(x, q, torch.eye(len(x), dtype=torch.float64)), dot(x, q)
        steps += [
            Step(
                Text("with the identity for W", "W 取单位阵"),
                "xᵀ I q",
                identity,
                Claim(Text("the dot product x·q", "就是点积 x·q"), same(tensor(identity), tensor(plain))),
            ),
            Step(
                Text("with the sides swapped", "交换两边"),
                "qᵀ W x",
                swapped,
                Claim(
                    Text("another number: the score is not symmetric", "得数不同：这种打分不对称"),
                    swapped != full,
                    always=False,
                ),
            ),
        ]
    return steps


ROWS = (
    Worked(
        id="W1",
        title=Text("one query, three keys, then a second head", "一个查询、三个键，再加第二个头"),
        source=Text(
            "textbook example of scaled dot product; heads: Vaswani 2017, section 3.2.2",
            "教科书中的缩放点积例题；多头：Vaswani 2017，3.2.2 节",
        ),
        answer=Text(
            "weights 0.2, 0.5, 0.3; context [0.7, 0.7]; two heads make 4 numbers, W_o makes 2 of them",
            "权重 0.2、0.5、0.3；上下文向量 [0.7, 0.7]；两个头拼成 4 个数，W_o 再变回 2 个",
        ),
        inputs=(
            numbers("query", "1", "the query", "查询", "dim"),
            rows("keys", "0; 0.916; 0.405", "one key per row", "键，每行一个", ("keys", "dim")),
            rows("values", "2, 1; 0, 1; 1, 0", "one value per row", "值，每行一个", ("keys", "value_dim")),
            numbers("second", "-1", "the second head's query", "第二个头的查询", "dim"),
            rows("output", "1, 0; 0, 1; 1, 0; 0, 1", "W_o", "W_o", ("joined", "output_dim")),
        ),
        steps=_two_heads,
    ),
    Worked(
        id="W2",
        title=Text('what "它" (it) attends to in 那只 猫 没 过 马路 ， 因为', "“它”回头看：那只 猫 没 过 马路 ， 因为"),
        source=Text(
            "teaching example of self-attention; scores already divided by √64",
            "讲解自注意力的例子；分数已除以 √64",
        ),
        answer=Text(
            "0.6838 of the weight goes to 猫 (cat); context 0.5971, 0.594 from rounded weights",
            "猫得到 0.6838 的权重；上下文为 0.5971，用舍入后的权重则为 0.594",
        ),
        inputs=(
            numbers("scores", "0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 0.6", "scaled scores", "缩放后的分数", "keys"),
            numbers("values", "0, 0.9, 0, 0, -0.4, 0, 0", "the value of each word", "每个词的值", "keys"),
            words("words", "那只, 猫, 没, 过, 马路, ，, 因为", "the words attended to", "被看的词", "keys"),
        ),
        steps=_pronoun,
    ),
    Worked(
        id="W6",
        title=Text("the dot product", "点积"),
        source=Text("textbook example", "教科书例题"),
        answer=Text("[1, 2, 3]·[2, 0, 1] = 5", "[1, 2, 3]·[2, 0, 1] = 5"),
        inputs=(
            numbers("query", "1, 2, 3", "the query", "查询", "dim"),
            numbers("key", "2, 0, 1", "the key", "键", "dim"),
        ),
        steps=_dot,
    ),
    Worked(
        id="W13",
        title=Text("the bilinear score: W = UᵀV", "双线性打分：W = UᵀV"),
        source=Text(
            'identity; the score: Luong 2015, equation 8 ("general")', "恒等式；打分：Luong 2015，式 (8)（general）"
        ),
        answer=Text(
            "xᵀWq = (Ux)·(Vq); W = I is the dot product; not symmetric otherwise",
            "xᵀWq = (Ux)·(Vq)；W = I 时就是点积；一般不对称",
        ),
        inputs=(
            numbers("x", "1, 2, 3", "the input", "输入", "x_dim"),
            numbers("query", "2, 0, 1", "the query", "查询", "query_dim"),
            rows("left", "1, 0, 2; 0, 1, -1", "U", "U", ("rank", "x_dim")),
            rows("right", "2, 1, 0; 1, 0, 1", "V", "V", ("rank", "query_dim")),
        ),
        steps=_bilinear,
    ),
)
