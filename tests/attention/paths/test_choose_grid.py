"""Every path with everything that it takes: temperature, bias, masks, grouped heads, dropout and types.

Thresholds are lowered, so that small calls take each path; contexts, weights, statistics and every gradient are those
of the formulas, pair by pair.
"""

from typing import Any, NamedTuple

import pytest
import torch

import regard
from regard import masks
from regard.attention.parts.refocus import gaussian_window
from regard.attention.paths.choose import PATHS
from tests.native import needs_compiler
from tests.paths import lowered, only
from tests.reference.attention import plain_attend

TEMPERATURE, WIDTH, VALUE_WIDTH, HIDDEN, BATCH = 0.37, 5, 3, 7, 2
EXACT = {"rtol": 1e-7, "atol": 1e-9}
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}
NATIVE = ("native", "additive")
ELSEWHERE = "projected", "flex"  # a layer's own, and a GPU's: `test_projected.py` and `test_choose_on_gpu.py`
NAMES = [
    pytest.param(path.name, marks=needs_compiler if path.name in NATIVE else ())
    for path in PATHS
    if path.name not in ELSEWHERE
]


class Mask(NamedTuple):
    """A mask, and its rule: may query q of item b attend to key k?"""

    given: Any
    allows: Any


def mask_named(name: str, queries: int, keys: int) -> Mask:
    """One of the kinds that paths know, for calls of this size."""
    place, real = keys - queries, [keys, 4]
    keep = torch.rand(queries, keys, generator=torch.Generator().manual_seed(2)) < 0.7
    center = torch.linspace(0.4, keys - 1.6, BATCH * queries, dtype=torch.float64).view(BATCH, queries)
    kinds = {
        "none": Mask(None, lambda b, q, k: True),
        "causal": Mask(masks.causal(), lambda b, q, k: k <= q + place),
        "lengths": Mask(masks.padding(real), lambda b, q, k: k < real[b]),
        "window": Mask(masks.window(2, 1), lambda b, q, k: -2 <= k - (q + place) <= 1),
        "table": Mask(masks.keep(keep), lambda b, q, k: keep[q, k].item()),
        "around": Mask(masks.around(center, 1.5), lambda b, q, k: abs(k - center[b, q]) <= 1.5),
    }
    if name in kinds:
        return kinds[name]
    one, other = (kinds[part] for part in name.split(" and "))
    return Mask(one.given & other.given, lambda b, q, k: one.allows(b, q, k) and other.allows(b, q, k))


ANY = ("none", "causal", "lengths", "causal and lengths", "window", "table")
TAKES = {
    "linear": ("none", "causal", "lengths", "causal and lengths"),
    "local": ("around", "around and lengths", "around and table"),
    "ragged": ("lengths", "causal and lengths"),
    "windowed": ("window",),
    "flex": ("lengths", "causal and lengths", "window"),
}
"""The masks that a path is for, where these are not all."""

WITHOUT_DROPOUT = ("linear", "ragged", "windowed", "fused")
HEADS = {"no heads": None, "heads": (2, 2), "grouped": (4, 2)}


def test_every_path_is_here():
    assert set(TAKES) <= {path.name for path in PATHS}


def parts_of(path: str) -> dict[str, Any]:
    """Score and normalizer of a path's calls."""
    if path == "linear":
        return {"score": "linear", "normalizer": "sum"}
    if path in ("additive", "chunked"):
        torch.manual_seed(5)
        score = regard.score("additive", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=HIDDEN).double()
        return {"score": score, "normalizer": "softmax"}
    return {"score": "scaled_dot", "normalizer": "softmax"}


def tensors(
    heads: tuple[int, int] | None, queries: int, keys: int, dtype: torch.dtype, widths: tuple[int, int]
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    of_query, of_key = ((), ()) if heads is None else ((heads[0],), (heads[1],))
    shapes = (*of_query, queries, widths[0]), (*of_key, keys, widths[0]), (*of_key, keys, widths[1])
    return [torch.randn(BATCH, *shape, generator=generator, dtype=dtype) for shape in shapes]


def bias_named(name: str, heads: tuple[int, int] | None, queries: int, keys: int, dtype: torch.dtype) -> Any:
    if name == "no bias":
        return None
    shape = (1, queries, keys) if heads is None else (1, heads[0], queries, keys)
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


def assert_is_the_formula(
    path: str,
    mask: str,
    bias: str,
    heads: str,
    dtype: torch.dtype = torch.float64,
    dropout: float = 0.0,
    device: str = "cpu",
) -> None:
    """One call by one path, with everything that is made of it."""
    queries, keys = (9, 9) if mask in ("window", "causal and lengths") or path == "ragged" else (5, 9)
    kind, (given, allows), parts = HEADS[heads], mask_named(mask, queries, keys), parts_of(path)
    widths = (16, 16) if path == "flex" else (WIDTH, VALUE_WIDTH)  # the least that its kernel takes
    inputs = [one.to(device).requires_grad_() for one in tensors(kind, queries, keys, dtype, widths)]
    of_bias = bias_named(bias, kind, queries, keys, dtype)
    of_bias = of_bias if of_bias is None else of_bias.to(device).requires_grad_(bias == "learned bias")
    score = None if isinstance(parts["score"], str) else parts["score"].to(device, dtype)
    call: dict[str, Any] = {
        "score": parts["score"] if score is None else score,
        "normalizer": regard.normalizer(parts["normalizer"], temperature=TEMPERATURE),
        "mask": given,
        "bias": of_bias,
        "dropout": dropout,
    }
    if path == "local":
        call["refocus"] = [gaussian_window(window_of(given).center, 0.75)]
    with lowered(), only(path):
        explained = regard.explain(*inputs, **call)
        assert explained.path == path, str(explained)
        torch.manual_seed(11)
        attended = regard.attend(*inputs, **call)
        multipliers = multipliers_of(inputs, call) if dropout else None
        compare(attended, inputs, of_bias, parts, score, call, allows, multipliers, dtype)


def window_of(mask: Any) -> Any:
    return getattr(mask, "left", mask)


def multipliers_of(inputs: list[torch.Tensor], call: dict[str, Any]) -> torch.Tensor:
    """What the same draws multiply the weights by: the values are columns of the identity."""
    query, key, _ = (one.detach() for one in inputs)
    values = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device).expand(*key.shape[:-1], -1)
    torch.manual_seed(11)
    attended = regard.attend(query, key, values, **call)
    kept = (attended.context / attended.weights).nan_to_num(0.0)
    scale = 1 / (1 - call["dropout"])
    assert set(kept.mul(1 / scale).round(decimals=4).unique().tolist()) == {0.0, 1.0}
    return (kept > scale / 2).to("cpu", torch.float64) * scale


