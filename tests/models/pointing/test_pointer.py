"""The pointer network: equation 3 written out, what is never chosen, padding, steps against teacher forcing, search."""

import itertools

import numpy as np
import pytest
import torch

from regard.data.points.batches import IGNORED, PointBatch
from regard.data.points.problem import PROBLEMS, point_problem
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, ShapeError
from regard.models.pointing.pointer import END, PointerNetwork
from regard.models.pointing.rules import RULES, Sets, rule_of
from regard.models.pointing.settings import LSTMEncoderSettings, PointerSettings, TransformerEncoderSettings

READERS = [
    LSTMEncoderSettings(kind="lstm", layers=2),
    TransformerEncoderSettings(kind="transformer", layers=2, heads=3),
]
RANDOM = np.random.default_rng(0)


def made(rule="each_once", kind="pointer", reader=READERS[0], axes=2, longest=7):
    torch.manual_seed(0)
    return PointerNetwork(PointerSettings(kind=kind, width=12, reader=reader), axes, rule, longest).eval()


def drawn(*sizes, name="hull"):
    problem = point_problem(name)
    sets = [RANDOM.random((size, problem.axes)) for size in sizes]
    return PointBatch.of(sets, [problem.answers(points[None])[0] for points in sets])


def follow(rule, sets, choices):
    """What is open before each choice, and after the last."""
    told = rule.start(sets)
    seen = [rule.open(sets, told)[0]]
    for choice in choices:
        told = rule.after(sets, told, torch.tensor([choice]))
        seen.append(rule.open(sets, told)[0])
    return [[place for place, one in enumerate(row.tolist()) if one] for row in seen]


# Rules --------------------------------------------------------------------------------------------------------------


def test_ranks_go_from_left_to_right_and_leave_padding_out():
    points = torch.tensor([[[0.5, 0.0], [0.0, 0.9], [0.0, 0.1], [9.0, 9.0]]])
    sets = Sets.of(points, torch.tensor([3]))
    assert sets.real.tolist() == [[False, True, True, True, False]]
    assert sets.rank[0, 1:4].tolist() == [2, 1, 0]


def test_what_may_follow_by_hand_b08():
    """B08: chosen points are never open again, padding never, and some choice always is."""
    sets = Sets.of(torch.rand(1, 4, 2), torch.tensor([3]))  # the fourth is padding
    assert follow(rule_of("each_once"), sets, [2, 1, 3]) == [[1, 2, 3], [1, 3], [3], [0]]
    assert follow(rule_of("at_most_once"), sets, [2, 1, 3]) == [[1, 2, 3], [1, 3], [3], [0]]
    five = Sets.of(torch.rand(1, 5, 2), torch.tensor([5]))
    assert follow(rule_of("at_most_once"), five, [2, 1, 5]) == [[1, 2, 3, 4, 5], [1, 3, 4, 5], [3, 4, 5], [0, 3, 4]]
    in_order = Sets.of(torch.tensor([[[0.0, 0], [1, 0], [2, 0], [3, 0]]]), torch.tensor([4]))
    assert follow(rule_of("triangles"), in_order, [1, 2, 4, 2, 3, 4]) == [
        [1, 2],  # two more must stand further right
        [2, 3],
        [3, 4],
        [0, 1, 2],
        [3],
        [4],
        [0],  # no triangle stands behind the last one
    ]
    assert follow(rule_of("triangles"), in_order, [1, 3, 4])[-1] == [0, 2]  # all that begin with 1 came before
    # Of four points Euler allows three triangles: then only the end is open, though (2, 3, 4) would stand behind them.
    assert follow(rule_of("triangles"), in_order, [1, 2, 3, 1, 2, 4, 1, 3, 4])[-1] == [0]
    with pytest.raises(ConfigError, match="Did you mean 'triangles'"):
        rule_of("triangle")


