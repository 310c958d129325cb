"""Every path that a GPU takes, with everything that it takes there, beside the formulas in float64 on a processor."""

import pytest
import torch

import regard
from regard import masks
from tests.attention.paths.test_choose_grid import CLOSE, TAKES, assert_is_the_formula, calls_of

pytestmark = pytest.mark.gpu
PATHS = ("linear", "flex", "fused", "chunked", "explicit")
IDS = (torch.arange(300) // 70).repeat(2, 1)
LARGE = {
    "window": masks.window(33, 5),
    "documents": masks.document(IDS) & masks.causal(),
    "lengths": masks.padding([300, 41]),
    "function": lambda b, h, q, k: (q + k + h) % 3 != b,
    "no keys": masks.padding([300, 0]),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_mask_bias_and_kind_of_heads(path):
    dtype = torch.float32 if path == "flex" else torch.float64
    for mask, bias, heads in calls_of(path):
        assert_is_the_formula(path, mask, bias, heads, dtype=dtype, device="cuda")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", CLOSE)
def test_every_type(path, dtype):
    for mask, bias, heads in calls_of(path)[-3:]:
        assert_is_the_formula(path, mask, bias, heads, dtype=dtype, device="cuda")


def test_dropout_multiplies_weights_by_its_draws():
    for mask in TAKES.get("explicit", ("none", "table")):
        assert_is_the_formula("explicit", mask, "no bias", "grouped", dropout=0.25, device="cuda")


def made(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = (2, 4, 300, 64), (2, 2, 300, 64), (2, 2, 300, 32)
    return [torch.randn(shape, device="cuda", dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("name", LARGE)
def test_masks_of_positions_draw_no_table(name):
    """Context, weights and gradients are those of the same call in float64 on a processor; fully masked queries too."""
    inputs = made()
    assert regard.explain(*inputs, mask=LARGE[name]).path == "flex"
    ours = regard.attend(*inputs, mask=LARGE[name])
    exact = [one.detach().to("cpu", torch.float64).requires_grad_() for one in inputs]
    theirs = regard.attend(*exact, mask=LARGE[name], refocus=[lambda weights: weights])
    close = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(ours.context.to("cpu", torch.float64), theirs.context, **close)
    torch.testing.assert_close(ours.weights.to("cpu", torch.float64), theirs.weights, **close)
    each = torch.autograd.grad(ours.context.square().sum(), inputs)
    for one, other in zip(each, torch.autograd.grad(theirs.context.square().sum(), exact), strict=True):
        torch.testing.assert_close(one.to("cpu", torch.float64), other, **close)


def test_memory_does_not_grow_with_the_square():
    long = [torch.randn(1, 1, 2**14, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    mask = masks.document((torch.arange(2**14) // 1000)[None].cuda())
    regard.attend(*long, mask=mask)  # the kernels are made
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    regard.attend(*long, mask=mask)
    assert torch.cuda.max_memory_allocated() - held < 2**27  # a table of bools is 2**28


@pytest.mark.parametrize("content", (torch.nan, torch.inf))
def test_masked_out_content_touches_nothing(content):
    inputs = [one.detach().clone() for one in made()]
    for one in inputs[1:]:
        one[1, :, 41:] = content
    inputs = [one.requires_grad_() for one in inputs]
    context = regard.attend(*inputs, mask=masks.padding([300, 41])).context
    assert context.isfinite().all()
    assert all(one.isfinite().all() for one in torch.autograd.grad(context.square().sum(), inputs))


def test_a_layer_is_recorded_and_explained():
    layer, x = regard.MultiHeadAttention(64, 4).cuda(), torch.randn(2, 300, 64, device="cuda")
    with regard.record(layer) as recorded:
        layer(x, mask=masks.causal())
    torch.testing.assert_close(recorded.weights("").sum(-1), torch.ones(2, 4, 300, device="cuda"))
    assert regard.explain(layer, {"query": x, "mask": masks.causal()})[""][0].path == "fused"
