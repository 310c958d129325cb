"""Search against tables whose every number is known, and against the plain searches of tests/reference."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.attended import Attended
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, RegardError, ShapeError
from regard.layers.decoder import State, Step
from tests.decoding.searched import BEGIN, END, find, same, table
from tests.reference.search import TableDecoder, exhaustive, greedy, random_rule

# Ids: 0 begin (never probable here), 1 end, 2 "a", 3 "b". Greedy takes a (.6) and loses; a beam of 2 finds b (.36).
TRAP = {(): (0, 0.0, 0.6, 0.4), (2,): (0, 0.4, 0.3, 0.3), (3,): (0, 0.9, 0.05, 0.05)}


def test_beam_finds_what_greedy_misses():
    rule = table(TRAP, (0, 1.0, 0, 0))
    plain = {"length_penalty": 0.0, "max_length": 4}
    ([first],) = (find(rule, [0], SearchSettings(**plain)),)
    assert first[0].ids == [2] and first[0].log_probability == pytest.approx(math.log(0.6 * 0.4))
    ([second],) = (find(rule, [0], SearchSettings(beam=2, n_best=2, **plain)),)
    assert [h.ids for h in second] == [[3], [2]]
    assert second[0].score == pytest.approx(math.log(0.36), abs=1e-6)
    assert second[1].score == pytest.approx(math.log(0.24), abs=1e-6)


@pytest.mark.parametrize("settings", [
    {}, {"length_penalty": 0.0}, {"length_rule": "gnmt", "length_penalty": 0.6}, {"coverage_penalty": 0.5},
    {"length_penalty": 2.0, "coverage_penalty": 0.2}, {"min_length": 2},
])  # fmt: skip
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_beam_of_everything_is_exhaustive_search(settings, limit):
    limit = max(limit, settings.get("min_length", 0) + 1)  # room for the end mark
    rule = random_rule(choices=4, source=3)
    settings = SearchSettings(beam=4**limit, n_best=4**limit, max_length=limit, **settings)
    found = find(rule, [5, 2], settings, lengths=[3, 3], forbidden=[BEGIN])
    for item, mine in zip([5, 2], found, strict=True):
        same(mine, exhaustive(rule, item, (BEGIN,), END, limit, settings, forbidden=[BEGIN]))


@pytest.mark.parametrize("n_best", [1, 3])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.7])
def test_stopping_early_never_loses_a_better_one(n_best, penalty):
    """A wide beam that stops early gives the first of the whole list, also where long outputs are favoured."""
    settings = SearchSettings(beam=4**4, n_best=n_best, max_length=5, length_penalty=penalty)
    for seed in range(5):
        rule = random_rule(choices=4, source=2, seed=seed, sharpness=3.0)
        ([mine],) = (find(rule, [7], settings, lengths=[2]),)
        same(mine, exhaustive(rule, 7, (BEGIN,), END, 5, settings)[:n_best])


def test_an_item_stops_as_soon_as_nothing_can_win():
    """After "end" at .5 nothing below .5 can win without normalisation: one step, whatever the limit."""
    rule = table({}, (0, 0.6, 0.4, 0))
    decoder = TableDecoder(rule)
    find(rule, [0], SearchSettings(beam=2, max_length=50, length_penalty=0.0), decoder=decoder)
    assert len(decoder.rows_seen) == 1
    # By the mean, t times "a" may still reach t·log .4 / 50, less than log .6 only when t > 27.9.
    decoder = TableDecoder(rule)
    find(rule, [0], SearchSettings(beam=2, max_length=50), decoder=decoder)
    assert len(decoder.rows_seen) == 28


def test_beam_1_is_greedy():
    for seed in range(7):
        rule = random_rule(choices=7, source=3, seed=seed)
        found = find(rule, [0, 1, 2, 3, 4], SearchSettings(max_length=6), lengths=[3] * 5)
        for item, mine in enumerate(found):
            same(mine, [greedy(rule, item, (BEGIN,), END, 6)])


def late_ending(source):
    """B21's two sentences: item 0's best ends at step 2, item 1's at step 6; others are drawn at random."""
    drawn = random_rule(choices=5, source=source, seed=3)
    ends = {0: 2, 1: 6}

    def rule(item, prefix):
        scores, looked = drawn(item, prefix)
        if item in ends:
            at_end = len(prefix) == ends[item]
            scores = [-9.0, -0.05 if at_end else -4.0, -3.5, -3.6, -0.1 if not at_end else -3.7]
        return scores, looked

    return rule