@pytest.mark.parametrize("name", sorted(RULES))
def test_whatever_is_chosen_something_is_open_and_answers_end(name):
    """Random walks through the open choices reach the end, and say nothing twice that must not be said twice."""
    rule, generator = rule_of(name), torch.Generator().manual_seed(0)
    for size, _ in itertools.product((3, 5, 6), range(5)):
        sets = Sets.of(torch.rand(1, 7, 2, generator=generator), torch.tensor([size]))
        told, said = rule.start(sets), []
        while not said or said[-1] != END:
            open_ = rule.open(sets, told)[0]
            assert open_.any() and not open_[size + 1 :].any()
            said.append(int(torch.multinomial(open_.float(), 1, generator=generator)))
            told = rule.after(sets, told, torch.tensor([said[-1]]))
        items = said[:-1]
        if name == "triangles":
            ranks = [tuple(sets.rank[0, items[at : at + 3]].tolist()) for at in range(0, len(items), 3)]
            assert len(items) % 3 == 0 and all(a < b < c for a, b, c in ranks)
            assert ranks == sorted(set(ranks))
        else:
            assert len(set(items)) == len(items) >= 3
            assert name != "each_once" or len(items) == size


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_every_right_answer_is_open(name):
    """Otherwise its loss would be infinite."""
    batch = drawn(3, 5, 7, 7, name=name)
    problem = point_problem(name)
    model = made(problem.rule, axes=problem.axes)
    logs = model.log_probabilities(model.encode(batch.points, batch.lengths), batch.answers)
    told = batch.answers != IGNORED
    assert logs.gather(-1, batch.answers.clamp_min(0)[..., None])[..., 0][told].isfinite().all()


# The network --------------------------------------------------------------------------------------------------------


def test_the_pointer_is_equation_3_written_out():
    """`u_j = vᵀ tanh(W_1 e_j + W_2 d_i)`, then the softmax over what is open; the steps one by one in plain loops."""
    model, batch = made(), drawn(5)
    memory, decoder = model.encode(batch.points, batch.lengths), model.decoder
    answers = torch.tensor([[2, 5, 1, 3, 4, 0]])
    logs = model.log_probabilities(memory, answers)[0]
    score, items = decoder.readout.attention.score, memory.items[0]
    state = [torch.tanh(decoder.bridge[0](memory.summary)), decoder.bridge[1](memory.summary)]
    left, chosen = {1, 2, 3, 4, 5}, decoder.begin
    for step, choice in enumerate(answers[0].tolist()):
        state = decoder.recurrence.each[0](chosen[None], tuple(state))
        open_ = sorted(left) or [0]
        u = [score.vector @ torch.tanh(score.key_weight @ items[j] + score.query_weight @ state[0][0]) for j in open_]
        expected = torch.stack(u).log_softmax(0)
        assert torch.allclose(logs[step, open_], expected, atol=1e-5)
        assert (logs[step].exp().sum() - 1).abs() < 1e-5
        assert all(logs[step, j] == -torch.inf for j in range(6) if j not in open_)
        left.discard(choice)
        chosen = items[choice]


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.kind)
def test_a_step_is_the_same_inside_a_long_call_b18(rule, reader):
    batch = drawn(7, 5, 3, name="delaunay" if rule == "triangles" else "tsp")
    model = made(rule, reader=reader)
    memory = model.encode(batch.points, batch.lengths)
    whole = model.log_probabilities(memory, batch.answers)
    state, choice = model.decoder.start(memory, 3), torch.zeros(3, 1, dtype=torch.long)
    for step in range(batch.answers.shape[1]):
        before = [leaf.clone() for leaf in state.moving["carried"]]
        made_step = model.decoder.step(state, choice)
        assert all((old == now).all() for old, now in zip(before, state.moving["carried"], strict=True))  # B36
        assert torch.allclose(made_step.logits[:, 0].exp(), whole[:, step].exp(), atol=1e-6)
        state, choice = made_step.state, batch.answers[:, step : step + 1].clamp_min(0)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.kind)
@pytest.mark.parametrize("kind", ["pointer", "fixed"])
def test_padding_and_batch_mates_change_nothing_b03(kind, reader):
    """K2, K6: a set alone and beside larger ones gives the same; what padding holds, also NaN, is no matter."""
    model, batch = made(kind=kind, reader=reader), drawn(3, 7, 5, name="tsp")
    with_nan = batch.points.clone()
    with_nan[0, 3:], with_nan[2, 5:] = torch.nan, 1e30
    logs = model.log_probabilities(model.encode(with_nan, batch.lengths), batch.answers)
    (logs[batch.answers != IGNORED].exp() ** 2).sum().backward()
    assert all(one.grad.isfinite().all() for one in model.parameters() if one.grad is not None)
    assert (logs[0, :, 4:] == -torch.inf).all() and (logs[2, :, 6:] == -torch.inf).all()
    alone = model.log_probabilities(model.encode(batch.points[:1, :3], batch.lengths[:1]), batch.answers[:1, :4])
    assert torch.allclose(alone[0].exp(), logs[0, :4, :4].exp(), atol=1e-6)


