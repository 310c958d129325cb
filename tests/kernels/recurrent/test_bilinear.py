"""General attention over each item's own keys in a native loop, beside a plain formula, item by item."""

import pytest
import torch

from regard.kernels.recurrent import bilinear
from regard.models.seq2seq import source_attention
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.source_attention import SourceAttention
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding

pytestmark = needs_compiler
CLOSE = {torch.float64: {"rtol": 1e-11, "atol": 1e-11}, torch.float32: {"rtol": 2e-4, "atol": 2e-5}}


def formula(hidden, weight, values, counts, lengths):
    each = []
    for item, (count, length) in enumerate(zip(counts.tolist(), lengths.tolist(), strict=True)):
        rows, own = hidden[item, :count], values[item, :length]
        weights = torch.softmax(rows @ weight @ own.T, -1) if length else rows.new_zeros(count, 0)
        each.append(torch.cat([rows, weights @ own], -1))
    return torch.cat(each)


def made(batch, queries, keys, dim, key_dim, kind=torch.float64):
    """Tensors, and where and how many the real queries and keys are; the last item has some of both."""
    torch.manual_seed(0)
    counts, lengths = torch.randint(0, queries + 1, (batch,)), torch.randint(0, keys + 1, (batch,))
    counts[-1], lengths[-1] = queries, keys
    places = (torch.arange(queries) < counts[:, None]).flatten().nonzero().squeeze(-1)
    shapes = (batch, queries, dim), (dim, key_dim), (batch, keys, key_dim)
    tensors = [(torch.randn(shape, dtype=kind) * shape[-1] ** -0.25).requires_grad_() for shape in shapes]
    return tensors, places, counts, lengths


SIZES = [(7, 5, 11, 13, 17), (3, 31, 37, 16, 32), (1, 1, 1, 1, 1), (5, 2, 19, 3, 67), (2, 23, 3, 29, 8)]