@pytest.mark.parametrize("settings", [
    {"beam": 3, "n_best": 3}, {"beam": 3, "n_best": 2, "length_penalty": 0.0}, {"beam": 1}, {"beam": 7, "n_best": 4},
    {"beam": 3, "n_best": 3, "length_rule": "gnmt", "length_penalty": 0.8, "coverage_penalty": 0.3},
    {"beam": 4, "n_best": 4, "sample": True, "temperature": 1.3}, {"beam": 2, "sample": True, "top_k": 3, "top_p": 0.9},
])  # fmt: skip
def test_batch_size_and_order_change_nothing(settings):
    """B21, B41: batches of 1, 2 and 7, shuffled: same ids, scores, order and alignments, each from its own source."""
    source = [5, 2, 3, 7, 1, 4, 6]
    rule = late_ending(source)
    settings = SearchSettings(max_ratio=1.5, max_extra=4, **settings)

    def run(items):
        lengths = [source[item] for item in items]
        return find(rule, items, settings, columns=max(lengths), lengths=lengths, indices=items)

    alone = [run([item])[0] for item in range(7)]
    if settings.beam == 3 and settings.n_best == 3 and settings.coverage_penalty == 0:
        assert [len(alone[item][0].ids) + 1 for item in (0, 1)] == [2, 6]
    for order in ([0, 1], [1, 0], [3, 1, 4, 0, 6, 2, 5], [6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6]):
        for item, mine in zip(order, run(order), strict=True):
            same(mine, alone[item])
            assert [h.alignment.shape for h in mine] == [(len(h.ids) + h.finished, source[item]) for h in mine]


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_each_output_copies_its_own_source(beam):
    """B41: a copy model; also the alignment looks at the word that is copied, after others have left the batch."""
    sources = {0: [2, 3], 1: [4, 5, 6, 2, 2], 2: [3, 3, 5]}

    def rule(item, prefix):
        at = len(prefix) - 1
        target = sources[item][at] if at < len(sources[item]) else END
        scores = [0.9 if token == target else 0.1 / 6 for token in range(7)]
        looked = [float(column == min(at, len(sources[item]) - 1)) for column in range(len(sources[item]))]
        return np.log(scores).tolist(), looked

    decoder = TableDecoder(rule, columns=5)
    found = find(rule, [2, 0, 1], SearchSettings(beam=beam, max_length=9), lengths=[3, 2, 5], decoder=decoder)
    for item, [best, *_] in zip([2, 0, 1], found, strict=True):
        assert best.ids == sources[item]
        assert best.alignment.argmax(1).tolist() == [*range(len(sources[item])), len(sources[item]) - 1]
    if beam == 1:
        assert decoder.rows_seen == [3, 3, 3, 2, 1, 1]  # who is done costs nothing any more


@pytest.mark.parametrize("length", [1, 2, 3])
def test_scores_ignore_prompt_and_length(length):
    """B24: −10.825 for every token, a prompt of 8, outputs of 1, 2, 3 tokens: the normalised score is −10.825."""

    def rule(item, prefix):
        ends = len(prefix) == 8 + length - 1
        return [-10.825 if (token == END) == ends else -math.inf for token in range(3)], [1.0]

    class Forced(TableDecoder):
        def step(self, state, inputs):
            step = super().step(state, inputs)
            rest = torch.log1p(-torch.exp(step.logits.logsumexp(-1, keepdim=True)))  # a fourth token takes what is left
            return step._replace(logits=torch.cat([step.logits, rest], dim=-1))

    prompt = torch.full((2, 8), 2)
    for penalty, score in ((1.0, -10.825), (0.0, -10.825 * length)):
        settings = SearchSettings(beam=3, max_length=3, length_penalty=penalty)
        found = find(rule, [0, 1], settings, begin=prompt, decoder=Forced(rule), forbidden=[3])
        for [best, *_] in found:
            assert best.finished and len(best.ids) == length - 1
            assert best.score == pytest.approx(score, abs=1e-5)
            assert best.log_probability == pytest.approx(-10.825 * length, abs=1e-5)