def test_readers_know_order_or_not():
    """Points without positions: a Transformer's vectors follow the points; an LSTM's depend on what came before."""
    batch, order = drawn(7), torch.randperm(7, generator=torch.Generator().manual_seed(1))
    for reader, same in zip(READERS, (False, True), strict=True):
        model = made(reader=reader)
        plain, mixed = (model.encode(points, batch.lengths) for points in (batch.points, batch.points[:, order]))
        assert torch.allclose(plain.items[:, 1:][:, order], mixed.items[:, 1:], atol=1e-5) == same
        assert torch.allclose(plain.summary, mixed.summary, atol=1e-5) == same


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_that_favour_one_point_still_give_a_permutation_b08(beam):
    """B08: five items whose scores all favour the second, beside three items padded; at the last step one has 1."""
    model, batch = made(), drawn(5, 3)
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()  # constant scores
    memory = model.encode(batch.points, batch.lengths)
    memory = memory._replace(items=memory.items.index_fill(1, torch.tensor(2), 1.0))
    found = search(model.decoder, memory, 2, begin=END, end=END, limits=[6, 4], source_lengths=batch.lengths + 1,
                   settings=SearchSettings(beam=beam, n_best=beam, length_penalty=0.0))  # fmt: skip
    for hypotheses, size in zip(found, (5, 3), strict=True):
        assert len(hypotheses) == beam
        for one in hypotheses:
            assert sorted(one.ids) == list(range(1, size + 1)) and one.finished
            assert one.alignment.shape == (size + 1, size + 1)
            assert one.alignment[size - 1].tolist().count(1.0) == 1 and one.alignment[size - 1].sum() == 1
            for step, chosen in enumerate(one.ids):
                assert (one.alignment[step + 1 :, chosen] == 0).all()
    assert [one.ids for one in found[0]][0] == [1, 2, 3, 4, 5]  # ties: the lower number


def test_greedy_is_the_best_choice_at_each_step_and_b41_sets_keep_their_own_points():
    """A beam of sets together gives what each gives alone."""
    model, batch = made(), drawn(7, 3, 5, name="tsp")
    settings = SearchSettings(beam=3, n_best=3, length_penalty=0.0)

    def answers(rows):
        memory = model.encode(batch.points[rows], batch.lengths[rows])
        lengths = batch.lengths[rows]
        return search(model.decoder, memory, len(lengths), begin=END, end=END, settings=settings,
                      limits=lengths + 1, source_lengths=lengths + 1)  # fmt: skip

    together = answers(slice(0, 3))
    for row in range(3):
        [alone] = answers(slice(row, row + 1))
        assert [one.ids for one in alone] == [one.ids for one in together[row]]
        best = alone[0]
        memory = model.encode(batch.points[row : row + 1], batch.lengths[row : row + 1])
        logs = model.log_probabilities(memory, torch.tensor([[*best.ids, 0]]))[0]
        total = sum(float(logs[step, choice].detach()) for step, choice in enumerate([*best.ids, 0]))
        assert best.log_probability == pytest.approx(total, abs=1e-5)


def test_draws_follow_the_probabilities():
    model, batch = made(), drawn(3)
    memory = model.encode(batch.points, batch.lengths)
    many = type(memory)(*(torch.utils._pytree.tree_map(lambda leaf: leaf.expand(4001, *leaf.shape[1:]), memory)))
    torch.manual_seed(3)
    tours = model.draw(many, 3)
    for tour in itertools.permutations((1, 2, 3)):
        logs = model.log_probabilities(memory, torch.tensor([tour]))[0]
        expected = float(sum(logs[step, choice] for step, choice in enumerate(tour)).exp().detach())
        share = float((tours == torch.tensor(tour)).all(1).float().mean())
        assert abs(share - expected) < 4 * (expected * (1 - expected) / 4001) ** 0.5


def test_the_baseline_attends_to_nothing_and_knows_its_longest():
    model, batch = made(kind="fixed"), drawn(7, 5)
    step = model.decoder.step(
        model.decoder.start(model.encode(batch.points, batch.lengths), 2), torch.zeros(2, 1).long()
    )
    assert model.decoder.alignment is None and step.attended == {}
    eight = drawn(8)
    with pytest.raises(ShapeError, match="there are 8 points; this model chooses a number from 1 to 7"):
        model.decoder.start(model.encode(eight.points, eight.lengths), 1)
    with pytest.raises(ValueError, match="5 heads do not divide the width 12"):
        PointerSettings(width=12, reader=TransformerEncoderSettings(kind="transformer", heads=5))
