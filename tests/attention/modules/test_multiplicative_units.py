"""The roots: each of them is an equality, in values and gradients, at prime sizes in float64."""

import pytest
import torch
import torch.nn.functional as F

import regard
from regard import masks
from regard.attention.modules import fast_weights
from regard.attention.modules.bottom_up import gating, max_pooling
from regard.attention.modules.linear import elu_plus_one, linear_attention, linear_step
from regard.attention.modules.multiplicative_units import generated, multiplicative, sigma_pi
from regard.errors import ShapeError
from tests.rounding import assert_close_to_rounding

BATCH, TIME, KEY, VALUE = 3, 7, 5, 2


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def assert_equal(one, other, inputs):
    """Both values, and both gradients to every input."""
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    weight = torch.randn(one.shape, dtype=one.dtype, generator=torch.Generator().manual_seed(11))
    gradients = [torch.autograd.grad((made * weight).sum(), inputs, retain_graph=True) for made in (one, other)]
    for mine, theirs in zip(*gradients, strict=True):
        assert mine.abs().sum() > 0
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11)


def programmed(query, key, value, **options):
    """Write a pair, read with the query, position by position."""
    memory = fast_weights.empty(BATCH, key.shape[-1], value.shape[-1], dtype=query.dtype)
    read = []
    for step in range(query.shape[1]):
        memory = fast_weights.write(memory, key[:, step], value[:, step])
        read.append(fast_weights.read(memory, query[:, step], **options))
    return torch.stack(read, 1), memory


def test_linear_attention_is_a_memory_of_fast_weights():
    query, key, value = draw(BATCH, TIME, KEY), draw(BATCH, TIME, KEY, seed=1), draw(BATCH, TIME, VALUE)
    inputs = [query, key, value]
    features = elu_plus_one(query), elu_plus_one(key)
    read, memory = programmed(*features, value, normalized=True)
    assert_equal(read, linear_attention(query, key, value, causal=True), inputs)
    assert_equal(
        read, regard.attend(query, key, value, score="linear", normalizer="sum", mask=masks.causal()).context, inputs
    )
    _, state = linear_step(query, key, value)  # and both keep the same: Σ v φ(k)ᵀ and Σ φ(k)
    assert_equal(torch.cat([memory.weight, memory.total.unsqueeze(1)], 1), state.memory.mT, [key, value])


def test_without_a_sum_it_is_the_product_of_scores_and_values():
    query, key, value = draw(BATCH, TIME, KEY), draw(BATCH, TIME, KEY, seed=1), draw(BATCH, TIME, VALUE)
    read, _ = programmed(query, key, value)
    plain = regard.attend(query, key, value, score="dot", normalizer="identity", mask=masks.causal()).context
    assert_equal(read, plain, [query, key, value])


def test_a_pair_is_found_again_by_its_key_and_the_delta_rule_replaces_it():
    """By hand: orthogonal keys do not disturb each other; a second write of a key adds, a correction replaces."""
    one, two = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    memory = fast_weights.write(fast_weights.empty(1, 2, 2), one, torch.tensor([[3.0, 5.0]]))
    memory = fast_weights.write(memory, two, torch.tensor([[7.0, 11.0]]), strength=torch.tensor([0.5]))
    assert memory.weight.tolist() == [[[3.0, 3.5], [5.0, 5.5]]] and memory.total.tolist() == [[1.0, 0.5]]
    assert fast_weights.read(memory, one).tolist() == [[3.0, 5.0]]
    assert fast_weights.read(memory, two).tolist() == [[3.5, 5.5]]
    assert fast_weights.read(memory, two, normalized=True).tolist() == [[7.0, 11.0]]
    assert fast_weights.read(memory, torch.zeros(1, 2), normalized=True).tolist() == [[0.0, 0.0]]
    added = fast_weights.write(memory, one, torch.tensor([[10.0, 10.0]]))
    corrected = fast_weights.correct(memory, one, torch.tensor([[10.0, 10.0]]))
    assert fast_weights.read(added, one).tolist() == [[13.0, 15.0]]
    assert fast_weights.read(corrected, one).tolist() == [[10.0, 10.0]]
    assert fast_weights.read(corrected, two).tolist() == [[3.5, 5.5]]
    assert fast_weights.read(memory, one).tolist() == [[3.0, 5.0]]  # nothing given is changed


