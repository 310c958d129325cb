"""The memory-network of Cheng, Dong & Lapata (2016) over whole sequences, with its backward hand-written.

A step reads the tapes of all steps before it, so nothing of it can be done for all steps at once but the products with
the inputs. As a graph of small operations it spends its time on making the graph, and each read of a tape would
copy the tape. Here the tapes are two buffers that the steps fill, both directions are plain loops over them, and the
scores' tables `(batch, slots, attention)` are made again in the backward pass, so that memory grows with the length
alone.

These tables hold σ in the place of tanh, `tanh(x) = 2 σ(2x) − 1`: the factor 2 is in the projections that are given,
and a term that is constant over the slots cancels in the softmax.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched


class Run(NamedTuple):
    """What a run over a sequence leaves behind.

    Attributes:
        tape: hidden state and memory of each step, side by side.
        key: twice the score's projection of each hidden state.
        attended: the hidden tape as the last step read it.
    """

    tape: Float[Tensor, "batch time two_width"]
    key: Float[Tensor, "batch time attention"]
    attended: Float[Tensor, "batch width"]


def run(
    gates: Float[Tensor, "batch time four_width"],
    queries: Float[Tensor, "batch time attention"],
    recurrent: Float[Tensor, "rows width"],
    key_weight: Float[Tensor, "attention width"],
    vector: Float[Tensor, " attention"],
    tape: Float[Tensor, "batch slots two_width"],
    key: Float[Tensor, "batch slots attention"],
    attended: Float[Tensor, "batch width"],
    bound: int | None = None,
) -> Run:
    """Go through a sequence (eq. 4–9). Can be differentiated once.

    Args:
        gates: what the inputs and the bias give to the gates: input, forget, output, candidate.
        queries: twice what the inputs give to the score, `2 W_x x[t]`.
        recurrent: what the tape as it was read gives: `W` of the gates, then `2 W_h̃` of the score.
        key_weight: `2 W_h`.
        vector: v.
        tape, key: the slots so far, hidden state and memory side by side, and twice the projection of the hidden state;
            there may be none.
        attended: `h̃[t−1]` before the first step.
        bound: slots that a step attends to, the last ones; None: all of them.
    """
    none = graph_anchor(gates, queries, tape, key)
    return Run(*_Run.apply(bound, none, gates, queries, recurrent, key_weight, vector, tape, key, attended))


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bound: int | None, none: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        gates, queries, recurrent, key_weight, vector, before, key, attended = given
        (batch, time, attention), slots, width = queries.shape, before.shape[1], attended.shape[1]
        tape = gates.new_empty(batch, slots + time, 2 * width)
        tape[:, :slots] = before
        keys = gates.new_empty(batch, slots + time, attention)
        keys[:, :slots] = key
        # Time first, so that what a step owns lies together.
        gates, queries = (one.transpose(0, 1).contiguous().clone() for one in (gates, queries))
        read = gates.new_zeros(time, batch, 2 * width)
        weights: list[Tensor] = []
        doubled, onto, key_onto = (2 * vector).unsqueeze(-1), recurrent.t(), key_weight.t()
        onward = attended.mm(onto[:, 4 * width :])
        for step in range(time):
            visible, own = _visible_slots(slots + step, bound), gates[step]
            query = queries[step].add_(onward)
            if visible.stop:
                scores = (keys[:, visible] + query.unsqueeze(1)).sigmoid_().matmul(doubled)  # eq. 4
                weights.append(scores.softmax(1).transpose(1, 2))  # eq. 5
                torch.bmm(weights[-1], tape[:, visible], out=read[step].unsqueeze(1))  # eq. 6
                both = read[step, :, :width].mm(onto)
                own += both[:, : 4 * width]
                onward = both[:, 4 * width :]
            else:
                weights.append(gates.new_zeros(batch, 1, 0))  # the first step has no past: it reads exactly 0
                onward = torch.zeros_like(query)
            own[:, : 3 * width].sigmoid_(), own[:, 3 * width :].tanh_()  # eq. 7
            entering, forgetting, leaving, candidate = own.chunk(4, -1)
            here = tape[:, slots + step]
            cell = torch.mul(forgetting, read[step, :, width:], out=here[:, width:]).addcmul_(entering, candidate)  # 8
            torch.mul(leaving, cell.tanh(), out=here[:, :width])  # eq. 9
            torch.mm(here[:, :width], key_onto, out=keys[:, slots + step])
        ctx.bound, ctx.weights, ctx.sizes = bound, weights, (batch, time, slots, width, attention)
        ctx.save_for_backward(gates, queries, recurrent, key_weight, vector, tape, keys, read, attended, none)
        ctx.set_materialize_grads(False)
        last = read[-1, :, :width] if time else attended
        return tape[:, slots:].clone(), keys[:, slots:].clone(), last.clone()

    @staticmethod
    @unbatched
    @once_differentiable("an LSTMN over a whole sequence; a step at a time has them")
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        gates, queries, recurrent, key_weight, vector, tape, keys, read, attended, _ = ctx.saved_tensors
        batch, time, slots, width, attention = ctx.sizes
        grad_tape, grad_key, grad_read = materialized("an LSTMN over a whole sequence", *upstream)
        entering = torch.empty_like(gates)  # to the gates' sums
        asking = torch.empty_like(queries)  # to the queries
        into = torch.zeros_like(read).transpose(0, 1).contiguous()  # to what was read, batch first
        # Slot first: a slot's weights over all later steps lie together. A vector stands left of a tape, transposed if
        # need be: a batch of products with a vector on the right is eight times as slow.
        read_weights = gates.new_zeros(batch, slots + time, time)
        keyed = torch.zeros_like(keys)  # to the keys, but for the factor `doubled`
        shaped, carried = gates.new_zeros(attention), gates.new_zeros(batch, attention)
        doubled = 2 * vector
        joint = gates.new_empty(batch, 4 * width + attention)
        key_total = torch.empty_like(queries)
        for step in reversed(range(time)):
            slot, visible, attention_weights = slots + step, _visible_slots(slots + step, ctx.bound), ctx.weights[step]
            # All later steps that read this slot, and the keys that they compared it by.
            later = torch.bmm(read_weights[:, slot, step + 1 :].unsqueeze(1), into[:, step + 1 :]).squeeze(1)
            if grad_tape is not None:
                later += grad_tape[:, step]
            hidden, cell = later[:, :width], later[:, width:]
            own_key = torch.mul(keyed[:, slot], doubled, out=key_total[step])
            if grad_key is not None:
                own_key += grad_key[:, step]
            hidden = torch.addmm(hidden, own_key, key_weight)
            opening, forgetting, leaving, candidate = gates[step].chunk(4, -1)
            shown = tape[:, slot, width:].tanh()
            into_opening, into_forgetting, into_leaving, into_candidate = joint[:, : 4 * width].chunk(4, -1)
            torch.mul(hidden, shown, out=into_leaving)
            cell = cell + shown.square_().neg_().add_(1).mul_(hidden).mul_(leaving)
            torch.mul(cell, candidate, out=into_opening)
            torch.mul(cell, read[step, :, width:], out=into_forgetting)
            squashed = gates[step, :, : 3 * width]
            joint[:, : 3 * width].mul_(squashed).mul_(1 - squashed)
            torch.mul(cell, opening, out=into_candidate).mul_(candidate.square().neg_().add_(1))
            joint[:, 4 * width :] = carried
            entering[step] = joint[:, : 4 * width]
            if not visible.stop:
                # Nothing was read here, so nothing of it depends on anything.
                asking[step] = 0
                carried = torch.zeros_like(carried)
                continue
            both = into[:, step]
            torch.mm(joint, recurrent, out=both[:, :width])
            if grad_read is not None and step == time - 1:
                both[:, :width] += grad_read
            torch.mul(cell, forgetting, out=both[:, width:])
            read_weights[:, visible, step] = attention_weights.squeeze(1)
            chosen = torch.bmm(both.unsqueeze(1), tape[:, visible].transpose(1, 2))
            scored = attention_weights * (
                chosen - (attention_weights * chosen).sum(-1, keepdim=True)
            )  # (batch, 1, slots)
            table = (keys[:, visible] + queries[step].unsqueeze(1)).sigmoid_()
            shaped += torch.bmm(scored, table).sum((0, 1))
            table = torch.addcmul(table, table, table, value=-1)
            carried = torch.bmm(scored, table).squeeze(1).mul_(doubled)
            asking[step] = carried
            keyed[:, visible].addcmul_(scored.transpose(1, 2), table)
        reads = torch.cat([attended.unsqueeze(0), read[:, :, :width]])
        recurrent_grad = torch.cat(
            [
                entering.flatten(0, 1).t().mm(reads[1:].flatten(0, 1)),
                asking.flatten(0, 1).t().mm(reads[:-1].flatten(0, 1)),
            ]
        )
        key_grad = key_total.flatten(0, 1).t().mm(tape[:, slots:, :width].transpose(0, 1).flatten(0, 1))
        first = read_weights[:, :slots].bmm(into)
        before = carried.mm(recurrent[4 * width :]) if time else grad_read
        return (
            None,
            None,
            entering.transpose(0, 1),
            asking.transpose(0, 1),
            recurrent_grad,
            key_grad,
            2 * shaped,
            first,
            keyed[:, :slots] * doubled,
            before,
        )


def _visible_slots(past: int, bound: int | None) -> slice:
    """The slots that a step attends to, of those written before it."""
    return slice(0 if bound is None else max(0, past - bound), past)
