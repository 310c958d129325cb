"""What explain says of a whole model is what each of its attentions did; nothing of the model changes by it."""

import torch
from torch import nn

import regard
from regard import masks
from regard.attention.attended import Attended
from regard.attention.modules.heads import SelfHeads
from regard.attention.paths.choose import PATHS
from regard.layers.transformer.block import Block
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack
from tests.native import needs_compiler
from tests.paths import lowered, only


class Two(nn.Module):
    """A translator's two attentions, of which the second has another score and gives no Attended."""

    def __init__(self) -> None:
        super().__init__()
        self.first = regard.Attention("scaled_dot")
        self.second = regard.Attention(regard.score("additive", query_dim=5, key_dim=5, hidden_dim=3), "sparsemax")

    def forward(self, x: torch.Tensor, again: bool = False) -> torch.Tensor:
        """The first twice, then the second."""
        x = self.first(self.first(x, x, x).context, x, x).context
        return self.second(x, x, x).context if again else x


def test_each_attention_of_a_model_says_what_it_did():
    torch.manual_seed(0)
    model, x = Two(), torch.randn(2, 7, 5)
    plain = model(x)
    explained = regard.explain(model, x)
    assert list(explained) == ["first"] and [one.path for one in explained["first"]] == ["fused", "fused"]
    assert "first, 2 times: path: fused" in str(explained)
    both = regard.explain(model, {"x": x, "again": True})
    assert {name: [one.path for one in each] for name, each in both.items()} == {
        "first": ["fused", "fused"],
        "second": ["explicit"],
    }
    assert "sparsemax" in both["second"][0].against["fused"][-1]
    assert all(not module._forward_hooks for module in model.modules())
    assert torch.equal(model(x), plain)


def test_a_call_outside_of_modules_is_the_models_own():
    class Bare(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return regard.attend(x, x, x, mask=masks.causal()).context

    assert [one.path for one in regard.explain(Bare(), (torch.randn(2, 7, 5),))[""]] == ["fused"]


def test_content_that_was_cleaned_is_said():
    model, x = regard.MultiHeadAttention(8, 2), torch.randn(2, 7, 8)
    x[1, 5:] = torch.nan
    explained = regard.explain(model, {"query": x, "mask": masks.padding([7, 5])})
    [one] = explained[""]
    assert one.path == "explicit" and one.guarded


def stack() -> Stack:
    blocks = [Block(SelfHeads(32, 2), FeedForward(32, 8), lambda: nn.LayerNorm(32)) for _ in range(2)]
    return Stack(blocks, causal=True, norm=nn.LayerNorm(32))


@needs_compiler
def test_a_transformers_layers_are_on_the_list():
    """In training, without gradients, and by any path of the list: recorded and explained alike."""
    torch.manual_seed(0)
    model, x = stack(), torch.randn(3, 83, 32)
    names = ["blocks.0.attention", "blocks.1.attention"]
    assert {name: [one.path for one in each] for name, each in regard.explain(model, x).items()} == {
        name: ["projected"] for name in names
    }
    with torch.no_grad():
        assert [one.path for one in regard.explain(model, x)[names[0]]] == ["native"]
        plain = model(x).output
        for path in ("explicit", "fused", "native"):
            with lowered(), only(path), regard.record(model) as recorded:
                assert [one.path for one in regard.explain(model, x)[names[1]]] == [path]
                torch.testing.assert_close(model(x).output, plain, rtol=1e-4, atol=1e-5)
            assert isinstance(recorded[names[0]][-1], Attended)
    assert {"projected", "native", "fused", "explicit"} <= {path.name for path in PATHS}
