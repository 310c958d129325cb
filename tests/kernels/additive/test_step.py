"""A decoder's step of additive scores: the formula's numbers, whatever the next keys are, whoever else takes a step."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from regard.attention.parts.functional import weigh_pairs
from regard.kernels.additive import additive, step as additive_step
from regard.kernels.native import compiler
from tests.native import needs_compiler
from tests.rounding import likely

WIDE = {torch.float32: 17.0, torch.float64: 160.0}


@pytest.fixture(autouse=True)
def _by_torch(monkeypatch):
    """Torch's own calls, some hundred numbers at a time, none of them held before."""
    monkeypatch.setattr(additive, "compiler", SimpleNamespace(library=lambda name: None))
    monkeypatch.setattr(additive_step, "_BLOCK", 2 * 3 * 5 * 13)
    monkeypatch.setattr(additive_step, "_spare", {})


def formula(query, key, vector):
    return weigh_pairs(query.unsqueeze(-2) + key.unsqueeze(-3), vector)


def exact(query, key, vector):
    return formula(*(one.double() for one in (query, key, vector)))


def scored(query, key, vector):
    return additive.additive_scores(query, key, vector, formula, prepared=True)


def sides(queries, dtype=torch.float64, items=7, keys=5, hidden=13):
    generator = torch.Generator().manual_seed(0)
    shapes = (items, queries, hidden), (items, keys, hidden), (hidden,)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.fixture
def blocks(monkeypatch):
    """How many numbers each block had, and the vector at last."""
    found, plain = [], torch.mv

    def mv(one, *more, **named):
        found.append(one.numel())
        return plain(one, *more, **named)

    monkeypatch.setattr(torch, "mv", mv)
    return found


# 390 // 65 = 6 items at a time, 390 // 195 = 2, and more than a block of one item's
@pytest.mark.parametrize(("queries", "sizes"), ((1, (6, 1)), (3, (2, 2, 2, 1)), (11, (1,) * 7)))
@pytest.mark.parametrize("dtype", WIDE)
def test_scores_are_the_formulas(queries, sizes, dtype, blocks):
    given = sides(queries, dtype)
    found = scored(*given)
    assert blocks[:-1] == [size * queries * 5 * 13 for size in sizes]
    bound = 4 * torch.finfo(dtype).eps * given[2].abs().sum().item()
    torch.testing.assert_close(found.double(), exact(*given), rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", WIDE)
def test_the_widest_keys_and_far_queries(dtype):
    """Exponentials as large and as small as keys may have them, with queries beyond what may be multiplied by them."""
    wide = WIDE[dtype]
    far = torch.tensor([-300.0, -wide - 3, -wide, -1, 0, 2, wide, wide + 4, 300], dtype=dtype)
    query = far.view(9, 1, 1).expand(9, 1, 13)
    key = torch.linspace(-wide, wide, 11, dtype=dtype).view(1, 11, 1).repeat(9, 1, 13)
    vector = torch.rand(13, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert additive.key_exponentials(key, native=False) is not None
    bound = 4 * torch.finfo(dtype).eps * vector.sum().item()
    torch.testing.assert_close(scored(query, key, vector).double(), exact(query, key, vector), rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", WIDE)
def test_the_next_keys_change_no_score(dtype, monkeypatch):
    monkeypatch.setattr(additive_step, "_BLOCK", 5 * 13)
    query, key, vector = sides(1, dtype, items=2)
    found = []
    for beside in (0, 8, -8, WIDE[dtype], -WIDE[dtype]):
        key[1] = beside
        found.append(scored(query, key, vector)[0])
    assert torch.equal(found[1], found[0])
    assert torch.equal(found[2], found[0])
    # A sigmoid between 0 and 1 changes by at most eps / 4, and is doubled; then the 13 products are added up, and their
    # sum is rounded with what it is taken from.
    size = vector.abs().sum().item()
    bound = torch.finfo(dtype).eps / 2 * size + likely(2 * (13 + 1), dtype) * size
    for one in found[3:]:
        torch.testing.assert_close(one, found[0], rtol=0, atol=bound)


def test_what_is_not_finite_stays_its_own():
    query, key, vector = sides(1)
    plain = scored(query, key, vector)
    query[2, 0, 3], query[4, 0, 5], query[5, 0, 7] = torch.nan, torch.inf, -torch.inf
    found = scored(query, key, vector)
    assert found[2].isnan().all()
    for item in (4, 5):
        torch.testing.assert_close(found[item], exact(query, key, vector)[item])
    for item in (0, 1, 3, 6):
        assert torch.equal(found[item], plain[item])


@pytest.mark.parametrize("queries", (1, 3))
def test_gradients(queries):
    query, key, vector = (one.requires_grad_() for one in sides(queries, items=3, keys=2, hidden=5))
    assert torch.autograd.gradcheck(lambda query, vector: scored(query, key, vector), (query, vector))
    ours, theirs = (call(query, key, vector).square().sum() for call in (scored, formula))
    for one, other in zip(*(torch.autograd.grad(sum, (query, key, vector)) for sum in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


def test_room_is_had_again():
    given = sides(1)
    first = scored(*given)
    (room,) = additive_step._spare[torch.float64]
    room.fill_(torch.nan)
    assert torch.equal(scored(*given), first)
    assert additive_step._spare[torch.float64][0] is room
    many = sides(11)  # more than is kept
    torch.testing.assert_close(scored(*many), exact(*many))
    assert additive_step._spare[torch.float64][0] is room
    few_queries = sides(1, torch.float32)
    torch.testing.assert_close(scored(*few_queries).double(), exact(*few_queries), rtol=0, atol=1e-5)
    assert additive_step._spare[torch.float64][0] is room


def test_room_made_in_inference_mode_serves_outside_of_it():
    given = sides(1)
    with torch.inference_mode():
        first = scored(*given)
    assert torch.equal(scored(*given), first)
    assert torch.equal(scored(*(one.clone().requires_grad_() for one in given)), first)


def test_nobody_else_has_the_room_of_a_step(monkeypatch):
    """Whom a step calls may take one itself."""
    given, other = sides(1), sides(3)
    wanted, plain, inner = scored(*given), torch.mv, []

    def mv(*one, **named):
        monkeypatch.setattr(torch, "mv", plain)
        inner.append(scored(*other))
        return plain(*one, **named)

    monkeypatch.setattr(torch, "mv", mv)
    assert torch.equal(scored(*given), wanted)
    torch.testing.assert_close(inner[0], exact(*other))
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: scored(*given), range(200)):
            assert torch.equal(found, wanted)


@needs_compiler
def test_the_loop_and_torchs_calls_keep_keys_apart(monkeypatch):
    """So wide that the loop wants nothing behind their end."""
    query, key, vector = sides(1, hidden=16)
    for library in (compiler.library, lambda name: None) * 2:
        monkeypatch.setattr(additive, "compiler", SimpleNamespace(library=library))
        torch.testing.assert_close(scored(query, key, vector), exact(query, key, vector))
    assert all(key in additive._exponentials_of_keys[loop]._found for loop in (False, True))


def test_nothing_is_kept_for_a_loop_that_is_not_there(monkeypatch):
    """Whoever asks may be of another library, which could be built: keys laid out for torch are none of its."""
    monkeypatch.setattr(additive, "compiler", SimpleNamespace(library=lambda name: None))
    assert additive.key_exponentials(sides(1, hidden=13)[1], native=True) is None
