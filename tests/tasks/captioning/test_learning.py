"""What hard attention learns from, against the sum over all paths of looks."""

import itertools

import pytest
import torch
from torch import Tensor

from regard.data.images.batches import IGNORED, CaptionBatch
from regard.models.captioning.captioner import IMAGE, Captioner
from regard.models.captioning.settings import CaptionerSettings
from regard.tasks.captioning.learning import entropy, from_captions, of_words, reinforce, unevenness
from regard.tasks.captioning.settings import LearningSettings

VOCABULARY, CELLS = 6, 3


def tiny(look: str = "sample", **others: object) -> Captioner:
    """A captioner of three cells with two features each."""
    torch.manual_seed(5)
    settings = CaptionerSettings.model_validate(
        {
            "encoder": {"kind": "features", "width": 2},
            "look": look,
            "annotation_dim": 4,
            "attention_dim": 2,
            "embedding_dim": 2,
            "state_dim": 2,
            **others,
        }
    )
    model = Captioner(settings, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1)  # scores and words that differ
    model.train().norm.eval()  # so that an image's annotations are its own
    return model


def batch(rows: int) -> CaptionBatch:
    """An image of three cells with the caption "4 5", as often as wanted."""
    features = torch.tensor([[[1.0, -1.0], [0.5, 2.0], [-2.0, 0.3]]])
    words = torch.tensor([[2, 4]]), torch.tensor([[4, 5]])
    return CaptionBatch(*(one.expand(rows, *one.shape[1:]) for one in (features[None, 0][:, None], *words)))


def exact_gradient(model: Captioner, given: CaptionBatch) -> list[Tensor]:
    """Of −Σ_s p(s|a) log p(y|s, a), all 3 × 3 paths one by one, with looks that are told in place of drawn ones."""
    memory = model.encode(given.images)
    decoder, annotations = model.decoder, memory.annotations
    total = annotations.new_zeros(())
    for path in itertools.product(range(CELLS), repeat=2):
        state = decoder.start(memory, 1)
        carried, probability, reached = state.moving["carried"], torch.ones(()), torch.zeros(())
        for cell, word, answer in zip(path, given.words_in[0], given.words_out[0], strict=True):
            before = carried[0]
            weights = decoder.score(before, state.fixed["prepared"]).softmax(-1)[0, 0]
            context = torch.sigmoid(decoder.gate(before)) * annotations[:, cell : cell + 1]
            embedded = decoder.embedding(word[None, None])
            hidden, carried = decoder.recurrence(torch.cat([embedded, context], -1), carried)
            deep = torch.tanh(embedded + decoder.from_state(hidden) + decoder.from_context(context))
            probability = probability * weights[cell]
            reached = reached + decoder.output(deep).log_softmax(-1)[0, 0, answer]
        total = total - probability * reached
    return list(torch.autograd.grad(total, list(model.parameters()), materialize_grads=True))


def test_the_mean_of_20000_estimates_is_the_gradient_summed_over_all_paths() -> None:
    """Xu et al. 2015, eq. 11 and 12: within three standard errors, component by component."""
    model, chunk, chunks = tiny(), 500, 40
    learning = LearningSettings(entropy=0.0, expected=0.0)
    exact = torch.cat([one.flatten() for one in exact_gradient(model, batch(1))])
    torch.manual_seed(7)
    estimates = []
    for _ in range(chunks):
        objective = from_captions(model, batch(chunk), learning)
        gradients = torch.autograd.grad(objective.total, list(model.parameters()), materialize_grads=True)
        estimates.append(torch.cat([one.flatten() for one in gradients]) / chunk)
    means = torch.stack(estimates).double()
    error = means.std(0) / chunks**0.5
    assert (exact.abs() > 1e-3).sum() > 40  # there is something to compare
    assert ((means.mean(0) - exact).abs() <= 3 * error + 1e-7).all()


def test_without_the_reward_the_estimate_is_another_one() -> None:
    """The check above can fail: the gradient of log p(y|s) alone is not that of the expectation."""
    model = tiny()
    exact = exact_gradient(model, batch(1))
    torch.manual_seed(7)
    objective = from_captions(model, batch(4000), LearningSettings(reward=0.0, expected=0.0))
    gradients = torch.autograd.grad(objective.total, list(model.parameters()), materialize_grads=True)
    scored = [at for at, (name, _) in enumerate(model.named_parameters()) if name.startswith("decoder.score")]
    assert len(scored) == 3
    assert all(not gradients[at].any() for at in scored)
    assert any(exact[at].abs().max() > 1e-3 for at in scored)


