"""The settings of a training run. Read by the command line before torch is imported."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

UNBOUNDED_EPOCHS = 20
"""The epochs of a run that has neither steps, nor epochs, nor minutes of either kind."""

_BOUNDS = ("steps", "epochs", "minutes", "processor_minutes")

CHANGEABLE = frozenset({*_BOUNDS, "patience", "keep", "save_every", "log_every", "shard", "recompute"})
"""Settings that may differ on resume: when to end, what is written, and where the numbers lie. All others would make
another run of it.

A moved end moves the decay from the resumed step on (but for `none` and `inverse_sqrt`, which know no end).
"""


class TrainingSettings(BaseModel):
    """How a model is trained: when to end, how fast to learn, and what is written down."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    steps: int | None = Field(default=None, gt=0, description="End after this many updates.")
    epochs: int | None = Field(
        default=None,
        gt=0,
        description="End after this many passes over the data. Of steps, epochs, minutes and processor_minutes the "
        f"first that is reached ends the run; with none of them given, {UNBOUNDED_EPOCHS} epochs do.",
    )
    minutes: float | None = Field(
        default=None,
        gt=0,
        description="End after this much time in training, validation included; a resumed run continues the count. "
        "How many updates fit depends on the machine, so such a run is not the same bit for bit elsewhere.",
    )

    processor_minutes: float | None = Field(
        default=None,
        gt=0,
        description="End after this much processor time, that of all threads of a process added, validation included. "
        "What else the machine does hardly counts, so runs that share it are still on equal terms.",
    )

    learning_rate: float = Field(
        default=1e-3, gt=0, description="The highest learning rate, reached at the warm-up's end."
    )
    warmup_steps: int = Field(default=100, ge=0, description="Updates over which the learning rate rises linearly.")
    decay: Literal["cosine", "linear", "inverse_sqrt", "none"] = Field(
        default="cosine", description="How the learning rate falls after the warm-up, over the rest of the run."
    )
    floor: float = Field(
        default=0.05, ge=0, le=1, description="The decay never goes below this part of the learning rate."
    )

    optimizer: Literal["adamw", "rmsprop"] = Field(
        default="adamw", description="The optimizer; rmsprop with momentum, as in Graves 2013."
    )
    beta1: float = Field(
        default=0.9, ge=0, lt=1, description="Decay rate of AdamW's mean of the gradient; of rmsprop the momentum."
    )
    beta2: float = Field(default=0.98, ge=0, lt=1, description="Decay rate of the mean of the squared gradient.")
    epsilon: float = Field(default=1e-8, gt=0, description="Added to the root of that mean, which divides the step.")
    weight_decay: float = Field(
        default=0.01, ge=0, description="AdamW's decay of matrices; biases and norms do not decay. 0 with rmsprop."
    )
    clip: float | None = Field(
        default=1.0, gt=0, description="Gradients are clipped to this norm over all parameters; null: not clipped."
    )
    accumulation: int = Field(
        default=1, gt=0, description="Batches joined into one update, with exactly the gradient of the one big batch."
    )
    smoothing: float = Field(default=0.0, ge=0, lt=1, description="Label smoothing, for the task's loss.")
    shard: bool = Field(
        default=False,
        description="Of several processes (`torchrun`) each holds a part of the weights, gradients and moments (FSDP); "
        "otherwise each holds all of them (DDP).",
    )
    recompute: bool = Field(
        default=False,
        description="Compute the activations of a Transformer's layers anew in the backward pass: less memory, the "
        "same gradients, about a third more time.",
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="What the model computes in; its weights and their updates stay in fp32."
    )

    validate_every: int | None = Field(
        default=None, gt=0, description="Updates between validations; null: each epoch's end."
    )
    monitor: str = Field(default="loss", description="The validation metric of the best model and of early stopping.")
    better: Literal["min", "max"] = Field(
        default="min", description="Whether the monitored metric should be low or high."
    )
    patience: int | None = Field(
        default=None, gt=0, description="End after this many validations in a row without a better one; null: never."
    )

    save_every: int | None = Field(
        default=None, gt=0, description="Updates between checkpoints; there is one at each validation besides."
    )
    keep: int = Field(
        default=2, gt=0, description="Checkpoints kept, newest first; a second one covers for a damaged first."
    )
    log_every: int = Field(default=20, gt=0, description="Updates between lines of metrics.jsonl.")

    @model_validator(mode="before")
    @classmethod
    def _without_decay(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("optimizer") == "rmsprop":
            if given.get("weight_decay") not in (None, 0, "0", "0.0"):
                raise ValueError(f"rmsprop has no weight_decay (it is {given['weight_decay']}); take adamw or 0")
            return {**given, "weight_decay": 0.0}
        return given

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, given: Any) -> Any:
        if isinstance(given, dict) and all(
            given.get(bound) is None for bound in ("steps", "epochs", "minutes", "processor_minutes")
        ):
            return {**given, "epochs": UNBOUNDED_EPOCHS}
        return given
