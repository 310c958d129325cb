"""Explain: which path a call of `attend` takes and why; and those of every attention of a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.attention.call.call import Call, NormalizerLike, RefocusLike, ScoreLike
from regard.attention.call.refusals import refuse
from regard.attention.cost.cost import Cost
from regard.attention.cost.workload import workload_of
from regard.attention.parts.mask_kinds import MaskLike
from regard.attention.parts.score_base import Prepared
from regard.attention.paths.base import Path
from regard.attention.paths.choose import against_faster
from regard.attention.paths.explicit import of_tables
from regard.attention.run import observed, planned
from regard.kernels.autograd.hooks import RecordingHook


@dataclass(frozen=True)
class Explanation:
    """Which path a call takes and why.

    Attributes:
        path: its name.
        does: what the path does, in words.
        against: by name, what speaks against each path that would be faster.
        guarded: whether masked-out content is cleaned first.
        cost: what the path takes, where that was asked for.
        explicit: what forming all weights would take instead, likewise.
    """

    path: str
    does: str
    against: dict[str, tuple[str, ...]]
    guarded: bool
    cost: Cost | None = None
    explicit: Cost | None = None

    def __str__(self) -> str:
        lines = [f"path: {self.path}: {self.does}"]
        lines += [f"  not {name}: {'; '.join(reasons)}" for name, reasons in self.against.items()]
        if self.guarded:
            lines.append("  masked-out content is cleaned first: it is not finite, or its numbers cannot be read")
        if self.cost is not None:
            lines.append(f"  costs {self.cost}")
        if self.explicit is not None and self.path != "explicit":
            lines.append(f"  beside {self.explicit}")
        return "\n".join(lines)


@overload
def explain(query: nn.Module, key: Any) -> "ModelExplanation": ...


@overload
def explain(
    query: Float[Tensor, "batch *heads queries query_dim"],
    key: Float[Tensor, "batch *key_heads keys key_dim"] | Prepared,
    value: Float[Tensor, "batch *key_heads keys value_dim"] | None = None,
    *,
    score: ScoreLike = "scaled_dot",
    normalizer: NormalizerLike = "softmax",
    mask: MaskLike | None = None,
    bias: Float[Tensor, "..."] | None = None,
    refocus: RefocusLike | None = None,
    dropout: float = 0.0,
    cost: bool = False,
) -> Explanation: ...


def explain(
    query: Float[Tensor, "batch *heads queries query_dim"] | nn.Module,
    key: Float[Tensor, "batch *key_heads keys key_dim"] | Prepared | Any,
    value: Float[Tensor, "batch *key_heads keys value_dim"] | None = None,
    *,
    score: ScoreLike = "scaled_dot",
    normalizer: NormalizerLike = "softmax",
    mask: MaskLike | None = None,
    bias: Float[Tensor, "..."] | None = None,
    refocus: RefocusLike | None = None,
    dropout: float = 0.0,
    cost: bool = False,
) -> "Explanation | ModelExplanation":
    """Say which path `attend` would take with these arguments, and why; nothing is computed. Meta tensors will do.

    With `cost=True` also how many operations and how much memory it would take, and the explicit path beside it.

    `explain(model, inputs)` calls a model once and says the same of each of its attentions, as they were computed;
    `inputs` is a tuple of arguments, a mapping of named ones, or a single one.

    Args:
        query: as `attend` takes it; or a model.
        key: as `attend` takes it; or the model's inputs.
        value: as `attend` takes it, like all that follow but the last.
        score: likewise.
        normalizer: likewise.
        mask: likewise.
        bias: likewise.
        refocus: likewise.
        dropout: likewise.
        cost: predict operations and memory as well.

    Raises:
        RegardError: what `attend` refuses, in its words; but steps of `refocus=` and parts of the caller's own are not
            called, nor is a function for a mask where it must see numbers.
    """
    if isinstance(query, nn.Module):
        return _of_model(query, key)
    call = Call.of(query, key, value, score, normalizer, mask, bias, refocus, dropout)
    refuse(call)
    path, call, guarded = planned(call)
    costs = (path.cost(call), of_tables(workload_of(call))) if cost else (None, None)
    return _explanation(path, call, guarded, *costs)


def _explanation(path: Path, call: Call, guarded: bool, *costs: Cost | None) -> Explanation:
    return Explanation(path.name, path.does_with(call), against_faster(call, path), guarded, *costs)


class ModelExplanation(Mapping[str, tuple[Explanation, ...]]):
    """What each attention of a model did in one call of it: by the dotted name of its module, in call order.

    Args:
        calls: of each module that attended.
    """

    def __init__(self, calls: dict[str, list[Explanation]]) -> None:
        self._calls = {name: tuple(each) for name, each in calls.items()}

    def __getitem__(self, name: str) -> tuple[Explanation, ...]:
        return self._calls[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __str__(self) -> str:
        lines = []
        for name, each in self._calls.items():
            for one in dict.fromkeys(map(str, each)):
                times = sum(str(other) == one for other in each)
                lines.append(f"{name or 'the model'}{f', {times} times' if times > 1 else ''}: {one}")
        return "\n".join(lines)


def _of_model(model: nn.Module, inputs: Any) -> ModelExplanation:
    """Run a model once; a call belongs to the innermost module that gives an attention once it was made."""
    calls: dict[str, list[Explanation]] = {}
    unclaimed: list[Explanation] = []

    def note(path: Path, call: Call, guarded: bool) -> None:
        unclaimed.append(_explanation(path, call, guarded))

    def claim(name: str, result: Any) -> None:
        if isinstance(result, Attended) and unclaimed:
            calls.setdefault(name, []).extend(unclaimed)
            unclaimed.clear()

    handles: list[Any] = []
    named = inputs if isinstance(inputs, Mapping) else {}
    given = () if named else inputs if isinstance(inputs, tuple) else (inputs,)
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_hook(RecordingHook(partial(claim, name))))
        with observed(note):
            model(*given, **named)
    finally:
        for handle in handles:
            handle.remove()
    if unclaimed:  # by modules that give no Attended
        calls.setdefault("", []).extend(unclaimed)
    return ModelExplanation(calls)
