"""Normalize: scores become weights, (…, queries, keys) to the same shape.

`keep` says which keys a query may attend to (True: may). Masked-out keys get weight 0 exactly, whatever their score,
also NaN; a fully masked query has weights 0 and no gradient. A score of −inf masks its key out as well.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.parts.functional import per_query, wide
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.autograd.plain import is_readable
from regard.registry import Registry

Scores = Float[Tensor, "*lead queries keys"]
Keep = Bool[Tensor, "*#lead #queries #keys"]


class Normalizer(nn.Module):
    """The base of all normalizers; computes in at least float32.

    Class attributes:
        sums_to_one: whether the weights of a query that is not fully masked sum to 1.
        shift_invariant: whether adding a constant to all scores of a query changes nothing.
        draws: whether the weights are a random draw, so that a second call differs.

    Args:
        temperature: scores are divided by it first; above 0. A number or a tensor of shape (), (batch,), (batch,
            queries) or (batch, heads, queries), where an axis of 1 serves all; a Parameter is learned.

    Raises:
        ConfigError: a temperature that is not above 0.
    """

    sums_to_one: bool = True
    shift_invariant: bool = True
    draws: bool = False

    def __init__(self, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        lowest = _lowest(temperature)
        if lowest is not None and not lowest > 0:
            raise ConfigError(f'temperature must be above 0; it was {lowest}. For its limit 0 use "hard"')
        self.temperature = temperature

    def forward(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """Weights of scores.

        Args:
            scores: `(…, queries, keys)`.
            keep: True where the query may attend to the key, broadcastable to the scores; None for everywhere.

        Returns:
            At least float32, in the shape of the scores: 0 at masked-out keys and where the score is −inf; 0 all along
            a fully masked query.
        """
        scores, keep = self._visible(scores, keep)
        if scores.shape[-1] == 0:
            return scores
        return torch.where(keep, self._weigh(scores, keep), 0.0)

    def log_weights(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """The logarithm of the weights (of their distribution, where they are a draw); −inf at masked-out keys."""
        weights = self(scores, keep)
        return torch.where(weights > 0, torch.log(torch.where(weights > 0, weights, 1.0)), -torch.inf)

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        """Weights of scores whose masked-out entries are −inf (0 all along the row where nothing is visible)."""
        raise NotImplementedError

    # What stands for a masked-out score while the weights are computed; −inf adds nothing to an exponential's sum.
    masked_score: float = -torch.inf

    def _per_query(self, scores: Tensor) -> float | Tensor:
        return per_query(self.temperature, scores, "temperature")

    def _tempered(self, scores: Tensor) -> Tensor:
        fixed = not isinstance(self.temperature, Tensor) and self.temperature == 1.0
        return scores if fixed else scores / self._per_query(scores)

    def _visible(self, scores: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = wide(scores)
        visible = scores != -torch.inf
        keep = visible if keep is None else visible & keep
        if isinstance(self.temperature, Tensor):  # a masked-out score that is not finite would make its gradient NaN
            scores = torch.where(keep, scores, 0.0)
        scores = torch.where(keep, self._tempered(scores), self.masked_score)
        # A fully masked row would be 0/0; it is computed on zeros and masked out afterwards, gradient included.
        return torch.where(keep.any(-1, keepdim=True), scores, 0.0), keep


normalizers: Registry[Normalizer] = Registry("normalizer")


def normalizer(name: str, **options: Any) -> Normalizer:
    """Make the normalizer of that name, e.g. `normalizer("softmax", temperature=0.5)`.

    Raises:
        ConfigError: an unknown name (with the nearest one) or options that do not fit.
    """
    return normalizers.make(name, **options)


@normalizers.register("softmax")
class Softmax(Normalizer):
    """`exp(s) / Σ exp(s)`."""

    def forward(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """See `Normalizer.forward`."""
        weights = self._of_few(scores, keep) if type(self) is Softmax and _are_few(scores) else None
        return super().forward(scores, keep) if weights is None else weights

    def _of_few(self, scores: Tensor, keep: Tensor | None) -> Tensor | None:
        """In fewer steps, where each query attends to something and to no NaN, as the weights show; else None."""
        if isinstance(self.temperature, Tensor):
            return None
        scores, visible = self._tempered(wide(scores)), keep
        learned = torch.is_grad_enabled() and scores.requires_grad
        if learned and keep is not None:
            visible = keep & (scores != -torch.inf)
        elif learned and float(scores.detach().amin()) == -torch.inf:
            return None
        if visible is not None:
            scores = torch.where(visible, scores, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        if not math.isfinite(weights.detach().sum()):
            return None
        return (
            torch.where(visible, weights, 0.0) if learned and visible is not None else weights
        )  # no gradient to what is masked out

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1)

    def log_weights(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """Straight from the scores, so that a weight too small for its type still has its logarithm."""
        scores, keep = self._visible(scores, keep)
        return torch.where(keep, torch.log_softmax(scores, dim=-1), -torch.inf)


def is_softmax(normalizer: object) -> bool:
    """Whether it is softmax and no more, and has no hooks."""
    if type(normalizer) is not Softmax:
        return False
    temperature = vars(normalizer).get("temperature")  # one that is learned lies elsewhere
    return not isinstance(temperature, Tensor) and temperature == 1 and not is_hooked(normalizer)


@normalizers.register("sparsemax")
class Sparsemax(Normalizer):
    """The Euclidean projection onto the simplex (Martins & Astudillo 2016, Algorithm 1); far-off keys get exactly 0.

    The threshold τ is written as a function of the chosen scores, so that every derivative follows by itself.
    """

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        scores, ordered, rank = _sorted(scores)
        support = 1 + rank * ordered > ordered.cumsum(-1)  # a prefix of the sorted scores
        chosen = _first(scores, ordered, support)
        count = chosen.sum(-1, keepdim=True)
        threshold = (torch.where(chosen, scores, 0.0).sum(-1, keepdim=True) - 1) / count
        return torch.where(chosen, (scores - threshold).clamp_min(0), 0.0)


@normalizers.register("entmax15")
class Entmax15(Normalizer):
    """α-entmax with α = 1.5 (Peters, Niculae & Martins 2019), between softmax and sparsemax, exact by sorting."""

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        scores, ordered, rank = _sorted(scores / 2)
        mean = ordered.cumsum(-1) / rank
        variance_sum = (ordered * ordered).cumsum(-1) - rank * mean * mean
        root = ((1 - variance_sum) / rank).clamp_min(0).sqrt()
        chosen = _first(scores, ordered, mean - root <= ordered)
        count = chosen.sum(-1, keepdim=True)
        middle = torch.where(chosen, scores, 0.0).sum(-1, keepdim=True) / count
        spread = torch.where(chosen, (scores - middle) ** 2, 0.0).sum(-1, keepdim=True)
        room = (1 - spread) / count
        # The root's slope at 0 is infinite; 0 is reached only where a single key carries all weight twice over.
        threshold = middle - torch.where(room > 0, torch.where(room > 0, room, 1.0).sqrt(), 0.0)
        return torch.where(chosen, (scores - threshold).clamp_min(0) ** 2, 0.0)


def _sorted(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores with their maximum moved to 0, the same in descending order, and the ranks 1, 2, …

    Neither threshold can lie more than 1 (sparsemax) or 2 halves (entmax) below the maximum, so masked-out and far-off
    scores are raised to −9: they stay outside, and no −inf makes the running sums NaN.
    """
    scores = (scores - scores.amax(-1, keepdim=True).detach()).clamp_min(-9)
    ordered = scores.detach().sort(dim=-1, descending=True).values
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    return scores, ordered, rank


