"""Tensors that are not simply numbers in memory: none is read by a loop as if it were, and each gets its answer."""

import jaxtyping
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

import regard
from regard import masks
from regard.attention.modules.linear import LinearState, linear_step
from regard.attention.modules.local import LocalAttention
from regard.attention.parts.mask_kinds import Sizes
from tests.batched import batches_are_singles
from tests.native import needs_compiler

QUERIES = 301  # of a size that every path takes


def inputs(queries=QUERIES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, queries, 7, generator=generator).to(dtype) for _ in range(3)]


def expected(query, key, value, **options):
    """By the explicit path."""
    return regard.attend(query, key, value, refocus=[lambda weights: weights], **options).context


SCORES = {
    "scaled_dot": {},
    "dropout": {"dropout": 0.5},
    "statistics": {"statistics": 3},
    "additive": {"score": regard.score("additive", query_dim=7, key_dim=7, hidden_dim=5)},
    "linear": {"score": regard.score("linear"), "normalizer": "sum"},
}
MASKS = {
    "causal": lambda: masks.causal(),
    "padding": lambda: masks.padding(torch.tensor([17, QUERIES])),
    "keep": lambda: masks.keep(torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()),
    "kept keys": lambda: masks.padding(keep=torch.arange(QUERIES) < torch.tensor([[17], [QUERIES]])),
}


