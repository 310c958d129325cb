"""Additive scores from two exponentials: the pair-by-pair reference's numbers, whatever the inputs, by both loops."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.attention.attend import attend
from regard.attention.explain import explain
from regard.attention.parts.functional import additive_pairs, location_features, weigh_pairs
from regard.kernels.additive import additive, blocks as additive_blocks
from tests.attention.registered_parts import MASKS, module, tensors
from tests.native import needs_compiler
from tests.paths import lowered, without
from tests.reference.attention import plain_attend, score_of_pair
from tests.rounding import assert_close_to_rounding

LOOPS = ["torch", pytest.param("native", marks=needs_compiler)]


@pytest.fixture(params=LOOPS)
def loop(request, monkeypatch):
    """Every call takes this path: in blocks of 97 numbers, or by the native loop."""
    monkeypatch.setattr(additive_blocks, "BLOCK", 97)
    if request.param == "native":
        assert additive.LIBRARY.serves(torch.float32)
    else:
        monkeypatch.setattr(additive.LIBRARY, "serves", lambda kind: False)
    with lowered(), without("additive", "chunked"):
        yield request.param


def formula(query, key, vector):
    return weigh_pairs(query.unsqueeze(-2) + key.unsqueeze(-3), vector)


def sides(items, queries, keys, hidden, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (items, queries, hidden), (items, keys, hidden), (hidden,)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64).mul_(scale).to(dtype) for shape in shapes]
    return [side.requires_grad_() for side in made]


# 97 // 17 = 5 pairs to a block: several items at once, queries apart, keys apart
@pytest.mark.parametrize(("items", "queries", "keys"), ((5, 1, 2), (2, 3, 2), (2, 3, 7)))
def test_each_pair_is_the_references(loop, items, queries, keys):
    query, key, vector = sides(items, queries, keys, 17)
    ours = additive.additive_scores(query, key, vector, formula)
    plain = SimpleNamespace(vector=vector, query_weight=torch.eye(17).double(), key_weight=torch.eye(17).double())
    one = torch.stack([
        score_of_pair("additive", plain, query[i, q], key[i, k], k)
        for i in range(items) for q in range(queries) for k in range(keys)
    ]).view(items, queries, keys)  # fmt: skip
    torch.testing.assert_close(ours, one, rtol=1e-12, atol=1e-13)
    direction = torch.randn_like(one)
    for mine, theirs in zip(
        torch.autograd.grad((ours * direction).sum(), (query, key, vector)),
        torch.autograd.grad((one * direction).sum(), (query, key, vector)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("queries", (1, 3))
def test_first_and_second_derivatives(loop, queries):
    """Wide keys and queries, narrow ones, and ones that are narrow about a middle."""
    for scale, middle in ((1.0, 0.0), (1.0, 300.0), (200.0, 0.0)):
        query, key, vector = sides(2, queries, 5, 7, scale=scale)
        made = (query.detach() + middle).requires_grad_(), (key.detach() - middle).requires_grad_(), vector

        def scores(*given):
            return additive.additive_scores(*given, formula)

        assert torch.autograd.gradcheck(scores, made, fast_mode=True)
        assert torch.autograd.gradgradcheck(scores, made, fast_mode=True)


@pytest.mark.parametrize("constant", (0, 1, 2))
def test_second_derivatives_where_a_side_is_constant(loop, constant):
    """Frozen keys, or a frozen vector, have no gradient, and hinder no other one's."""
    made = sides(2, 3, 5, 7)
    made[constant] = made[constant].detach()

    def scores(*given):
        return additive.additive_scores(*given, formula)

    assert torch.autograd.gradcheck(scores, made, fast_mode=True)
    assert torch.autograd.gradgradcheck(scores, made, fast_mode=True)


def test_many_gradients_at_once(loop):
    query, key, vector = sides(2, 3, 5, 16)
    for keys, prepared in ((key, False), (key * 1, True)):  # keys of a decoder have a common table of gradients
        scores = additive.additive_scores(query, keys, vector, formula, prepared)
        above = torch.randn(2, *scores.shape, dtype=torch.float64)
        asked = query, key, vector
        many = torch.autograd.grad(scores, asked, above, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(scores, asked, one, retain_graph=True) for one in above]
        for found, wanted in zip(many, map(torch.stack, zip(*each, strict=True)), strict=True):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("prepared", (False, True))