def compare(attended, inputs, of_bias, parts, score, call, allows, multipliers, dtype) -> None:
    """Context, weights, logarithms, statistics and gradients beside the formulas in float64."""
    close = EXACT if dtype is torch.float64 else {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}
    exact = [exactly(one).detach().requires_grad_() for one in inputs]
    headless = exact[0].ndim == 3
    exact_bias = None if of_bias is None else exactly(of_bias).detach().requires_grad_()
    module = None if score is None else parts_of("additive")["score"]
    four = [one.unsqueeze(1) for one in exact] if headless else exact
    shape = (*four[0].shape[:3], four[1].shape[2])
    context, weights = plain_attend(
        *four,
        score=parts["score"] if module is None else "additive",
        normalizer=parts["normalizer"],
        module=module,
        sees=lambda b, h, q, k: allows(b, q, k),
        bias=None if exact_bias is None else (exact_bias.unsqueeze(1) if headless else exact_bias).expand(shape),
        temperature=1.0 if parts["score"] == "linear" else TEMPERATURE,
    )
    normalized = weights.squeeze(1) if headless else weights
    if "refocus" in call:
        center = window_of(call["mask"]).center
        distance = torch.arange(shape[-1], dtype=torch.float64) - center[:, None, :, None]
        weights = weights * torch.exp(-(distance**2) / (2 * 0.75**2))
        context = weights @ four[2]
    reported = weights
    if multipliers is not None:
        dropped = weights * (multipliers.unsqueeze(1) if headless else multipliers)
        context = dropped @ four[2].repeat_interleave(shape[1] // four[2].shape[1], 1)
    if headless:
        context, reported = context.squeeze(1), weights.squeeze(1)
    torch.testing.assert_close(exactly(attended.context), context, **close)
    torch.testing.assert_close(exactly(attended.weights), reported, **close)
    torch.testing.assert_close(exactly(attended.log_weights).exp(), normalized, **close)
    largest = reported.sort(dim=-1, descending=True).values[..., :2]
    torch.testing.assert_close(exactly(attended.statistics(2).top_weights), largest, **close)

    parameters = [] if score is None else list(score.parameters())
    learned = [*inputs, *([of_bias] if of_bias is not None and of_bias.requires_grad else []), *parameters]
    wanted = [*exact, *([exact_bias] if len(learned) > 3 + len(parameters) else [])]
    wanted += [] if module is None else list(module.parameters())
    direction = torch.randn(context.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    ours = torch.autograd.grad((exactly(attended.context) * direction).sum(), learned)
    theirs = torch.autograd.grad((context * direction).sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(exactly(one), other, **close)


def exactly(tensor: torch.Tensor) -> torch.Tensor:
    """In float64, where the formulas are."""
    return tensor.to("cpu", torch.float64)


def calls_of(path: str) -> list[tuple[str, str, str]]:
    """Mask, bias and heads of the calls that the path takes."""
    biases = ("no bias",) if path in ("linear", "windowed", "flex") else ("no bias", "fixed bias", "learned bias")
    biases = ("learned bias",) if path == "blocked" else biases
    heads = ("no heads",) if path == "local" else tuple(HEADS)
    return [(mask, bias, head) for mask in TAKES.get(path, ANY) for bias in biases for head in heads]


@pytest.mark.parametrize("path", NAMES)
def test_every_mask_bias_and_kind_of_heads(path):
    for mask, bias, heads in calls_of(path):
        assert_is_the_formula(path, mask, bias, heads)


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.parametrize("dtype", CLOSE)
def test_every_type(path, dtype):
    mask, bias, heads = calls_of(path)[-1]
    assert_is_the_formula(path, mask, bias, heads, dtype=dtype)


@pytest.mark.parametrize("path", [name for name in NAMES if name.values[0] not in WITHOUT_DROPOUT])
def test_dropout_multiplies_weights_by_its_draws(path):
    for mask in TAKES.get(path, ANY):
        assert_is_the_formula(
            path, mask, "no bias", "no heads" if path == "local" else "grouped", dropout=0.25
        )  # a multiple of the steps that rates are rounded to