def test_gnmt_length_rule():
    """Wu et al. 2016, eq. 14: lp = ((5 + |Y|) / 6)^α, the end mark counted: |Y| = 2 here, so 7/6."""
    rule = table({(): (0, 0, 1.0)}, (0, 0.5, 0.5))
    [[best]] = find(rule, [0], SearchSettings(beam=2, max_length=3, length_rule="gnmt", length_penalty=0.6))
    assert best.ids == [2]
    assert best.score == pytest.approx(math.log(0.5) / (7 / 6) ** 0.6, abs=1e-6)


@pytest.mark.parametrize("beam", range(1, 11))
def test_beam_larger_than_the_vocabulary(beam):
    """B25: beams 1 to 10 over 3 tokens; the best never gets worse, no duplicates, no illegal token."""
    rule = random_rule(choices=3, source=1, seed=2)
    best = -math.inf
    for width in range(1, beam + 1):
        settings = SearchSettings(beam=width, n_best=width, max_length=3, length_penalty=0.0)
        [[first, *_]] = find(rule, [0], settings)
        assert first.score >= best - 1e-9
        best = first.score
    found = find(rule, [0], SearchSettings(beam=beam, n_best=beam, max_length=3), forbidden=[BEGIN])[0]
    assert len({tuple(h.ids) for h in found}) == len(found) == min(beam, 4)  # "", a, aa, and aaa cut off
    assert all(set(h.ids) <= {2} for h in found)


@pytest.mark.parametrize("beam", [1, 3])
def test_nothing_ever_ends(beam):
    """B26: an end mark of probability 0, a limit of 5: the best unfinished output, marked, with 5 rows of weights."""
    rule = table({}, (0, 0, 0.7, 0.3), weights=(0.25, 0.75))
    [[best]] = find(rule, [0], SearchSettings(beam=beam, max_length=5))
    assert best.ids == [2] * 5 and not best.finished
    assert best.score == pytest.approx(math.log(0.7), abs=1e-6)
    assert best.alignment.tolist() == [[0.25, 0.75]] * 5


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("sample", [False, True])
def test_without_an_end_mark_only_the_limit_ends(beam, sample):
    """B26: what is forbidden is never drawn, however likely, and there is nothing that ends an output."""
    rule = table({}, (0.9, 0, 0.06, 0.04))
    settings = SearchSettings(beam=beam, max_length=7, min_length=2, sample=sample)
    [[best]] = find(rule, [0], settings, end=None, forbidden=[0])
    assert len(best.ids) == 7 and 0 not in best.ids and not best.finished


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    "limit, finished, ids", [(0, False, []), (1, False, [2]), (2, False, [2, 2]), (3, True, [2, 2])]
)
def test_the_end_mark_at_the_limit(beam, limit, finished, ids):
    """B26: the limit counts the end mark: an output that ends at step 3 is whole at limit 3, cut off below."""
    rule = table({(): (0, 0, 1.0), (2,): (0, 0, 1.0)}, (0, 1.0, 0))
    [[best]] = find(rule, [0], SearchSettings(beam=beam, max_length=limit), lengths=[1])
    assert (best.ids, best.finished) == (ids, finished)
    assert best.alignment.shape == (limit, 1)
    assert best.score == pytest.approx(0.0, abs=1e-6)


def test_the_end_mark_first_or_suppressed():
    """B26: an empty output is an output; `min_length` holds the end mark back."""
    rule = table({}, (0, 0.9, 0.1))
    [[best]] = find(rule, [0], SearchSettings(max_length=5))
    assert (best.ids, best.finished, best.alignment.shape) == ([], True, (1, 1))
    [[best]] = find(rule, [0], SearchSettings(max_length=5, min_length=2))
    assert best.ids == [2, 2] and best.log_probability == pytest.approx(math.log(0.1 * 0.1 * 0.9), abs=1e-5)


