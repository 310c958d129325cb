"""The recurrent translator: the same numbers alone and in a batch, by step and at once, and as written in loops."""

import dataclasses

import pytest
import torch

from regard.attention.call import guard
from regard.attention.record import record
from regard.errors import ConfigError
from regard.layers.decoder import State
from regard.models.seq2seq import recurrent
from regard.models.seq2seq.recurrent import RecurrentTranslator
from tests.models.variants import SOURCE_WORDS, TARGET_WORDS, VARIANTS, pairs, run, settings, translator
from tests.paths import without
from tests.reference.recurrent import Reference, smoothed_cross_entropy

every_variant = pytest.mark.parametrize("name", VARIANTS)
# Each kind of decoder, cell and memory once, for promises that do not depend on how these are combined.
few_variants = pytest.mark.parametrize(
    "name", ["luong-gru-general", "luong-feeding-coverage", "bahdanau-gru-local-p", "bahdanau-dot", "fixed-every_step"]
)


def tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@every_variant
def test_equals_the_model_written_in_loops(name):
    """Logits, weights, loss and the gradient of every parameter, in float64."""
    model, batch = translator(name), pairs()
    parameters = dict(model.named_parameters())
    reference = Reference(model.settings, parameters)
    _, _, step = run(model, batch)
    losses = []
    for row in range(3):
        alone = batch.row(row)
        logits, weights = reference.translate(alone.source[0].tolist(), alone.target_in[0].tolist())
        steps, keys = weights.shape
        assert torch.allclose(step.logits[row, :steps], logits, atol=1e-10)
        if model.decoder.alignment is not None:
            seen = step.attended[model.decoder.alignment].weights[row, :steps]
            assert torch.allclose(seen[:, :keys], weights, atol=1e-10)
            assert not seen[:, keys:].any()
        losses.append(smoothed_cross_entropy(logits, alone.target_out[0].tolist(), 0.1))
    expected = sum(losses)
    outcome = model.objective(batch, smoothing=0.1)
    assert torch.allclose(outcome.total, expected, atol=1e-10)
    assert outcome.count.item() == 10
    gradients = torch.autograd.grad(outcome.total, list(parameters.values()), allow_unused=True)
    reference_gradients = torch.autograd.grad(expected, list(parameters.values()), allow_unused=True)
    for parameter, mine, slow in zip(parameters, gradients, reference_gradients, strict=True):
        mine, slow = (torch.zeros(1).double() if grad is None else grad for grad in (mine, slow))
        assert torch.allclose(mine, slow, atol=1e-9), parameter


@every_variant
def test_one_sentence_alone_equals_itself_in_a_batch(name):
    """B22: states, weights, logits and gradients to 1e-5 in float32, lengths 5, 3, 1."""
    model, batch = translator(name).float(), pairs()
    parameters = list(model.parameters())
    memory, _, step = run(model, batch)
    whole = torch.autograd.grad(model.objective(batch).total, parameters, allow_unused=True)
    parts = []
    for row in range(3):
        alone = batch.row(row)
        own_memory, _, own = run(model, alone)
        keys, steps = int(alone.source_lengths), int(alone.target_lengths)
        assert torch.allclose(memory.states[row, :keys], own_memory.states[0], atol=1e-5)
        for part, own_part in zip(memory.final, own_memory.final, strict=True):
            assert torch.allclose(part[row], own_part[0], atol=1e-5)
        assert torch.allclose(step.logits[row, :steps], own.logits[0], atol=1e-5)
        for look in step.attended:
            weights = step.attended[look].weights[row, :steps]
            assert torch.allclose(weights[:, :keys], own.attended[look].weights[0], atol=1e-5)
            assert not weights[:, keys:].any()
        parts.append(torch.autograd.grad(model.objective(alone).total, parameters, allow_unused=True))
    for total, *each in zip(whole, *parts, strict=True):
        if total is not None:
            assert torch.allclose(total, sum(each), atol=1e-5, rtol=1e-4)


