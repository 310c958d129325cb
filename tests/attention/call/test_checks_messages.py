"""What a newcomer gets wrong is said in words. Run without the suite's checks of types, which users have not."""

import json
import subprocess
import sys

import pytest

CALLS = {
    "regard.attend([[[1.0]]], x, x)": "ShapeError: query, key and value must be tensors; query is list",
    "regard.attend(x, x.numpy())": "ShapeError: query, key and value must be tensors; key is ndarray",
    "regard.attend(x, x, x.tolist())": "ShapeError: query, key and value must be tensors; value is list",
    "regard.attend(x, x, x, bias=1.0)": "ShapeError: bias must be a tensor; it was 1.0",
    "regard.attend(x, x, x, mask=masks.causal)": "MaskError: masks.causal makes a mask; call it: masks.causal(…)",
    "regard.attend(x, x, x, score=torch.matmul)": "ConfigError: score= takes what regard.score(…) makes, or a name; it",
    "regard.Attention(3)": "ConfigError: score= takes what regard.score(…) makes, or a name; it was 3",
    "regard.attend(x, x, x, normalizer=3)": "ConfigError: normalizer= takes what regard.normalizer(…) makes, or",
    "regard.refocus.gaussian_window(2.0, 1.0)": "ShapeError: the center is a tensor, (batch, queries) or (batch, heads",
    "regard.positions([2, 1])": "MaskError: positions(keep) takes a bool tensor (batch, positions), True at real",
    "heads(x[0])": "ShapeError: heads are made of (batch, positions, width); a projection gave (5, 16)",
    "heads(x.unsqueeze(1))": "ShapeError: heads are made of (batch, positions, width); a projection gave (2, 1, 5, 16)",
    "heads(x, x[0])": "ShapeError: heads are made of (batch, positions, width); a projection gave (5, 16)",
    "regard.MultiHeadAttention(16, 0)": "ConfigError: key_heads must divide heads, 1 at least; got heads=0, key_heads",
    "regard.MultiHeadAttention(16, 4, position='rotary')": "ConfigError: position= takes a part of kind rotate or "
    "bias, got 'rotary'; make it with regard.position(name, …)",
    "regard.score('additive', query_dim=16, key_dim=16, hidden_dim=0)": "ConfigError: hidden_dim must be at least 1",
    "regard.position('shaw', dim=0, clip=2)": "ConfigError: shaw: dim must be at least 1; got 0",
    "regard.MultiHeadAttention.from_torch(torch.nn.Linear(4, 4))": "ConfigError: from_torch takes a torch.nn.Multihead",
    "turning(x, query_positions=torch.arange(5))": "ShapeError: positions must be (2, 5), (batch, positions), or serve "
    "all items as (1, 5); got (5,)",
    "turning(x[:, :4], query_positions=torch.arange(4))": "ShapeError: positions must be (2, 4)",
    "turning(x, query_positions=torch.arange(4)[None])": "ShapeError: positions must be (2, 5)",
    "biased(x, query_positions=torch.arange(5))": "ShapeError: positions must be (2, 5)",
    "biased(x, x[:, :3], query_positions=at, key_positions=at)": "ShapeError: positions must be (2, 3)",
    "local(x, x, x, lengths=[5, 4])": "ShapeError: lengths are a whole number an item, a tensor (batch,); they were",
    "local(x[:, None], x[:, None], lengths=torch.tensor([5, 4]))": "ShapeError: a window is around one position of "
    "each query: (batch, queries, query_dim) is expected, not (2, 1, 5, 16)",
    "unheard['']": "RecordError: '' never gave an Attended while it was recorded. Nor did any other.",
}
PREPARED = """
import json, sys
import torch, regard
from regard import masks

x, at = torch.randn(2, 5, 16), torch.arange(5).expand(2, 5)
heads, local = regard.MultiHeadAttention(16, 4), regard.LocalAttention("dot", 2)
turning = regard.MultiHeadAttention(16, 4, position=regard.position("rotary", dim=4))
biased = regard.MultiHeadAttention(16, 4, position=regard.position("alibi", heads=4))
with regard.record(heads) as unheard:
    pass
said = {}
for call in json.loads(sys.argv[1]):
    try:
        said[call] = f"nothing: {eval(call)}"
    except Exception as error:
        said[call] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said():
    """What each call says, in a process that checks no types of its own."""
    call = [sys.executable, "-c", PREPARED, json.dumps(list(CALLS))]
    return json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("call", CALLS)
def test_the_error_says_what_is_wrong(said, call):
    assert said[call].startswith(CALLS[call]), said[call]