def test_mixed_limits():
    """Each item has its own limit, 0 among them."""
    rule = table({}, (0, 0, 0.6, 0.4))
    found = find(rule, [0, 1, 2, 3], SearchSettings(beam=2), limits=[3, 0, 1, 0], lengths=[1] * 4)
    assert [h[0].ids for h in found] == [[2, 2, 2], [], [2], []]
    assert [h[0].alignment.shape for h in found] == [(3, 1), (0, 1), (1, 1), (0, 1)]


def test_coverage_reranks_within_the_search():
    """B27: coverage (1.3, .5, .2) is log .5 + log .2 = −2.3026; looking everywhere wins once coverage counts."""

    def rule(item, prefix):
        if prefix == (BEGIN,):
            return np.log([1e-9, 1e-9, 0.6, 0.4]).tolist(), [0.7, 0.2, 0.1]
        if prefix[1] == 2:
            return np.log([1e-9, 1.0, 1e-9, 1e-9]).tolist(), [0.6, 0.3, 0.1]
        return np.log([1e-9, 1.0, 1e-9, 1e-9]).tolist(), [0.3, 0.8, 0.9]

    def run(weight, columns=3):
        settings = SearchSettings(beam=2, n_best=2, max_length=2, length_penalty=0.0, coverage_penalty=weight)
        return find(rule, [0], settings, columns=columns, lengths=[3])[0]

    assert [h.ids for h in run(0.0)] == [[2], [3]]
    covered = run(1.0)
    assert [h.ids for h in covered] == [[3], [2]]
    assert covered[0].score == pytest.approx(math.log(0.4), abs=1e-5)
    assert covered[1].score == pytest.approx(math.log(0.6) - 2.302585, abs=1e-5)
    # Padding columns, here NaN, do not count; with n_best 1 the winner is found by the search, not afterwards.
    assert [h.score for h in run(1.0, columns=6)] == [h.score for h in covered]
    one = SearchSettings(beam=2, n_best=1, max_length=2, length_penalty=0.0, coverage_penalty=1.0)
    assert find(rule, [0], one, lengths=[3])[0][0].ids == [3]


def test_never_attended_is_finite():
    """B27: a source token that nobody looked at costs much, not everything."""
    rule = table({}, (0, 1.0, 0), weights=(1.0, 0.0))
    [[best]] = find(rule, [0], SearchSettings(max_length=2, coverage_penalty=1.0), lengths=[2])
    assert best.score == pytest.approx(math.log(1e-6), abs=1e-4)


def test_ties_go_to_the_lower_id_then_the_lower_parent():
    rule = table({}, (0, 0.2, 0.2, 0.2, 0.2, 0.2))
    found = find(rule, [0], SearchSettings(beam=4, n_best=4, max_length=2, length_penalty=0.0))[0]
    # First step: end, a, b, c. Second: the end after each (id 1, the lowest), by the parents a, b, c; then "a a".
    assert [h.ids for h in found] == [[], [2], [3], [4]]
    assert [h.finished for h in found] == [True] * 4


def test_a_model_that_allows_nothing_more():
    """Scores of −inf alone: the hypotheses so far are given, marked as cut off."""
    rule = table({(): (0, 0, 0.5, 0.5)}, (0, 0, 0, 0))
    found = find(rule, [0], SearchSettings(beam=3, n_best=3, max_length=7))[0]
    assert [(h.ids, h.finished, len(h.alignment)) for h in found] == [([2], False, 1), ([3], False, 1)]
    [[nothing]] = find(table({}, (0, 0, 0, 0)), [0], SearchSettings(beam=2, max_length=7), lengths=[1])
    assert (nothing.ids, nothing.finished, nothing.alignment.shape) == ([], False, (0, 1))
    [[drawn]] = find(rule, [0], SearchSettings(sample=True, max_length=7))
    assert len(drawn.ids) == 1 and not drawn.finished


def test_forbidden_ids_keep_the_model_probabilities():
    rule = table({}, (0.5, 0.2, 0.3))
    [[best]] = find(rule, [0], SearchSettings(max_length=1), forbidden=[0])
    assert best.ids == [2] and best.log_probability == pytest.approx(math.log(0.3), abs=1e-6)


def test_without_a_source():
    [[best]] = find(table({}, (0, 0.9, 0.1)), [0], SearchSettings(max_length=3), aligned=False)
    assert best.alignment is None and best.finished


