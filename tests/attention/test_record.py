"""Recording looks without touching; explain says which path a call takes."""

import pytest
import torch
from torch import nn

import regard
from regard import masks
from regard.attention.attend import Attention
from regard.attention.explain import explain
from regard.attention.record import RecordError, record


class Reader(nn.Module):
    """Two attentions, one of them called step by step."""

    def __init__(self):
        super().__init__()
        self.alignment = Attention(regard.score("additive", query_dim=5, key_dim=7, hidden_dim=11))
        self.unused = Attention()
        self.inner = Attention("dot")

    def forward(self, steps, memory):
        attended = [self.alignment(steps[:, t : t + 1], memory, memory).context for t in range(steps.shape[1])]
        context = torch.cat(attended, 1)
        return self.inner(context, context, context).context


@pytest.fixture
def reader():
    torch.manual_seed(0)
    return Reader(), torch.randn(2, 3, 5), torch.randn(2, 13, 7)


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


def test_steps_are_listed_and_stacked(reader):
    model, steps, memory = reader
    plain = model(steps, memory)
    with record(model) as seen:
        looked = model(steps, memory)
    assert torch.equal(plain, looked)
    assert seen.names() == ["alignment", "inner"] and "unused" not in seen
    assert len(seen["alignment"]) == 3
    assert seen.weights("alignment").shape == (2, 3, 13)
    torch.testing.assert_close(
        seen.weights("alignment"), model.alignment(steps, memory, memory).weights, rtol=1e-5, atol=1e-6
    )
    assert seen["inner"][0].weights.shape == (2, 3, 3)


def test_b46_a_name_that_never_fired_is_an_error(reader):
    """B46's end: attention that was not captured must not look like attention that is empty."""
    model, steps, memory = reader
    with record(model, select=["alignment", "unused"]) as seen:
        model(steps, memory)
    with pytest.raises(RecordError, match="never gave an Attended"):
        seen["unused"]
    with pytest.raises(RecordError, match="Did you mean 'alignment'"):
        seen["alignmant"]
    with pytest.raises(RecordError, match="no module fits 'decoder"), record(model, select="decoder.*"):
        pass
    with record(model, select="ali*") as seen:
        model(steps, memory)
    assert seen.names() == ["alignment"]
    with record(model, select=lambda name, module: name == "inner") as seen:
        model(steps, memory)
    assert seen.names() == ["inner"]


def test_b35_nothing_stays_behind(reader):
    """B35: after success, an error, an interrupt and within each other; the user's own hooks survive."""
    model, steps, memory = reader
    mine = model.alignment.register_forward_hook(lambda *_: None)
    before = hooks(model)
    plain = model(steps, memory)
    for error in (IndexError, KeyboardInterrupt):
        with pytest.raises(error), record(model):
            model(steps, memory)
            raise error
        assert hooks(model) == before
    with record(model) as outer:
        with record(model, select="inner") as inner:
            model(steps, memory)
        model(steps, memory)
    assert (len(outer["inner"]), len(inner["inner"])) == (2, 1)
    assert hooks(model) == before
    assert torch.equal(model(steps, memory), plain)
    mine.remove()


def test_different_shapes_cannot_be_stacked(reader):
    model, steps, memory = reader
    with record(model) as seen:
        model(steps, memory)
        model(steps, memory[:, :11])
    with pytest.raises(RecordError, match="different shapes"):
        seen.weights("alignment")


def test_explain_names_the_path_and_the_reason():
    query, key, value = torch.ones(2, 3, 5), torch.ones(2, 7, 5), torch.ones(2, 7, 11)
    assert explain(query, key, value).path == "fused"
    assert explain(query, key, value, score="cosine", mask=masks.causal()).path == "fused"
    assert explain(query, key, value, score="linear", normalizer="sum", mask=masks.padding([7, 3])).path == "linear"
    for options, word in (
        ({"normalizer": "sparsemax"}, "sparsemax"),
        ({"dropout": 0.1}, "dropout"),
        ({"refocus": [lambda w: w]}, "refocus"),
        ({"score": regard.score("additive", query_dim=5, key_dim=5, hidden_dim=2)}, "additive"),
    ):
        explained = explain(query, key, value, **options)
        assert explained.path == "explicit" and word in str(explained)
    assert "pointer" in str(explain(query, key)) or "no value" in str(explain(query, key))
    key[0, 6] = torch.nan
    assert explain(query, key, value, mask=masks.padding([6, 7])).guarded
    meta = [tensor.to("meta") for tensor in (query, key, value)]
    assert explain(*meta, mask=masks.causal()).path == "fused"


def test_the_paths_agree():
    """What explain calls fused and linear gives the explicit path's numbers, gradients included."""
    generator = torch.Generator().manual_seed(0)
    for score, normalizer in (("scaled_dot", "softmax"), ("cosine", "softmax"), ("linear", "sum")):
        for mask in (None, masks.causal(), masks.padding([7, 3]), masks.causal() & masks.padding([7, 0])):
            tensors = [
                torch.randn(2, 7, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)
            ]
            fast = regard.attend(*tensors, score=score, normalizer=normalizer, mask=mask)
            slow = regard.attend(*tensors, score=score, normalizer=normalizer, mask=mask, refocus=[lambda w: w])
            torch.testing.assert_close(fast.context, slow.context)
            torch.testing.assert_close(fast.weights, slow.weights)
            for one, other in zip(
                torch.autograd.grad(fast.context.sum(), tensors, allow_unused=True),
                torch.autograd.grad(slow.context.sum(), tensors, allow_unused=True),
                strict=True,
            ):
                torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-6)
