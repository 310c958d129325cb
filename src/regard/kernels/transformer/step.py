"""Native loops of a Transformer's block: GELU with its slope, and a stack's step of a single position.

Where nothing is to be multiplied with more than one vector, a step is as fast as its weights are read, and everything
else is the cost of its calls: so all of them are one (`step.cpp`). Without a compiler torch's own calls serve.
"""

import operator
import sys
from itertools import chain
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.native.structure import Filled
from regard.kernels.transformer import loops

ACTIVATIONS = ("relu", "gelu", "swiglu")  # in the order of the loop's numbers

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
    """The sizes that all blocks share; see `loops.stack`."""

    heads: int
    key_heads: int
    width: int
    activation: str
    pre: bool
    scale: float


class Words(NamedTuple):
    """What a language model has around its stack.

    Attributes:
        embedding: its weight has a row a word.
        scale: what a word's row is multiplied by.
        places: its weight has a row a position; None where nothing learned is added.
        readout: logits of vectors.
    """

    embedding: nn.Module
    scale: float
    places: nn.Module | None
    readout: nn.Module


class Steps:
    """A stack's weights, looked up once for all steps of one position.

    Args:
        blocks: the parts of each.
        norm: after the last block.
        sizes: see `Sizes`.
        words: for `write`.
    """

    def __init__(self, blocks: list[Parts], norm: nn.Module, sizes: Sizes, words: Words | None = None) -> None:
        self._modules: list[nn.Module] = []
        heads, key_heads, width, activation, pre, scale = sizes
        dim = heads * width
        layers = [
            loops.layer.filled(
                attention_norm=self._norm(parts.attention_norm, dim),
                feed_forward_norm=self._norm(parts.feed_forward_norm, dim),
                projection=self._linear(parts.projection),
                output=self._linear(parts.output),
                widening=self._linear(parts.widening),
                narrowing=self._linear(parts.narrowing),
            )
            for parts in blocks
        ]
        self._stack = loops.stack.filled(
            layers=len(layers),
            dim=dim,
            heads=heads,
            key_heads=key_heads,
            width=width,
            hidden=layers[0]["narrowing"]["inputs"],
            activation=ACTIVATIONS.index(activation),
            pre=pre,
            scale=scale,
            each=loops.layer.row(layers),
            norm=self._norm(norm, dim),
        )
        self.dim: int = dim
        self._words = None if words is None else self._around(words)
        self._parameters = [module._parameters for module in self._modules]
        self._held = list(chain.from_iterable(map(dict.values, self._parameters)))
        self._weights = [tensor for tensor in self._held if tensor is not None]
        self._addresses = list(map(Tensor.data_ptr, self._weights))
        # Only a square one fits where it lies when it is turned round.
        self._square = [one for one in self._weights if one.ndim == 2 and one.shape[0] == one.shape[1]]
        self._laid = list(map(Tensor.is_contiguous, self._square))
        self._shape = (len(blocks), 2, 1, 1, heads * width)
        self._of_states = (1, len(blocks), 2, key_heads, width)

    @staticmethod
    def serve(blocks: list[Parts], norm: nn.Module, sizes: Sizes, words: Words | None = None) -> bool:
        """Whether the loop knows these modules, their sizes are one stack's, and there is a compiler.

        They are in float32 on a CPU, and nothing is hooked to them.
        """
        modules = [norm, *(part for parts in blocks for part in parts)]
        known = all(map(_known, modules)) and _fit(blocks, norm, sizes)
        if known and words is not None:
            known = _known_words(words, sizes.heads * sizes.width)
        return known and loops.LIBRARY.serves(torch.float32)

    @property
    def current(self) -> bool:
        """Whether the weights are those that were looked up, and still lie where they lay."""
        now = list(chain.from_iterable(map(dict.values, self._parameters)))
        same = len(now) == len(self._held) and all(map(operator.is_, now, self._held))
        same = same and list(map(Tensor.data_ptr, self._weights)) == self._addresses
        return same and list(map(Tensor.is_contiguous, self._square)) == self._laid

    def knows(self, word: int, position: int) -> bool:
        """Whether both have their rows: word 0 is padding, and others are for their layers to refuse."""
        return 0 < word < self._rows[0] and 0 <= position < self._rows[1]

    def takes(self, states: Tensor) -> bool:
        """Whether the loop may read after these states: it checks no size itself."""
        return (
            states.dtype is torch.float32
            and states.device.type == "cpu"
            and (*states.shape[:4], states.shape[5]) == self._of_states
        )

    def step(
        self,
        x: Float[Tensor, "1 1 dim"],
        states: Float[Tensor, "1 layers two key_heads slots width"],
        bias: Float[Tensor, "1 heads 1 slots"] | None,
    ) -> tuple[Float[Tensor, "1 1 dim"], Float[Tensor, "layers two 1 1 dim"]]:
        """One position more.

        Args:
            x: its vector.
            states: the keys and values of all that it attends to, its own slot the last, which is written to.
            bias: added to the scores.

        Returns:
            The vector after the last norm; and the queries of each layer, and what its attention added.
        """
        x, recorded = x.clone(memory_format=torch.contiguous_format), x.new_empty(self._shape)
        loops.stack_step(
            stack=self._stack,
            states=states,
            slots=states.shape[4],
            bias=self._whole(bias, states),
            x=x,
            shown=recorded,
        )
        return x, recorded

    def write(
        self,
        word: int,
        position: int,
        place: Float[Tensor, "1 1 dim"] | None,
        states: Float[Tensor, "1 layers two key_heads slots width"],
        bias: Float[Tensor, "1 heads 1 slots"] | None,
    ) -> tuple[Float[Tensor, "1 1 vocabulary"], Float[Tensor, "layers two 1 1 dim"]]:
        """One word more.

        Args:
            word: its row.
            position: its row among learned places, where there are such.
            place: what else is added to its vector, where there are none.
            states: as in `step`.
            bias: as in `step`.

        Returns:
            The logits after it; and what `step` records.
        """
        assert self._words is not None
        logits = states.new_empty((1, 1, self._words["readout"]["outputs"]))
        recorded = states.new_empty(self._shape)
        loops.language_step(
            stack=self._stack,
            words=self._words,
            states=states,
            slots=states.shape[4],
            bias=self._whole(bias, states),
            word=word,
            position=position,
            place=place,
            shown=recorded,
            logits=logits,
        )
        return logits, recorded

    def _whole(self, bias: Tensor | None, states: Tensor) -> Tensor | None:
        return None if bias is None else bias.float().expand(1, self._stack["heads"], 1, states.shape[4]).contiguous()

    def _around(self, words: Words) -> Filled:
        self._modules.extend(part for part in (words.embedding, words.places) if part is not None)
        table: Any = words.embedding.weight
        places: Any = None if words.places is None else words.places.weight
        self._rows = (len(table), sys.maxsize if places is None else len(places))
        return loops.words.filled(
            words=len(table),
            positions=0 if places is None else len(places),
            dim=table.shape[1],
            table=table,
            scale=words.scale,
            places=places,
            readout=self._linear(words.readout),
        )

    def _linear(self, module: nn.Module) -> Filled:
        assert isinstance(module, nn.Linear)
        self._modules.append(module)
        weight = module.weight
        outputs, inputs = weight.shape
        transposed = not weight.is_contiguous()
        return loops.linear.filled(
            inputs=inputs, outputs=outputs, transposed=transposed, weight=weight, bias=module.bias
        )

    def _norm(self, module: nn.Module, dim: int) -> Filled:
        if isinstance(module, nn.Identity):
            return loops.norm.filled(size=dim, weight=None, bias=None, epsilon=0.0, square=False)
        self._modules.append(module)
        weight, bias = map(module._parameters.get, ("weight", "bias"))
        square = isinstance(module, nn.RMSNorm)
        return loops.norm.filled(size=dim, weight=weight, bias=bias, epsilon=module.eps, square=square)


