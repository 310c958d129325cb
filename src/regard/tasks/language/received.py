"""How much weight each place of a text receives: what a Transformer attends to in texts longer than training's."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.transformer.language import TransformerLanguageModel


@torch.no_grad()
def received(
    model: TransformerLanguageModel, texts: Int[Tensor, "texts places"], last: int
) -> Float[Tensor, " places"]:
    """The weight that each place receives from the last ones, in even shares: at 1, as much as if all were alike.

    The mean over texts, layers, heads and the last places, each of which gives 1 / (positions that it may attend to)
    where all are alike. They are the same queries for every place, so that early and late places can be compared.

    Args:
        model: in eval mode.
        texts: ids, all of the same length.
        last: how many positions at the end are the queries.
    """
    attended = model.step(model.start(None, len(texts)), texts).attended
    longest = texts.shape[1]
    seen = torch.arange(longest - last + 1, longest + 1, device=texts.device, dtype=torch.float64)
    if model.settings.window is not None:
        seen = seen.clamp(max=model.settings.window)
    layers = [one.weights[:, :, -last:].double().mean((0, 1)) for one in attended.values()]
    shares: Tensor = torch.stack(layers).mean(0) * seen.unsqueeze(-1)
    return shares.mean(0)
