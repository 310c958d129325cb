"""What depends on order and what on notation: W10 (permuted tokens), W15 (columns and rows)."""

from typing import Any

from regard.errors import ConfigError
from regard.worked.example import Claim, Step, Text, Worked
from regard.worked.inputs import counts, rows
from regard.worked.library import context, far, one, same

_CHANGED = 1e-3


def _permuted(given: dict[str, Any]) -> list[Step]:
    import torch

    from regard.attention.parts import masks
    from regard.attention.parts.position_factory import position

    x = one(given["tokens"])
    _, length, width = x.shape
    order = [place - 1 for place in given["order"]]
    if sorted(order) != list(range(length)):
        raise ConfigError(f"W10: --order must hold each of 1 to {length} once, as there are {length} tokens.")
    if order == list(range(length)):
        raise ConfigError("W10: --order leaves every token in place; expected one that moves some, such as 2, 1, 3 …")
    if width % 2:
        raise ConfigError(f"W10: --tokens have width {width}; expected an even one, since sinusoids go in pairs.")
    places = torch.arange(length)[None]
    learned = position("learned", count=length, dim=width).double()
    sinusoidal = position("sinusoidal", dim=width)

    def bare(tokens: Any) -> Any:
        return context(tokens, tokens, tokens)

    def pooled(tokens: Any) -> Any:
        """The outputs read by one query of ones."""
        outputs = bare(tokens)
        return context(torch.ones_like(outputs[:, :1]), outputs, outputs)

    def causal(tokens: Any) -> Any:
        return context(tokens, tokens, tokens, mask=masks.causal())

    moved = x[:, order]
    with torch.no_grad():
        learned.weight.zero_()
        plain, permuted = bare(x), bare(moved)
        pairs = [
            (permuted, plain[:, order]),
            (pooled(moved), pooled(x)),
            (bare(learned.add(moved, places)), bare(learned.add(x, places))[:, order]),
            (bare(sinusoidal.add(moved, places)), bare(sinusoidal.add(x, places))[:, order]),
            (causal(moved), causal(x)[:, order]),
        ]
    tests = [
        (Text("outputs, against the permuted outputs", "输出，与打乱后的原输出相比"), "|Y′ − P Y|"),
        (Text("pooled outputs", "汇聚后的输出"), "|pool(Y′) − pool(Y)|"),
        (Text("outputs with learned positions that are all zero", "可学习位置全为零时的输出"), "|Y′ − P Y|, x + 0"),
        (Text("outputs with sinusoidal positions", "加正弦位置编码后的输出"), "|Y′ − P Y|, x + PE"),
        (Text("outputs under a causal mask, without positions", "因果掩码下、不加位置编码的输出"), "|Y′ − P Y|, j ≤ i"),
    ]
    steps = [
        Step(Text("outputs", "输出"), "Y = softmax(X Xᵀ / √d) X", plain[0].tolist()),
        Step(Text("outputs of the permuted tokens", "打乱次序后的输出"), "Y′, of P X", permuted[0].tolist()),
    ]
    for (label, difference), (after, before) in zip(tests, pairs, strict=True):
        apart = far(after, before)
        if len(steps) < 5:  # the first three are identities, the last two depend on the tokens
            check = Claim(Text("no difference: order does not matter", "没有差别：次序不起作用"), same(after, before))
        else:
            check = Claim(Text("a difference: order matters", "有差别：次序起作用"), apart > _CHANGED, always=False)
        steps.append(Step(label, f"max {difference}", apart, check))
    return steps


def _columns_and_rows(given: dict[str, Any]) -> list[Step]:
    query, key, value = one(given["queries"]), one(given["keys"]), one(given["values"])
    by_rows = context(query, key, value)[0]
    # The other convention written out: every vector a column, every softmax down a column.
    columns_query, columns_key, columns_value = query[0].T, key[0].T, value[0].T
    scores = columns_key.T @ columns_query / columns_query.shape[0] ** 0.5
    by_columns = columns_value @ scores.softmax(dim=0)
    return [
        Step(Text("rows", "行约定"), "softmax(Q Kᵀ / √d) V", by_rows.tolist()),
        Step(Text("columns", "列约定"), "V softmax(Kᵀ Q / √d)", by_columns.tolist()),
        Step(
            Text("difference after transposing", "转置后的差"),
            "max |columnsᵀ − rows|",
            far(by_columns.T, by_rows),
            Claim(Text("the same numbers, transposed", "数相同，只差一个转置"), same(by_columns.T, by_rows)),
        ),
    ]


ROWS = (
    Worked(
        id="W10",
        title=Text("permuted tokens, with and without positions", "打乱词序：有位置编码和没有位置编码"),
        source=Text("identity; positions: Vaswani 2017, section 3.5", "恒等式；位置编码：Vaswani 2017，3.5 节"),
        answer=Text(
            "outputs are permuted alike and pool to the same; not so with positions, nor under a causal mask",
            "输出跟着打乱，汇聚后不变；加了位置编码就不是这样，因果掩码下也不是",
        ),
        inputs=(
            rows("tokens", "1, 0; 0, 1; 1, 1; 2, -1", "one token per row", "每行一个词元", ("tokens", "width")),
            counts("order", "3, 1, 4, 2", "the new order, from 1", "新次序，从 1 数起", "tokens", least=1),
        ),
        steps=_permuted,
    ),
    Worked(
        id="W15",
        title=Text("columns and rows", "列约定与行约定"),
        source=Text("identity; both notations are in textbooks", "恒等式；两种记法教科书里都有"),
        answer=Text(
            "V softmax(KᵀQ/√d) with columns is softmax(QKᵀ/√d) V with rows, transposed",
            "列约定的 V softmax(KᵀQ/√d) 就是行约定的 softmax(QKᵀ/√d) V 的转置",
        ),
        inputs=(
            rows("queries", "1, 0, 2; 0, 1, -1", "one query per row", "查询，每行一个", ("queries", "dim")),
            rows("keys", "1, 1, 0; 0, 2, 1; -1, 0, 1", "one key per row", "键，每行一个", ("keys", "dim")),
            rows("values", "1, 2; 3, 4; 5, 6", "one value per row", "值，每行一个", ("keys", "value_dim")),
        ),
        steps=_columns_and_rows,
    ),
)
