"""What a function with hand-written gradients needs to make them again by torch's own operations."""

from typing import Any

from torch import Tensor


def fresh_views(*given: Tensor | None) -> list[Any]:
    """The inputs of a function as if each were made by itself, for a second derivative of what is computed from them.

    `torch.autograd.grad` follows every way from an answer to an input. Where one input was made from another, such as
    keys from queries, or is the same tensor, one of these ways leads through the other: what passes there would be
    counted by the function, and once more by what lies below it. No way leads from one of these to another one.

    Args:
        given: saved tensors, with all that they were made from.
    """
    return [one.view_as(one) if one is not None and one.requires_grad else one for one in given]
