"""Keys and values as a dictionary: W14 (keys that are their own values), W19 (exact look-up), W22 (M queries)."""

from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Step, Text, Worked
from regard.worked.inputs import count, numbers, rows
from regard.worked.library import context, far, one, same, tensor


def _own_values(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend

    query, x = one([given["query"]]), one(given["inputs"])
    weights = attend(query, x, score="dot").weights[0, 0]
    plain = sum(weight * row for weight, row in zip(weights, x[0], strict=True))
    read = context(query, x, x, score="dot")[0, 0]
    return [
        Step(Text("weights", "权重"), "softmax(q·x)", weights.tolist()),
        Step(Text("plain attention", "普通注意力"), "Σ weight · x", plain.tolist()),
        Step(
            Text("key-value attention with K = V = X", "键值对注意力，K = V = X"),
            "softmax(q Kᵀ) V",
            read.tolist(),
            Claim(Text("equals plain attention", "与普通注意力相等"), same(read, plain)),
        ),
    ]


def _look_up(given: dict[str, Any]) -> list[Step]:
    from regard.attention.attend import attend
    from regard.attention.parts.normalize import normalizer

    key, value, entry = one(given["keys"]), one(given["values"]), given["entry"] - 1
    if entry >= key.shape[1]:
        raise ConfigError(f"W19: --entry is {entry + 1}, expected 1 to {key.shape[1]}, the number of rows of --keys.")
    query = key[:, entry : entry + 1]
    # Cosine, so that a query is nearest to the key it equals, however long the other keys are.
    soft: list[Any] = [
        attend(query, key, value, score="cosine", normalizer=normalizer("softmax", temperature=temperature))
        for temperature in given["temperatures"]
    ]
    exact = context(query, key, value, score="cosine", normalizer="hard")[0, 0]
    names = [f"T = {temperature:g}" for temperature in given["temperatures"]]
    distances = [far(each.context[0, 0], exact) for each in soft]
    return [
        Step(
            Text("weights", "权重"),
            "softmax(cos(q, k) / T)",
            [each.weights[0, 0].tolist() for each in soft],
            rows=names,
        ),
        Step(
            Text("contexts", "查到的内容"), "Σ weight · v", [each.context[0, 0].tolist() for each in soft], rows=names
        ),
        Step(
            Text("exact look-up", "精确查找"),
            f"v[{entry + 1}]",
            exact.tolist(),
            Claim(
                Text("the entry's own value", "就是该条目的值"),
                exact.tolist() == value[0, entry].tolist(),
                always=False,
            ),
        ),
        Step(
            Text("distance from the exact look-up", "与精确查找之差"),
            "max |context − v|",
            distances,
            Claim(
                Text("tends to 0 with the temperature", "随温度趋于 0"),
                distances == sorted(distances, reverse=True) and distances[-1] < 1e-9,
                always=False,
            ),
            columns=names,
        ),
    ]


def _many_queries(given: dict[str, Any]) -> list[Step]:
    import torch

    from regard.attention.modules.pooling import LearnedQueries

    x, many, width = one(given["inputs"]), len(given["queries"]), len(given["inputs"][0])
    pooling = LearnedQueries(many, dim=width, score="dot").double()
    with torch.no_grad():
        pooling.queries.copy_(tensor(given["queries"]))
        pooled: Any = pooling(x)
        weights, joined = pooled.weights[0], pooled.context[0]
    alone = torch.stack([context(one([query]), x, x, score="dot")[0, 0] for query in given["queries"]])
    return [
        Step(Text("weights, one query per row", "权重，每行一个查询"), "softmax(Q Xᵀ)", weights.tolist()),
        Step(Text("contexts, one query per row", "上下文，每行一个查询"), "softmax(Q Xᵀ) X", alone.tolist()),
        Step(
            Text("concatenated", "拼接"),
            "[c₁; …; c_M]",
            joined.tolist(),
            Claim(
                Text(f"width M · Dv = {many} · {width}", f"宽度 M · Dv = {many} · {width}"),
                len(joined) == many * width and same(joined, alone.flatten()),
            ),
        ),
    ]


ROWS = (
    Worked(
        id="W14",
        title=Text("key-value attention with K = V", "K = V 的键值对注意力"),
        source=Text("identity; textbook", "恒等式；教科书"),
        answer=Text("equals plain attention over X", "等于在 X 上的普通注意力"),
        inputs=(
            numbers("query", "1, -1", "the query", "查询", "dim"),
            rows("inputs", "1, 0; 0, 1; 3, 1", "X, one input per row", "X，每行一个输入", ("inputs", "dim")),
        ),
        steps=_own_values,
    ),
    Worked(
        id="W19",
        title=Text("a soft dictionary", "柔性查字典"),
        source=Text("limit of the temperature; teaching example", "温度的极限；教学例子"),
        answer=Text(
            "with a query equal to one key and a falling temperature, the context tends to the exact look-up",
            "查询等于某个键时，随温度下降，查到的内容趋于精确查找",
        ),
        inputs=(
            rows("keys", "1, 0; 0, 1; 1, 1", "one key per row", "键，每行一个", ("keys", "dim")),
            rows("values", "10, 0; 0, 10; 5, 5", "one value per row", "值，每行一个", ("keys", "value_dim")),
            count("entry", "1", "the key that is asked for, from 1", "要查的键，从 1 数起"),
            numbers("temperatures", "1, 0.1, 0.01", "temperatures T", "温度 T", "temperatures", least=1e-6),
        ),
        steps=_look_up,
    ),
    Worked(
        id="W22",
        title=Text("M learned queries over one X", "M 个可学习查询看同一个 X"),
        source=Text("identity; textbook", "恒等式；教科书"),
        answer=Text("two contexts, concatenated: width 2·Dv", "两个上下文向量拼接：宽度 2·Dv"),
        inputs=(
            rows("queries", "1, 0; 0, 1", "one learned query per row", "可学习查询，每行一个", ("queries", "dim")),
            rows("inputs", "1, 0; 0, 1; 2, 1", "X, one input per row", "X，每行一个输入", ("inputs", "dim")),
        ),
        steps=_many_queries,
    ),
)
