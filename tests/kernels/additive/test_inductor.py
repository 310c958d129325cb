"""Additive scores by kernels that torch's compiler writes: the formula's numbers, and no table of pairs × hidden."""

import pytest
import torch
from torch import Tensor

import regard
from regard.attention.parts.functional import additive_pairs
from regard.kernels.additive import inductor

ITEMS, QUERIES, KEYS, HIDDEN = 2, 61, 67, 29


def formula(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ vector


def inputs(device: str = "cpu", dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = (ITEMS, QUERIES, HIDDEN), (ITEMS, KEYS, HIDDEN), (HIDDEN,), (ITEMS, QUERIES, KEYS)
    *learned, given = (torch.randn(*shape, dtype=dtype, device=device) for shape in shapes)
    return [*(one.requires_grad_() for one in learned), given]


def compared(device: str, dtype: torch.dtype, within: float) -> None:
    *learned, given = inputs(device, dtype)
    made, plain = inductor.additive_scores(*learned, formula), formula(*learned)
    torch.testing.assert_close(made, plain, atol=within, rtol=within)
    each = zip(*(torch.autograd.grad(one, learned, given) for one in (made, plain)), strict=True)
    for ours, theirs in each:
        torch.testing.assert_close(ours, theirs, atol=within * theirs.abs().max().item(), rtol=within)


@pytest.mark.slow
def test_on_a_processor_the_same_text_gives_the_formulas_numbers():
    compared("cpu", torch.float64, 1e-12)


@pytest.mark.slow
def test_only_what_is_asked_for_has_a_gradient_and_that_one_another():
    query, key, vector, given = inputs()
    scores = inductor.additive_scores(query, key.detach(), vector, formula)
    [slope] = torch.autograd.grad(scores, query, given, create_graph=True)
    [plain] = torch.autograd.grad(formula(query, key.detach(), vector), query, given, create_graph=True)
    torch.testing.assert_close(slope, plain)
    each = (torch.autograd.grad(one.square().sum(), vector)[0] for one in (slope, plain))
    torch.testing.assert_close(*each)


def test_what_cannot_be_compiled_is_said_and_computed_by_the_formula(monkeypatch):
    def fails(text):
        raise torch._dynamo.exc.InternalTorchDynamoError("no kernel today")

    monkeypatch.setattr(inductor, "_kernel", fails)
    *learned, _ = inputs()
    with pytest.warns(RuntimeWarning, match="slower path.*no kernel today.*REGARD_COMPILE=0"):
        scores = inductor.additive_scores(*learned, formula)
    torch.testing.assert_close(scores, formula(*learned))


def test_a_processor_takes_its_own_loop():
    assert not inductor.serves(torch.zeros(1), 2**30)


def test_a_score_takes_it_where_it_serves(monkeypatch):
    """As on a GPU, with the kernels' text uncompiled: the formula's numbers, named by explain."""
    calls = []
    monkeypatch.setattr(inductor, "serves", lambda like, numbers: numbers == 2 * 61 * 67 * HIDDEN)
    monkeypatch.setattr(inductor, "_kernel", lambda text: lambda *given: calls.append(text) or text(*given))
    query, key, vector, given = inputs()
    scores = additive_pairs(query, key[:1], vector)
    torch.testing.assert_close(scores, formula(query, key[:1], vector))
    torch.autograd.grad(scores, (query, key, vector), given)
    assert len(calls) == 4
    assert not calls.clear() and additive_pairs(query[:1], key[:1], vector).shape == (1, QUERIES, KEYS) and not calls
    score = regard.score("additive", query_dim=HIDDEN, key_dim=HIDDEN, hidden_dim=HIDDEN)
    explanation = regard.explain(query, key, key, score=score)
    assert explanation.path == "explicit" and "kernel" in explanation.does


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, within", [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_on_a_gpu(dtype, within):
    compared("cuda", dtype, within)


@pytest.mark.gpu
def test_a_call_on_a_gpu_takes_it_and_keeps_no_table():
    torch.manual_seed(0)
    query, key = (torch.randn(8, n, 64, device="cuda", requires_grad=True) for n in (509, 521))
    vector = torch.randn(64, device="cuda", requires_grad=True)
    additive_pairs(query, key, vector).sum().backward()  # the kernels are made
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    additive_pairs(query, key, vector).sum().backward()
    assert torch.cuda.max_memory_allocated() - held < 8 * 509 * 521 * 64 * 4 / 8
    score = regard.score("additive", query_dim=64, key_dim=64, hidden_dim=64).cuda()
    explanation = regard.explain(query, key, key, score=score)
    assert explanation.path == "explicit" and "kernel" in explanation.does