def test_with_the_expectation_for_all_it_is_soft_attention() -> None:
    hard, soft = tiny(), tiny("soft")
    soft.load_state_dict(hard.state_dict())
    totals = [
        from_captions(model, batch(3), LearningSettings(expected=expected)).total
        for model, expected in ((hard, 1.0), (soft, 0.5))
    ]
    gradients = [
        torch.autograd.grad(total, list(model.parameters()), materialize_grads=True)
        for total, model in zip(totals, (hard, soft), strict=True)
    ]
    assert totals[0].item() == pytest.approx(totals[1].item(), rel=1e-6)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_the_baseline_moves_by_a_tenth_after_it_has_served() -> None:
    """b ← .9 b + .1 log p; the surrogate's gradient is −(log p − b)."""
    baseline, log_draws = torch.tensor(-2.0), torch.tensor([-1.0, -3.0], requires_grad=True)
    surrogate = reinforce(torch.tensor([-1.0, -5.0]), log_draws, baseline)
    surrogate.backward()
    assert log_draws.grad is not None and log_draws.grad.tolist() == [-1.0, 3.0]
    assert baseline.item() == pytest.approx(0.9 * -2 + 0.1 * -3)
    assert reinforce(torch.zeros(0), torch.zeros(0), baseline).item() == 0


def test_the_baseline_moves_once_a_batch_however_many_parts_it_is_stepped_through_in() -> None:
    model, rows = tiny(), 71
    assert len(batch(rows).by_length()) > 1
    reached = -float(from_captions(model, batch(rows), LearningSettings(expected=0.0)).total.detach()) / rows
    assert model.baseline.item() == pytest.approx(0.1 * reached, rel=1e-5)


def test_entropy_and_unevenness_by_hand() -> None:
    logs = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]).log()
    torch.testing.assert_close(entropy(logs), torch.tensor([[0.6931472, 0.0]]))
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]])
    assert unevenness(weights).item() == pytest.approx(0.25**2 + 0.25**2 + 0.5**2)


@pytest.mark.parametrize("look", ["soft", "sample", "gumbel"])
def test_the_value_is_that_of_the_words_whatever_is_added(look: str) -> None:
    model = tiny(look)
    model.decoder.score.vector.data.mul_(1e5)  # one look is as good as certain: a draw is the largest
    given, learning = batch(5), LearningSettings(evenly=3.0, entropy=2.0, expected=0.0)
    objective = from_captions(model, given, learning)
    plain = of_words(model.eval(), given)
    assert objective.total.item() == pytest.approx(plain.total.item(), rel=1e-4)
    assert int(objective.count) == int(plain.count) == 10 and int(objective.correct) == int(plain.correct)


def test_what_stands_behind_an_end_counts_nowhere() -> None:
    model = tiny("soft").eval()
    features = batch(2).images
    whole = CaptionBatch(features, torch.tensor([[2, 4, 5], [2, 4, 5]]), torch.tensor([[4, 5, 3], [4, 5, 3]]))
    cut = CaptionBatch(features, torch.tensor([[2, 4, 5], [2, 0, 0]]), torch.tensor([[4, 5, 3], [4, IGNORED, IGNORED]]))
    learning = LearningSettings(evenly=1.0)
    assert int(from_captions(model, cut, learning).count) == 4
    alone = CaptionBatch(features[:1], torch.tensor([[2]]), torch.tensor([[4]]))
    row = CaptionBatch(features[:1], whole.words_in[:1], whole.words_out[:1])
    want = from_captions(model, alone, learning).total + from_captions(model, row, learning).total
    assert from_captions(model, cut, learning).total.item() == pytest.approx(want.item(), rel=1e-5)


def test_hard_attention_attends_to_one_cell_at_a_time() -> None:
    for look in ("sample", "gumbel"):
        model = tiny(look)
        for mode in (True, False):
            model.decoder.train(mode)
            memory = model.encode(batch(50).images)
            step = model.decoder.step(model.decoder.start(memory, 50), batch(50).words_in)
            weights = step.attended[IMAGE].weights
            assert set(weights.detach().round(decimals=5).unique().tolist()) == {0.0, 1.0}
            drawn = weights.argmax(-1)
            assert (drawn != drawn[:1]).any() == mode  # drawn in training, the likeliest in use