@every_variant
def test_padding_vectors_and_padded_ids_change_nothing(name):
    """B22: a random vector for the padding, and any ids beyond the lengths; nothing but that word's own logit moves."""
    model, batch = translator(name), pairs()
    before = model.features(batch)[0]
    changed = dataclasses.replace(batch, source=batch.source.clone(), target_in=batch.target_in.clone())
    changed.source[1, 3:], changed.source[2, 1:], changed.target_in[0, 2:] = 7, 11, 13
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                module.weight[0] = 1e3
    assert torch.equal(model.features(batch)[0], before)
    assert torch.equal(model.features(changed)[0], before)


@every_variant
def test_step_by_step_equals_all_at_once(name):
    """B18 for recurrent decoders, chunks 1, 2 and all; B36: the state and the memory given stay as they were."""
    model, batch = translator(name), pairs()
    with torch.no_grad():
        memory, first, whole = run(model, batch)
        given = [tensor.clone() for tensor in tensors((memory, first))]
        for chunk in (1, 2):
            state, logits, weights = first, [], []
            for words in batch.target_in.split(chunk, dim=1):
                step = model.decoder.step(state, words)
                state = step.state
                logits.append(step.logits)
                weights += [look.weights for look in step.attended.values()]
            assert torch.allclose(torch.cat(logits, dim=1), whole.logits, atol=1e-10)
            if weights:
                assert torch.allclose(torch.cat(weights, dim=1), whole.attended["source"].weights, atol=1e-10)
            for now, expected in zip(tensors(state), tensors(whole.state), strict=True):
                assert now.shape == expected.shape
                assert torch.allclose(now, expected, atol=1e-10)
    assert all(torch.equal(now, before) for now, before in zip(tensors((memory, first)), given, strict=True))


@every_variant
def test_a_state_is_tensors_batch_first_that_can_be_selected(name):
    """B41: rows of a state, fixed and moving, can be reordered and repeated as search does."""
    model, batch = translator(name), pairs()
    with torch.no_grad():
        _, first, _ = run(model, batch)
        state = model.decoder.step(first, batch.target_in[:, :2]).state
        rows = torch.tensor([2, 0, 0, 1])
        leaves = torch.utils._pytree.tree_leaves(state)
        assert leaves
        assert all(isinstance(leaf, torch.Tensor) and leaf.shape[0] == 3 for leaf in leaves)
        chosen = State(*torch.utils._pytree.tree_map(lambda leaf: leaf.index_select(0, rows), tuple(state)))
        expected = model.decoder.step(state, batch.target_in[:, 2:3]).logits[rows]
        assert torch.allclose(model.decoder.step(chosen, batch.target_in[rows, 2:3]).logits, expected, atol=1e-10)


@every_variant
def test_batch_of_1_and_length_1(name):
    """B42: every axis of 1 keeps its place."""
    model = translator(name)
    for batch in (pairs((1,), (1,)), pairs((3,), (1,)), pairs((1, 1), (1, 1))):
        _, _, step = run(model, batch)
        rows, steps = batch.target_in.shape
        assert step.logits.shape == (rows, steps, TARGET_WORDS)
        for attended in step.attended.values():
            assert attended.weights.shape == (rows, steps, batch.source.shape[1])
            assert attended.context.shape == (rows, steps, 6)
        assert model.objective(batch).total.shape == ()


@few_variants
def test_eval_twice_is_bitwise_equal_and_train_is_not(name):
    """B34."""
    model, batch = translator(name, dropout=0.5), pairs()
    assert torch.equal(model.objective(batch).total, model.objective(batch).total)
    assert torch.equal(model.objective(batch).total, translator(name).objective(batch).total)
    model.train()
    assert not torch.equal(model.objective(batch).total, model.objective(batch).total)


@every_variant
def test_saved_and_loaded(name):
    """B36, K10: strict, each tensor once, the same numbers."""
    model, batch = translator(name), pairs()
    saved = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    pointers = [tensor.data_ptr() for tensor in model.state_dict().values()]
    assert len(set(pointers)) == len(pointers)
    torch.manual_seed(3)
    fresh = RecurrentTranslator(model.settings, SOURCE_WORDS, TARGET_WORDS).double().eval()
    fresh.load_state_dict(saved)
    assert torch.equal(fresh.objective(batch).total, model.objective(batch).total)


