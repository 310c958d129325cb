"""What `attend` refuses `explain` refuses, in the same words; and loops are given nothing that they read elsewhere."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.modules.linear import Linear
from regard.attention.modules.local import LocalAttention
from regard.attention.parts.mask_kinds import as_mask
from regard.attention.parts.score import PerHead
from regard.attention.parts.score_base import DotProduct, Prepared
from regard.errors import ConfigError, MaskError, ShapeError

QUERIES, KEYS = 61, 53  # so many that the native loop takes them


def sized(query=7, key=7, value=5, heads=None, queries=QUERIES, keys=KEYS):
    lead, key_lead = ([13], [13]) if heads is None else ([13, heads], [13, heads // 2])
    generator = torch.Generator().manual_seed(0)
    shapes = (*lead, queries, query), (*key_lead, keys, key), (*key_lead, keys, value)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def refused(*given, **options):
    """What both say."""
    said = []
    for ask in (regard.attend, regard.explain):
        with pytest.raises((ShapeError, MaskError, ConfigError)) as caught:
            ask(*given, **options)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
    return said[0][1]


SCORES = {
    "dot": ("dot", {"key": 5}, "a dot product needs one width"),
    "scaled_dot": ("scaled_dot", {"key": 5}, "a dot product needs one width"),
    "cosine": ("cosine", {"key": 5}, "cosine needs one width"),
    "strength": (regard.score("cosine", strength=torch.ones(3)), {}, "strength has shape"),
    "linear": ("linear", {"key": 5}, "the sides of a dot product"),
    "general, query": (regard.score("general", query_dim=11, key_dim=7), {}, "query has shape"),
    "general, key": (regard.score("general", query_dim=7, key_dim=11), {}, "key has shape"),
    "low rank": (regard.score("general", query_dim=7, key_dim=11, rank=3), {}, "key has shape"),
    "additive, query": (regard.score("additive", query_dim=11, key_dim=7, hidden_dim=3), {}, "query has shape"),
    "additive, key": (regard.score("additive", query_dim=7, key_dim=11, hidden_dim=3), {}, "key has shape"),
    "location": (regard.score("location", query_dim=7, positions=KEYS - 1), {}, "this score knows 52 positions"),
    "location, query": (regard.score("location", query_dim=5, positions=KEYS), {}, "query has shape"),
    "feed_forward": (regard.score("feed_forward", query_dim=7, positions=KEYS - 1), {}, "this score knows 52"),
    "location_aware": (
        regard.score("location_aware", query_dim=7, key_dim=7, hidden_dim=3).bind(previous=torch.ones(13, KEYS + 1)),
        {},
        "previous has shape",
    ),
    "shaw": (regard.position("shaw", dim=7, clip=2), {}, "shaw needs positions"),
    "shaw, query": (
        regard.position("shaw", dim=5, clip=2).bind(
            query_positions=torch.arange(QUERIES)[None], key_positions=torch.arange(KEYS)[None]
        ),
        {},
        "shaw was made for",
    ),
    "shaw, positions": (
        regard.position("shaw", dim=7, clip=2).bind(
            query_positions=torch.arange(QUERIES)[None], key_positions=torch.arange(KEYS - 1)[None]
        ),
        {},
        "key_positions are (1, 52), but key has",
    ),
    "heads": (PerHead([regard.score("dot")] * 3), {"heads": 4}, "3 scores were given"),
    "no heads": (PerHead([regard.score("dot")] * 3), {}, "3 scores were given"),
    "of a head": (
        PerHead([regard.score("dot"), regard.score("general", query_dim=7, key_dim=5)]),
        {"heads": 2},
        "key has shape (13, 53, 7)",
    ),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    score, sizes, words = SCORES[name]
    given = sized(**sizes)
    assert words in refused(*given, score=score)
    regard.explain(*sized(**{**sizes, "key": 7}), score="dot")


def test_temperatures():
    for heads, shape in ((None, (3,)), (4, (13, 3, QUERIES))):
        normalizer = regard.normalizer("softmax", temperature=torch.ones(shape))
        assert "temperature has shape" in refused(*sized(heads=heads), normalizer=normalizer)


MASKS = {
    "keys": torch.ones(QUERIES, KEYS + 1, dtype=torch.bool),
    "batch": masks.keep(torch.ones(3, QUERIES, KEYS, dtype=torch.bool)),
    "heads": torch.ones(13, 2, QUERIES, KEYS, dtype=torch.bool),
    "lengths": masks.causal() & masks.padding([KEYS + 1, *[3] * 12]),
    "items": masks.padding([3, 5]),
    "keep": masks.causal() & masks.padding(keep=torch.ones(13, 3, dtype=torch.bool)),
    "ragged": masks.ragged([3] * 13),
    "document": masks.document([0] * KEYS),
    "around": masks.around(torch.ones(13, 3), 2.0),
    "function": lambda b, h, q, k: q - k,
    "function, keys": as_mask(lambda b, h, q, k: (k > 3)[..., :5]) | masks.causal(),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score", ("scaled_dot", "linear"))
def test_masks(name, score):
    refused(*sized(), mask=MASKS[name], score=score, normalizer="softmax" if score == "scaled_dot" else "sum")


def test_a_mask_that_has_to_see_numbers_is_not_asked():
    for function in (lambda b, h, q, k: k <= int(q.max()), lambda b, h, q, k: torch.from_numpy(k.numpy() > 3)):
        given = sized()
        explanation = regard.explain(*given, mask=function)
        assert explanation.path in ("native", "fused")
        assert regard.attend(*given, mask=function).context.shape == (13, QUERIES, 5)


@pytest.mark.parametrize("fill", (True, False))
@pytest.mark.parametrize("queries", (7, 257))
def test_a_mask_of_five_axes_is_refused_however_large_the_call(queries, fill):
    given = sized(queries=queries, keys=queries)
    mask = torch.ones(1, 1, 1, queries, queries, dtype=torch.bool)
    assert "the mask has shape" in refused(*given, mask=mask if fill else mask.tril())


class Cut(DotProduct):
    """A dot product whose sides are as wide, and as many, as somebody says."""

    def __init__(self, width, keys):
        super().__init__()
        self.cut = slice(width), slice(keys)

    def dot_form(self, query, prepared):
        width, keys = self.cut
        return query, prepared.projected[..., keys, width].contiguous(), 1.0


@pytest.mark.parametrize("queries", (5, QUERIES, 521))
def test_loops_are_given_sides_that_fit(queries):
    """The native loop read what lay behind them."""
    given = sized(queries=queries, keys=queries)
    for score in (Cut(3, None), Cut(None, 3)):
        for dropout in (0.0, 0.1):
            if regard.explain(*given, score=score, dropout=dropout).path == "explicit":
                continue  # torch's product of matrices refuses them
            with pytest.raises(ShapeError, match="the sides of a dot product must be one for each query and each key"):
                regard.attend(*given, score=score, dropout=dropout)
    regard.attend(*given, score=Cut(None, None))


PREPARED = {
    "general": (regard.score("general", query_dim=7, key_dim=11), "the prepared key has shape"),
    "low rank": (regard.score("general", query_dim=7, key_dim=11, rank=3), "the prepared key has shape"),
    "additive": (
        regard.score("additive", query_dim=7, key_dim=11, hidden_dim=3),
        "the prepared key has shape",
    ),
    "dot": (regard.score("dot"), "a dot product needs one width"),
    "cosine": (regard.score("cosine"), "cosine needs one width"),
    "linear": (regard.score("linear"), "the sides of a dot product"),
}


@pytest.mark.parametrize("queries", (5, QUERIES, 521))
@pytest.mark.parametrize("name", PREPARED)
def test_keys_that_another_score_prepared(name, queries):
    score, words = PREPARED[name]
    query, key, value = sized(queries=queries, keys=queries)
    for normalizer in ("softmax", "sparsemax"):
        assert words in refused(query, Prepared(key, key[..., :5]), value, score=score, normalizer=normalizer)


@pytest.mark.parametrize("keys", (KEYS - 2, 20 * KEYS))
def test_prepared_keys_of_another_number(keys):
    """The loop read values that there are not."""
    query, key, value = sized()
    projected = torch.randn(13, keys, 7)
    for score in ("dot", regard.score("additive", query_dim=7, key_dim=7, hidden_dim=7)):
        assert "prepared keys must be one for each key" in refused(query, Prepared(key, projected), value, score=score)


def test_local_attention_is_refused_as_it_is_called():
    query, key, value = sized(queries=3)
    lengths = torch.full((13,), KEYS)
    narrow = LocalAttention(regard.score("general", query_dim=7, key_dim=11), 2)
    centered = LocalAttention("dot", 2)
    for attention, options, words in (
        (narrow, {}, "key has shape"),
        (centered, {"bias": torch.ones(3, 4)}, "bias has shape"),
        (centered, {"mask": torch.ones(3, 4, dtype=torch.bool)}, "the mask has shape"),
    ):
        said = []
        for ask in (attention, attention.explain):
            with pytest.raises((ShapeError, MaskError)) as caught:
                ask(query, key, value, lengths=lengths, **options)
            said.append(str(caught.value))
        assert said[0] == said[1] and words in said[0]
    assert centered.explain(query, key, value, lengths=lengths).path == "local"


def test_what_is_not_known_of_a_callers_own_part_is_not_refused():
    class Wider(Linear):
        def prepare(self, key):
            return Prepared(key, torch.nn.functional.pad(key, (0, 2)))

        def dot_form(self, query, prepared):
            return query, prepared.projected, 1.0

    query, key, value = sized(key=5)
    for options in ({"score": Wider()}, {"score": Linear(lambda x: x[..., :3].exp())}):
        explanation = regard.explain(query, key, value, **options)
        assert explanation.path in ("native", "fused")
        assert regard.attend(query, key, value, **options).context.shape == value.shape[:1] + (QUERIES, 5)


def test_nobody_is_called():
    called = []
    score = regard.score("general", query_dim=7, key_dim=7)
    score.register_forward_hook(lambda *_: called.append("score"))
    steps = [lambda weights: called.append("step") or weights]
    regard.explain(*sized(), score=score, refocus=steps)
    assert not called
