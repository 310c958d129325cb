"""A causal Transformer over sequences of vectors (Vaswani et al. 2017): its memory is its KV cache.

inputs ── linear ── causal layers ── linear ── outputs
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.autograd.hooks import is_exactly
from regard.layers.sequence import StepOutput
from regard.layers.transformer.cache import Cache
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.transformer.build import transformer_stack
from regard.models.transformer.settings import TransformerSequenceSettings


class TransformerSequence(nn.Module):
    """See `layers.sequence.SequenceModel`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: TransformerSequenceSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings, self.inputs, self.outputs = settings, inputs, outputs
        self.enter = nn.Linear(inputs, settings.dim)
        self.stack = transformer_stack(settings, settings.layers, causal=True, window=settings.window)
        self.readout = nn.Linear(settings.dim, outputs)

    def start(self, batch: int) -> Cache:
        """Nothing read."""
        return self.stack.start(batch)

    def step(self, state: Cache, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step, which attends to those before it and to itself; "self 0" is the first layer.

        Raises:
            ShapeError: the inputs are of another form or width, or of other rows than the state.
        """
        check_step(inputs, self.inputs, state.counted.shape[0])
        stacked = self.stack(self.enter(inputs).unsqueeze(1), cache=state)
        return StepOutput(self.readout(stacked.output.squeeze(1)), stacked.cache, stacked.attended)

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Whole sequences at once; by the steps of a subclass that has its own, or another start.

        Raises:
            ShapeError: the inputs are of another form or width.
        """
        check_sequences(inputs, self.inputs)
        if not is_exactly(self, TransformerSequence):
            return by_steps(self.step, self.start(inputs.shape[0]), inputs, self.outputs)[0]
        outputs: Tensor = self.readout(self.stack(self.enter(inputs)).output)
        return outputs