def _first(scores: Tensor, ordered: Tensor, support: Tensor) -> Tensor:
    """Which of the unsorted scores belong to the support, given for the sorted ones; a row of NaN stays NaN."""
    smallest = torch.where(support, ordered, torch.inf).amin(-1, keepdim=True)
    return (scores.detach() >= smallest) | scores.detach().isnan()


@normalizers.register("sigmoid")
class Sigmoid(Normalizer):
    """`1 / (1 + exp(−s))`, each key by itself."""

    sums_to_one = False
    shift_invariant = False

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        return torch.sigmoid(scores)

    def log_weights(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """Straight from the scores, as softmax's."""
        scores, keep = self._visible(scores, keep)
        return torch.where(keep, torch.nn.functional.logsigmoid(torch.where(keep, scores, 0.0)), -torch.inf)


@normalizers.register("sum")
class Sum(Normalizer):
    """`s / Σ s`, for scores that are not negative (linear attention, Katharopoulos 2020, eq. 4); a sum of 0 reads 0."""

    shift_invariant = False
    masked_score = 0.0

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        total = scores.sum(-1, keepdim=True)
        return torch.where(total != 0, scores / torch.where(total != 0, total, 1.0), 0.0)


@normalizers.register("identity")
class Identity(Normalizer):
    """The scores themselves."""

    sums_to_one = False
    shift_invariant = False
    masked_score = 0.0

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        return scores


@normalizers.register("hard")
class Hard(Normalizer):
    """All weight on the largest score, the first of equals (hard attention, deterministic); no gradient to scores."""

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        return _one_hot(scores.argmax(-1), scores)


@normalizers.register("sample")
class Sample(Softmax):
    """One key drawn from softmax (Xu et al. 2015, §4.1); `log_weights` is the distribution's, for REINFORCE."""

    draws = True

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        # Gumbel's trick: the largest of log p + noise is a draw from p.
        return _one_hot((scores + _gumbel_noise(scores)).argmax(-1), scores)


@normalizers.register("gumbel")
class Gumbel(Softmax):
    """A draw whose gradient is that of the softmax of the noisy scores: straight-through (Jang, Gu & Poole 2017).

    Args:
        temperature: of the relaxed softmax that lends its gradient.
    """

    draws = True

    def _weigh(self, scores: Tensor, keep: Tensor) -> Tensor:
        # The noise belongs to the scores before the temperature, which sharpens both alike.
        soft = torch.softmax(scores + _gumbel_noise(scores) / self._per_query(scores), dim=-1)
        hard = _one_hot(soft.argmax(-1), soft)
        return hard + (soft - soft.detach())

    def log_weights(self, scores: Scores, keep: Keep | None = None) -> Scores:
        """Of the distribution that is drawn from, which the temperature does not change."""
        return super().log_weights(wide(scores) * self._per_query(scores), keep)


def _lowest(temperature: float | Tensor) -> float | None:
    """The lowest temperature; NaN if one is, and None where values are not known (meta tensors, graphs, vmap)."""
    if not isinstance(temperature, Tensor):
        return temperature
    if temperature.numel() == 0 or temperature.is_meta or torch.compiler.is_compiling():
        return None
    try:
        return temperature.detach().min().item()
    except RuntimeError:  # vmap does not give what is in a tensor
        return None


_FEW = 2**16
"""Scores of a call so small that reading them costs less than the passes it saves."""


def _are_few(scores: Tensor) -> bool:
    """Whether there are some, but few, that can be read; a traced call is not tied to their number."""
    return scores.is_cpu and is_readable(scores) and 0 < scores.numel() <= _FEW


def _one_hot(index: Tensor, like: Tensor) -> Tensor:
    positions = torch.arange(like.shape[-1], device=like.device)
    return (positions == index.unsqueeze(-1)).to(like.dtype)


def _gumbel_noise(scores: Tensor) -> Tensor:
    uniform = torch.rand_like(scores).clamp_min(torch.finfo(scores.dtype).tiny)
    return -torch.log(-torch.log(uniform))