@pytest.mark.parametrize("negated", range(4))
def test_negated_views_are_negated(loop, negated, prepared):
    """Query, key, vector, and what comes back; the loops read memory where torch wrote no negated numbers yet."""
    given = [one.detach() for one in sides(2, 3, 5, 16)]
    above = torch.randn(2, 3, 5, dtype=torch.float64)
    results = []
    for changed in (None, negated):
        asked = [one.clone().requires_grad_() for one in given]
        seen = [torch._neg_view(-one) if place == changed else one for place, one in enumerate([*asked, above])]
        scores = additive_pairs(*seen[:3], prepared=prepared)
        results.append([scores, *torch.autograd.grad(scores, asked, seen[3])])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted)


def test_mixed_types_are_left_to_torch(loop):
    """The loop reads memory by one type: of another one it would read nonsense."""
    query, key, vector = (side.detach() for side in sides(2, 3, 5, 7))
    mixed = additive_pairs(query, key.float(), vector)
    torch.testing.assert_close(mixed, additive_pairs(query, key.float().double(), vector))
    with pytest.raises(RuntimeError, match="dtype|scalar type"):
        additive_pairs(query, key, vector.float())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_any_numbers_are_as_exact_as_tanh(loop, dtype):
    """To 1e4 on one side, on both, cancelling, and infinite ones; what is NaN stays NaN, and alone."""
    line = torch.tensor([-torch.inf, -1e4, -100.0, -44.0, -20.0, -1.0, 0.0, 1e-3, 3.0, 30.0, 89.0, 1e4, torch.inf])
    narrow = torch.linspace(-17, 17, 11)
    vector = torch.ones(1, dtype=dtype)
    for one, other in (
        (line, narrow),
        (line[1:-1], line[1:-1]),
        (line[1:-1] + 1e3, narrow - 1e3),
        (narrow - 1e3, line[1:-1] + 1e3),
        (line, -line[1:-1]),
    ):
        query, key = one.to(dtype).view(1, -1, 1).requires_grad_(), other.to(dtype).view(1, -1, 1).requires_grad_()
        ours = additive.additive_scores(query, key, vector, formula)[0]
        summed = query.double()[0] + key.double()[0].T
        bound = 3e-7 if dtype == torch.float32 else 4e-15
        # What a sum of such numbers is rounded by, tanh may show: at most its slope times that.
        rounding = torch.finfo(dtype).eps * (query.abs().double()[0] + key.abs().double()[0].T).nan_to_num(posinf=0.0)
        slope = 1 - summed.tanh().square()
        assert ((ours - summed.tanh()).abs() <= bound + 4 * rounding * slope).all()
        found = torch.autograd.grad(ours.sum(), (query, key))
        for ours_to, theirs in zip(found, (slope.sum(1), slope.sum(0)), strict=True):
            allowed = 1e-3 * len(line) if rounding.max() > 1e-4 else 1e-6
            assert (ours_to.flatten() - theirs).abs().max() <= allowed
    largest = torch.tensor([1.0, -1.0], dtype=dtype).mul(torch.finfo(dtype).max).view(1, 2, 1)
    assert additive.additive_scores(largest, largest, vector, formula).tolist() == [[[1, 0], [0, -1]]]
    query = torch.tensor([0.5, torch.nan, 0.25], dtype=dtype).view(1, 3, 1)
    scores = additive.additive_scores(query, torch.ones(1, 2, 1, dtype=dtype), vector, formula)[0]
    assert scores.isnan().tolist() == [[False] * 2, [True] * 2, [False] * 2]