def test_an_empty_batch():
    assert search(TableDecoder(random_rule(3)), torch.zeros(0, dtype=torch.long), 0, begin=0, end=1,
                  settings=SearchSettings(max_length=3)) == []  # fmt: skip


class Small(nn.Module):
    """A real little decoder: a GRU cell over an additive look at fixed keys, with two heads."""

    alignment = "look"

    def __init__(self, choices=11, width=8):
        super().__init__()
        self.embed = nn.Embedding(choices, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(width, choices)
        self.fixed_pointers: list[int] = []

    def start(self, memory, batch):
        return State({"keys": memory}, {"hidden": memory.mean(1)})

    def step(self, state, inputs):
        keys, hidden, logits, looked = state.fixed["keys"], state.moving["hidden"], [], []
        self.fixed_pointers.append(keys.data_ptr())
        for one in inputs.unbind(1):
            weights = torch.softmax(torch.stack([keys @ hidden[..., None], keys @ -hidden[..., None]], 1)[..., 0], -1)
            context = (weights.mean(1)[..., None] * keys).sum(1)
            hidden = self.cell(torch.cat([self.embed(one), context], -1), hidden)
            logits.append(self.out(hidden))
            looked.append(weights)
        attended = {"look": Attended(None, weights=torch.stack(looked, 2))}
        return Step(torch.stack(logits, 1), State(state.fixed, {"hidden": hidden}), attended)


def test_state_does_not_grow_and_keeps_no_graph():
    """B50: what belongs to an item is copied when the beam opens or one leaves, not at each step; no gradients."""
    torch.manual_seed(0)
    model = Small().eval()
    memory = torch.randn(3, 5, 8, requires_grad=True)
    settings = SearchSettings(beam=4, max_length=50, n_best=2, length_penalty=0.0)
    with torch.no_grad():
        model.out.bias[END] = -60.0
    found = search(model, memory, 3, begin=0, end=END, settings=settings)
    assert len(model.fixed_pointers) == 50 and len(set(model.fixed_pointers[1:])) == 1
    for item in found:
        for hypothesis in item:
            assert hypothesis.alignment.shape == (50, 5) and not hypothesis.alignment.requires_grad
            torch.testing.assert_close(hypothesis.alignment.sum(1), torch.ones(50))
    assert memory.grad is None and torch.is_grad_enabled()


def test_a_prompt_equals_its_tokens_one_by_one():
    """The best continuation after [begin, best's first token] is the rest of the best, rows and all."""
    torch.manual_seed(1)
    model = Small().eval()
    memory = torch.randn(2, 5, 8)
    whole = search(model, memory, 2, begin=0, end=END, settings=SearchSettings(max_length=6, min_length=3))
    prompt = torch.tensor([[0, item[0].ids[0]] for item in whole])
    rest = search(model, memory, 2, begin=prompt, end=END, settings=SearchSettings(max_length=5, min_length=2))
    for [a], [b] in zip(whole, rest, strict=True):
        assert a.ids[1:] == b.ids
        torch.testing.assert_close(a.alignment[1:], b.alignment)


def test_what_cannot_be_done_is_said_before_the_first_step():
    decoder = TableDecoder(random_rule(3), aligned=False)
    with pytest.raises(ConfigError) as caught:
        find(None, [0], SearchSettings(coverage_penalty=1.0), decoder=decoder, forbidden=[END])
    for part in ("nothing limits the length", "needs attention", "source_lengths", "forbidden"):
        assert part in str(caught.value)
    with pytest.raises(ShapeError, match="limits has 1 entries for a batch of 2"):
        find(None, [0, 1], SearchSettings(), decoder=decoder, limits=[3])
    assert decoder.rows_seen == []
    with pytest.raises(ConfigError, match="3 choices, ids 0 to 2; there is no 7"):
        find(None, [0], SearchSettings(max_length=2), decoder=decoder, forbidden=[7])
    with pytest.raises(RegardError, match="eval"):
        search(Small().train(), torch.randn(1, 2, 8), 1, begin=0, end=1, settings=SearchSettings(max_length=2))
    with pytest.raises(RegardError, match="NaN"):
        find(lambda item, prefix: ([math.nan] * 3, [1.0]), [0], SearchSettings(max_length=2))
