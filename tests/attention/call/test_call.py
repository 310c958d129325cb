"""What a call costs beside its arithmetic, without a clock; and what was left out of it for speed is not missed."""

import os
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard import masks
from regard.attention.call.checks import checked_sizes
from regard.attention.call.guard import is_safe
from regard.attention.parts.normalize import Normalizer
from regard.errors import ShapeError
from tests.plain import run_plain

HERE = Path(__file__).parent
KINDS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

# Functions of regard that are entered by one call: few more than now, so that a dozen more are seen.
ENTERED = {"plain": 30, "causal": 57, "padded": 69, "a loop": 64, "a loop, causal": 90, "layer": 40, "additive": 68}


def entered() -> dict[str, int]:
    """By call, how many functions of regard it enters."""
    found = 0

    def note(frame, event, _):
        nonlocal found
        found += event == "call" and f"{os.sep}regard{os.sep}" in frame.f_code.co_filename

    torch.manual_seed(0)
    query, key, value = torch.randn(1, 2, 5, 16), torch.randn(1, 2, 7, 16), torch.randn(1, 2, 7, 16)
    long = [torch.randn(1, 2, 521, 16) for _ in range(3)]
    layer = regard.MultiHeadAttention(16, 2)
    step, memory = torch.randn(1, 1, 16), layer.project(torch.randn(1, 11, 16))
    score = regard.score("additive", query_dim=16, key_dim=16, hidden_dim=13)
    ready = score.prepare(key)
    attend, lower, padding = regard.attend, masks.causal(), masks.padding(torch.tensor([5]))
    calls = {
        "plain": lambda: attend(query, key, value),
        "causal": lambda: attend(key, key, value, mask=lower),
        "padded": lambda: attend(query, key, value, mask=padding),
        "a loop": lambda: attend(*long),
        "a loop, causal": lambda: attend(*long, mask=lower),
        "layer": lambda: layer(step, memory),
        "additive": lambda: attend(query, ready, value, score=score),
    }
    counted = {}
    for name, call in calls.items():
        call()  # what is made once is not counted
        found = 0
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
        counted[name] = found
    return counted


def test_a_call_enters_few_functions():
    """In a Python of its own: here each function is wrapped by a check of its shapes."""
    code = "from tests.attention.call import test_call; print(test_call.entered())"
    counted = eval(run_plain(code).splitlines()[-1])
    assert set(counted) == set(ENTERED)
    assert {name: number for name, number in counted.items() if not 20 < number <= ENTERED[name]} == {}


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (
            [(2, 5), (2, 7, 3), None],
            "expected query, key and value all (batch, positions, dim) or all (batch, heads, positions, dim); "
            "got query (2, 5), key (2, 7, 3)",
        ),
        (
            [(2, 5, 3), (2, 7, 3), (2, 1, 7, 3)],
            "expected query, key and value all (batch, positions, dim) or all (batch, heads, positions, dim); "
            "got query (2, 5, 3), key (2, 7, 3), value (2, 1, 7, 3)",
        ),
        (
            [(2, 5, 3), (1, 7, 3), None],
            "query, key and value must have one batch size; got query (2, 5, 3), key (1, 7, 3)",
        ),
        (
            [(2, 5, 3), (2, 7, 3), (3, 7, 3)],
            "query, key and value must have one batch size; got query (2, 5, 3), key (2, 7, 3), value (3, 7, 3)",
        ),
        (
            [(2, 5, 3), (2, 7, 3), (2, 11, 3)],
            "key and value must agree in all axes but the last: a value for each key; "
            "got query (2, 5, 3), key (2, 7, 3), value (2, 11, 3)",
        ),
        (
            [(2, 4, 5, 3), (2, 2, 7, 3), (2, 1, 7, 3)],
            "key and value must agree in all axes but the last: a value for each key; "
            "got query (2, 4, 5, 3), key (2, 2, 7, 3), value (2, 1, 7, 3)",
        ),
        (
            [(2, 4, 5, 3), (2, 3, 7, 3), None],
            "the number of key heads must divide the number of query heads; got query (2, 4, 5, 3), key (2, 3, 7, 3)",
        ),
        (
            [(2, 4, 5, 3), (2, 0, 7, 3), (2, 0, 7, 3)],
            "the number of key heads must divide the number of query heads; "
            "got query (2, 4, 5, 3), key (2, 0, 7, 3), value (2, 0, 7, 3)",
        ),
    ],
)
def test_sizes_that_do_not_fit_raise_these_messages(shapes, said):
    tensors = [None if shape is None else torch.zeros(shape) for shape in shapes]
    with pytest.raises(ShapeError) as caught:
        checked_sizes(*tensors)
    assert str(caught.value) == said


def test_types_that_do_not_fit_raise_these_messages():
    one, whole = torch.zeros(2, 5, 3), torch.zeros(2, 5, 3, dtype=torch.int64)
    cases = {
        (whole, whole, whole): "query, key and value must be floating point; got ['torch.int64']",
        (one, one, whole): "query, key and value must be floating point; got ['torch.float32', 'torch.int64']",
        (one, one.double(), one): "query, key and value must have one dtype (outside autocast, which never changes "
        "float64); got ['torch.float32', 'torch.float64']",
        (one.half(), one, one.half()): "query, key and value must have one dtype (outside autocast, which never "
        "changes float64); got ['torch.float16', 'torch.float32']",
    }
    for given, said in cases.items():
        with pytest.raises(ShapeError) as caught:
            checked_sizes(*given)
        assert str(caught.value) == said
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert regard.attend(one.bfloat16(), one, one).context.shape == one.shape
        with pytest.raises(ShapeError, match="one dtype"):
            checked_sizes(one, one.double(), one)


