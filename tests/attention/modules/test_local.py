import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from regard.attention.attend import attend
from regard.attention.call import guard
from regard.attention.modules.local import LocalAttention, Monotonic, Predictive
from regard.attention.parts import masks
from regard.attention.parts.normalize import Softmax
from regard.attention.parts.score import score
from regard.attention.paths import local
from regard.errors import ConfigError, MaskError, ShapeError
from regard.kernels.fallback import query_chunks
from tests.batched import batches_are_singles
from tests.paths import without
from tests.rounding import likely

QUERY, KEY = 5, 7


def written_out(attention, query, key, value, lengths, centers):
    """Luong 2015, equations 7, 9 and 10, one query and one key at a time."""
    radius, rows = attention.focus.radius, []
    for b in range(query.shape[0]):
        row = []
        for i in range(query.shape[1]):
            center = centers[b, i]
            window = [s for s in range(int(lengths[b])) if abs(s - center.item()) <= radius]
            context = value.new_zeros(value.shape[-1])
            if window:
                prepared = attention.score.prepare(key[b : b + 1])
                scores = attention.score(query[b : b + 1, i : i + 1], prepared)[0, 0]
                shares = torch.softmax(torch.stack([scores[s] for s in window]), 0)
                for share, s in zip(shares, window, strict=True):
                    if isinstance(attention.focus, Predictive):
                        share = share * torch.exp(-((s - center) ** 2) / (2 * (radius / 2) ** 2))
                    context = context + share * value[b, s]
            row.append(context)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def inputs():
    torch.manual_seed(0)
    lengths = torch.tensor([11, 6, 1])
    query, key, value = torch.randn(3, 13, QUERY), torch.randn(3, 11, KEY), torch.randn(3, 11, 2)
    return [x.double().requires_grad_() for x in (query, key, value)], lengths


def predictive_at(center, length, radius):
    """A local-p whose query, of width 1, asks for a position by v: sigmoid(v tanh(w h)) = center / length."""
    attention = LocalAttention("dot", radius=radius, kind="predictive", query_dim=1).double()
    wanted = torch.logit(torch.tensor(center / length).double())
    with torch.no_grad():
        attention.focus.hidden.weight.fill_(1.0)
        attention.focus.vector.weight.fill_(wanted / torch.tanh(torch.tensor(1.0).double()))
    return attention


def test_the_numbers_of_local_p_W17():
    attention = predictive_at(4.3, 10, 2)
    query, key = torch.ones(1, 1, 1).double(), torch.zeros(1, 13, 1).double()  # uniform scores; S is 10 of 13 slots
    attended = attention(query, key, torch.eye(13).double()[None], lengths=torch.tensor([10]))
    focus = attention.focus(query, torch.tensor([10]))
    torch.testing.assert_close(focus.center, torch.tensor([[4.3]]).double())
    expected = torch.zeros(13).double()
    expected[3:7] = torch.tensor([0.1074, 0.2390, 0.1957, 0.0589]).double()
    torch.testing.assert_close(attended.weights[0, 0], expected, atol=5e-5, rtol=0)
    assert attended.weights[0, 0, [0, 1, 2, 7, 8, 9, 10, 11, 12]].abs().sum() == 0
    torch.testing.assert_close(attended.context[0, 0], attended.weights[0, 0])
    # Before the Gaussian: the window only, 0.25 each.
    torch.testing.assert_close(attended.log_weights[0, 0, 3:7].exp(), torch.full((4,), 0.25).double())


def test_p_learns_through_the_gaussian_W17():
    """d/dp of Σ w v at fixed window: Σ 0.25 · exp(−(s − p)²/2σ²) · (s − p)/σ² · v[s], with σ = 1."""
    attention = predictive_at(4.3, 10, 2)
    value = torch.arange(10.0).double().reshape(1, 10, 1)
    key = torch.zeros(1, 10, 1).double()
    attention(torch.ones(1, 1, 1).double(), key, value, lengths=torch.tensor([10])).context.sum().backward()
    by_center = sum(0.25 * torch.exp(torch.tensor(-((s - 4.3) ** 2) / 2)) * (s - 4.3) * s for s in range(3, 7))
    by_vector = (
        by_center * 10 * 0.43 * 0.57 * torch.tanh(torch.tensor(1.0))
    )  # dp/dv = S · share · (1 − share) · tanh(w h)
    torch.testing.assert_close(attention.focus.vector.weight.grad[0, 0].float(), by_vector.float())
    assert attention.focus.hidden.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
