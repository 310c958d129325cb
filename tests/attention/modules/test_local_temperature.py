"""Local attention over its windows alone: temperature, bias and mask are those of `attend` over all keys."""

import pytest
import torch

from regard.attention.modules.local import LocalAttention
from regard.attention.parts import masks
from regard.attention.parts.normalize import Softmax
from regard.attention.parts.score import score
from regard.kernels.fallback import query_chunks
from tests.reference.attention import plain_attend

BATCH, QUERIES, KEYS, WIDTH, VALUE_WIDTH, RADIUS = 2, 5, 211, 7, 3, 3
LENGTHS, FIRST = torch.tensor([KEYS, 43]), 40
SCORES = {
    "scaled_dot": lambda: score("scaled_dot"),
    "general": lambda: score("general", query_dim=WIDTH, key_dim=WIDTH),
    "additive": lambda: score("additive", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=11),
    "location": lambda: score("location", query_dim=WIDTH, positions=KEYS),
}


@pytest.mark.parametrize("temperature", (1.0, 0.37))
@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("kind", ("monotonic", "predictive"))
@pytest.mark.parametrize("name", SCORES)
def test_windows_alone(monkeypatch, name, kind, bias, temperature):
    monkeypatch.setattr(query_chunks, "MANY", 1)  # windows of additive scores are copied for some queries at a time
    torch.manual_seed(0)
    attention = LocalAttention(
        SCORES[name](), radius=RADIUS, kind=kind, query_dim=WIDTH, normalizer=Softmax(temperature)
    ).double()
    query, key, value = (
        torch.randn(BATCH, *shape, dtype=torch.float64).requires_grad_()
        for shape in ((QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, VALUE_WIDTH))
    )
    added = None if bias == "none" else torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64)
    if bias == "learned":
        added.requires_grad_()
    keep = torch.rand(QUERIES, KEYS) < 0.8 if bias == "fixed" else torch.ones(QUERIES, KEYS, dtype=torch.bool)
    call = {"lengths": LENGTHS, "positions": FIRST, "bias": added}
    if bias == "fixed":
        call["mask"] = masks.keep(keep)
    assert attention.explain(query, key, value, **call).path == "local"
    attended = attention(query, key, value, **call)

    focus = attention.focus(query, LENGTHS, FIRST)
    _, weights = plain_attend(
        query[:, None], key[:, None], value[:, None], score=name, module=attention.score, temperature=temperature,
        sees=lambda b, h, q, k: abs(k - focus.center[b, q].item()) <= RADIUS and k < LENGTHS[b] and bool(keep[q, k]),
        bias=None if added is None else added[:, None],
    )  # fmt: skip
    weights = weights[:, 0]
    if kind == "predictive":  # Luong 2015, equation 10
        off = torch.arange(KEYS) - focus.center.unsqueeze(-1)
        weights = weights * torch.exp(-(off**2) / (2 * (RADIUS / 2) ** 2))
    torch.testing.assert_close(attended.weights, weights)
    torch.testing.assert_close(attended.context, weights @ value)
    leaves = [query, value, *([added] if bias == "learned" else []), *attention.parameters()]
    leaves += [] if name == "location" else [key]
    for one, other in zip(
        torch.autograd.grad(attended.context.sin().sum(), leaves, retain_graph=True, allow_unused=True),
        torch.autograd.grad((weights @ value).sin().sum(), leaves, retain_graph=True, allow_unused=True),
        strict=True,
    ):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)