@pytest.mark.parametrize(
    ("options", "dtype"),
    (*((options, torch.float32) for options in SCORES.values()), ({}, torch.bfloat16), ({}, torch.float16)),
    ids=(*SCORES, "bfloat16", "float16"),
)
def test_another_default_device_changes_nothing(options, dtype):
    """What a loop writes into is made where the query is: on "meta" there would be no memory at all."""
    given = [one.requires_grad_() for one in inputs(dtype=dtype)]

    def called():
        torch.manual_seed(0)
        context = regard.attend(*given, mask=masks.causal(), **options).context
        return context, *torch.autograd.grad(context.float().square().sum(), given)

    here = called()
    with torch.device("meta"):
        there = called()
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_are_read_know_where_they_are(name):
    given, mask = inputs(), MASKS[name]()
    with torch.device("meta"):
        context = regard.attend(*given, mask=mask).context
    torch.testing.assert_close(context, expected(*inputs(), mask=mask), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", SCORES.values(), ids=SCORES)
def test_meta_tensors_give_shapes_both_ways(options):
    given = [one.to("meta").requires_grad_() for one in inputs()]
    moved = {name: one.to("meta") if isinstance(one, torch.nn.Module) else one for name, one in options.items()}
    context = regard.attend(*given, mask=masks.causal(), **moved).context
    context.sum().backward()
    assert context.shape == given[0].shape and given[0].grad.shape == given[0].shape and given[0].grad.is_meta


@pytest.mark.parametrize("name", (None, *MASKS))
def test_fake_tensors_give_shapes(name):
    with FakeTensorMode():
        context = regard.attend(*inputs(), mask=MASKS[name]() if name else None).context
    assert context.shape == inputs()[0].shape


@pytest.fixture
def unchecked():
    """Sizes of a trace are no whole numbers to the tests' own checks of types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mode", ("real", "fake", "symbolic"))
def test_a_graph_of_a_call_computes_other_inputs(mode):
    graph = make_fx(lambda *given: regard.attend(*given, mask=masks.causal()).context, tracing_mode=mode)(*inputs(61))
    others = [one.flip(-1, -2) for one in inputs(61)]
    torch.testing.assert_close(graph(*others), expected(*others, mask=masks.causal()), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_script_of_a_call_computes_other_inputs():
    traced = torch.jit.trace(lambda *given: regard.attend(*given, mask=masks.causal()).context, inputs(61))
    others = [one.flip(-1, -2) for one in inputs(61)]
    torch.testing.assert_close(traced(*others), expected(*others, mask=masks.causal()), rtol=1e-5, atol=1e-5)


def negated():
    """Queries, keys and values whose memory has the other sign."""
    made = [torch.complex(one, -one).conj().imag for one in inputs()]
    assert all(one.is_neg() for one in made)
    return made


@pytest.mark.parametrize("which", range(3))
def test_views_that_are_negated_when_they_are_read(which):
    given = inputs()
    given[which] = negated()[which]
    attended = regard.attend(*given, statistics=3)
    torch.testing.assert_close(attended.context, expected(*inputs()), rtol=1e-5, atol=1e-5)
    plain = regard.attend(*inputs(), statistics=3)
    for one, other in zip(attended.statistics(3)[:4], plain.statistics(3)[:4], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_gradient_from_above_that_is_negated_when_it_is_read():
    query, key, value = inputs()
    context = regard.attend(query.requires_grad_(), key, value).context
    above = negated()[0]
    found, wanted = (torch.autograd.grad(context, query, one, retain_graph=True)[0] for one in (above, above.clone()))
    assert torch.equal(found, wanted)


class Wrapped(torch.Tensor):
    """Has its numbers in another tensor, as distributed tensors do."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        inner = tree_map(lambda one: one.inner if isinstance(one, cls) else one, (args, kwargs or {}))
        return tree_map(
            lambda one: cls(one) if isinstance(one, torch.Tensor) else one, operation(*inner[0], **inner[1])
        )


@pytest.mark.parametrize("which", ((0, 1, 2), (1, 2), (2,)))
def test_a_class_that_holds_its_numbers_elsewhere(which):
    given = [Wrapped(one) if n in which else one for n, one in enumerate(inputs())]
    context = regard.attend(*given, mask=masks.causal()).context
    torch.testing.assert_close(context.inner, expected(*inputs(), mask=masks.causal()), rtol=1e-5, atol=1e-5)


def wrapped(tensor):
    return Wrapped(tensor.detach())


def unwrapped(tensor):
    return tensor.inner if isinstance(tensor, Wrapped) else tensor


def general(**more):
    return regard.score("general", query_dim=7, key_dim=7, **more)


COMPARED = {
    "scaled_dot": lambda: regard.score("scaled_dot"),
    "general": lambda: general(),
    "general with a rank": lambda: general(rank=3),
    "cosine": lambda: regard.score("cosine"),
    "additive": lambda: regard.score("additive", query_dim=7, key_dim=7, hidden_dim=5),
    "linear": lambda: regard.score("linear"),
}
HIDING = {
    "bools": lambda wrap: masks.keep(wrap(torch.ones(2, 1, QUERIES, QUERIES, dtype=torch.bool).tril(-3))),
    "kept keys": lambda wrap: masks.padding(keep=wrap(torch.arange(QUERIES) < torch.tensor([[17], [QUERIES]]))),
    "lengths": lambda wrap: masks.padding(wrap(torch.tensor([17, QUERIES]))),
    "lengths and causal": lambda wrap: masks.padding(wrap(torch.tensor([17, QUERIES]))) & masks.causal(),
}


def compared(name, given, **options):
    normalizer = "sum" if name == "linear" else "softmax"
    return regard.attend(*given, normalizer=normalizer, **options).context


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", COMPARED)
def test_one_of_a_class_that_holds_its_numbers_elsewhere(name, which):
    """Query, key, value, or the parameters of the score."""
    torch.manual_seed(0)
    score, given = COMPARED[name](), inputs()
    wanted = compared(name, given, score=score, refocus=[lambda weights: weights])
    if which < 3:
        given[which] = wrapped(given[which])
    for parameter in tuple(score._parameters) if which == 3 else ():
        setattr(score, parameter, torch.nn.Parameter(wrapped(score._parameters[parameter])))
    with torch.no_grad():
        found = compared(name, given, score=score)
    torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", HIDING)
@pytest.mark.parametrize("name", COMPARED)
def test_a_mask_of_a_class_that_holds_its_numbers_elsewhere(name, mask):
    torch.manual_seed(0)
    score, given = COMPARED[name](), inputs()
    wanted = compared(name, given, score=score, mask=HIDING[mask](lambda same: same), refocus=[lambda weights: weights])
    found = compared(name, given, score=score, mask=HIDING[mask](wrapped))
    torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", (0.0, 1.0))
def test_a_mask_of_such_a_class_beside_what_is_not_read_behind_lengths(dropout):
    """Such a mask keeps the call from the loop, which wouldn't have read it."""
    clean, filled = inputs(), inputs()
    masked_out = torch.arange(QUERIES) >= 17
    for one in filled:
        one[0, :, masked_out] = torch.nan
    lengths = masks.ragged(torch.tensor([17, QUERIES]))
    wanted = expected(*clean, mask=lengths & HIDING["bools"](lambda same: same), dropout=dropout)
    found = regard.attend(*filled, mask=lengths & HIDING["bools"](wrapped), dropout=dropout)
    torch.testing.assert_close(unwrapped(found.context), wanted, rtol=1e-4, atol=1e-5)
    assert unwrapped(found.weights).isfinite().all()


@pytest.mark.parametrize("dropout", (0.0, 1.0))
def test_a_bias_of_a_class_that_holds_its_numbers_elsewhere(dropout):
    given, bias = inputs(), torch.randn(QUERIES, QUERIES, generator=torch.Generator().manual_seed(1))
    wanted = expected(*given, bias=bias, dropout=dropout)
    found = regard.attend(*given, bias=wrapped(bias), dropout=dropout).context
    torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)