@pytest.mark.parametrize("radius", [1, 2.5])
@pytest.mark.parametrize("named", [True, False])
def test_equals_the_equations_written_out_with_gradients(kind, radius, named):
    (query, key, value), lengths = inputs()
    sizes = {"query_dim": QUERY, "key_dim": KEY}
    one = score("general", **sizes) if named else score("additive", hidden_dim=3, **sizes)
    attention = LocalAttention(one, radius=radius, kind=kind, query_dim=QUERY).double()
    attended = attention(query, key, value, lengths=lengths)
    if kind == "monotonic":
        centers = torch.arange(13).double().expand(3, 13)
    else:
        hidden, vector = attention.focus.hidden.weight, attention.focus.vector.weight[0]
        centers = lengths[:, None] * torch.sigmoid(torch.tanh(query @ hidden.T) @ vector)
    expected = written_out(attention, query, key, value, lengths, centers)
    torch.testing.assert_close(attended.context, expected)
    leaves, noise = [query, key, value, *attention.parameters()], torch.randn_like(expected)
    found = torch.autograd.grad((attended.context * noise).sum(), leaves)
    for a, b in zip(found, torch.autograd.grad((expected * noise).sum(), leaves), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
@pytest.mark.parametrize("name", ["general", "additive"])
def test_batches_of_gradients_are_those_one_by_one(kind, name, dtype):
    (query, key, value), lengths = inputs()
    query, key, value = given = [one.detach().to(dtype).requires_grad_() for one in (query, key, value)]
    compare = score(name, query_dim=QUERY, key_dim=KEY, **({"hidden_dim": 3} if name == "additive" else {}))
    attention = LocalAttention(compare, radius=2.5, kind=kind, query_dim=QUERY).to(dtype)
    context = attention(query, key, value, lengths=lengths).context
    # Torch makes queries and keys of their vectors, and adds up what comes back to the weights from 3 items' positions.
    within = likely(QUERY + KEY + 3 * max(query.shape[1], key.shape[1]), dtype)
    batches_are_singles(context, [*given, *attention.parameters()], within=within)
    batches_are_singles(attention(query.detach(), key, value, lengths=lengths).context, (key, value), within=within)


@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
def test_jacobians_and_hessians_at_once(kind):
    torch.manual_seed(0)
    attention = LocalAttention("dot", radius=1.5, kind=kind, query_dim=3).double()
    given, lengths = tuple(torch.randn(2, *shape).double() for shape in ((3, 3), (5, 3), (5, 2))), torch.tensor([5, 2])

    def read(query, key, value):
        return attention(query, key, value, lengths=lengths).context

    wanted = jacobian(read, given)
    for found in (jacobian(read, given, vectorize=True), torch.func.jacrev(read, (0, 1, 2))(*given)):
        torch.testing.assert_close(found, wanted)
    wanted, found = (
        hessian(lambda *three: read(*three).square().sum(), given, vectorize=at_once) for at_once in (False, True)
    )
    torch.testing.assert_close(found, wanted)


def test_local_m_stands_where_the_query_stands():
    attention = LocalAttention("dot", radius=1)
    key = torch.zeros(2, 6, 3)
    attended = attention(torch.zeros(2, 5, 3), key, key, lengths=torch.tensor([6, 3]))
    third = 1 / 3
    first = [[0.5, 0.5, 0, 0, 0, 0], [third] * 3 + [0] * 3, [0] + [third] * 3 + [0] * 2]
    torch.testing.assert_close(attended.weights[0, :3], torch.tensor(first))
    # The second item ends after three keys: a window that reaches beyond is cut, one that lies beyond reads 0.
    beyond = [[0, 0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0, 0], [0.0] * 6]
    torch.testing.assert_close(attended.weights[1, 2:], torch.tensor(beyond))


def test_a_step_is_a_row_of_the_whole():
    (query, key, value), lengths = inputs()
    for kind in ("monotonic", "predictive"):
        attention = LocalAttention(score("general", query_dim=QUERY, key_dim=KEY), 2, kind, query_dim=QUERY).double()
        whole, prepared = attention(query, key, value, lengths=lengths), attention.prepare(key)
        for step in (0, 3, 12):
            one = attention(query[:, step : step + 1], prepared, value, lengths=lengths, positions=step)
            torch.testing.assert_close(one.context, whole.context[:, step : step + 1])
            at = torch.full((3, 1), step)
            again = attention(query[:, step : step + 1], prepared, value, lengths=lengths, positions=at)
            assert torch.equal(one.context, again.context)


def test_an_item_alone_equals_the_item_in_a_batch_B22():
    (query, key, value), lengths = inputs()
    attention = LocalAttention(score("general", query_dim=QUERY, key_dim=KEY), 2, "predictive", QUERY).double()
    together = attention(query, key, value, lengths=lengths)
    for item, length in enumerate(lengths.tolist()):
        of = slice(item, item + 1)
        alone = attention(query[of], key[of, :length], value[of, :length], lengths=lengths[of])
        torch.testing.assert_close(together.context[of], alone.context)
        assert together.weights[item, :, length:].abs().sum() == 0


@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
@pytest.mark.parametrize("content", [torch.nan, torch.inf, 1e30])
def test_padding_content_touches_nothing_B03(kind, content):
    (query, key, value), lengths = inputs()
    attention = LocalAttention(score("general", query_dim=QUERY, key_dim=KEY), 2, kind, query_dim=QUERY).double()
    real = (torch.arange(11) < lengths[:, None])[..., None]
    asked = (torch.arange(13) < lengths[:, None])[..., None]

    def run(filled):
        given = [torch.where(asked, query, filled), torch.where(real, key, filled), torch.where(real, value, filled)]
        context = attention(*given, lengths=lengths).context[asked[..., 0]]
        leaves = [query, key, value, *attention.parameters()]
        return [context, *torch.autograd.grad(context.pow(2).sum(), leaves)]

    for a, b in zip(run(content), run(0.5), strict=True):
        torch.testing.assert_close(a, b)


def test_sizes_of_one_and_zero_B15_B42():
    for kind in ("monotonic", "predictive"):
        attention = LocalAttention("dot", 1, kind, query_dim=3)
        for batch, queries, keys in ((1, 1, 1), (2, 0, 3), (0, 2, 3), (2, 2, 0)):
            key, lengths = torch.randn(batch, keys, 3), torch.full((batch,), keys)
            attended = attention(torch.randn(batch, queries, 3), key, key, lengths=lengths)
            assert attended.context.shape == (batch, queries, 3)
            assert attended.weights.shape == (batch, queries, keys)
            assert torch.isfinite(attended.context).all()


def test_the_half_precision_center_is_not_rounded():
    """At position 1,000 bfloat16 steps by 4; the window must not."""
    attention = LocalAttention("dot", radius=2)
    key = torch.zeros(1, 1200, 2, dtype=torch.bfloat16)
    weights = attention(key[:, :1], key, lengths=torch.tensor([1200]), positions=1001).weights
    assert weights.dtype == torch.bfloat16
    assert weights[0, 0].nonzero().flatten().tolist() == [999, 1000, 1001, 1002, 1003]


def test_pointer_dropout_and_errors():
    key = torch.randn(2, 5, 3)
    attention = LocalAttention("dot", 1, dropout=0.5)
    assert attention(key, key, lengths=torch.tensor([5, 4])).context is None
    torch.testing.assert_close(attention(key, key, key, lengths=torch.tensor([5, 5])).weights.sum(-1), torch.ones(2, 5))
    attention.eval()
    first = attention(key, key, key, lengths=torch.tensor([5, 4])).context
    assert torch.equal(first, attention(key, key, key, lengths=torch.tensor([5, 4])).context)
    with pytest.raises(ConfigError, match="local-m"):
        LocalAttention("dot", 1, kind="local")
    with pytest.raises(ConfigError, match="query_dim"):
        LocalAttention("dot", 1, kind="predictive")
    with pytest.raises(ConfigError, match="above 0"):
        Predictive(0, 3)
    with pytest.raises(ConfigError, match="radius"):
        Monotonic(-1)


# --- the windows alone ----------------------------------------------------------------------------------------------


def both(run):
    """What a call gives by the windows alone, and under the mask of all keys."""
    ours = run()
    with without("local"):
        return ours, run()


LOCAL_SCORES = {
    "dot": {},
    "general": {"query_dim": QUERY, "key_dim": QUERY},
    "additive": {"query_dim": QUERY, "key_dim": QUERY, "hidden_dim": 3},
    "location_aware": {"query_dim": QUERY, "key_dim": QUERY, "hidden_dim": 3},
    "location": {"query_dim": QUERY, "positions": 41},
    "cosine": {},
}


@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
@pytest.mark.parametrize("name", LOCAL_SCORES)
def test_the_windows_alone_give_the_numbers_of_all_keys(monkeypatch, kind, name):
    """With a bias that learns and a further mask; context, weights, their logarithms, and every gradient."""
    generator = torch.Generator().manual_seed(0)
    query, key, value, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((3, 7, QUERY), (3, 37, QUERY), (3, 37, 2), (7, 37))
    )
    attention = LocalAttention(score(name, **LOCAL_SCORES[name]), 2.5, kind, QUERY).double()
    monkeypatch.setattr(local, "_COPIES", 1.0)
    given = {"lengths": torch.tensor([37, 11, 2]), "bias": bias}
    assert attention.explain(query, key, value, **given).path == "local"
    if name == "additive":
        monkeypatch.setattr(query_chunks, "MANY", 1)
        monkeypatch.setattr(query_chunks, "PART", 400)

    def run():
        attended = attention(query, key, value, mask=lambda b, h, q, k: (q + k) % 3 != b, **given)
        loss = attended.context.sin().sum() + attended.weights.cos().sum() + attended.log_weights.exp().sin().sum()
        slopes = torch.autograd.grad(loss, [query, key, value, bias, *attention.parameters()], allow_unused=True)
        return [attended.context, attended.weights, attended.log_weights, *slopes]

    for ours, theirs in zip(*both(run), strict=True):
        if theirs is not None:
            torch.testing.assert_close(torch.zeros_like(theirs) if ours is None else ours, theirs)


