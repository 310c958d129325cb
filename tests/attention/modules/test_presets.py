import math

import pytest
import torch

from regard.attention.modules.presets import PRESETS, preset
from regard.attention.parts import masks
from regard.errors import ConfigError, ShapeError

# Two keys whose scores differ by ln 3 weigh 3/4 and 1/4; all numbers below are made so.
LN3 = math.log(3)


def set_weights(variant, query, key, value):
    with torch.no_grad():
        for part, rows in ((variant.query, query), (variant.key, key), (variant.value, value)):
            part.weight.copy_(torch.tensor(rows))


def test_encoder_decoder_dot_is_not_scaled():
    """s · h = ln 3 and 0 in width 4: with a scale of 1/2 the weights would be .634 and .366."""
    variant = preset("encoder_decoder_dot")
    state = torch.tensor([[[LN3, 0.0, 0.0, 0.0]]])
    states = torch.tensor([[[1.0, 0.0, 0.0, 8.0], [0.0, 0.0, 4.0, 0.0]]])
    attended = variant(state, states)
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(attended.context, torch.tensor([[[0.75, 0.0, 1.0, 6.0]]]))
    assert not list(variant.parameters())


def test_encoder_decoder_qkv_is_scaled_by_the_root_of_the_projected_width():
    """Widths 1 and 3 are projected to 4: q · k = 2 ln 3, over √4 is ln 3 (over √1 or √3 it would not be)."""
    variant = preset("encoder_decoder_qkv", query_dim=1, key_dim=3, width=4, value_width=1)
    set_weights(
        variant,
        [[2 * LN3], [0.0], [0.0], [0.0]],
        [[1.0, 0.0, 0.0], [0.0] * 3, [0.0] * 3, [0.0] * 3],
        [[0.0, 8.0, 0.0]],
    )
    attended = variant(torch.ones(1, 1, 1), torch.tensor([[[1.0, 1.0, 5.0], [0.0, 0.0, 7.0]]]))
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(attended.context, torch.tensor([[[6.0]]]))


def test_self_dot_is_x_i_times_x_j_unscaled():
    """x = (r, 0, 0, 0) and 0 with r² = ln 3: the first looks with 3/4 at itself, the second at both alike."""
    root = math.sqrt(LN3)
    attended = preset("self_dot")(torch.tensor([[[root, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]))
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]))
    torch.testing.assert_close(attended.context[0, :, 0], torch.tensor([0.75 * root, 0.5 * root]))


def test_self_qkv_is_scaled_by_the_root_of_the_projected_width():
    variant = preset("self_qkv", dim=1, width=4)
    set_weights(variant, [[LN3]] * 4, [[0.5]] * 4, [[1.0], [2.0], [3.0], [4.0]])
    attended = variant(torch.tensor([[[1.0], [0.0]]]))  # q · k = 4 · ln 3 / 2 = 2 ln 3, over √4 is ln 3
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]))
    torch.testing.assert_close(attended.context[0, 0], torch.tensor([0.75, 1.5, 2.25, 3.0]))
    with pytest.raises(ConfigError, match="width"):
        preset("self_qkv", dim=1)


def test_feed_forward_scores_positions_from_input_and_state():
    """Scores W[input; state] + b: position 0 gets ln 3 from input 1 and state 0.5, position 1 gets 0."""
    variant = preset("feed_forward", input_dim=1, state_dim=2, positions=5)
    with torch.no_grad():
        variant.attention.score.weight.zero_()
        variant.attention.score.weight[0] = torch.tensor([LN3 / 2, 0.0, LN3])
        variant.attention.score.bias.zero_()
    word, state = torch.ones(1, 1, 1), torch.tensor([[[9.0, 0.5]]])
    states = torch.tensor([[[8.0, 0.0], [0.0, 4.0]]])
    attended = variant(word, state, states)
    torch.testing.assert_close(attended.weights, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(attended.context, torch.tensor([[[6.0, 1.0]]]))
    # The keys are not looked at: others leave the weights as they are.
    assert torch.equal(variant(word, state, states + 7).weights, attended.weights)
    with pytest.raises(ShapeError, match="5 positions"):
        variant(word, state, torch.zeros(1, 6, 2))


def test_rows_and_columns_give_the_same_numbers_W15():
    """V softmax(KᵀQ/√d) with columns is the transpose of softmax(QKᵀ/√d) V with rows, here of self_qkv."""
    torch.manual_seed(0)
    variant = preset("self_qkv", dim=3, width=5, value_width=2).double()
    x = torch.randn(7, 3).double()
    rows = variant(x[None])
    columns_q, columns_k, columns_v = (part.weight @ x.T for part in (variant.query, variant.key, variant.value))
    weights = torch.softmax(columns_k.T @ columns_q / math.sqrt(5), dim=0)
    torch.testing.assert_close(rows.weights[0], weights.T)
    torch.testing.assert_close(rows.context[0], (columns_v @ weights).T)


def test_vaswani_2017_is_eight_heads_of_64_without_bias():
    attention = preset("vaswani2017")
    assert (attention.dim, attention.heads) == (512, 8)
    assert sum(parameter.numel() for parameter in attention.parameters()) == 4 * 512 * 512
    assert attention(torch.randn(1, 3, 512)).weights.shape == (1, 8, 3, 3)


@pytest.mark.parametrize("content", [torch.nan, torch.inf, 1e30])
def test_padding_content_touches_nothing_B03(content):
    torch.manual_seed(1)
    variant = preset("self_qkv", dim=3, width=5)
    x, lengths = torch.randn(2, 4, 3), [4, 2]
    real = torch.arange(4) < torch.tensor(lengths)[:, None]

    def run(filled):
        given = torch.where(real[..., None], x, filled)
        context = variant(given, mask=masks.padding(lengths)).context[real]
        return [context, *torch.autograd.grad(context.pow(2).sum(), variant.parameters())]

    for a, b in zip(run(content), run(0.5), strict=True):
        torch.testing.assert_close(a, b)


def test_unknown_preset():
    with pytest.raises(ConfigError, match="Did you mean 'self_dot'"):
        preset("selfdot")
    assert len(PRESETS) == 6
