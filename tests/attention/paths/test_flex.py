"""The flex path's numbers, as far as a processor has them: its formula without gradients, uncompiled."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.paths.flex import Flex
from regard.kernels.fallback import flex
from tests.paths import lowered, only

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")  # on purpose
KEYS = 150  # more than a block of the kernel's
IDS = (torch.arange(KEYS) // 40).repeat(2, 1)
MASKS = {
    "window": masks.window(9, 3),
    "lengths": masks.padding([KEYS, 31]),
    "lengths and causal": masks.padding([KEYS, 31]) & masks.causal(),
    "documents": masks.document(IDS) & masks.causal(),
    "function": lambda b, h, q, k: (q + k + h) % 3 != b,
    "no keys": masks.padding([KEYS, 0]) & masks.window(9, 0),
}


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(flex, "refuses", lambda query, value: None)
    with lowered(), only("flex"):
        yield


def inputs(*heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    of_query, of_key = (heads[:1], heads[1:]) if heads else ((), ())
    return [torch.randn(2, *one, KEYS, size) for one, size in ((of_query, 16), (of_key, 16), (of_key, 11))]


@pytest.mark.parametrize(
    ("name", "heads"), [(name, heads) for name in MASKS for heads in ((), (4, 2)) if heads or name != "function"]
)
def test_it_gives_the_numbers_of_formed_weights(as_on_a_gpu, name, heads):
    tensors, normalizer = inputs(*heads), regard.normalizer("softmax", temperature=0.37)
    call = {"mask": MASKS[name], "normalizer": normalizer}
    with torch.no_grad():
        assert regard.explain(*tensors, **call).path == "flex"
        ours = regard.attend(*tensors, **call)
        theirs = regard.attend(*tensors, refocus=[lambda weights: weights], **call)
    torch.testing.assert_close(ours.context, theirs.context, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.weights, theirs.weights, rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_the_mask_that_was(as_on_a_gpu):
    ids, tensors = IDS.clone(), inputs()
    with torch.no_grad():
        attended = regard.attend(*tensors, mask=masks.document(ids))
        ids.zero_()
        assert (attended.weights[:, 0, 40:] == 0).all()


def test_blocks_of_a_mask_without_tensors_are_made_once(as_on_a_gpu, monkeypatch):
    made, blocks_of = [], flex.blocks_of
    monkeypatch.setattr(flex, "blocks_of", lambda *given: made.append(1) or blocks_of(*given))
    with torch.no_grad():
        for _ in range(2):
            regard.attend(*inputs(), mask=masks.window(8, 2) & masks.padding([KEYS, 17]))
        assert made == [1]
        for _ in range(2):
            regard.attend(*inputs(), mask=masks.document(IDS))
    assert made == [1, 1, 1]


def test_what_it_leaves_to_others_and_why():
    tensors = [torch.empty(2, 4, 256, 16, device="meta") for _ in range(3)]
    with only("flex"):
        said = regard.explain(*tensors, mask=masks.keep(torch.rand(256, 256) > 0.5), dropout=0.1)
    reasons = said.against["flex"]
    assert "flex_attention is for a GPU" in reasons and "dropout= is above 0" in reasons
    assert any("table" in reason for reason in reasons)
    assert Flex.least == 2**14
