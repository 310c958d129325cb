"""Compiled loops of a Transformer's block: GELU with its slope, and a stack's step of a single position.

Where nothing is to be multiplied with more than one vector, a step is as fast as its weights are read, and everything
else is the cost of its calls: so all of them are one (`transformer.cpp`). Without a compiler torch's own calls serve.
"""

import ctypes
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels import compiler

_NAME = "transformer"
ACTIVATIONS = ("relu", "gelu", "swiglu")  # in the order of the loop's numbers


# --- what the loop is given: as in transformer.cpp ------------------------------------------------------------------


class _Linear(ctypes.Structure):
    _fields_ = [
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("turned", ctypes.c_int64),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("epsilon", ctypes.c_double),
        ("square", ctypes.c_int64),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        ("attention_norm", _Norm),
        ("feed_forward_norm", _Norm),
        ("projection", _Linear),
        ("output", _Linear),
        ("widening", _Linear),
        ("narrowing", _Linear),
    ]


class _Past(ctypes.Structure):
    _fields_ = [
        ("states", ctypes.c_void_p),
        ("layer", ctypes.c_int64),
        ("kind", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("slots", ctypes.c_int64),
    ]


class _Stack(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("layers", "dim", "heads", "key_heads", "width", "hidden")),
        ("activation", ctypes.c_int64),
        ("pre", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("each", ctypes.POINTER(_Layer)),
        ("norm", _Norm),
    ]


# --- a step of one position -----------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """The modules of one block, in the order of their use."""

    attention_norm: nn.Module
    projection: nn.Module
    output: nn.Module
    feed_forward_norm: nn.Module
    widening: nn.Module
    narrowing: nn.Module


class Sizes(NamedTuple):
    """What is the same for all blocks; see `_Stack`."""

    heads: int
    key_heads: int
    width: int
    activation: str
    pre: bool
    scale: float


class Steps:
    """A stack's weights, looked up once for all steps of one position.

    Args:
        blocks: the parts of each.
        norm: after the last block.
        sizes: see `Sizes`.
    """

    def __init__(self, blocks: list[Parts], norm: nn.Module, sizes: Sizes) -> None:
        self._held: list[tuple[dict[str, Any], str]] = []
        self._addresses: list[int] = []
        layers = (_Layer * len(blocks))()
        for layer, parts in zip(layers, blocks, strict=True):
            layer.attention_norm, layer.feed_forward_norm = map(
                self._norm, (parts.attention_norm, parts.feed_forward_norm)
            )
            layer.projection, layer.output = self._linear(parts.projection), self._linear(parts.output)
            layer.widening, layer.narrowing = self._linear(parts.widening), self._linear(parts.narrowing)
        heads, key_heads, width, activation, pre, scale = sizes
        self._stack = _Stack(
            len(blocks),
            heads * width,
            heads,
            key_heads,
            width,
            layers[0].narrowing.inputs,
            ACTIVATIONS.index(activation),
            pre,
            scale,
            layers,
            self._norm(norm),
        )
        self.shape = (len(blocks), 2, 1, 1, heads * width)

    @staticmethod
    def serve(blocks: list[Parts], norm: nn.Module) -> bool:
        """Whether the loop knows these modules, and there is a compiler: float32 on a CPU, nothing hooked to them."""
        modules = [norm, *(part for parts in blocks for part in parts)]
        return all(map(_known, modules)) and compiler.library(_NAME) is not None

    @property
    def current(self) -> bool:
        """Whether the weights still lie where they lay."""
        return [held[name].data_ptr() for held, name in self._held] == self._addresses

    def step(
        self,
        x: Float[Tensor, "1 1 dim"],
        states: Float[Tensor, "1 layers two key_heads slots width"],
        bias: Float[Tensor, "1 heads 1 slots"] | None,
    ) -> tuple[Float[Tensor, "1 1 dim"], Float[Tensor, "layers two 1 1 dim"]]:
        """One position more.

        Args:
            x: its vector.
            states: the keys and values of all that it sees, its own slot the last, which is written to.
            bias: added to the scores.

        Returns:
            The vector after the last norm; and the queries of each layer, and what its attention added.
        """
        library = compiler.library(_NAME)
        assert library is not None
        x, shown = x.clone(memory_format=torch.contiguous_format), x.new_empty(self.shape)
        past = _Past(states.data_ptr(), *states.stride()[1:4], states.shape[4])
        bias = None if bias is None else bias.float().contiguous()
        library.stack_step(
            ctypes.byref(self._stack),
            ctypes.byref(past),
            None if bias is None else ctypes.c_void_p(bias.data_ptr()),
            ctypes.c_int64(torch.get_num_threads()),
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(shown.data_ptr()),
        )
        return x, shown

    def _hold(self, module: nn.Module, name: str) -> int | None:
        tensor = module._parameters.get(name)
        if tensor is None:
            return None
        self._held.append((module._parameters, name))
        self._addresses.append(tensor.data_ptr())
        return tensor.data_ptr()

    def _linear(self, module: nn.Module) -> _Linear:
        assert isinstance(module, nn.Linear)
        turned = not module.weight.is_contiguous()
        weight, bias = self._hold(module, "weight"), self._hold(module, "bias")
        return _Linear(weight, bias, module.in_features, module.out_features, turned)

    def _norm(self, module: nn.Module) -> _Norm:
        if isinstance(module, nn.Identity):
            return _Norm(None, None, 0, 0)
        epsilon: float = module.eps  # type: ignore[assignment]
        return _Norm(self._hold(module, "weight"), self._hold(module, "bias"), epsilon, isinstance(module, nn.RMSNorm))


def _known(module: nn.Module) -> bool:
    if module._forward_hooks or module._forward_pre_hooks or nn.modules.module._has_any_global_hook():
        return False
    kind, weight = type(module), module._parameters.get("weight")
    if kind is nn.Identity:
        return True
    if weight is None or weight.dtype is not torch.float32 or weight.device.type != "cpu":
        return False
    if kind is nn.Linear:
        return weight.is_contiguous() or weight.t().is_contiguous()
    return kind in (nn.LayerNorm, nn.RMSNorm) and weight.ndim == 1 and getattr(module, "eps", None) is not None
