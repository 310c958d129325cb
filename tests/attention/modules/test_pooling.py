import math

import pytest
import torch

from regard.attention.modules.pooling import LearnedQueries
from regard.attention.parts import masks
from regard.attention.parts.score import score
from regard.attention.record import record
from regard.errors import ConfigError, ShapeError


def test_two_queries_bring_two_contexts_side_by_side_W22():
    """x = (0, 0), (ln 3, 0): query (1, 0) weighs 1/4, 3/4; query (0, 1) weighs 1/2, 1/2. Values 8 and 4, 0 and 2."""
    pooling = LearnedQueries(queries=2, dim=2, score="dot")
    with torch.no_grad():
        pooling.queries.copy_(torch.eye(2))
    x = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]])
    value = torch.tensor([[[8.0, 0.0], [4.0, 2.0]]])
    attended = pooling(x, value)
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]))
    torch.testing.assert_close(attended.context, torch.tensor([[5.0, 1.5, 6.0, 1.0]]))
    assert pooling(x, torch.zeros(1, 2, 7)).context.shape == (1, 14)


@pytest.mark.parametrize("name", ["scaled_dot", "additive", "general", "cosine"])
def test_is_its_queries_one_by_one_over_any_score(name):
    torch.manual_seed(0)
    sizes = {"query_dim": 3, "key_dim": 3}
    options = {"additive": {**sizes, "hidden_dim": 5}, "general": sizes}.get(name, {})
    pooling = LearnedQueries(queries=5, dim=3, score=score(name, **options))
    x, lengths = torch.randn(2, 7, 3), [7, 4]
    attended = pooling(x, mask=masks.padding(lengths))
    for item, length in enumerate(lengths):
        real = x[item : item + 1, :length]
        scores = pooling.score(pooling.queries[None], pooling.score.prepare(real))
        weights = torch.softmax(scores, -1)
        torch.testing.assert_close(attended.weights[item : item + 1, :, :length], weights)
        torch.testing.assert_close(attended.context[item], (weights @ real).flatten())


def test_padding_alone_reads_zero_and_its_content_touches_nothing_B01_B03():
    torch.manual_seed(1)
    pooling = LearnedQueries(queries=3, dim=5).double()
    x, lengths = torch.randn(3, 4, 5).double(), [4, 2, 0]
    real = (torch.arange(4) < torch.tensor(lengths)[:, None])[..., None]
    results = []
    for filled in (0.5, torch.nan, torch.inf, 1e30):
        given = torch.where(real, x, filled)
        context = pooling(given, mask=masks.padding(lengths)).context
        results.append((context, torch.autograd.grad(context.pow(2).sum(), pooling.queries)[0]))
    assert torch.equal(results[0][0][2], torch.zeros(15).double())
    for context, gradient in results[1:]:
        torch.testing.assert_close(context, results[0][0])
        torch.testing.assert_close(gradient, results[0][1])


def test_order_of_the_sequence_does_not_matter_W10():
    pooling, x = LearnedQueries(queries=3, dim=5).double(), torch.randn(2, 7, 5).double()
    torch.testing.assert_close(pooling(x[:, torch.randperm(7)]).context, pooling(x).context)


def test_prepared_keys_modes_sizes_and_record():
    pooling = LearnedQueries(queries=3, dim=5, dropout=0.5)
    x = torch.randn(2, 7, 5)
    assert not torch.equal(pooling(x).context, pooling(x).context)
    pooling.eval()
    assert torch.equal(pooling(pooling.score.prepare(x)).context, pooling(x).context)
    with record(pooling) as seen:
        pooling(x)
    assert seen.weights("").shape == (2, 3, 7)
    for batch, keys in ((1, 1), (2, 0), (0, 3)):  # B15, B42
        attended = pooling(torch.randn(batch, keys, 5))
        assert attended.context.shape == (batch, 15) and attended.weights.shape == (batch, 3, keys)
    assert pooling.to(torch.bfloat16)(x.bfloat16()).context.dtype == torch.bfloat16


def test_errors():
    with pytest.raises(ConfigError, match="at least one query"):
        LearnedQueries(queries=0, dim=3)
    with pytest.raises(ShapeError, match="width"):
        LearnedQueries(queries=2, dim=3)(torch.zeros(1, 2, 5))
