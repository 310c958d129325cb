"""The linear path: keys and values are summed once for all queries, so that no weight is ever formed."""

from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call import guard
from regard.attention.call.call import Call, name_of
from regard.attention.call.formula import ready, scores_of
from regard.attention.call.mask_summary import conjuncts, joined
from regard.attention.call.recompute import cast, recompute
from regard.attention.cost.cost import LENGTH, Cost
from regard.attention.cost.workload import pairs, workload_of
from regard.attention.modules import linear as linear_module
from regard.attention.parts.mask_kinds import Causal, Mask, Padding
from regard.attention.parts.masks import padding
from regard.attention.parts.normalize import Sum
from regard.attention.paths.base import Path, needs_all_weights
from regard.kernels.autograd.plain import is_readable
from regard.kernels.linear import linear as kernel


class Linear(Path):
    """A product of feature maps over its sum (Katharopoulos et al. 2020), all keys or causal, under padding."""

    name = "linear"
    scores = (linear_module.Linear,)
    does = "a product of feature maps normalised by its sum is read without queries × keys"
    keeps_nan_out = True

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if type(call.normalizer) is not Sum:
            yield f"the normalizer {name_of(call.normalizer)!r} is not the sum of such products"
        square = call.sizes.queries == call.sizes.keys
        for mask in conjuncts(call.mask):
            if not isinstance(mask, Padding) and not (isinstance(mask, Causal) and (mask.anchor == "end" or square)):
                yield f"the mask {mask} needs queries × keys"
        if call.bias is not None:
            yield "bias= is given"
        if call.prepared is not None:
            yield "the keys were prepared"
        if call.dropout > 0:
            yield "dropout= is above 0"
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """None: what is causal or padding is summed without a table."""
        return None

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        assert isinstance(call.score, linear_module.Linear) and call.value is not None
        masks = conjuncts(call.mask)
        keep = None
        for mask in masks:
            if isinstance(mask, Padding):
                drawn = mask.draw(call.sizes, call.query.device)[:, 0, 0].expand(call.sizes.batch, -1)
                keep = drawn if keep is None else keep & drawn
        lower: list[Mask] = [mask for mask in masks if isinstance(mask, Causal)]
        context = linear_module.linear_attention(
            call.query, call.key, call.value, feature_map=call.score.feature_map, causal=len(lower) > 0, keep=keep
        )
        # The weights are made under the padding of now, whatever becomes of the caller's lengths.
        padded = [] if keep is None else [padding(keep=keep.clone())]
        redrawn = joined([*lower, *padded])

        def scores(part: slice) -> Tensor:
            drawn = call.drawn(redrawn)
            if drawn is None or (is_readable(call.query) and guard.is_safe(call.query, call.key)):
                return scores_of(call, ready(call), part)
            query, key, _, nonfinite = guard.guard(call.query, call.key, None, drawn)
            clean = call._replace(query=query, key=key)
            return guard.propagate_nan(scores_of(clean, ready(clean), part), nonfinite[..., part])

        source = recompute(call, scores, lambda: call.drawn(redrawn), call.query, call.key)
        return Attended(cast(call.query.dtype, context), source=source)

    def cost(self, call: Call) -> Cost:
        """Sums of features × values; a causal one forms the scores of a chunk."""
        work = workload_of(call)
        sums = work.positions * work.width * (work.value_width + 1)
        chunk = kernel.CHUNK if pairs(call, causal=call.summary.causal) < work.weights else 0
        within = work.query // max(1, work.width) * chunk * (work.width + work.value_width + 1)
        made = sums + within
        copies, answer = (work.query + work.key + work.value) * work.wide, work.context * work.given
        return Cost(
            self.name,
            2 * made,
            6 * made + 2 * sums,
            answer + copies,
            answer + 2 * copies + work.gradients,
            "positions × width² × heads",
            LENGTH,
        )
