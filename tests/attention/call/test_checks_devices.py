"""Inputs on several devices are refused in words; a loop would read what lies at the other device's addresses."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.modules.heads import AttentionContext, CrossHeads, Keys
from regard.errors import ShapeError

SIZES = [(2, 2, 7, 5), (2, 2, 257, 16)]  # for torch's own kernel, and for the loop


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("places", [("cpu", "meta", "cpu"), ("cpu", "cpu", "meta"), ("meta", "cpu", "cpu")])
def test_of_query_key_and_value(places, shape):
    given = [torch.ones(shape, device=place) for place in places]
    with pytest.raises(ShapeError, match=f"one device; got {', '.join(places)}"):
        regard.attend(*given)
    with pytest.raises(ShapeError, match="one device; they lie on"):
        regard.linear_attention(*given)


@pytest.mark.parametrize("shape", SIZES)
def test_of_a_bias(shape):
    query, size = torch.ones(shape), shape[2]
    with pytest.raises(ShapeError, match="bias= must lie where the query does, on cpu; it is on meta"):
        regard.attend(query, query, query, bias=torch.ones(size, size, device="meta"))


def test_a_stack_checks_its_inputs():
    heads = CrossHeads(64, 4)
    keys = torch.ones(2, 4, 257, 16, device="meta")
    with pytest.raises(ShapeError, match="device"):
        heads(heads.project_query(torch.ones(2, 257, 64)), Keys(keys, keys), AttentionContext())


@pytest.mark.parametrize("make", [masks.padding, masks.ragged])
@pytest.mark.parametrize("given", [[3, 0, 7], torch.tensor([3, 0, 7])], ids=["list", "tensor"])
def test_torch_s_default_device_takes_no_lengths_away(make, given):
    query = torch.randn(3, 7, 5)
    wanted = regard.attend(query, query, query, mask=make(given)).context
    with torch.device("meta"):
        found = regard.attend(query, query, query, mask=make(given)).context
    assert found.device.type == "cpu"
    assert torch.equal(found, wanted)
