"""Masks: one polarity, one meaning, and errors instead of guesses."""

import math

import jaxtyping
import pytest
import torch

from regard import masks
from regard.attention.attend import attend
from regard.attention.parts.mask_kinds import Sizes, as_mask
from regard.errors import MaskError

CPU = torch.device("cpu")


def drawn(mask, batch=1, heads=1, queries=4, keys=4):
    return as_mask(mask).draw(Sizes(batch, heads, queries, keys), CPU)


def rows(mask, **sizes):
    """The first item's mask as text, one string a query: x where the key may be seen."""
    sizes = {"batch": 1, "heads": 1, "queries": 4, "keys": 4, **sizes}
    full = drawn(mask, **sizes).expand(*(sizes[n] for n in ("batch", "heads", "queries", "keys")))
    return ["".join("x" if seen else "." for seen in row) for row in full[0, 0].tolist()]


def test_b16_causal_with_unequal_lengths():
    """B16: (1,4), (2,4), (4,4), (5,2), as documented; each equals the tail rows of the full square."""
    assert rows(masks.causal(), queries=1) == ["xxxx"]
    assert rows(masks.causal(), queries=2) == ["xxx.", "xxxx"]
    assert rows(masks.causal()) == ["x...", "xx..", "xxx.", "xxxx"]
    assert rows(masks.causal(), queries=5, keys=2) == ["..", "..", "..", "x.", "xx"]
    assert rows(masks.causal(anchor="start"), queries=1) == ["x..."]
    assert rows(masks.causal(anchor="start"), queries=5, keys=2) == ["x.", "xx", "xx", "xx", "xx"]
    value = torch.arange(4.0).reshape(1, 4, 1)
    zeros = torch.zeros(1, 4, 3)
    assert attend(zeros[:, :1], zeros, value, mask=masks.causal()).context.item() == 1.5
    assert attend(zeros[:, :1], zeros, value, mask=masks.causal(anchor="start")).context.item() == 0.0


def test_windows():
    assert rows(masks.window(2, 0)) == ["x...", "xx..", "xxx.", ".xxx"]
    assert rows(masks.window(0, 1)) == ["xx..", ".xx.", "..xx", "...x"]
    assert rows(masks.window(1, 0), queries=2) == [".xx.", "..xx"]
    assert rows(masks.window(1, 0, anchor="start"), queries=2) == ["x...", "xx.."]
    with pytest.raises(MaskError, match="left=-1"):
        masks.window(-1, 0)


def test_around_is_a_closed_interval_of_real_positions():
    # W17: p = 4.3, D = 2 over 10 keys shows positions 3 to 6
    assert rows(masks.around(torch.tensor([[4.3]]), 2), queries=1, keys=10) == ["...xxxx..."]
    assert rows(masks.around(torch.tensor([[2.0]]), 1), queries=1, keys=5) == [".xxx."]
    assert rows(masks.around(1, 1), queries=2, keys=4) == ["xxx.", "xxx."]
    assert rows(masks.around(torch.tensor([[-5.0, 9.0]]), 1), queries=2, keys=4) == ["....", "...."]
    nowhere = torch.tensor([[torch.inf, -torch.inf, torch.nan, 1e38]])
    for center in (nowhere, nowhere.double()):
        assert rows(masks.around(center, 1), queries=4, keys=4) == ["...."] * 4
    assert rows(masks.around(4.3, 1.7), queries=1, keys=8) == ["...xxxx."]  # 6 − 4.3 is 1.7000000000000002
    almost = torch.tensor([[3.9999999999999996]], dtype=torch.float64)
    assert rows(masks.around(almost, 2), queries=1, keys=8) == ["..xxxxx."]
    half = masks.around(torch.tensor([[2049.0]], dtype=torch.float16), 0)
    assert drawn(half, queries=1, keys=2050).nonzero()[:, -1].tolist() == [2048]  # float16 itself rounds 2049 to 2048


def test_padding_prefix_document():
    assert rows(masks.padding([3])) == ["xxx."] * 4
    assert rows(masks.padding(torch.tensor([0]))) == ["...."] * 4
    assert rows(masks.padding(keep=torch.tensor([[False, True, True, False]]))) == [".xx."] * 4
    assert rows(masks.prefix(2) | masks.causal()) == ["xx..", "xx..", "xxx.", "xxxx"]
    assert rows(masks.prefix(torch.tensor([1]))) == ["x..."] * 4
    ids = torch.tensor([[0, 0, 1, 1]])
    assert rows(masks.document(ids)) == ["xx..", "xx..", "..xx", "..xx"]
    assert rows(masks.document(ids) & masks.causal(), queries=2) == ["..x.", "..xx"]
    assert rows(~masks.document(ids[0])) == ["..xx", "..xx", "xx..", "xx.."]
    with pytest.raises(MaskError, match="between 0 and the 4 keys; they go from 2 to 5"):
        drawn(masks.padding([2, 5]), batch=2)


def test_functions_of_flexattention_are_taken_as_they_are():
    lengths = torch.tensor([4, 2])

    def padded_causal(b, h, q, k):
        return (q >= k) & (k < lengths[b])

    full = drawn(padded_causal, batch=2, heads=3)
    assert full.shape == (2, 3, 4, 4) or full.shape == (2, 1, 4, 4)
    torch.testing.assert_close(
        full.expand(2, 3, 4, 4), (drawn(masks.causal()) & drawn(masks.padding(lengths), batch=2)).expand(2, 3, 4, 4)
    )
    assert rows(masks.causal() & (lambda b, h, q, k: k > 0)) == ["....", ".x..", ".xx.", ".xxx"]
    with pytest.raises(MaskError, match="returned must be bool"):
        drawn(lambda b, h, q, k: q - k)


