"""What attention is made of, older than its name: connections that depend on the input, in three forms.

A multiplicative module, a sigma-pi unit and a hypernetwork compute the same sum of products in another order. The score
`q W kᵀ` is one of them, and so is reading: the weights are activities that multiply the values.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ShapeError


def sigma_pi(
    activities: Float[Tensor, "*lead units"],
    conjuncts: Sequence[Sequence[int]],
    weight: Float[Tensor, "outputs conjuncts"],
) -> Float[Tensor, "*lead outputs"]:
    """`Σ_j w_ij Π_{k in conjunct j} a_k` (Rumelhart, Hinton & McClelland 1986, chapter 2 of PDP, volume 1).

    One unit of a conjunct can close it for all others: a 0 stops what the others say.

    Args:
        activities: a, of the sending units.
        conjuncts: the units that are multiplied, for each conjunct.
        weight: w, from each conjunct to each receiving unit.

    Raises:
        ShapeError: there are more or fewer weights than conjuncts.
    """
    if weight.shape[1] != len(conjuncts):
        raise ShapeError(
            f"weight has shape {tuple(weight.shape)}, expected (outputs, {len(conjuncts)}): one a conjunct"
        )
    products = [activities[..., list(conjunct)].prod(-1) for conjunct in conjuncts]
    return torch.stack(products, dim=-1) @ weight.T


def multiplicative(
    inputs: Float[Tensor, "*lead inputs"],
    context: Float[Tensor, "*lead contexts"],
    weight: Float[Tensor, "outputs inputs contexts"],
) -> Float[Tensor, "*lead outputs"]:
    """`y_i = Σ_jk W_ijk x_j z_k`: every pair of an input and a context unit has a connection of its own.

    Connections that other units gate: Feldman & Ballard 1982, "Connectionist Models and Their Properties", Cognitive
    Science 6; McClelland 1985, "Putting Knowledge in its Place", Cognitive Science 9.
    """
    return torch.einsum("ijk,...j,...k->...i", weight, inputs, context)


def generated(
    context: Float[Tensor, "*lead contexts"],
    weight: Float[Tensor, "outputs inputs contexts"],
    bias: Float[Tensor, "outputs inputs"] | None = None,
) -> Float[Tensor, "*lead outputs inputs"]:
    """A hypernetwork of one layer: the weight matrix of another layer, computed (Ha, Dai & Le 2016, arXiv 1609.09106).

    Args:
        context: z, what the weights depend on.
        weight: the slow weights, which training finds.
        bias: the matrix for a context of zeros.
    """
    made = torch.einsum("ijk,...k->...ij", weight, context)
    return made if bias is None else made + bias