@pytest.mark.parametrize("normalizer", ["sparsemax", "entmax15", "sigmoid", "hard", Softmax(torch.tensor([0.5, 2.0]))])
def test_any_normalizer_is_over_the_window(monkeypatch, normalizer):
    torch.manual_seed(0)
    query, key = torch.randn(2, 7, 3).double(), torch.randn(2, 31, 3).double()
    attention = LocalAttention("dot", 2, "predictive", 3, normalizer=normalizer).double()
    attended = both(lambda: attention(query, key, key, lengths=torch.tensor([31, 17])))
    torch.testing.assert_close(attended[0].context, attended[1].context)
    torch.testing.assert_close(attended[0].weights, attended[1].weights)
    torch.testing.assert_close(attended[0].log_weights, attended[1].log_weights)


def test_a_draw_has_its_probability_and_a_pointer_its_weights():
    torch.manual_seed(0)
    query, key = torch.randn(2, 7, 3), torch.randn(2, 31, 3)
    drawn = LocalAttention("dot", 2, normalizer="sample")(query, key, key, lengths=torch.tensor([31, 17]))
    assert torch.equal(drawn.weights.sum(-1), torch.ones(2, 7))
    chosen = drawn.log_weights.gather(-1, drawn.weights.argmax(-1, keepdim=True)).squeeze(-1)
    torch.testing.assert_close(drawn.log_prob, chosen)
    pointer = LocalAttention("dot", 2)(query, key, lengths=torch.tensor([31, 17]), weights=True)
    assert pointer.context is None
    torch.testing.assert_close(pointer.weights.sum(-1), torch.ones(2, 7))


