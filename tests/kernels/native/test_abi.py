"""A loop's declaration: its C++ text and what fills it agree, and what does not fit is refused in words."""

import gc
import weakref
from array import array

import pytest
import torch

from regard.kernels.native import compiler, structure
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, WORK, Counts, Input, Output
from regard.kernels.native.structure import Part
from tests.native import needs_compiler

BASE = """
#include "native/loops.hpp"
template <typename T>
void scale(const abi::Scale<T>& call) {
    for (int64_t r = 0; r < call.rows; ++r)
        for (int64_t c = 0; c < call.width; ++c) {
            T factor = call.factor * (call.weights ? call.weights[c] : T(1)) + T(call.counts ? call.counts[r] : 0);
            call.out[r * call.width + c] = call.x[r * call.x_strides[0] + c] * factor;
        }
}
extern "C" bool scale_float32(const abi::Scale<float>& call) { scale(call); return call.threads == 1; }
"""
SOURCE = BASE + 'extern "C" bool scale_float64(const abi::Scale<double>& call) { scale(call); return false; }\n'
FIELDS = {
    "rows": INTEGER,
    "threads": THREADS,
    "width": INTEGER,
    "factor": REAL,
    "x": Input("rows", "width", strides=1),
    "weights": Input("width", optional=True),
    "counts": Counts("rows"),
    "out": Output("rows", "width"),
}