def test_multiplicative_module_sigma_pi_unit_and_hypernetwork_are_one_sum():
    inputs, context, weight = draw(BATCH, 3), draw(BATCH, KEY), draw(VALUE, 3, KEY)
    module = multiplicative(inputs, context, weight)
    assert_equal(module, F.bilinear(inputs, context, weight), [inputs, context, weight])
    pairs = [(first, 3 + second) for first in range(3) for second in range(KEY)]
    unit = sigma_pi(torch.cat([inputs, context], -1), pairs, weight.flatten(1))
    assert_equal(module, unit, [inputs, context, weight])
    made = generated(context, weight)  # a matrix for each item of the batch
    layer = torch.stack([F.linear(one, matrix) for one, matrix in zip(inputs, made, strict=True)])
    assert_equal(module, layer, [inputs, context, weight])
    fixed = draw(VALUE, 3)
    assert torch.equal(generated(torch.zeros_like(context), weight, fixed)[1], fixed)  # the slow weights alone


def test_a_conjunct_is_closed_by_any_of_its_units():
    """By hand: 2·a0·a1·a2 − a1·a3, and a constant as the empty conjunct."""
    unit = sigma_pi(
        torch.tensor([[2.0, 3.0, 5.0, 7.0], [2.0, 3.0, 0.0, 7.0]]),
        [(0, 1, 2), (1, 3), ()],
        torch.tensor([[2.0, -1.0, 4.0]]),
    )
    assert unit.tolist() == [[60.0 - 21.0 + 4.0], [-21.0 + 4.0]]
    with pytest.raises(ShapeError, match=r"expected \(outputs, 2\)"):
        sigma_pi(torch.ones(1, 2), [(0,), (1,)], torch.ones(1, 3))


def test_the_general_score_is_a_multiplicative_module():
    query, key, weight = draw(BATCH, TIME, KEY), draw(BATCH, 11, VALUE), draw(KEY, VALUE)
    part = regard.score("general", query_dim=KEY, key_dim=VALUE).double()
    with torch.no_grad():
        part.weight.copy_(weight)
    scores = part(query, part.prepare(key))
    each = [multiplicative(query[:, [row]].expand(-1, 11, -1), key, weight.unsqueeze(0)) for row in range(TIME)]
    assert_equal(scores, torch.stack(each, 1).squeeze(-1), [query, key])


def test_an_attention_is_a_layer_whose_weights_are_computed_from_the_input():
    """A fully connected layer over positions has one matrix for ever; here each input makes its own, of any size."""
    for positions in (TIME, 11):
        query, key, value = draw(BATCH, 3, KEY), draw(BATCH, positions, KEY), draw(BATCH, positions, VALUE)
        matrix = (query @ key.mT / KEY**0.5).softmax(-1)  # what a hypernetwork gives: (batch, 3, positions)
        layer = torch.stack([F.linear(one.T, made).T for one, made in zip(value, matrix, strict=True)])
        assert_equal(layer, regard.attend(query, key, value).context, [query, key, value])
        # Read by sigma-pi units: a weight times a value, summed.
        weights = regard.attend(query, key, value, weights=True).weights
        units = torch.cat([weights, value.mT], 1)  # one of three queries, and both values, at each position
        pairs = [sigma_pi(units.mT, [(0, 3 + one)], units.new_ones(1, 1)).sum(1) for one in range(VALUE)]
        assert_equal(torch.cat(pairs, -1), layer[:, 0], [query, key, value])


def test_max_pooling_is_hard_attention_to_the_features_themselves():
    features = draw(BATCH, TIME, KEY)
    pooled, attended = max_pooling(features)
    assert_equal(pooled, F.max_pool1d(features.mT, TIME).squeeze(-1), [features])
    assert torch.equal(attended.weights.squeeze(2).argmax(-1), features.argmax(1))
    lengths = torch.tensor([5, 1, 7])
    seen = torch.arange(TIME).unsqueeze(-1) < lengths[:, None, None]
    pooled, _ = max_pooling(features, masks.padding(lengths))
    assert_equal(pooled, features.where(seen, torch.tensor(-torch.inf, dtype=features.dtype)).amax(1), [features])
    assert max_pooling(features, masks.padding(torch.tensor([0, 2, 3])))[0][0].tolist() == [0.0] * KEY


def test_gating_is_sigmoid_attention_to_oneself():
    gates, features = draw(BATCH, TIME, KEY), draw(BATCH, TIME, KEY, seed=1)
    gated, attended = gating(gates, features)
    assert_equal(gated, F.glu(torch.cat([features, gates], -1)), [gates, features])
    assert_equal(gating(features, features)[0], F.silu(features), [features])
    assert attended.weights.shape == (BATCH, KEY, TIME, TIME)
    # The exponential of a number may have another last digit where it lies otherwise.
    assert_close_to_rounding(attended.weights.diagonal(dim1=-2, dim2=-1).mT, gates.sigmoid(), 1)
