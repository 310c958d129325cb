"""Every row of the worked numbers: the literature's digits, and float64 against sums written out in plain Python."""

import math

import pytest

from regard.errors import ConfigError
from regard.worked import work
from regard.worked.example import flatten
from regard.worked.table import WORKED

ROWS = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W10", "W11", "W12", "W13", "W14", "W15", "W17", "W18"]
ROWS += ["W19", "W20", "W21", "W22"]


def softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def dot(one: list[float], other: list[float]) -> float:
    return math.fsum(left * right for left, right in zip(one, other, strict=True))


def mean(weights: list[float], rows: list[list[float]]) -> list[float]:
    return [dot(weights, list(column)) for column in zip(*rows, strict=True)]


def exact(value: object, plain: object) -> None:
    assert flatten(value) == pytest.approx(flatten(plain), rel=1e-12, abs=1e-15)


def printed(value: object, digits: object, places: int = 4) -> None:
    """Rounded to the printed digits, the number is the printed one."""
    assert [round(number, places) for number in flatten(value)] == flatten(digits)


@pytest.mark.parametrize("name", ROWS)
def test_agrees_with_the_literature(name):
    result = work(name)
    compared = [step.agrees for step in result.steps if step.agrees is not None]
    assert compared and all(compared)


def test_the_table_holds_these_rows_in_order():
    assert list(WORKED) == ROWS


