"""The registry's parts at test sizes, and the masks with their rule in words that cannot be misread: a predicate."""

import torch

import regard
from regard import masks

BATCH, QUERIES, KEYS, QUERY_DIM, KEY_DIM, VALUE_DIM, HIDDEN = 2, 3, 5, 7, 11, 13, 17

# name -> how to make it; the first width is the query's, the second the key's
SCORES = {
    "dot": (lambda: regard.score("dot"), 7, 7),
    "scaled_dot": (lambda: regard.score("scaled_dot"), 7, 7),
    "general": (lambda: regard.score("general", query_dim=7, key_dim=11), 7, 11),
    "general_low_rank": (lambda: regard.score("general", query_dim=7, key_dim=11, rank=3), 7, 11),
    "additive": (lambda: regard.score("additive", query_dim=7, key_dim=11, hidden_dim=17), 7, 11),
    "cosine": (lambda: regard.score("cosine"), 7, 7),
    "location": (lambda: regard.score("location", query_dim=7, positions=19), 7, 11),
    "feed_forward": (lambda: regard.score("feed_forward", query_dim=7, positions=19), 7, 11),
    "location_aware": (lambda: regard.score("location_aware", query_dim=7, key_dim=11, hidden_dim=17), 7, 11),
    "linear": (lambda: regard.score("linear"), 7, 7),
}
NORMALIZERS = ("softmax", "sparsemax", "entmax15", "sigmoid", "sum", "identity", "hard", "sample", "gumbel")

_centers = torch.tensor([[0.3, 2.0, 4.9], [1.5, -3.0, 2.2]], dtype=torch.float64)
_documents = torch.tensor([[0, 0, 1, 1, 2], [3, 4, 4, 4, 4]])
_real = torch.tensor([[False, False, True, True, True], [True, False, True, False, True]])
_flat = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])
_cube = torch.stack([_flat, _flat.flip(0)])

# name -> (mask, does query q of item b see key k?), drawn for 2 items, 3 queries and 5 keys (queries stand at keys 2…4)
MASKS = {
    "none": (None, lambda b, q, k: True),
    "causal": (masks.causal(), lambda b, q, k: k <= q + 2),
    "causal_start": (masks.causal(anchor="start"), lambda b, q, k: k <= q),
    "window": (masks.window(2, 0), lambda b, q, k: 0 <= (q + 2) - k <= 2),
    "around": (masks.around(_centers, 1.0), lambda b, q, k: abs(k - _centers[b, q].item()) <= 1.0),
    "lengths": (masks.padding([5, 2]), lambda b, q, k: k < (5, 2)[b]),
    "no_keys": (masks.padding([5, 0]), lambda b, q, k: b == 0),
    "left_padding": (masks.padding(keep=_real), lambda b, q, k: _real[b, k].item()),
    "prefix": (masks.prefix(2), lambda b, q, k: k < 2),
    "document": (masks.document(_documents), lambda b, q, k: (_documents[b, q + 2] == _documents[b, k]).item()),
    "keep_2d": (_flat, lambda b, q, k: _flat[q, k].item()),
    "keep_3d": (masks.keep(_cube), lambda b, q, k: _cube[b, q, k].item()),
    "function": (lambda b, h, q, k: (q + k) % 2 == b, lambda b, q, k: (q + k) % 2 == b),
    "joined": (
        masks.causal() & masks.padding(keep=_real) | masks.prefix(1),
        lambda b, q, k: (k <= q + 2 and _real[b, k].item()) or k < 1,
    ),
    "inverted": (~masks.causal(), lambda b, q, k: k > q + 2),  # the last query sees nothing
}


def tensors(score, *, dtype=torch.float64, seed=0, batch=BATCH, queries=QUERIES, keys=KEYS, heads=None, key_heads=None):
    """Query, key, value for a score; with heads, four axes."""
    generator = torch.Generator().manual_seed(seed)
    _, query_dim, key_dim = SCORES[score]
    lead = [batch] if heads is None else [batch, heads]
    key_lead = [batch] if heads is None else [batch, key_heads or heads]
    made = (
        torch.randn(*lead, queries, query_dim, generator=generator, dtype=torch.float64),
        torch.randn(*key_lead, keys, key_dim, generator=generator, dtype=torch.float64),
        torch.randn(*key_lead, keys, VALUE_DIM, generator=generator, dtype=torch.float64),
    )
    return tuple(tensor.to(dtype).requires_grad_() for tensor in made)


def module(score, dtype=torch.float64, seed=1):
    torch.manual_seed(seed)
    return SCORES[score][0]().to(dtype)