# --- softmax of a few scores that hide nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7, torch.tensor([0.5, 2.0])])
@pytest.mark.parametrize("dtype", KINDS)
def test_softmax_of_few_scores_is_what_it_is_of_many(dtype, temperature):
    """The same with a mask that hides nothing, which takes the way of any mask; gradients too."""
    torch.manual_seed(0)
    scores = (3 * torch.randn(2, 3, 5, 7, dtype=torch.float64)).to(dtype).requires_grad_()
    softmax = regard.normalizer("softmax", temperature=temperature)
    weights, expected = softmax(scores), Normalizer.forward(softmax, scores)
    assert weights.dtype == expected.dtype and torch.equal(weights, expected)
    upstream = torch.randn_like(expected)
    [gradient] = torch.autograd.grad(weights, scores, upstream)
    [wanted] = torch.autograd.grad(expected, scores, upstream)
    # A half-precision score and its gradient are rounded once.
    torch.testing.assert_close(gradient, wanted, atol=torch.finfo(dtype).eps, rtol=torch.finfo(dtype).eps)


def test_softmax_of_few_scores_differentiates_twice():
    scores = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    softmax = regard.normalizer("softmax", temperature=0.7)
    assert torch.autograd.gradcheck(softmax, scores) and torch.autograd.gradgradcheck(softmax, scores)


def test_scores_of_minus_infinity_are_treated_as_masked_out():
    """A row of −inf alone weighs 0 with gradient 0, a −inf beside a NaN too; +inf and NaN make only their row NaN."""
    inf, nan = torch.inf, torch.nan
    scores = torch.tensor([[0.0, 1.0], [-inf, -inf], [-inf, nan], [inf, 0.0], [-inf, 2.0]], requires_grad=True)
    softmax = regard.normalizer("softmax")
    weights = softmax(scores)
    assert torch.equal(weights.isnan(), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 1], [0, 0]]).bool())
    assert weights[1].tolist() == [0, 0] and weights[2, 0] == 0 and weights[4].tolist() == [0, 1]
    weights[1].sum().backward()
    assert scores.grad[[0, 1, 4]].count_nonzero() == 0 and scores.grad[2, 0] == 0
    assert softmax(torch.zeros(3, 0)).shape == (3, 0) and softmax(torch.zeros(0, 3)).shape == (0, 3)
    large = torch.randn(1, 2**16 + 1)
    torch.testing.assert_close(softmax(large), large.softmax(-1))
    mapped = torch.func.vmap(softmax)(torch.stack([scores.detach()] * 2))
    torch.testing.assert_close(mapped[1], weights.detach(), equal_nan=True)


# --- a single query, what is safe, statistics -----------------------------------------------------------------------


@pytest.mark.parametrize("keys", [0, 1, 7])
@pytest.mark.parametrize("score", ["scaled_dot", "cosine"])
def test_a_single_query_at_the_end_attends_to_all_keys(keys, score):
    """As if there were no mask; at the start it sees the first key alone, and beside other masks these still hide."""
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 1, 3), torch.randn(2, keys, 3), torch.randn(2, keys, 5)
    plain = regard.attend(query, key, value, score=score)
    causal = regard.attend(query, key, value, score=score, mask=masks.causal())
    assert torch.equal(causal.context, plain.context) and torch.equal(causal.weights, plain.weights)
    assert causal.weights.shape == (2, 1, keys)
    first = regard.attend(query, key, value, score=score, mask=masks.causal(anchor="start"))
    assert torch.equal(first.weights[..., 1:], torch.zeros(2, 1, max(0, keys - 1)))
    if keys < 7:
        return
    drawn = torch.rand(2, 1, keys) > 0.3
    both = regard.attend(query, key, value, score=score, mask=masks.causal() & drawn)
    assert torch.equal(both.weights > 0, drawn)
    key[1, 3] = torch.nan  # it is seen
    nonfinite = regard.attend(query, key, value, score=score, mask=masks.causal()).context
    assert torch.equal(nonfinite[0], plain.context[0]) and nonfinite[1].isnan().all()


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_safe_is_finite_and_cannot_overflow(dtype):
    ones = torch.ones(2, 3, 5, dtype=dtype)
    assert is_safe(ones) is True and is_safe(ones.clone().requires_grad_(), None, ones) is True
    for number in (torch.nan, torch.inf, -torch.inf):
        bad = ones.clone()
        bad[1, 2, 3] = number
        assert not is_safe(bad) and not is_safe(ones, bad) and not is_safe(ones, None, bad, ones)
    if dtype in (torch.float32, torch.bfloat16):
        assert not is_safe(ones, torch.full((2, 5), 1e30, dtype=dtype))  # whose square is inf


def test_all_of_the_statistics_are_themselves():
    found = regard.attend(*[torch.randn(2, 5, 3)] * 3, statistics=2).statistics(2)
    assert found.largest(2) is found and found.largest(0).top_keys.shape == (2, 5, 0)