def test_w1_two_heads():
    result = work("W1")
    values = [[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    first, second = softmax([0.0, 0.916, 0.405]), softmax([-0.0, -0.916, -0.405])
    printed(result.value("weights"), [0.2001, 0.5000, 0.2999])
    printed(result.value("context"), [0.700, 0.700], places=3)
    exact(result.value("weights"), first)
    exact(result.value("context"), mean(first, values))
    exact(result.value("weights of the second head"), second)
    joined = mean(first, values) + mean(second, values)
    exact(result.value("both heads, concatenated"), joined)
    assert len(joined) == 4
    exact(result.value("after the output projection"), [joined[0] + joined[2], joined[1] + joined[3]])


SCORES = [0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 0.6]


def test_w2_the_pronoun_attends_back():
    result = work("W2")
    weights = softmax(SCORES)
    printed(result.value("weights"), [0.0561, 0.6838, 0.0508, 0.0460, 0.0460, 0.0416, 0.0758])
    printed(result.value("context"), 0.5971)
    printed(result.value("context from weights rounded to two digits"), 0.594, places=3)
    exact(result.value("weights"), weights)
    exact(result.value("context"), 0.9 * weights[1] - 0.4 * weights[4])
    exact(result.value("context from weights rounded to two digits"), 0.9 * 0.68 - 0.4 * 0.046)


def test_w3_without_the_scale():
    result = work("W3")
    weights = softmax([8 * score for score in SCORES])
    exact(result.value("weights with the scale"), softmax(SCORES))
    exact(result.value("scores without the scale"), [8 * score for score in SCORES])
    exact(result.value("weights without the scale"), weights)
    printed(result.value("the largest weight"), 0.99999997, places=8)
    others = result.value("all the other weights")
    exact(others, math.fsum(weights[:1] + weights[2:]))
    assert f"{others:.1e}" == "2.7e-08"
    assert result.value("the largest weight") >= 0.99999 and others < 3e-5


def test_w3_the_gradient_of_the_largest_weight_tends_to_0():
    result = work("W3")
    weights = [softmax([factor * score for score in SCORES]) for factor in (1, 2, 4, 8, 16)]
    # d w / d s = w (1 − w), with 1 − w summed up so that it keeps its digits
    slopes = [row[1] * math.fsum(row[:1] + row[2:]) for row in weights]
    gradients = result.value("its gradient as the scores grow")
    assert gradients[:4] == pytest.approx(slopes[:4], rel=1e-7)
    assert gradients[4] < 1e-14
    exact(result.value("the largest weight as the scores grow"), [row[1] for row in weights])


TRANSLATION = [[0.63, -3.2, -2.5, 0.5, 0.5], [-1.5, -3.9, 0.57, 0.5, 0.5], [-2.8, 0.64, -3.2, 0.5, 0.5]]


def test_w4_padding_gets_exactly_0():
    result = work("W4")
    weights = result.value("weights, padding masked")
    printed(
        weights,
        [[0.9386, 0.0204, 0.0410, 0, 0], [0.1109, 0.0101, 0.8790, 0, 0], [0.0304, 0.9492, 0.0204, 0, 0]],
    )
    exact(weights, [softmax(row[:3]) + [0.0, 0.0] for row in TRANSLATION])
    assert [row[3:] for row in weights] == [[0.0, 0.0]] * 3
    assert result.value("weight of all the padding") == 0
    assert result.value("where each target word attends most") == [1, 3, 2]


def test_w4_forgetting_the_mask():
    result = work("W4")
    five, hundred = softmax(TRANSLATION[0])[0], softmax(TRANSLATION[0] + [0.5] * 95)[0]
    printed(result.value("weight of I when the mask is forgotten"), 0.3544)
    printed(result.value("the same with the article's slots"), 0.0116)
    exact(result.value("weight of I when the mask is forgotten"), five)
    exact(result.value("the same with the article's slots"), hundred)


@pytest.mark.parametrize("seed", [0, 3])
def test_w5_variance_within_its_standard_error(seed):
    result = work("W5", {"seed": str(seed), "widths": "3, 17, 101", "samples": "5000"})
    variance, error = result.value("variance of the dot product, and its standard error")
    scaled, _ = result.value("variance of the scaled one, and its standard error")
    for width, value, deviation, divided in zip((3, 17, 101), variance, error, scaled, strict=True):
        assert abs(value - width) < 4 * deviation
        # The fourth moment of a sum of d products of normals: var(x²) = 2 d² + 6 d.
        assert deviation == pytest.approx(math.sqrt((2 * width**2 + 6 * width) / 5000), rel=0.25)
        assert divided == pytest.approx(value / width, rel=1e-12)


def test_w5_the_softmax_saturates_without_the_scale():
    result = work("W5")
    tops, gradients = result.value("largest weight without the scale"), result.value("its gradient without the scale")
    assert tops == sorted(tops) and tops[-1] > 0.95
    assert gradients[-1] < 0.03 and gradients[1:] == sorted(gradients[1:], reverse=True)
    kept = result.value("its gradient with the scale")
    assert min(kept) > 0.16 and max(kept) < 0.18


def test_w6_dot_product():
    result = work("W6")
    assert result.value("products") == [2, 0, 3]
    assert result.value("score") == 5


def test_w7_the_pointer_sorts():
    result = work("W7")
    assert result.value("positions pointed at, from 1") == [1, 3, 2]
    assert result.value("the numbers there") == [20, 10, 5]
    first, second, third = result.value("the pointer's weights, chosen ones masked")
    exact(first, softmax([20.0, 5.0, 10.0]))
    left = softmax([5.0, 10.0])
    exact(second, [0.0, *left])
    assert third == [0, 1, 0]


def test_w8_a_signal_over_a_distance():
    result = work("W8")
    printed(result.value("through a chain of steps"), 0.00124, places=5)
    exact(result.value("through a chain of steps"), 0.8**30)
    assert result.value("through attention: the context") == [1, 1, 1]
    assert result.value("through attention: the gradient of the first value") == [1, 1, 1]


def test_w10_order():
    result = work("W10")
    tokens = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]]
    scale = math.sqrt(2)
    outputs = [mean(softmax([dot(query, key) / scale for key in tokens]), tokens) for query in tokens]
    exact(result.value("outputs"), outputs)
    exact(result.value("outputs of the permuted tokens"), [outputs[place - 1] for place in (3, 1, 4, 2)])
    for label in (
        "outputs, against the permuted outputs",
        "pooled outputs",
        "outputs with learned positions that are all zero",
    ):
        assert result.value(label) < 1e-14
    assert result.value("outputs with sinusoidal positions") > 0.1
    # Causal: token 1 of the new order (old 3) sees itself alone, and in the old order it saw 1, 2 and 3.
    moved = [tokens[place - 1] for place in (3, 1, 4, 2)]

    def causal(rows: list[list[float]]) -> list[list[float]]:
        seen = [rows[: end + 1] for end in range(len(rows))]
        return [mean(softmax([dot(row[-1], key) / scale for key in row]), row) for row in seen]

    there, here = causal(moved), causal(tokens)
    apart = max(
        abs(a - b)
        for new, place in zip(there, (3, 1, 4, 2), strict=True)
        for a, b in zip(new, here[place - 1], strict=True)
    )
    exact(result.value("outputs under a causal mask, without positions"), apart)
    assert apart > 0.1