def test_a_dropped_read_under_a_mask_of_such_a_class():
    query, key, value = inputs()
    mask = HIDING["bools"]
    found = regard.attend(query, key, value, mask=mask(wrapped), dropout=0.5).context
    seen = mask(lambda same: same).draw(Sizes(2, 3, QUERIES, QUERIES), query.device).any(-1, keepdim=True)
    assert unwrapped(found).isfinite().all() and not unwrapped(found).masked_fill(seen, 0.0).any()


def test_linear_attention_of_such_classes_and_its_steps():
    (query, key, value), keep = inputs(), torch.arange(QUERIES) < torch.tensor([[17], [QUERIES]])
    wanted = regard.linear_attention(query, key, value, causal=True, keep=keep)
    for which in range(4):
        given = [wrapped(one) if n == which else one for n, one in enumerate((query, key, value, keep))]
        found = regard.linear_attention(*given[:3], causal=True, keep=given[3])
        torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)
        found, state = linear_step(*given[:3], keep=given[3])
        torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)
        later, _ = linear_step(query, key, value, LinearState(wrapped(unwrapped(state.memory))))
        plain, _ = linear_step(query, key, value, LinearState(unwrapped(state.memory)))
        torch.testing.assert_close(unwrapped(later), plain, rtol=1e-4, atol=1e-5)


WINDOWED = {
    "query": lambda given: {"query": wrapped(given["query"])},
    "key": lambda given: {"key": wrapped(given["key"])},
    "value": lambda given: {"value": wrapped(given["value"])},
    "lengths": lambda given: {"lengths": wrapped(given["lengths"])},
    "mask": lambda given: {"mask": masks.keep(wrapped(given["mask"].tensor))},
    "bias": lambda given: {"bias": wrapped(given["bias"])},
    "parameters": lambda given: {},
}


@pytest.mark.parametrize("kind", WINDOWED)
@pytest.mark.parametrize("name", ("scaled_dot", "general", "general with a rank", "additive"))
def test_windows_of_a_class_that_holds_its_numbers_elsewhere(name, kind):
    torch.manual_seed(0)
    made = COMPARED[name]()
    attention = LocalAttention(made, 3)
    query, key, value = (one[:, 0] for one in inputs())
    given = {"query": query, "key": key, "value": value, "lengths": torch.tensor([17, QUERIES])}
    if kind == "mask":
        given["mask"] = masks.keep(torch.ones(2, 1, QUERIES, QUERIES, dtype=torch.bool).tril(1))
    if kind == "bias":
        given["bias"] = torch.randn(QUERIES, QUERIES)
    with torch.no_grad():
        wanted = attention(**given).context
        for parameter in tuple(made._parameters) if kind == "parameters" else ():
            setattr(made, parameter, torch.nn.Parameter(wrapped(made._parameters[parameter])))
        found = attention(**{**given, **WINDOWED[kind](given)}).context
    torch.testing.assert_close(unwrapped(found), wanted, rtol=1e-4, atol=1e-5)


@needs_compiler
def test_a_second_derivative_is_refused_even_where_nothing_above_is_differentiated():
    """Else a penalty of gradients would have none, and nobody would know."""
    query, key, value = (one.requires_grad_() for one in inputs())
    (slope,) = torch.autograd.grad(regard.attend(query, key, value).context.sum(), query, create_graph=True)
    assert slope.requires_grad
    with pytest.raises(RuntimeError, match="second derivative"):
        slope.square().sum().backward()


@needs_compiler
def test_batches_of_gradients_are_those_one_by_one():
    query, key, value = inputs()
    context = regard.attend(query.requires_grad_(), key.requires_grad_(), value).context
    batches_are_singles(context, (query, key))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's kernel, without a compiler
def test_mapped_gradients_are_those_one_by_one():
    query, key, value = inputs(61)
    context = regard.attend(query.requires_grad_(), key, value).context
    above = torch.randn(5, *context.shape, generator=torch.Generator().manual_seed(1))
    found = torch.vmap(lambda one: torch.autograd.grad(context, query, one, retain_graph=True)[0])(above)
    for one, other in zip(above, found, strict=True):
        assert torch.equal(torch.autograd.grad(context, query, one, retain_graph=True)[0], other)