@pytest.mark.parametrize("named", ["dot", "cosine", "additive", "location"])
@pytest.mark.parametrize("content", [torch.nan, torch.inf, -torch.inf])
def test_what_is_seen_and_not_finite_stays_so_and_touches_no_other(monkeypatch, named, content):
    """Position 9 of 37, in key or value: queries 7 to 11 see it under local-m with radius 2."""
    monkeypatch.setattr(local, "_COPIES", 1.0)
    torch.manual_seed(0)
    attention = LocalAttention(score(named, **LOCAL_SCORES[named]), 2)
    for nonfinite in (0, 1):
        query, *each = torch.randn(1, 29, QUERY), torch.randn(1, 37, QUERY), torch.randn(1, 37, 2)
        clean = attention(query, *each, lengths=torch.tensor([37])).context
        each[nonfinite][0, 9, 1] = content
        ours, theirs = both(lambda: attention(query, *each, lengths=torch.tensor([37])))  # noqa: B023
        torch.testing.assert_close(ours.context, theirs.context, equal_nan=True)
        assert torch.isnan(ours.context[0, 7:12]).all()
        others = [*range(7), *range(12, 29)]
        torch.testing.assert_close(ours.context[0, others], clean[0, others])


@pytest.mark.parametrize("named", ["dot", "cosine", "additive", "location"])
@pytest.mark.parametrize("content", [torch.nan, torch.inf])
def test_a_query_that_is_not_finite_reads_nan_and_touches_no_other(monkeypatch, named, content):
    """Of cosine too, to which it has no direction, as a query of zeros has none."""
    monkeypatch.setattr(local, "_COPIES", 1.0)
    torch.manual_seed(0)
    attention = LocalAttention(score(named, **LOCAL_SCORES[named]), 2)
    query, key, value = torch.randn(1, 29, QUERY), torch.randn(1, 37, QUERY), torch.randn(1, 37, 2)
    clean = attention(query, key, value, lengths=torch.tensor([37])).context
    query[0, 9, 1] = content
    ours, theirs = both(lambda: attention(query, key, value, lengths=torch.tensor([37])))
    torch.testing.assert_close(ours.context, theirs.context, equal_nan=True)
    assert torch.isnan(ours.context[0, 9]).all()
    others = [*range(9), *range(10, 29)]
    torch.testing.assert_close(ours.context[0, others], clean[0, others])