def _known(module: nn.Module) -> bool:
    if is_hooked(module):
        return False
    kind, weight, bias = type(module), module._parameters.get("weight"), module._parameters.get("bias")
    if "bias" in vars(module):  # somebody has put something else in its place
        return False
    if kind is nn.Identity:
        return True
    if weight is None or not all(map(_plain, (weight, bias))) or (bias is not None and not bias.is_contiguous()):
        return False
    if kind is nn.Linear:
        return weight.is_contiguous() or weight.t().is_contiguous()
    known = kind in (nn.LayerNorm, nn.RMSNorm) and getattr(module, "eps", None) is not None
    return known and weight.ndim == 1 and weight.is_contiguous()


def _known_words(words: Words, dim: int) -> bool:
    """Whether tables and readout are plain, as wide as the stack, and fit each other."""
    tables = [part._parameters.get("weight") for part in (words.embedding, words.places) if part is not None]
    if any(table is None or not _plain(table) or table.ndim != 2 or table.shape[1] != dim for table in tables):
        return False
    if words.places is not None and not words.places.weight.is_contiguous():  # type: ignore[operator]
        return False
    if not _known(words.readout) or type(words.readout) is not nn.Linear:
        return False
    weight, bias = words.readout.weight, words.readout.bias
    return weight.ndim == 2 and weight.shape[1] == dim and (bias is None or bias.shape == weight.shape[:1])


def _plain(weight: Tensor | None) -> bool:
    """A tensor that is no more than one, float32 on a CPU."""
    if weight is None:
        return True
    return type(weight) in (Tensor, nn.Parameter) and weight.dtype is torch.float32 and weight.device.type == "cpu"


def _fit(blocks: list[Parts], norm: nn.Module, sizes: Sizes) -> bool:
    """Whether the weights have the sizes that the loop takes for granted; some may have been cut."""
    narrowing: Any = blocks[0].narrowing
    dim, between = sizes.heads * sizes.width, narrowing.weight.shape[-1]
    together = (sizes.heads + 2 * sizes.key_heads) * sizes.width
    doubled = 2 * between if sizes.activation == "swiglu" else between
    wanted = ((dim,), (together, dim), (dim, dim), (dim,), (doubled, dim), (dim, between))
    each = [(part, shape) for parts in blocks for part, shape in zip(parts, wanted, strict=True)]
    for part, shape in (*each, (norm, (dim,))):
        weight, bias = part._parameters.get("weight"), part._parameters.get("bias")
        if (weight is not None and weight.shape != shape) or (bias is not None and bias.shape != shape[:1]):
            return False
    return True
