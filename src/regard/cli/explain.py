"""`regard explain`: which path a call of `attend` takes, and why."""

import ast
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out
from regard.errors import ConfigError, nearest

if TYPE_CHECKING:
    from regard.attention.parts.mask_kinds import Mask

Shape = Annotated[str, typer.Option(help="Shape, as in 2,8,100,64 (batch, heads, positions, width) or 2,100,64.")]
Key = Annotated[str | None, typer.Option(help="Shape of the key; the query's if not given.")]
Value = Annotated[str | None, typer.Option(help="Shape of the value; the key's if not given, none for a pointer.")]
ScoreName = Annotated[str, typer.Option("--score", help="A score, with options as in general(rank=16).")]
NormalizerName = Annotated[str, typer.Option("--normalizer", help="A normalizer, as in softmax(temperature=0.5).")]
MaskNames = Annotated[
    list[str] | None,
    typer.Option("--mask", help="causal, window(2,0), prefix(3), padding(5,7), ragged(5,7); repeat to join them."),
]
Dropout = Annotated[float, typer.Option(min=0, max=1, help="Dropout on the weights.")]
Cost = Annotated[
    bool, typer.Option("--cost", help="Also its operations and memory, and what forming all weights takes.")
]
Dtype = Annotated[str, typer.Option(help="float32, float64, bfloat16 or float16.")]

_HIDDEN_DIM = 64
"""Hidden width of scores that have one, where it is not given: it never changes the path."""

_REAL = 2**24
"""Up to this many numbers the call is explained for real tensors; above it for shapes without content."""

_MOST = 2**60
"""Above it torch can't count the bytes."""


@command(
    app,
    "explain",
    examples="""
    regard explain --query 2,8,100,64 --key 2,8,100,64 --mask causal
    regard explain --score "additive(hidden_dim=64)" --normalizer sparsemax
    regard explain --query 1,8,16384,64 --key 1,8,16384,64 --normalizer sparsemax --cost
    regard explain --query 2,5,32 --key 2,7,32 --value none
    """,
)
def explain(
    query: Shape = "2,8,100,64",
    key: Key = None,
    value: Value = None,
    score: ScoreName = "scaled_dot",
    normalizer: NormalizerName = "softmax",
    mask: MaskNames = None,
    dropout: Dropout = 0.0,
    dtype: Dtype = "float32",
    cost: Cost = False,
) -> None:
    """Say which path a call takes, and why.

    Nothing is computed.
    """
    import torch

    from regard.attention.explain import explain as explanation

    kinds = {kind: getattr(torch, kind) for kind in ("float32", "float64", "bfloat16", "float16")}
    if dtype not in kinds:
        raise ConfigError(f"no dtype is named {dtype!r}.{nearest(dtype, kinds)}")

    shapes = {"--query": _sizes("--query", query)}
    shapes["--key"] = shapes["--query"] if key is None else _sizes("--key", key)
    if value != "none":
        shapes["--value"] = _sizes("--value", value) if value else shapes["--key"]
    device = "cpu" if sum(map(math.prod, shapes.values())) <= _REAL else "meta"
    tensors = {name: torch.zeros(sizes, dtype=kinds[dtype], device=device) for name, sizes in shapes.items()}
    queries, keys, values = tensors["--query"], tensors["--key"], tensors.get("--value")
    with torch.device(device):
        report = explanation(
            queries,
            keys,
            values,
            score=_score(score, queries.shape[-1], keys.shape[-1], keys.shape[-2]),
            normalizer=_part("normalizer", normalizer),
            mask=_mask(mask or []),
            dropout=dropout,
            cost=cost,
        )
    out(str(report))


def _sizes(name: str, text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{name} {text!r}: expected sizes separated by commas, as in 2,8,100,64") from error
    if len(sizes) not in (3, 4) or min(sizes) < 0:
        raise ConfigError(f"{name} {text!r}: expected 3 or 4 sizes, none below 0, as in 2,8,100,64")
    if math.prod(size or 1 for size in sizes) >= _MOST:
        raise ConfigError(f"{name} {text!r}: no tensor holds so many numbers; give sizes whose product is below 2**60")
    return sizes


def _called(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`name(1, option=2)` as its name, numbers and options."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, [], {}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError
        options = {str(option.arg): ast.literal_eval(option.value) for option in node.keywords}
        return node.func.id, [ast.literal_eval(argument) for argument in node.args], options
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{text!r}: expected a name, or a name with options as in general(rank=16)") from error


def _score(text: str, query_dim: int, key_dim: int, keys: int) -> Any:
    """The score, with its sizes from the shapes."""
    import inspect

    from regard.attention.parts.score_base import scores

    name, numbers, options = _called(text)
    _no_numbers(text, numbers)
    known = {"query_dim": query_dim, "key_dim": key_dim, "hidden_dim": _HIDDEN_DIM, "positions": keys}
    wanted = inspect.signature(scores.maker(name)).parameters
    return scores.make(name, **{**{size: known[size] for size in known if size in wanted}, **options})


def _part(kind: str, text: str) -> Any:
    from regard.attention.parts.normalize import normalizer

    name, numbers, options = _called(text)
    _no_numbers(text, numbers)
    return normalizer(name, **options)


def _no_numbers(text: str, numbers: list[Any]) -> None:
    if numbers:
        raise ConfigError(f"{text!r}: name each option, as in general(rank=16)")


def _mask(texts: list[str]) -> "Mask | None":
    from regard.attention.parts import masks

    makers: dict[str, Any] = {
        "causal": masks.causal,
        "window": masks.window,
        "prefix": masks.prefix,
        "padding": lambda *lengths: masks.padding(lengths=list(lengths)),
        "ragged": lambda *lengths: masks.ragged(list(lengths)),
    }
    joined = None
    for text in texts:
        name, numbers, options = _called(text)
        if name not in makers:
            raise ConfigError(f"no mask is named {name!r} here.{nearest(name, makers)}")
        try:
            one = makers[name](*numbers, **options)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(f"the mask {text!r} cannot be made: {error}") from error
        joined = one if joined is None else joined & one
    return joined