def test_a_huge_key_outside_all_windows_is_not_even_read(monkeypatch):
    """The guard of all keys would look; nothing of the windows' path may, for that would cost as much as scoring."""
    monkeypatch.setattr(guard, "is_safe", None)
    attention = LocalAttention("dot", 2)
    key = torch.randn(1, 37, QUERY)
    key[:, 20:] = torch.nan
    found = attention(torch.randn(1, 5, QUERY), key, key, lengths=torch.tensor([37]))
    assert torch.isfinite(found.context).all() and torch.isfinite(found.weights).all()


def test_which_calls_score_all_keys_and_why():
    query, key, lengths = torch.randn(2, 3, 5), torch.randn(2, 11, 5), torch.tensor([11, 7])
    location_aware = score("location_aware", query_dim=5, key_dim=5, hidden_dim=3)
    attention = LocalAttention(location_aware, 2)
    explanation = attention.explain(query, key, key, lengths=lengths, previous=torch.rand(2, 11))
    assert explanation.path == "explicit"
    assert "beyond the window" in explanation.against["local"][0]
    assert LocalAttention("dot", 2).explain(query, key, key, lengths=lengths).path == "local"
    additive = LocalAttention(score("additive", query_dim=5, key_dim=5, hidden_dim=3), 2)
    for queries, keys, path in ((1, 21, "local"), (1, 20, "explicit"), (3, 28, "local"), (3, 27, "explicit")):
        given = torch.randn(2, queries, 5), torch.randn(2, keys, 5)
        explanation = additive.explain(*given, given[1], lengths=torch.tensor([keys, 7]))
        assert explanation.path == path and ("copy of the window" in str(explanation)) == (path != "local")
    with pytest.raises(MaskError, match="between 0 and the 11 keys"):
        LocalAttention("dot", 2)(query, key, key, lengths=torch.tensor([12, 7]))
    with pytest.raises(ShapeError, match="width"):
        LocalAttention("dot", 2)(query, key[..., :3], key, lengths=lengths)
    with pytest.raises(ShapeError, match="agree"):
        LocalAttention("dot", 2)(query, attention.prepare(key), key[:, :7], lengths=lengths)
    everything = LocalAttention("dot", float("inf"))(query, key, key, lengths=lengths)
    expected = attend(query, key, key, score="dot", mask=masks.padding(lengths))
    torch.testing.assert_close(everything.context, expected.context)