@few_variants
def test_bfloat16_autocast(name):
    """Loss in float32, near the float32 one, finite gradients."""
    model, batch = translator(name).float().train(), pairs()
    expected = model.objective(batch, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        outcome = model.objective(batch, 0.1)
    assert outcome.total.dtype == torch.float32
    assert torch.allclose(outcome.total, expected.total, rtol=3e-2)
    outcome.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_an_empty_source_reads_nothing():
    """B01, B22: a row of length 0 among others is finite, sees nothing, and its gradient is finite."""
    for name in VARIANTS:
        model, batch = translator(name), pairs((3, 0, 2), (2, 3, 1))
        _, _, step = run(model, batch)
        assert torch.isfinite(step.logits).all()
        for attended in step.attended.values():
            assert not attended.weights[1].any()
            assert not attended.context[1].any()
        gradients = torch.autograd.grad(model.objective(batch).total, list(model.parameters()), allow_unused=True)
        assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("name", ["luong-coverage", "bahdanau-coverage", "luong-feeding-coverage"])
def test_coverage_feeds_the_score(name):
    """B27: it is the sum over time for each source word, changes the result and has a gradient."""
    model, batch = translator(name), pairs()
    _, _, step = run(model, batch)
    weights = step.attended["source"].weights
    assert torch.allclose(step.state.moving["previous_weights"], weights.sum(1), atol=1e-12)
    last_only = translator(name, coverage=False)
    last_only.load_state_dict(model.state_dict())
    other = run(last_only, batch)[2].attended["source"].weights
    # One earlier step is the same to both; from the third on the sum differs from the last weights.
    assert torch.allclose(weights[:, :2], other[:, :2], atol=1e-12)
    assert not torch.allclose(weights[0, 2:], other[0, 2:], atol=1e-4)
    model.objective(batch).total.backward()
    score = model.decoder.source.attention.score
    assert score.features.weight.grad.abs().max() > 1e-6
    assert score.feature_weight.grad.abs().max() > 1e-6


def test_local_windows():
    """Local-m: |s − t| ≤ D and nothing else; local-p: its own predicted centre, whose predictor learns."""
    model, batch = translator("luong-scaled_dot-local-m"), pairs((7, 5), (5, 5))
    weights = run(model, batch)[2].attended["source"].weights
    steps, keys = torch.arange(5)[:, None], torch.arange(7)
    inside = (steps - keys).abs() <= 2
    assert torch.equal(weights[0] > 0, inside)
    assert torch.equal(weights[1] > 0, inside & (keys < 5))
    assert torch.allclose(weights.sum(-1), torch.ones(2, 5).double())
    model = translator("luong-additive-local-p")
    model.objective(batch).total.backward()
    assert all(parameter.grad.abs().max() > 1e-6 for parameter in model.decoder.source.focus.parameters())


@pytest.mark.parametrize("name", ["luong-additive-local-p", "luong-scaled_dot-local-m", "bahdanau-gru-local-p"])
def test_local_windows_alone_are_scored_with_the_numbers_of_all_keys(monkeypatch, name):
    """What was written, where was looked and every gradient; a recorder sees the same calls."""
    model = translator(name) if "scaled_dot" in name else translator(name, attention="general")
    batch = pairs((7, 5), (5, 5))

    def told():
        with record(model) as seen:
            step = run(model, batch)[2]
        logits = step.logits
        losses = model.objective(batch).total, step.attended["source"].log_weights.exp().square().sum()
        slopes = torch.autograd.grad(sum(losses), list(model.parameters()), allow_unused=True)
        return logits, seen.weights("decoder.source.attention"), *(one for one in slopes if one is not None)

    with monkeypatch.context() as patch:
        patch.setattr(guard, "is_safe", None)  # other paths would look at all keys
        ours = told()
    with without("local"):
        theirs = told()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_recorded_steps_are_the_alignment():
    """A loop of steps and one call are recorded alike under the attention's dotted name."""
    for name in ("luong-additive", "bahdanau-gru"):
        model, batch = translator(name), pairs()
        with record(model) as seen:
            _, _, step = run(model, batch)
        assert seen.names() == ["decoder.source.attention"]
        assert torch.equal(seen.weights("decoder.source.attention"), step.attended["source"].weights)


def test_without_feeding_the_decoder_is_one_call_and_one_attention():
    for name, looks in [
        ("luong-additive", 1),
        ("luong-additive-local-p", 1),
        ("luong-feeding", 5),
        ("bahdanau-gru", 5),
    ]:
        model, batch = translator(name), pairs()
        with record(model) as seen:
            model.objective(batch)
        assert len(seen["decoder.source.attention"]) == looks


def test_keys_are_projected_once_a_sequence(monkeypatch):
    model, batch, calls = translator("bahdanau-gru"), pairs(), []
    score = model.decoder.source.attention.score
    prepare = score.prepare
    monkeypatch.setattr(score, "prepare", lambda key: calls.append(key.shape) or prepare(key))
    model.objective(batch)
    assert calls == [(3, 5, 6)]


def test_the_vocabulary_product_is_over_real_words_only(monkeypatch):
    model, batch, rows = translator(), pairs(), []
    made = recurrent.vocabulary_objective
    monkeypatch.setattr(
        recurrent, "vocabulary_objective", lambda features, *rest: rows.append(features.shape) or made(features, *rest)
    )
    assert model.objective(batch).count.item() == 10
    assert rows == [(10, 5)]


@every_variant
def test_training_reads_as_a_plain_loop_does(name):
    """Rows that end leave, products wait for the last step and the readout sees no padding: the same, gradients too."""
    model, batch = translator(name), pairs()
    plain = translator(name)
    features, _ = model.features(batch)
    kept = torch.arange(batch.target_in.shape[1]) < batch.target_lengths[:, None]
    wanted = plain.reading(batch).features[kept]
    assert torch.allclose(features, wanted, atol=1e-10)
    above = torch.randn_like(wanted)
    for made, of in ((features, model), (wanted, plain)):
        made.backward(above)
        assert any(one.grad is not None for one in of.parameters())
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.allclose(one.grad, other.grad, atol=1e-9)


def test_dropped_words_are_read_as_unknown_in_training_only():
    """Word dropout: all but the begin mark replaced by unknown (1) is what the decoder would read from such a text."""
    batch = pairs()
    nearly_all = translator(word_dropout=1 - 1e-12)
    unknown = batch.target_in.clone()
    unknown[:, 1:] = 1
    expected = translator().objective(dataclasses.replace(batch, target_in=unknown)).total
    assert torch.allclose(nearly_all.train().objective(batch).total, expected, atol=1e-10)
    assert torch.equal(nearly_all.eval().objective(batch).total, translator().objective(batch).total)
    some = translator(word_dropout=0.5).train()
    torch.manual_seed(3)
    first = some.objective(batch).total
    torch.manual_seed(3)
    assert torch.equal(some.objective(batch).total, first)
    assert not torch.allclose(some.objective(batch).total, first)


def test_a_dot_product_of_two_widths_says_what_to_do():
    with pytest.raises(ConfigError, match="twice encoder_dim.*general or additive"):
        translator("luong-additive", attention="dot")


def test_arguments_unchanged():
    """B36."""
    batch = pairs()
    before = [getattr(batch, field.name).clone() for field in dataclasses.fields(batch)]
    translator().train().objective(batch).total.backward()
    after = [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_starts_as_the_recipe_says():
    torch.manual_seed(0)
    model = RecurrentTranslator(settings(), SOURCE_WORDS, TARGET_WORDS)
    assert not model.embedding.weight[0].any()
    recurrent = model.decoder.recurrence.each[0]
    for gate in recurrent.weight_hh.split(7):
        assert torch.allclose(gate @ gate.T, torch.eye(7), atol=1e-5)
    assert recurrent.bias_ih[7:14].tolist() == [1.0] * 7