@pytest.fixture
def declared(monkeypatch, tmp_path):
    """Gives a library of a source of its own, with checks or without."""
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "loops.hpp").symlink_to(compiler.SOURCES / "native" / "loops.hpp")
    monkeypatch.setattr(compiler, "SOURCES", tmp_path)
    monkeypatch.setattr(compiler, "declarations", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler.library.cache_clear()

    def declare(source=SOURCE, checks=True, may_lack=()):
        (tmp_path / "scale.cpp").write_text(source)
        monkeypatch.setenv(structure.SWITCH, "1" if checks else "0")
        library = Library("scale", (torch.float32, torch.float64), may_lack)
        return library, library.predicate("scale", **FIELDS)

    yield declare
    compiler.library.cache_clear()


def given(**changed):
    x, out = torch.arange(12.0).view(3, 4)[:, :3], torch.empty(3, 3)
    return {"rows": 3, "width": 3, "factor": 2.0, "x": x, "weights": None, "counts": None, "out": out} | changed


@needs_compiler
@pytest.mark.parametrize("checks", [True, False])
def test_both_sides_have_one_order(declared, checks):
    """Every field reaches the loop under its name, given in any order, for each type."""
    library, scale = declared(checks=checks)
    assert library.serves(torch.float32) and library.serves(torch.float64) and not library.serves(torch.float16)
    named = given(weights=torch.tensor([1.0, 2.0, 3.0]), counts=array("q", (5, 6, 7)))
    assert scale(**dict(reversed(named.items())), threads=1) is True
    wanted = named["x"] * (2 * named["weights"] + torch.tensor([[5.0], [6.0], [7.0]]))
    assert torch.equal(named["out"], wanted)
    wide = given(x=named["x"].double(), out=named["out"].double())
    assert scale(**wide) is False
    assert torch.equal(wide["out"], 2 * wide["x"])


@pytest.mark.parametrize("checks", [True, False])
def test_a_wrong_or_missing_name_is_a_type_error(declared, checks):
    _, scale = declared(checks=checks)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        scale(**given(), weight=None)
    missing = given()
    del missing["x"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'x'"):
        scale(**missing)
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        scale(3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"out": torch.empty(3, 3).double()}, r"out is a tensor of torch.float64 on cpu, and .* torch.float32 on cpu"),
        ({"out": torch.empty(3, 2)}, r"out has shape \(3, 2\), and \(3, 3\) was expected, \(rows, width\)"),
        ({"out": torch.empty(3, 6)[:, ::2]}, r"out has shape \(3, 3\) and strides \(6, 2\), and contiguous"),
        ({"out": torch.empty(3, 3, device="meta")}, r"out is a tensor of torch.float32 on meta"),
        ({"x": torch.empty(3, 6)[:, ::2]}, r"x has shape \(3, 3\) and strides \(6, 2\), and contiguous"),
        ({"x": torch.empty(9)}, r"x has shape \(9,\), and \(3, 3\) was expected"),
        ({"rows": 4}, r"x has shape \(3, 3\), and \(4, 3\) was expected"),
        ({"weights": torch.empty(1)}, r"weights has shape \(1,\), and \(3,\) was expected, \(width\)"),
        (
            {"weights": torch._neg_view(torch.ones(3))},
            "weights is a tensor of torch.float32 on cpu with its sign apart",
        ),
        ({"out": None}, "out is None, and a tensor"),
        ({"counts": array("q", (1, 2))}, r"counts is array\('q', \[1, 2\]\), and an array of 3 \(rows\)"),
        ({"counts": array("i", (1, 2, 3))}, r"counts is array\('i'"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",  # what an empty tensor holds is by chance
)
def test_the_debug_mode_names_the_field_what_it_had_and_what_was_expected(declared, changed, said):
    _, scale = declared()
    with pytest.raises(ValueError, match=f"scale, Scale: {said}"):
        scale(**given(**changed))


def test_broadcast_tensors_and_types_that_are_computed_in_are_checked_too():
    kinds = Input("a", "b", dtype=WORK), Input("a", "b", "c", "d", view=True, broadcast=True)
    assert kinds[0].fault(torch.empty(6), (2, 3), torch.bfloat16) is None
    assert "torch.float64" in kinds[0].fault(torch.empty(6), (2, 3), torch.float64)
    for shape in ((2, 1, 4, 5), (4, 5), (1, 5), ()):
        assert kinds[1].fault(torch.empty(shape), (2, 3, 4, 5), torch.float32) is None
    for shape in ((1, 2, 3, 4, 5), (3, 5), (4, 2)):
        assert "has shape" in kinds[1].fault(torch.empty(shape), (2, 3, 4, 5), torch.float32)


@needs_compiler
def test_without_the_debug_mode_nothing_is_checked(declared):
    """So that it costs nothing. (The loop is never called.)"""
    _, scale = declared(checks=False)
    with pytest.raises(AttributeError, match="data_ptr"):
        scale(**given(out=None))


@needs_compiler
def test_a_structure_of_another_layout_is_refused_in_words(declared, monkeypatch):
    library, _ = declared()
    header = library.header()
    compiler.declarations["scale"] = lambda: header.replace("    double factor;", "    double factor, more;")
    with pytest.warns(RuntimeWarning, match="Scale has another layout in C.. than in Python"):
        assert not library.serves(torch.float32)


@needs_compiler
def test_a_loop_that_takes_another_structure_is_refused_by_the_compiler(declared):
    library, _ = declared(
        SOURCE.replace("scale_float64(const abi::Scale<double>", "scale_float64(const abi::Scale<float>")
    )
    with pytest.warns(RuntimeWarning, match="could not be built.*scale_float64"):
        assert not library.serves(torch.float32)


@needs_compiler
def test_a_declared_loop_that_is_not_there_is_named(declared):
    """All loops of a type may be missing where a compiler or a processor lacks it; else it is a fault of ours."""
    library, scale = declared(BASE, may_lack=[torch.float64])
    assert library.serves(torch.float32) and not library.serves(torch.float64)
    with pytest.raises(RuntimeError, match="no loop scale for torch.float64"):
        scale(**given(x=torch.empty(3, 3).double(), out=torch.empty(3, 3).double()))
    compiler.library.cache_clear()
    library, _ = declared(BASE)
    with pytest.raises(RuntimeError, match="scale are not those that were declared: no scale_float64"):
        library.serves(torch.float32)
    compiler.library.cache_clear()
    library, _ = declared(may_lack=(torch.float32, torch.float64))
    library.loop("other", rows=INTEGER, x=Input("rows"))
    with pytest.raises(RuntimeError, match="scale are not those that were declared: no other_float32"):
        library.serves(torch.float32)


@needs_compiler
def test_tensors_are_held_while_the_loop_runs(declared):
    """Also those that nobody else has: the last reference goes when the call is done, not before."""
    library, scale = declared()
    assert library.serves(torch.float32)
    alive = []
    out = torch.empty(3, 3)

    def watched():
        x = torch.ones(3, 3)
        alive.append(weakref.ref(x))
        return x

    loops = scale.__globals__["loops"]
    run, failed = loops[torch.float32]

    def slowly(packed):
        gc.collect()
        assert alive[0]() is not None
        return run(packed)

    loops[torch.float32] = slowly, failed
    assert scale(**given(out=out) | {"x": watched()}) is True
    assert torch.equal(out, torch.full((3, 3), 2.0)) and alive[0]() is None


def test_a_structure_that_is_filled_once_holds_its_tensors_and_is_part_of_others(declared):
    library, _ = declared()
    library.kinds = (torch.float32,)
    line = library.structure("Line", inputs=INTEGER, weight=Input("inputs"))
    pair = library.structure("Pair", inputs=INTEGER, one=Part(line), others=Part(line, apart="inputs"))
    weight = torch.ones(2)
    filled = line.filled(inputs=2, weight=weight)
    assert list(filled._numbers) == [2, weight.data_ptr()] and filled["weight"] is weight
    row = line.row([filled, filled])
    made = pair.filled(inputs=2, one=filled, others=row)
    assert list(made._numbers) == [2, 2, weight.data_ptr(), row.address]
    with pytest.raises(ValueError, match="scale, Pair: others is 1 of Line, and 2 of Line was expected"):
        pair.filled(inputs=2, one=filled, others=filled)
    with pytest.raises(ValueError, match=r"scale, Line: weight has shape \(2,\), and \(3,\) was expected"):
        line.filled(inputs=3, weight=weight)
