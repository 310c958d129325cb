"""What a pointer network learns from: right answers, or the lengths of its own tours."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from regard.data.points.batches import IGNORED, PointBatch
from regard.layers.objective import Objective
from regard.models.pointing.pointer import PointerNetwork


def from_answers(model: nn.Module, batch: PointBatch) -> Objective:
    """`−Σ log p(choice)` of the right choices (eq. 1), each after the right ones before it, in nats."""
    assert isinstance(model, PointerNetwork)
    is_answer = batch.answers != IGNORED
    logs = model.log_probabilities(model.encode(batch.points, batch.lengths), batch.answers)
    chosen = logs.gather(-1, batch.answers.clamp_min(0)[..., None]).squeeze(-1)
    correct = (logs.detach().argmax(-1) == batch.answers) & is_answer
    return Objective(-chosen[is_answer].sum(), is_answer.sum(), correct.sum())


def from_lengths(model: nn.Module, batch: PointBatch, draws: int) -> Objective:
    """REINFORCE (Williams 1992): tours are drawn, and those shorter than the others of their set become more probable.

    `∇ = (L(π) − b) ∇ log p(π)`, b the mean length of the set's other tours (Kool, van Hoof & Welling 2019), so that a
    tour's own length is not in its baseline and the gradient has no bias. The total's value is the sum of the lengths.

    Args:
        model: a `PointerNetwork`.
        batch: its answers are not used.
        draws: tours of each set.
    """
    assert isinstance(model, PointerNetwork)
    memory = model.encode(batch.points, batch.lengths)
    memory = tree_map(lambda leaf: leaf.repeat_interleave(draws, dim=0), memory)
    tours = model.draw(memory, batch.points.shape[1])
    # After the last point of a smaller set only the end is valid: probability 1, nothing to learn.
    logs = model.log_probabilities(memory, tours).gather(-1, tours[..., None]).squeeze(-1).sum(1)
    walked = tour_lengths(batch.points.repeat_interleave(draws, dim=0), tours)
    each = walked.unflatten(0, (-1, draws))
    others = (each.sum(1, keepdim=True) - each) / (draws - 1)
    surrogate = ((each - others).flatten() * logs).sum()
    value = surrogate - surrogate.detach() + walked.sum()
    return Objective(value, torch.tensor(len(tours)), torch.tensor(0))


def tour_lengths(
    points: Float[Tensor, "batch points 2"], tours: Int[Tensor, "batch points"]
) -> Float[Tensor, " batch"]:
    """How long closed tours are.

    Args:
        points: of the sets.
        tours: numbers of points from 1, each real one once; then 0.
    """
    first = tours[:, :1]
    tours = torch.where(tours > 0, tours, first)  # padding stays at the first point
    walked = points.gather(1, (tours - 1)[..., None].expand(-1, -1, 2))
    lengths: Tensor = (walked - walked.roll(-1, dims=1)).norm(dim=-1).sum(1)
    return lengths
