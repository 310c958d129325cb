"""What a captioner learns from: the words, how even its attention is, and, where it is drawn, the reward.

Soft (Xu et al. 2015, §4.2.1, eq. 14): −log p(y|x) + λ Σ_i (1 − Σ_t α_ti)².

Hard (§4.1): log p(y|a) ≥ Σ_s p(s|a) log p(y|s, a), the expectation over the sampled cells s. Its gradient, eq. 11, is
estimated by one drawn path (eq. 12): ∇ log p(y|s, a) + λ_r (log p(y|s, a) − b) ∇ log p(s|a) + λ_e ∇ H[s]. The baseline
moves with what was reached, b ← .9 b + .1 log p(y|s, a), and each image reads, with a certain probability, the means
α in place of its draws: both make the estimate calmer.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from regard.data.images.batches import IGNORED, CaptionBatch
from regard.layers.dropout import drop_words
from regard.layers.objective import Objective
from regard.models.captioning.captioner import IMAGE, Captioner, Memory
from regard.tasks.captioning.settings import LearningSettings
from regard.vocabulary import PADDING, SPECIALS, UNKNOWN

_KEPT = 0.9
"""Of the baseline, at each batch."""


def from_captions(model: nn.Module, batch: CaptionBatch, learning: LearningSettings) -> Objective:
    """The objective of a batch; its total's value is that of the words alone, in nats.

    Args:
        model: a `Captioner`, in training mode.
        batch: images and captions.
        learning: how much is added.
    """
    assert isinstance(model, Captioner)
    count = round(learning.grey * len(batch))
    memory = model.encode(torch.cat([batch.images, without_colors(batch.images[:count])]))
    words_in = drop_words(batch.words_in, model.settings.word_dropout, UNKNOWN)
    parts = [
        _learned(model, memory.rows(rows), words_in[rows, :steps], batch.words_out[rows, :steps], learning)
        for rows, steps in batch.by_length()
    ]
    totals, counts, right, reached, log_draws = zip(*parts, strict=True)
    total, word_count, correct = (torch.stack(sums).sum() for sums in (totals, counts, right))
    if model.settings.look == "sample" and learning.reward:
        rewarded = learning.reward * reinforce(torch.cat(reached), torch.cat(log_draws), model.baseline)
        total = total + (rewarded - rewarded.detach())
    if learning.words:
        targets = torch.cat([batch.words_out, batch.words_out[:count]])
        detection = learning.words * missed(model.detected(memory), targets)
        total = total + (detection - detection.detach())
    return Objective(total, word_count, correct)


def without_colors(images: Num[Tensor, "batch height width channels"]) -> Num[Tensor, "batch height width channels"]:
    """Every pixel in the grey of its mean."""
    return images.float().mean(-1, keepdim=True).to(images.dtype).expand_as(images)


def missed(logits: Float[Tensor, "batch words"], targets: Int[Tensor, "batch steps"]) -> Float[Tensor, ""]:
    """Binary cross-entropy of every word, in the caption or not, summed over the batch, in nats."""
    present = torch.zeros_like(logits).scatter_(1, targets.clamp_min(PADDING), 1.0)
    present[:, : len(SPECIALS)] = 0
    return F.binary_cross_entropy_with_logits(logits, present, reduction="sum")


def _learned(
    model: Captioner, memory: Memory, words_in: Tensor, targets: Tensor, learning: LearningSettings
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Total, count and right words of some rows; log p(y|s, a) and log p(s|a) of those that drew."""
    hard, decoder = model.settings.look != "soft", model.decoder
    expected = torch.rand(len(words_in), device=words_in.device) < learning.expected if hard else None
    step = decoder.step(decoder.start(memory, len(words_in)), words_in, expected)
    is_word, logs = _words(step.logits, targets)
    added = logs.new_zeros(())
    looks = step.attended[IMAGE]
    if learning.evenly:
        weights = looks.log_weights.exp() if hard else looks.weights  # α, not the draw
        added = added + learning.evenly * unevenness(weights * is_word[..., None])
    if hard and learning.entropy:
        added = added - learning.entropy * (entropy(looks.log_weights) * is_word).sum()
    reached = log_draws = logs.new_zeros(0)
    if looks.log_prob is not None and expected is not None:
        reached, log_draws = logs.sum(1)[~expected], (looks.log_prob * is_word).sum(1)[~expected]
    correct = ((step.logits.detach().argmax(-1) == targets) & is_word).sum()
    return -logs.sum() + (added - added.detach()), is_word.sum(), correct, reached, log_draws


def reinforce(
    reached: Float[Tensor, " draws"], log_draws: Float[Tensor, " draws"], baseline: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """What has −(log p(y|s, a) − b) ∇ log p(s|a) as its gradient, summed over draws (eq. 12); moves the baseline.

    Args:
        reached: log p(y|s, a) of each draw's whole caption.
        log_draws: log p(s|a) of each draw's whole path.
        baseline: b before; afterwards a tenth of the mean of `reached` has come in.
    """
    if not len(reached):
        return reached.sum()
    surrogate = -((reached.detach() - baseline) * log_draws).sum()
    baseline.lerp_(reached.detach().mean(), 1 - _KEPT)
    return surrogate


def unevenness(weights: Float[Tensor, "batch steps cells"]) -> Float[Tensor, ""]:
    """Σ_i (1 − Σ_t α_ti)², summed over the batch (eq. 14)."""
    total: Tensor = ((1 - weights.sum(1)) ** 2).sum()
    return total


def entropy(log_weights: Float[Tensor, "batch steps cells"]) -> Float[Tensor, "batch steps"]:
    """H of each step's distribution over cells, in nats."""
    possible = log_weights > -torch.inf
    return -torch.where(possible, log_weights.exp() * torch.where(possible, log_weights, 0), 0).sum(-1)


def of_words(model: Captioner, batch: CaptionBatch) -> Objective:
    """−log p of the words alone, with attention as at inference."""
    decoder = model.decoder
    step = decoder.step(decoder.start(model.encode(batch.images), len(batch)), batch.words_in)
    is_word, logs = _words(step.logits, batch.words_out)
    return Objective(-logs.sum(), is_word.sum(), ((step.logits.argmax(-1) == batch.words_out) & is_word).sum())


def _words(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Which steps have a word to predict, and its log-probability; 0 at the others."""
    logs = -F.cross_entropy(logits.float().transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    return targets != IGNORED, logs