@pytest.mark.parametrize("normalizer", ("softmax", "sigmoid"))
@pytest.mark.parametrize("mask", ("causal", "no_keys", "joined", "keep_3d"))
@pytest.mark.parametrize("score", ("additive", "location_aware"))
def test_attention_over_such_scores_is_the_references(loop, score, mask, normalizer):
    """Heads in groups, a bias, masks and rows that see nothing; the call says that it took this path."""
    query, key, value = tensors(score, heads=6, key_heads=3)
    made = module(score)
    given, sees = MASKS[mask]
    bias = torch.randn(2, 6, 3, 5, dtype=torch.float64)
    assert "for each pair" in explain(query, key, value, score=made, normalizer=normalizer, mask=given).does
    attended = attend(query, key, value, score=made, normalizer=normalizer, mask=given, bias=bias)
    context, weights = plain_attend(
        query, key, value, score=score, module=made, normalizer=normalizer, sees=lambda b, h, q, k: sees(b, q, k),
        bias=bias,
    )  # fmt: skip
    torch.testing.assert_close(attended.context, context)
    torch.testing.assert_close(attended.weights, weights)
    inputs = [query, key, value, made.query_weight, made.key_weight, made.vector]
    for ours, theirs in zip(
        torch.autograd.grad(attended.context.sin().sum(), inputs),
        torch.autograd.grad(context.sin().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_b03_masked_out_nan_and_inf_leave_no_trace(loop):
    """B03 on this path: the answer and all gradients are those of clean padding."""
    made, results = module("additive"), []
    for fill in (0.0, torch.nan, torch.inf):
        query, key, value = (tensor.detach().clone() for tensor in tensors("additive"))
        key[0, 3:], value[0, 3:] = fill, fill
        inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
        attended = attend(*inputs, score=made, mask=regard.masks.padding([3, 5]))
        found = torch.autograd.grad(attended.context.sum(), [*inputs, *made.parameters()])
        results.append([attended.context, attended.weights, *found])
    for clean, *filled in zip(*results, strict=True):
        for one in filled:
            torch.testing.assert_close(one, clean, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("queries", "previous"), ((1, (2, 5)), (1, (2, 1, 5)), (3, (2, 5)), (3, (2, 3, 5))))
def test_location_aware_with_earlier_weights(loop, queries, previous):
    """Weights that all queries share go into the keys; those of each query make keys of its own."""
    query, key, _ = tensors("location_aware", queries=queries)
    made, earlier = module("location_aware"), torch.rand(previous, dtype=torch.float64)
    ours = made(query, made.prepare(key), previous=earlier)
    in_blocks = made.bind(previous=earlier).in_blocks(query, 5) is not None
    assert in_blocks is (loop == "native" or queries > 1)
    located = location_features(earlier, (2, queries), made.features.weight, made.feature_weight)
    sums = (query @ made.query_weight.T).unsqueeze(2) + (key @ made.key_weight.T).unsqueeze(1) + located
    plain = sums.tanh() @ made.vector
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-13)
    inputs = [query, key, *made.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad(ours.sin().sum(), inputs), torch.autograd.grad(plain.sin().sum(), inputs), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


def test_half_precision_is_computed_in_float32(loop):
    query, key, value = (tensor.detach() for tensor in tensors("additive", dtype=torch.float32))
    full = attend(query, key, value, score=module("additive", torch.float32))
    half = attend(*(t.bfloat16() for t in (query, key, value)), score=module("additive", torch.bfloat16))
    assert half.context.dtype == half.weights.dtype == torch.bfloat16
    torch.testing.assert_close(half.context.float(), full.context, atol=2e-2, rtol=2e-2)


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.numel())
        return made


def test_the_table_of_pairs_is_never_formed(loop):
    query, key, vector = sides(2, 11, 13, 17)
    with Largest() as largest:
        additive.additive_scores(query, key, vector, formula).sum().backward()
    # The keys themselves, which the native loop fills up to whole vectors; a block has 97, the table 4,862.
    assert largest.numbers <= (2 * 13 * 24 if loop == "native" else 2 * 13 * 17)


@needs_compiler
def test_keys_are_made_ready_once_and_again_when_they_change(monkeypatch):
    made, to_keep = [], additive._to_keep
    monkeypatch.setattr(additive, "_to_keep", lambda key: made.append(1) or to_keep(key))
    query, key, vector = (side.detach() for side in sides(2, 1, 5, 7))
    steps = [additive.additive_scores(query, key, vector, formula, prepared=True) for _ in range(3)]
    assert len(made) == 1
    assert torch.equal(steps[0], steps[2])
    key.mul_(2)
    after = additive.additive_scores(query, key, vector, formula, prepared=True)
    torch.testing.assert_close(after, formula(query, key, vector))
    assert len(made) == 2
    kept = additive._exponentials_of_keys._found
    before = len(kept)
    del key
    assert len(kept) == before - 1


def test_keys_kept_in_inference_mode_serve_a_call_with_gradients(loop):
    query, key, vector = sides(2, 1, 5, 7)
    key = key.detach()
    with torch.inference_mode():
        first = additive.additive_scores(query, key, vector, formula, prepared=True)
    again = additive.additive_scores(query, key, vector, formula, prepared=True)
    assert torch.equal(first, again)
    (found,) = torch.autograd.grad(again.sum(), query)
    torch.testing.assert_close(found, torch.autograd.grad(formula(query, key, vector).sum(), query)[0])


def test_other_memory_in_the_place_of_kept_keys_is_seen(loop):
    """As an optimizer or a sharded model may set it, perhaps of another size."""
    query, key, vector = (side.detach() for side in sides(2, 1, 5, 7))
    additive.additive_scores(query, key, vector, formula, prepared=True)
    key.data = torch.randn(2, 11, 7, dtype=key.dtype)
    scores = additive.additive_scores(query, key, vector, formula, prepared=True)
    torch.testing.assert_close(scores, formula(query, key, vector))


def test_kept_keys_have_gradients_and_wide_ones_are_not_kept(loop):
    """A decoder's step in training; and keys that no exponential may be taken of, whose scores are as exact."""
    for scale in (1.0, 400.0):
        query, key, vector = sides(2, 1, 5, 7)
        key = (key.detach() * scale).requires_grad_()
        ours = additive.additive_scores(query, key, vector, formula, prepared=True)
        plain = formula(query, key, vector)
        torch.testing.assert_close(ours, plain)
        direction = torch.randn_like(ours)
        for mine, theirs in zip(
            torch.autograd.grad(ours, (query, key, vector), direction),
            torch.autograd.grad(plain, (query, key, vector), direction),
            strict=True,
        ):
            torch.testing.assert_close(mine, theirs)


def test_nothing_is_kept_for_a_loop_that_is_not_there(monkeypatch):
    """Whoever asks may be of another library, which could be built."""
    monkeypatch.setattr(additive.LIBRARY, "serves", lambda kind: False)
    assert additive.key_exponentials(sides(2, 1, 5, 13)[1]) is None


def test_without_a_compiler_a_single_query_is_left_to_the_formula(loop):
    """Its table is no larger than the keys."""
    assert additive.serves(torch.zeros(2, 1, 7), 2**30) is (loop == "native")
    assert additive.serves(torch.zeros(2, 2, 7), 2**30)


def test_gradients_within_autocast_are_computed_in_float32(loop):
    query, key, vector = sides(2, 3, 5, 7, dtype=torch.float32)
    direction, found = torch.randn(2, 3, 5), []
    for enabled in (False, True):
        with torch.autocast("cpu", enabled=enabled):
            scores = additive_pairs(query, key, vector)
            found.append(torch.autograd.grad(scores, (query, key, vector), direction))
    for plain, cast in zip(*found, strict=True):
        torch.testing.assert_close(cast, plain, rtol=0, atol=0)


def test_a_tensor_without_content_takes_the_formula(loop):
    with FakeTensorMode():
        scores = additive_pairs(torch.ones(2, 3, 7), torch.ones(2, 5, 7), torch.ones(7))
    assert scores.shape == (2, 3, 5)


@needs_compiler
def test_threads_share_the_work_and_change_no_bit():
    """1,100,000 pairs × hidden units are worth threads; 71 hidden units are no whole number of parts."""
    query, key, vector = sides(5, 43, 73, 71, dtype=torch.float32)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        scores = additive.additive_scores(query, key, vector, formula)
        found.append([scores, *torch.autograd.grad(scores.sin().sum(), (query, key, vector))])
    torch.set_num_threads(before)
    one, three = found
    assert all(map(torch.equal, one[:3], three[:3]))
    assert_close_to_rounding(three[3], one[3], 5 * 43 * 73)  # torch adds up what came from above, one number a pair
    torch.testing.assert_close(found[1][0], formula(query, key, vector), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much a process holds is read as Linux tells it")
@needs_compiler
def test_a_loop_without_memory_is_an_error_and_not_the_end_of_the_program():
    code = """
import resource, torch, regard
query, key = torch.randn(1, 1, 64, 512), torch.randn(1, 1, 2**16, 512)
regard.attend(query, key[:, :, :64], key[:, :, :64])  # what is loaded once is loaded
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 100 * 2**20, -1))
try:
    regard.attend(query, key, key)
except MemoryError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "found no memory" in done.stdout, done.stderr
