"""Networks of torchvision and timm as encoders of images. None of their weights are downloaded: a file is named."""

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.errors import ConfigError, DataError, nearest
from regard.models.captioning.settings import Backbone

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours of ImageNet, from 0 to 1, by which these networks were trained."""

_PROBE = 64  # pixels a side of the image that a layer's width is found by


class PretrainedEncoder(nn.Module):
    """A grid from inside another network: what one of its layers gives.

    Args:
        settings: which network, which layer, and whether it stays as it is.

    Raises:
        ConfigError: its library is not installed, or it has no such network, layer or grid.
    """

    def __init__(self, settings: Backbone) -> None:
        super().__init__()
        self.network = _network(settings.name)
        self.frozen = settings.frozen
        self.network.requires_grad_(not settings.frozen).eval()
        self.register_buffer("mean", torch.tensor(_MEAN).view(3, 1, 1) * 255, persistent=False)
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(3, 1, 1) * 255, persistent=False)
        self.layer, self.width = self._grid_of(settings)

    mean: Tensor
    deviation: Tensor

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        """A frozen network stays in eval mode: its statistics are its own, too."""
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self

    def forward(self, pixels: UInt8[Tensor, "batch height width 3"]) -> Float[Tensor, "batch rows columns channels"]:
        """The grid of features that the chosen layer gives.

        Args:
            pixels: 0 to 255; they are normalized by ImageNet's mean and deviation.
        """
        [grid] = self._outputs_of(pixels, [self.layer]).values()
        return grid.permute(0, 2, 3, 1)

    def _outputs_of(self, pixels: Tensor, layers: list[str]) -> dict[str, Tensor]:
        """The outputs of these layers for some images, in the order in which they were reached."""
        outputs: dict[str, Tensor] = {}

        def keep(name: str) -> Any:
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor) and output.ndim == 4:
                    outputs[name] = output

            return hook

        modules = dict(self.network.named_modules())
        handles = [modules[name].register_forward_hook(keep(name)) for name in layers]
        try:
            self.network((pixels.permute(0, 3, 1, 2).float() - self.mean) / self.deviation)
        finally:
            for handle in handles:
                handle.remove()
        return outputs

    @torch.no_grad()
    def _grid_of(self, settings: Backbone) -> tuple[str, int]:
        names = [name for name, _ in self.network.named_modules() if name]
        if settings.layer is not None and settings.layer not in names:
            top = [name for name in names if "." not in name]
            raise ConfigError(f"{settings.name} has no layer {settings.layer!r}.{nearest(settings.layer, top)}")
        asked = names if settings.layer is None else [settings.layer]
        outputs = self._outputs_of(torch.zeros(1, _PROBE, _PROBE, 3, dtype=torch.uint8), asked)
        grids = {name: grid for name, grid in outputs.items() if grid.shape[-1] * grid.shape[-2] > 1}
        if not grids:
            where = "the network" if settings.layer is None else f"the layer {settings.layer!r}"
            raise ConfigError(f"{where} of {settings.name} gives no grid (channels, rows, columns); name another one")
        name = list(grids)[-1]
        return name, grids[name].shape[1]


def load_backbone(encoder: PretrainedEncoder, file: Path) -> None:
    """Put the weights of a file into the network: .safetensors, or what `torch.save` wrote of a state dict.

    Raises:
        DataError: the file is absent or damaged, or holds other weights; the message names those that differ.
    """
    try:
        safe = file.suffix.lower() == ".safetensors"
        weights = load_file(file) if safe else torch.load(file, "cpu", weights_only=True)
        encoder.network.load_state_dict(weights)
    except FileNotFoundError as error:
        raise DataError(f"{file}: no such file of weights") from error
    except (SafetensorError, OSError, RuntimeError, TypeError, EOFError, ValueError) as error:
        raise DataError(f"{file} does not hold the weights of this network: {error}") from error
    except Exception as error:  # what a damaged pickle raises is of many kinds
        raise DataError(f"{file} is damaged, or holds more than weights: {error}") from error


def _network(name: str) -> nn.Module:
    library, _, network = name.partition(":")
    makers = {"torchvision": ("torchvision.models", "get_model"), "timm": ("timm", "create_model")}
    if library not in makers or not network:
        raise ConfigError(
            f"model.encoder.name is {name!r}; expected a library and a network, as in torchvision:resnet18 or "
            "timm:resnet18"
        )
    module, maker = makers[library]
    try:
        make = getattr(import_module(module), maker)
    except ImportError as error:
        raise ConfigError(f"{name} needs {library}, which is not installed: pip install 'regard[vision]'") from error
    try:
        made: nn.Module = make(network)
    except (ValueError, RuntimeError, KeyError) as error:
        raise ConfigError(f"{library} makes no network of the name {network!r}: {error}") from error
    return made