@pytest.mark.parametrize("kind", CLOSE, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_the_formula(sizes, kind):
    tensors, places, counts, lengths = made(*sizes, kind)
    found, wanted = bilinear.read_by_own(*tensors, places, counts, lengths), formula(*tensors, counts, lengths)
    torch.testing.assert_close(found, wanted, **CLOSE[kind])
    above = torch.randn_like(found)
    for one, other in zip(*(torch.autograd.grad(out, tensors, above) for out in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other, **CLOSE[kind])


def test_gradients():
    tensors, *where = made(5, 4, 7, 3, 11)
    assert torch.autograd.gradcheck(lambda *given: bilinear.read_by_own(*given, *where), tensors)


@pytest.mark.parametrize("asks", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_of_some_alone(asks):
    tensors, places, counts, lengths = made(3, 5, 7, 11, 13)
    given = [one.detach().requires_grad_(wanted) for one, wanted in zip(tensors, asks, strict=True)]
    (asked,) = (one for one in given if one.requires_grad)
    (found,) = torch.autograd.grad(bilinear.read_by_own(*given, places, counts, lengths).square().sum(), asked)
    (wanted,) = torch.autograd.grad(formula(*given, counts, lengths).square().sum(), asked)
    torch.testing.assert_close(found, wanted, **CLOSE[torch.float64])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_padding_is_not_read_and_a_visible_nan_stays_with_its_item(bad):
    tensors, places, counts, lengths = made(3, 5, 7, 11, 13)
    counts, lengths = torch.tensor([2, 5, 3]), torch.tensor([4, 7, 2])
    places = (torch.arange(5) < counts[:, None]).flatten().nonzero().squeeze(-1)
    clean = bilinear.read_by_own(*tensors, places, counts, lengths)
    wanted = torch.autograd.grad(clean.sum(), tensors)
    hidden, weight, values = (one.detach().clone() for one in tensors)
    hidden[0, 2:], values[2, 2:] = bad, bad
    given = [hidden.requires_grad_(), weight.requires_grad_(), values.requires_grad_()]
    out = bilinear.read_by_own(*given, places, counts, lengths)
    assert torch.equal(out, clean)
    assert all(torch.equal(*pair) for pair in zip(torch.autograd.grad(out.sum(), given), wanted, strict=True))
    with torch.no_grad():
        values[1, 3, 4] = bad
    out = bilinear.read_by_own(*given, places, counts, lengths)
    assert torch.equal(out[:2], clean[:2]) and torch.equal(out[7:], clean[7:])
    assert out[2:7, 11:].isnan().any(-1).all() and torch.equal(out[2:7, :11], clean[2:7, :11])
    to_hidden, _, to_values = torch.autograd.grad(out.sum(), given)
    assert torch.equal(to_hidden[[0, 2]], wanted[0][[0, 2]]) and torch.equal(to_values[[0, 2]], wanted[2][[0, 2]])
    assert to_hidden[1].isnan().any()


def test_items_of_no_keys_read_0_and_of_no_queries_nothing():
    tensors, *_ = made(3, 5, 7, 11, 13)
    counts, lengths = torch.tensor([5, 0, 2]), torch.tensor([0, 3, 7])
    places = (torch.arange(5) < counts[:, None]).flatten().nonzero().squeeze(-1)
    out = bilinear.read_by_own(*tensors, places, counts, lengths)
    assert len(out) == 7 and not out[:5, 11:].any()
    to_hidden, to_weight, to_values = torch.autograd.grad(out[:, 11:].sum(), tensors)
    assert not to_hidden[:2].any() and not to_values[:2].any()
    assert all(one.isfinite().all() for one in (to_hidden, to_weight, to_values))


def test_any_strides():
    tensors, *where = made(3, 5, 7, 11, 13)
    turned = [one.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for one in tensors]
    straight, other = (bilinear.read_by_own(*given, *where) for given in (tensors, turned))
    # Torch multiplies by the weight. Sums of 11, 13 and 7 make a number, and of as many and 3 · 5 queries a gradient.
    assert_close_to_rounding(other, straight, 11 + 13 + 7)
    above = torch.randn(1, 1, dtype=torch.float64).expand_as(straight)
    assert_close_to_rounding(
        torch.autograd.grad(other, turned, above),
        torch.autograd.grad(straight, tensors, above),
        2 * (11 + 13 + 7) + 3 * 5,
    )


def test_several_threads_give_the_same_but_for_rounding():
    tensors, *where = made(61, 23, 29, 32, 37, torch.float32)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            # The products around the loop are torch's, whose sums may depend on threads.
            out = bilinear.read_by_own(*tensors, *where)
            results.append([out, *torch.autograd.grad(out.square().sum(), tensors)])
        finally:
            torch.set_num_threads(1)
    # Sums of 32, 37 and 29 make a number, and of as many and 61 · 23 queries a gradient.
    assert_close_to_rounding(results[1][0], results[0][0], 32 + 37 + 29)
    assert_close_to_rounding(results[1][1:], results[0][1:], 2 * (32 + 37 + 29) + 61 * 23)


def test_many_gradients_at_once():
    tensors, *where = made(3, 5, 7, 11, 13)
    out = bilinear.read_by_own(*tensors, *where)
    above = torch.randn(2, *out.shape, dtype=torch.float64)
    many = torch.autograd.grad(out, tensors, above, is_grads_batched=True, retain_graph=True)
    for number, one in enumerate(above):
        for found, wanted in zip(many, torch.autograd.grad(out, tensors, one, retain_graph=True), strict=True):
            torch.testing.assert_close(found[number], wanted, **CLOSE[torch.float64])


def test_second_derivatives_are_refused():
    tensors, *where = made(3, 5, 7, 11, 13)
    first = torch.autograd.grad(bilinear.read_by_own(*tensors, *where).square().sum(), tensors, create_graph=True)
    for asked in tensors:
        with pytest.raises(RuntimeError, match="each item's own keys has no second derivatives; a step at a time"):
            torch.autograd.grad(first[1].sum(), asked, retain_graph=True)


def test_which_calls_it_takes():
    (hidden, weight, values), *_ = made(3, 5, 7, 11, 13)
    assert bilinear.serves(hidden, weight, values)
    assert not bilinear.serves(*(one.detach() for one in (hidden, weight, values)))
    assert not bilinear.serves(hidden.float(), weight, values) and not bilinear.serves(hidden[:, :0], weight, values)
    assert not bilinear.serves(*(one.half() for one in (hidden, weight, values)))
    with torch.no_grad():
        assert not bilinear.serves(hidden, weight, values)
    with torch.autocast("cpu", torch.bfloat16):
        assert not bilinear.serves(hidden, weight, values)


class Batch:
    source = torch.tensor([[4, 5, 6, 7, 3], [8, 3, 0, 0, 0], [9, 4, 5, 3, 0]])
    source_lengths = torch.tensor([5, 2, 4])
    target_in = torch.tensor([[2, 4, 5, 0, 0, 0], [2, 6, 7, 8, 4, 5], [2, 0, 0, 0, 0, 0]])
    target_out = torch.tensor([[4, 5, 3, 0, 0, 0], [6, 7, 8, 4, 5, 3], [3, 0, 0, 0, 0, 0]])
    target_lengths = torch.tensor([3, 6, 1])


def translator(**chosen):
    torch.manual_seed(0)
    settings = {"attention": "general", "input_feeding": False, "dropout": 0.0} | chosen
    return RecurrentTranslator(RecurrentSettings(embedding_dim=7, encoder_dim=5, **settings), 11, 13).double()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_translator_learns_the_same_with_it_and_without(monkeypatch, dropout):
    model, runs, taken = translator(dropout=dropout), [], []
    monkeypatch.setattr(
        bilinear, "read_by_own", lambda *given, by=bilinear.read_by_own: (taken.append(1), by(*given))[1]
    )
    for serves in (bilinear.serves, lambda *_: False):
        monkeypatch.setattr(source_attention.bilinear, "serves", serves)
        torch.manual_seed(1)
        total = model.objective(Batch, 0.1).total
        runs.append([total, *torch.autograd.grad(total, list(model.parameters()))])
    assert len(taken) == 1
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "chosen",
    [
        {"attention": "dot", "encoder_dim": 4},
        {"window": "local-p"},
        {"normalizer": "sparsemax"},
        {"normalizer_options": {"temperature": 2.0}},
        {"attention_options": {"rank": 2}},
        {"attention": "additive"},
    ],
    ids=str,
)
def test_other_attentions_are_not_taken_for_it(monkeypatch, chosen):
    monkeypatch.setattr(bilinear, "read_by_own", lambda *_: pytest.fail("this is another attention"))
    settings = {"attention": "general", "input_feeding": False, "encoder_dim": 5, "embedding_dim": 7} | chosen
    model = RecurrentTranslator(RecurrentSettings(**settings), 11, 13)
    assert model.objective(Batch).total.isfinite()


def test_a_hook_on_the_attention_is_called():
    for part in ("", "attention"):
        model, calls = translator(), []
        module = model.decoder.source.get_submodule(part)
        module.register_forward_hook(lambda *_, to=calls: to.append(1))
        model.objective(Batch).total.backward()
        assert calls


def test_a_kind_of_source_attention_that_does_something_else_is_called():
    class Louder(SourceAttention):
        called = False

        def forward(self, *given):
            self.called = True
            return super().forward(*given)

    model = translator()
    model.decoder.source.__class__ = Louder
    model.objective(Batch).total.backward()
    assert model.decoder.source.called