def test_w11_sharpening():
    result = work("W11")
    printed(result.value("sharpened"), [0.64, 0.27, 0.08, 0.01], places=2)
    exact(result.value("sharpened"), [0.64, 0.27, 0.08, 0.01])


def test_w13_bilinear():
    result = work("W13")
    # U x = (7, −1), V q = (4, 3): 28 − 3 = 25. Swapped: U q = (4, −1), V x = (4, 4): 16 − 4 = 12.
    assert result.value("W") == [[2, 1, 0], [1, 0, 1], [3, 2, -1]]
    assert result.value("bilinear score") == 25
    assert result.value("dot product of both sides projected") == 25
    assert result.value("with the identity for W") == 5
    assert result.value("with the sides swapped") == 12


def test_w14_keys_that_are_their_own_values():
    result = work("W14")
    rows = [[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]]
    plain = mean(softmax([1.0, -1.0, 2.0]), rows)
    exact(result.value("plain attention"), plain)
    exact(result.value("key-value attention with K = V = X"), plain)


def test_w15_columns_and_rows():
    result = work("W15")
    queries = [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]
    keys = [[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [-1.0, 0.0, 1.0]]
    values = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    rows = [mean(softmax([dot(query, key) / math.sqrt(3) for key in keys]), values) for query in queries]
    exact(result.value("rows"), rows)
    exact(result.value("columns"), [list(column) for column in zip(*rows, strict=True)])


def test_w17_local_p():
    result = work("W17")
    gaussian = [0.25 * math.exp(-((place - 4.3) ** 2) / 2) for place in (3, 4, 5, 6)]
    flat, local = result.value("softmax over the window alone"), result.value("times the Gaussian, not renormalised")
    assert flat == [0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0, 0]
    printed(local, [0, 0, 0, 0.1074, 0.2390, 0.1957, 0.0589, 0, 0, 0])
    exact(local, [0, 0, 0, *gaussian, 0, 0, 0])
    assert local[:3] + local[7:] == [0.0] * 6
    exact(result.value("centre"), 4.3)


def test_w17_the_centre_learns_through_the_gaussian_alone():
    result = work("W17")
    assert result.value("whether the hard edge has a gradient") is False
    # d/dp Σ s·w = Σ s · w(s) · (s − p)/σ², with σ = 1
    slope = math.fsum(place * 0.25 * math.exp(-((place - 4.3) ** 2) / 2) * (place - 4.3) for place in (3, 4, 5, 6))
    exact(result.value("gradient of the expected position, through the Gaussian"), slope)
    assert slope > 0.5


def test_w12_where_a_blocks_parameters_are():
    result = work("W12")
    assert result.value("self-attention, by the number of heads") == [4 * 512**2] * 4
    assert result.value("feed-forward network") == 8 * 512**2
    assert result.value("the feed-forward network's share of the block") == 2 / 3
    assert result.value("a decoder's block: self-attention and cross-attention") == 8 * 512**2
    assert result.value("a decoder's block: the feed-forward network's share") == 1 / 2
    other = work("W12", {"width": "15", "heads": "1, 3, 5", "times": "2"})
    assert [step.value for step in other.steps] == [[900] * 3, 900, 1 / 2, 1800, 1 / 3]
    assert [step.agrees for step in other.steps] == [True, None, None, True, None]
    with pytest.raises(ConfigError, match="heads must share dim evenly"):
        work("W12", {"width": "15"})


def test_w18_the_encyclopaedias_translator():
    result = work("W18")
    assert result.value("output layer") == 5_000_000
    assert result.value("the encoder's recurrent input") == 400_000
    assert result.value("how many times larger the output layer is") == 12.5
    assert result.value("attention by a layer from [word; state] to the slots, biases counted") == 80_100
    other = work("W18", {"word": "3", "state": "5", "targets": "7", "slots": "11"})
    assert [step.value for step in other.steps] == [35, 40, 35 / 40, 0, 99]


def test_w19_a_soft_dictionary():
    result = work("W19")
    cosines = [1.0, 0.0, 1 / math.sqrt(2)]
    values = [[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]]
    contexts = [mean(softmax([cosine / t for cosine in cosines]), values) for t in (1.0, 0.1, 0.01)]
    assert result.value("contexts") == [pytest.approx(context, rel=1e-9, abs=1e-12) for context in contexts]
    assert result.value("exact look-up") == [10, 0]
    distances = result.value("distance from the exact look-up")
    assert distances[0] > 3 and distances[2] < 1e-11 and distances == sorted(distances, reverse=True)


def turn(vector: list[float], place: int, pairs: list[tuple[int, int]]) -> list[float]:
    turned = list(vector)
    for index, (first, second) in enumerate(pairs):
        angle = place * 10000 ** (-2 * index / len(vector))
        a, b = vector[first], vector[second]
        turned[first] = a * math.cos(angle) - b * math.sin(angle)
        turned[second] = a * math.sin(angle) + b * math.cos(angle)
    return turned


@pytest.mark.parametrize(("convention", "pairs"), [("interleaved", [(0, 1), (2, 3)]), ("half", [(0, 2), (1, 3)])])
def test_w20_rotary_knows_the_distance_alone(convention, pairs):
    result = work("W20")
    query, key = [1.0, 2.0, 3.0, 4.0], [2.0, -1.0, 0.5, 1.0]
    both = result.value(f"rotary, {convention}: both turned")
    assert both == pytest.approx(dot(turn(query, 5, pairs), turn(key, 12, pairs)), rel=1e-12)
    assert result.value(f"rotary, {convention}: the distance alone") == pytest.approx(both, rel=1e-12)


def test_w20_sinusoids_turn_alike():
    result = work("W20")
    for label, moved in (("sinusoids", 0), ("moved on by 3", 3)):
        for row, place in zip(result.value(label), (0, 1, 7), strict=True):
            angles = [(place + moved) / 10000 ** (2 * index / 4) for index in (0, 1)]
            exact(row, [part(angle) for angle in angles for part in (math.sin, math.cos)])
    assert result.value("largest magnitude") <= 1
    assert result.value("difference from one rotation of all of them") < 1e-14


def test_w21_one_step_of_the_neural_turing_machine():
    result = work("W21")
    memory = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    content = softmax([2.0, 0.0, 2.0 / math.sqrt(2)])
    gated = [0.5 * weight + 0.5 * before for weight, before in zip(content, (0, 1, 0), strict=True)]
    shifted = [0.1 * gated[(i + 1) % 3] + 0.8 * gated[i] + 0.1 * gated[(i - 1) % 3] for i in range(3)]
    squares = [weight**2 for weight in shifted]
    sharp = [square / math.fsum(squares) for square in squares]
    written = [[row[0] * (1 - w), row[1] * (1 - 0.5 * w) + w] for row, w in zip(memory, sharp, strict=True)]
    steps = {
        "by content": (content, [0.5910, 0.0800, 0.3290]),
        "gated": (gated, [0.2955, 0.5400, 0.1645]),
        "shifted": (shifted, [0.3069, 0.4780, 0.2151]),
        "sharpened": (sharp, [0.2552, 0.6193, 0.1255]),
        "read, before writing": (mean(sharp, memory), [0.3807, 0.7448]),
        "memory after adding": (written, [[0.7448, 0.2552], [0, 1.3097], [0.8745, 1.0627]]),
    }
    for label, (plain, digits) in steps.items():
        printed(result.value(label), digits)
        exact(result.value(label), plain)


def test_w21_a_shift_of_plus_1_moves_the_focus_on():
    # No gate, no sharpening: the weights of the step before, moved. W21 itself has a symmetric kernel.
    options = {"gate": "0", "previous": "0, 1, 0", "shift": "0, 0, 1", "exponent": "1"}
    assert work("W21", options).value("shifted") == pytest.approx([0, 0, 1], abs=1e-15)


def test_w22_many_queries():
    result = work("W22")
    rows = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    contexts = [mean(softmax([1.0, 0.0, 2.0]), rows), mean(softmax([0.0, 1.0, 1.0]), rows)]
    exact(result.value("contexts, one query per row"), contexts)
    exact(result.value("concatenated"), contexts[0] + contexts[1])
    assert len(result.value("concatenated")) == 2 * 2
