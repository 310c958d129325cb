"""The bookkeeping of a memory: which slots are free, and which was written after which (Graves et al. 2016, Methods).

It is that of the differentiable neural computer. Each function is one equation of the paper, over a batch of memories
with N slots and R read heads. Nothing here has parameters or keeps anything: usage, links and precedence are tensors
that the caller carries from step to step.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def oneplus(number: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`1 + log(1 + eˣ)`, at least 1: the strength β of a key."""
    return 1 + F.softplus(number)


def retention(
    free: Float[Tensor, "batch reads"], read: Float[Tensor, "batch reads slots"]
) -> Float[Tensor, "batch slots"]:
    """`ψ_t = Π_i (1 − f_t^i w_{t−1}^{r,i})`: how much of each slot its readers do not set free.

    Args:
        free: f, a gate in [0, 1] for each read head.
        read: the heads' weights of the step before.
    """
    return (1 - free.unsqueeze(-1) * read).prod(dim=1)


def used(
    usage: Float[Tensor, "batch slots"], write: Float[Tensor, "batch slots"], kept: Float[Tensor, "batch slots"]
) -> Float[Tensor, "batch slots"]:
    """`u_t = (u_{t−1} + w_{t−1}^w − u_{t−1} ∘ w_{t−1}^w) ∘ ψ_t`: written slots are in use until they are set free.

    Args:
        usage: u of the step before, in [0, 1].
        write: the write weights of the step before.
        kept: ψ, what `retention` gave.
    """
    return (usage + write - usage * write) * kept


def allocation(usage: Float[Tensor, "batch slots"]) -> Float[Tensor, "batch slots"]:
    """`a_t[φ_t[j]] = (1 − u_t[φ_t[j]]) Π_{i<j} u_t[φ_t[i]]`, φ the slots by rising usage: the freest slot first.

    The weights are in [0, 1] and sum to at most 1: to 1 where some slot is wholly free, to 0 where none is. The order
    φ is taken as it is; its jumps have no gradient (the paper's own choice). Of equally free slots the first comes
    first, so that one state has one allocation.
    """
    rising, order = usage.sort(dim=-1, stable=True)
    before = F.pad(rising.cumprod(dim=-1)[..., :-1], (1, 0), value=1.0)
    return torch.zeros_like(usage).scatter(-1, order, (1 - rising) * before)


def write_weighting(
    allocated: Float[Tensor, "batch slots"],
    allocation_gate: Float[Tensor, "batch 1"],
    write_gate: Float[Tensor, "batch 1"],
) -> Callable[[Tensor], Tensor]:
    """`w_t^w = g_t^w [g_t^a a_t + (1 − g_t^a) c_t^w]`, as a refocus of the content weights c, (batch, 1, slots).

    Args:
        allocated: a, what `allocation` gave.
        allocation_gate: g^a in [0, 1]: 1 writes to free slots, 0 to those found by content.
        write_gate: g^w in [0, 1]: 0 writes nowhere.
    """

    def apply(content: Float[Tensor, "batch 1 slots"]) -> Float[Tensor, "batch 1 slots"]:
        share = allocation_gate.unsqueeze(-1)
        return write_gate.unsqueeze(-1) * (share * allocated.unsqueeze(1) + (1 - share) * content)

    return apply


def written(
    memory: Float[Tensor, "batch slots width"],
    write: Float[Tensor, "batch slots"],
    erase: Float[Tensor, "batch width"],
    add: Float[Tensor, "batch width"],
) -> Float[Tensor, "batch slots width"]:
    """`M_t = M_{t−1} ∘ (E − w_t^w e_tᵀ) + w_t^w v_tᵀ`: erase, then add."""
    where = write.unsqueeze(-1)
    return memory * (1 - where * erase.unsqueeze(1)) + where * add.unsqueeze(1)


def linked(
    link: Float[Tensor, "batch slots slots"],
    precedence: Float[Tensor, "batch slots"],
    write: Float[Tensor, "batch slots"],
) -> Float[Tensor, "batch slots slots"]:
    """`L_t[i, j] = (1 − w_t^w[i] − w_t^w[j]) L_{t−1}[i, j] + w_t^w[i] p_{t−1}[j]`, 0 for i = j: i was written after j.

    Args:
        link: L of the step before.
        precedence: p of the step before: how much each slot was the last one written.
        write: w^w of this step.
    """
    to, since = write.unsqueeze(-1), write.unsqueeze(-2)
    other = 1 - torch.eye(link.shape[-1], dtype=link.dtype, device=link.device)
    return ((1 - to - since) * link + to * precedence.unsqueeze(-2)) * other


def preceding(
    precedence: Float[Tensor, "batch slots"], write: Float[Tensor, "batch slots"]
) -> Float[Tensor, "batch slots"]:
    """`p_t = (1 − Σ_i w_t^w[i]) p_{t−1} + w_t^w`: a step that writes nothing leaves the last one written as it was."""
    return (1 - write.sum(-1, keepdim=True)) * precedence + write


def along(
    link: Float[Tensor, "batch slots slots"], read: Float[Tensor, "batch reads slots"]
) -> tuple[Float[Tensor, "batch reads slots"], Float[Tensor, "batch reads slots"]]:
    """`f_t^i = L_t w_{t−1}^{r,i}` and `b_t^i = L_tᵀ w_{t−1}^{r,i}`: what was written after and before what was read.

    Returns:
        Forward weights, then backward weights.
    """
    return torch.matmul(read, link.transpose(-2, -1)), torch.matmul(read, link)


def read_weighting(
    forward: Float[Tensor, "batch reads slots"],
    backward: Float[Tensor, "batch reads slots"],
    modes: Float[Tensor, "batch reads 3"],
) -> Callable[[Tensor], Tensor]:
    """`w_t^{r,i} = π_t^i[1] b_t^i + π_t^i[2] c_t^{r,i} + π_t^i[3] f_t^i`, as a refocus of the content weights c.

    Args:
        forward, backward: what `along` gave.
        modes: π, for each head the shares of backward, content and forward; they sum to 1.
    """

    def apply(content: Float[Tensor, "batch reads slots"]) -> Float[Tensor, "batch reads slots"]:
        return modes[..., :1] * backward + modes[..., 1:2] * content + modes[..., 2:] * forward

    return apply
