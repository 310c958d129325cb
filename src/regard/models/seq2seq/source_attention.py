"""A recurrent decoder's attention to its source: any score, any normalizer, a local window, and earlier weights."""

import inspect
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.attended import Attended
from regard.attention.modules.local import Monotonic, Predictive
from regard.attention.parts import masks
from regard.attention.parts.functional import wide
from regard.attention.parts.normalize import is_softmax, normalizer
from regard.attention.parts.score import General, score
from regard.attention.parts.score_base import scores
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_exactly, is_hooked
from regard.kernels.recurrent import bilinear
from regard.models.seq2seq.settings import RecurrentSettings

Moving = dict[str, Any]


class SourceAttention(nn.Module):
    """One attention over the encoder's states, with its state from step to step.

    | setting | what it does |
    |---|---|
    | window local-m | attends to the keys within `radius` of the step's own number t (Luong 2015, §3.2) |
    | window local-p | attends to those around p = S · sigmoid(vᵀ tanh(W h)), times a Gaussian at p (eq. 9, 10) |
    | attention location_aware | the score uses the weights of the step before (Chorowski 2015, eq. 9) |
    | and coverage | it uses the sum of all earlier weights (Tu et al. 2016, §3.1) |

    Args:
        settings: the model's.
        query_dim: width of the decoder's state.
        input_dim: width of the word vectors; the score feed_forward reads [input; state].
        key_dim: width of the encoder's states, which are keys and values.

    Raises:
        ConfigError: the score does not fit the widths, or its number of source positions is not given.
    """

    def __init__(self, settings: RecurrentSettings, query_dim: int, input_dim: int, key_dim: int) -> None:
        super().__init__()
        self.reads_input = settings.attention == "feed_forward"
        sizes = {
            "query_dim": query_dim + input_dim * self.reads_input,
            "key_dim": key_dim,
            "hidden_dim": settings.attention_dim,
        }
        wanted = set(inspect.signature(scores.maker(settings.attention)).parameters)
        if not wanted & {"query_dim", "key_dim"} and query_dim != key_dim:
            raise ConfigError(
                f"the score {settings.attention!r} compares vectors of one width: decoder_dim ({query_dim}) must be "
                f"twice encoder_dim ({key_dim // 2}), or take attention: general or additive"
            )
        options = {name: size for name, size in sizes.items() if name in wanted} | settings.attention_options
        if "positions" in wanted and "positions" not in options:
            raise ConfigError(
                f"the score {settings.attention!r} knows a fixed number of source positions: set it, EOS counted, "
                "as in model.attention_options.positions=50"
            )
        weigh = normalizer(settings.normalizer, **settings.normalizer_options)
        self.attention = Attention(score(settings.attention, **options), weigh)
        self.uses_previous_weights = settings.attention == "location_aware"
        self.coverage = settings.coverage
        self.focus: Monotonic | Predictive | None = None
        if settings.window == "local-m":
            self.focus = Monotonic(settings.radius)
        elif settings.window == "local-p":
            self.focus = Predictive(settings.radius, query_dim)

    def start(self, states: Float[Tensor, "batch keys key_dim"], lengths: Tensor) -> tuple[dict[str, Any], Moving]:
        """What stays the same for a source (its keys projected once), and what changes by step."""
        fixed = {"prepared": self.attention.prepare(states), "value": states, "lengths": lengths}
        moving = {}
        if self.uses_previous_weights:
            moving["previous_weights"] = wide(states.new_zeros(states.shape[:2]))
        if isinstance(self.focus, Monotonic):
            moving["number"] = torch.zeros_like(lengths)
        return fixed, moving

    def forward(
        self,
        fixed: dict[str, Any],
        moving: Moving,
        query: Float[Tensor, "batch queries query_dim"],
        inputs: Float[Tensor, "batch queries input_dim"],
    ) -> tuple[Attended, Moving]:
        """Attend once for each query; with a score that uses earlier weights there is one query a call."""
        after = dict(moving)
        positions = torch.zeros(1, query.shape[1], dtype=torch.long, device=query.device)
        if "number" in moving:
            positions = moving["number"].unsqueeze(-1) + torch.arange(query.shape[1], device=query.device)
            after["number"] = moving["number"] + query.shape[1]
        if self.focus is None:
            where = {"mask": masks.padding(fixed["lengths"])}
        else:
            focus = self.focus(query, fixed["lengths"], positions)
            where = {"mask": focus.mask, "refocus": focus.refocus}
        attended: Attended = self.attention(
            self._query(query, inputs),
            fixed["prepared"],
            fixed["value"],
            **where,
            # A graph cannot make weights on access: a compiled or exported step carries them out.
            weights=torch.compiler.is_compiling(),
            **self._previous_weights(moving),
        )
        if "previous_weights" in moving:
            now = attended.weights.squeeze(1).to(moving["previous_weights"].dtype)
            after["previous_weights"] = moving["previous_weights"] + now if self.coverage else now
        return attended, after

    def real_pairs(
        self,
        fixed: dict[str, Any],
        query: Float[Tensor, "batch queries query_dim"],
        places: Int[Tensor, " tokens"],
        counts: Int[Tensor, " batch"],
    ) -> Float[Tensor, "tokens both_dims"] | None:
        """[query; what it reads] of each row's first queries alone, as `forward` reads; None where it takes that.

        Args:
            fixed: what `start` gave.
            query: of all positions.
            places: where the real ones lie in `(batch · queries)`.
            counts: how many each row has.
        """
        value, attention = fixed["value"], self.attention
        if not self._is_general() or fixed["prepared"].projected is not value or len(value) != len(query):
            return None
        weight: Any = attention.score.weight
        if is_hooked(self, attention, attention.score, recording=True):
            return None
        if not bilinear.serves(query, weight, value):
            return None
        counts, lengths = counts.clamp(0, query.shape[1]), fixed["lengths"].clamp(0, value.shape[1])
        return bilinear.read_by_own(query, weight, value, places, counts, lengths)

    def is_expectation(self) -> bool:
        """Whether the context is the weights times the values and no more, and no hook is set."""
        attention = self.attention
        if is_hooked(self, attention, recording=True) or not is_exactly(self, SourceAttention):
            return False
        return is_exactly(attention, Attention) and not (attention.training and attention.dropout)

    def _is_general(self) -> bool:
        """Whether a softmax of Luong's general score is all that there is."""
        plain = self.focus is None and type(self) is SourceAttention and type(self.attention) is Attention
        if not plain or self.attention.refocus or (self.attention.training and self.attention.dropout):
            return False
        score = self.attention.score
        return is_softmax(self.attention.normalizer) and type(score) is General and score.rank is None

    def scores(
        self,
        fixed: dict[str, Any],
        moving: Moving,
        query: Float[Tensor, "batch queries query_dim"],
        inputs: Float[Tensor, "batch queries input_dim"],
    ) -> Float[Tensor, "batch queries keys"]:
        """The scores behind the weights of `forward` with the same arguments, before mask and normalizer."""
        bound = self.attention.score.bind(**self._previous_weights(moving))
        raw: Tensor = bound(self._query(query, inputs), fixed["prepared"])
        return raw

    def _query(self, query: Tensor, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, query], dim=-1) if self.reads_input else query

    def _previous_weights(self, moving: Moving) -> dict[str, Tensor]:
        return {"previous": moving["previous_weights"]} if "previous_weights" in moving else {}
