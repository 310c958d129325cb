"""Kernels of flex_attention, as far as they can be counted without a GPU: traced and guarded, not written."""

import torch
from torch._dynamo.testing import CompileCounter
from torch.nn.attention.flex_attention import flex_attention

from regard.kernels.fallback import flex

POSITIONS = 150


def traced_on(monkeypatch, mask_mod, positions: int = POSITIONS) -> torch.Tensor:
    """A call that is compiled as on a GPU, by a backend that only counts."""
    made = [torch.randn(1, 2, positions, 16) for _ in range(3)]
    blocks = flex.blocks_of(mask_mod, 1, 2, positions, positions, torch.device("cpu"))
    with monkeypatch.context() as patched, torch.no_grad():
        patched.setattr(flex, "flex_attention", flex._compiled())  # what a processor calls
        return flex.attention(*made, blocks=blocks, scale=0.25)


def functions(count: int) -> list:
    """Functions of positions, each with code of its own."""
    texts = (f"lambda b, h, q, k: (q + {2 * n + 3} * k) % 7 != 0" for n in range(count))
    return [eval(text) for text in texts]


def test_more_kinds_of_masks_than_torch_recompiles_for_are_all_compiled(monkeypatch):
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(flex_attention, dynamic=True, backend=counter)
    monkeypatch.setattr(flex, "_compiled", lambda: compiled)
    kinds = functions(torch._dynamo.config.recompile_limit + 3)
    for mask_mod in kinds:
        traced_on(monkeypatch, mask_mod)
    assert counter.frame_count == len(kinds)
    torch._dynamo.reset()


def test_sizes_and_numbers_of_a_mask_share_a_kernel(monkeypatch):
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(flex_attention, dynamic=True, backend=counter)
    monkeypatch.setattr(flex, "_compiled", lambda: compiled)

    def window(left: int):
        return lambda b, h, q, k: (k >= q - left) & (k <= q)

    for left in (9, 17, 33, 64):
        for positions in (140, 150, 200, 250):  # all of two blocks: one block is a case of its own
            traced_on(monkeypatch, window(left), positions)
    assert counter.frame_count == 1
    torch._dynamo.reset()