def test_b05_only_bool_is_a_mask():
    """B05: float and integer masks are refused, with the way out; the accepted forms agree with cutting off."""
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    cut = attend(x, x[:, :3], x[:, :3]).context
    real = torch.tensor([[True, True, True, False]])
    for mask in (masks.padding([3]), masks.padding(keep=real), masks.keep(real.expand(4, 4)), real.expand(4, 4)):
        torch.testing.assert_close(attend(x, x, x, mask=mask).context, cut)
    for wrong in (real.float(), real.float().log(), real.long(), real.to(torch.uint8)):
        for given in (wrong.expand(4, 4), wrong):
            with pytest.raises(MaskError, match=r"mask\.bool\(\)"):
                attend(x, x, x, mask=given)
        with pytest.raises(MaskError, match=r"mask\.bool\(\)"):
            masks.padding(keep=wrong)
    with pytest.raises(MaskError, match="bias="):
        attend(x, x, x, mask=real.float().expand(4, 4))
    with pytest.raises(MaskError, match="list"):
        as_mask([[True] * 4] * 4)


def test_b07_batch_by_length_is_not_length_by_length():
    """B07: batch 4, length 4; through `padding` each sentence is right, raw it is refused, and inverting shows."""
    keep = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    x = torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(0))
    right = attend(x, x, x, mask=masks.padding(keep=keep)).context
    for item in range(4):
        real = x[item, keep[item]][None]
        torch.testing.assert_close(right[item], attend(x[item, None], real, real).context[0])
    with pytest.raises(MaskError, match="say which"):
        attend(x, x, x, mask=keep)
    assert (attend(x, x, x, mask=masks.keep(keep)).context - right).abs().max() > 0.1
    assert (attend(x, x, x, mask=masks.padding(keep=~keep)).context - right).abs().max() > 0.1
    y = x[:, :3]
    with pytest.raises(MaskError, match=r"padding\(keep=mask\)"):
        attend(y, x, x, mask=keep)
    with pytest.raises(MaskError, match=r"padding\(keep=mask\)"):
        masks.padding(keep)


@pytest.mark.parametrize(("batch", "heads", "length"), ((4, 4, 5), (5, 3, 5), (2, 5, 5), (3, 4, 5)))
def test_b43_a_batch_mask_serves_every_head_of_its_item(batch, heads, length):
    x = torch.randn(batch, heads, length, 8, generator=torch.Generator().manual_seed(0))
    causal = torch.ones(length, length).tril().bool()
    keep = causal.repeat(batch, 1, 1)
    keep[1] = False
    keep[1, :, 0] = True
    together = attend(x, x, x, mask=keep)
    for item in range(batch):
        one = x[item, None]
        torch.testing.assert_close(
            attend(one, one, one, mask=masks.keep(keep[item])).context[0], together.context[item]
        )


def test_masks_of_wrong_sizes_show_both_shapes():
    x = torch.ones(2, 3, 5)
    for mask in (torch.ones(3, 4).bool(), torch.ones(2, 4, 3).bool(), torch.ones(5).bool()):
        with pytest.raises(MaskError, match=r"expected \(3, 3\), \(2, 3, 3\)"):
            attend(x, x, x, mask=mask)
    with pytest.raises(MaskError, match=r"\(7,\); expected \(2,\)"):
        attend(x, x, x, mask=masks.padding([1] * 7))
    with pytest.raises(MaskError, match=r"\(2, 3, 3, 3\); expected \(2, 1, 3, 3\)"):
        attend(x, x, x, mask=lambda b, h, q, k: (h >= 0) & torch.ones(2, 3, 3, 3).bool())
    with pytest.raises(MaskError, match="Did you mean 'start'"):
        masks.causal(anchor="strat")
    with pytest.raises(MaskError, match="one of the two"):
        masks.padding()


def test_b49_a_mask_that_masks_nothing_out_changes_nothing():
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0))
    plain = attend(x, x, x).context
    for mask in (torch.ones(7, 7).bool(), masks.padding([7, 7]), masks.prefix(7)):
        torch.testing.assert_close(attend(x, x, x, mask=mask).context, plain)


def test_ragged_items_attend_to_themselves():
    drawn = masks.ragged([2, 0, 3]).draw(Sizes(3, 1, 3, 3), torch.device("cpu"))
    assert drawn[0, 0].tolist() == [[True, True, False], [True, True, False], [False, False, False]]
    assert not drawn[1].any() and drawn[2].all()
    with pytest.raises(MaskError, match="self-attention.*2 queries and 3 keys.*padding"):
        masks.ragged([2]).draw(Sizes(1, 1, 2, 3), torch.device("cpu"))
    with pytest.raises(MaskError, match="one number an item"):
        masks.ragged(torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(MaskError, match="between 0 and the 3 keys"):
        masks.ragged([4]).draw(Sizes(1, 1, 3, 3), torch.device("cpu"))


@pytest.mark.parametrize("queries", (5, 61, 301))  # each path of its own
@pytest.mark.parametrize("sides", ((2.5, 0.0), (math.inf, 0), (10**30, 1)))
def test_a_windows_sides_may_be_any_numbers(sides, queries):
    x = torch.randn(2, queries, 3, generator=torch.Generator().manual_seed(0))
    whole = [int(min(side, queries)) for side in sides]
    jaxtyping.config.update("jaxtyping_disable", True)  # they are told to be whole
    try:
        window = masks.window(*sides)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    found, expected = (attend(x, x, x, mask=each).context for each in (window, masks.window(*whole)))
    torch.testing.assert_close(found, expected)
