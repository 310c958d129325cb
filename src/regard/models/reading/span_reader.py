"""A reader that points: the text is read with the question in mind, then two pointers say where the answer stands.

The boundary model of Wang & Jiang (2017, arXiv 1608.07905), itself a pointer network (Vinyals 2015) of two steps.

    question ── words ── read both ways ── u_1 … u_m
    text ────── words ── read both ways ── h_1 … h_n          (words that stand in the question are marked)
    a round:    a_i = Σ_j w_ij u_j, additive; b_i = self-attention of the text
                [h_i; a_i; h_i ∘ a_i; b_i] ── read both ways ── h_i
    start:      d_0 of the question's words, pooled by a learned query;  p(i) = softmax_i vᵀ tanh(W_1 h_i + W_2 d_0)
    end:        d_1 = cell(h_start, d_0);  p(j | i) likewise over the places from the start on, `longest` of them

Where the authors give the second pointer the mean of what the first one saw, here it gets the chosen start, as every
pointer network does: so `p(i) p(j | i)` is a distribution over spans, and no end lies before its start, in training as
in use. Place 0 is a learned vector that stands before the text: to point there is to say that the text does not answer
(as in Levy et al. 2017, arXiv 1706.04115). A model that has never had such a question cannot point there.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.attended import Attended
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.modules.pooling import LearnedQueries
from regard.attention.parts import masks
from regard.attention.parts.score import Additive
from regard.attention.parts.score_base import Prepared
from regard.layers.dropout import Dropout
from regard.layers.objective import Objective
from regard.layers.recurrent import BidirectionalEncoder, Recurrence
from regard.models.reading.span_settings import SpanReaderSettings

NOTHING = 0
"""The position that stands for "the text does not answer"."""


@runtime_checkable
class Questions(Protocol):
    """A batch of questions, each with its text, as `data.reading.question_batches.QuestionBatch`."""

    @property
    def text(self) -> Tensor:
        """Ids of the features of the texts' words, `(batch, words, features)`."""
        ...

    @property
    def lengths(self) -> Tensor:
        """Words of each text, `(batch,)`."""
        ...

    @property
    def question(self) -> Tensor:
        """The same of the questions' words."""
        ...

    @property
    def question_lengths(self) -> Tensor:
        """Words of each question, `(batch,)`."""
        ...

    @property
    def in_question(self) -> Tensor:
        """Whether each word of the text stands in the question, `(batch, words)`."""
        ...

    @property
    def spans(self) -> Tensor:
        """First and last place of each given answer, `(batch, given, 2)`."""
        ...

    @property
    def is_answer(self) -> Tensor:
        """Which of these spans are answers, and not padding, `(batch, given)`."""
        ...


class EncodedText(NamedTuple):
    """A text encoded for a question.

    Attributes:
        places: "nothing", then a vector a word.
        starts, ends: the places as the two pointers compare them.
        open: where an answer may begin.
        state: of the decoder, before it points.
    """

    places: Float[Tensor, "batch places width"]
    starts: Prepared
    ends: Prepared
    open: Bool[Tensor, "batch places"]
    state: Float[Tensor, "batch width"]


class Round(nn.Module):
    """Attention to the question, self-attention over the text, and a bidirectional layer over what they found."""

    def __init__(self, settings: SpanReaderSettings) -> None:
        super().__init__()
        width = settings.width
        self.ask = Attention(Additive(query_dim=width, key_dim=width, hidden_dim=width))
        self.back = SelfHeads(width, settings.heads)
        self.dropout = Dropout(settings.dropout)
        self.read = BidirectionalEncoder(settings.cell, 4 * width, width // 2)

    def forward(
        self,
        text: Float[Tensor, "batch words width"],
        lengths: Int[Tensor, " batch"],
        attention_context: AttentionContext,
        question: Float[Tensor, "batch question width"],
        question_mask: masks.Mask,
    ) -> Float[Tensor, "batch words width"]:
        """One round over a text.

        Args:
            text: the words' states.
            lengths: words of each text.
            attention_context: the text's mask, for its self-attention.
            question: the states of the question's words.
            question_mask: of these.

        Returns:
            The words' states after the round.
        """
        found = self.ask(text, question, question, mask=question_mask).context
        again = self.back(*self.back.project(text, None), attention_context).context
        joined = torch.cat([text, found, text * found, again], dim=-1)
        states: Tensor = self.read(self.dropout(joined), lengths).states
        return states


class SpanReader(nn.Module):
    """See the module.

    Args:
        settings: the choices.
        features: how many ids of features of words there are; 0 is none.
        unknown: the feature that stands for a word dropped by `word_dropout`.
        nothing: whether the answer may be that the text has none.
    """

    def __init__(self, settings: SpanReaderSettings, features: int, unknown: int, nothing: bool) -> None:
        super().__init__()
        self.settings, self.unknown, self.may_be_nothing = settings, unknown, nothing
        width = settings.width
        self.words = nn.EmbeddingBag(features, width, mode="sum", padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        with torch.no_grad():
            self.words.weight[0] = 0
        self.shared = nn.Embedding(2, width)
        self.dropout = Dropout(settings.dropout)
        self.first = BidirectionalEncoder(settings.cell, width, width // 2)
        self.rounds = nn.ModuleList(Round(settings) for _ in range(settings.rounds))
        self.nothing = nn.Parameter(torch.randn(width) * width**-0.5)
        self.pool = LearnedQueries(1, width, score=Additive(query_dim=width, key_dim=width, hidden_dim=width))
        self.follow = Recurrence("gru", width, width)
        self.start, self.end = (Attention(Additive(query_dim=width, key_dim=width, hidden_dim=width)) for _ in range(2))

    def read(self, batch: Questions) -> EncodedText:
        """Read texts, each for its question. What lies behind a text's or a question's end changes nothing."""
        question_mask = masks.padding(batch.question_lengths)
        question = self.first(self.dropout(self._embedded(batch.question)), batch.question_lengths).states
        words = self._embedded(batch.text) + self.shared(batch.in_question)
        text = self.first(self.dropout(words), batch.lengths).states
        real = torch.arange(text.shape[1], device=text.device) < batch.lengths[:, None]
        attention_context = AttentionContext(keep=None if bool(real.all()) else real[:, None, None])
        for one in self.rounds:
            text = one(text, batch.lengths, attention_context, question, question_mask)
        places = torch.cat([self.nothing.expand(len(text), 1, -1), text], dim=1)
        state = self.pool(question, mask=question_mask).context
        may = torch.full((len(text), 1), self.may_be_nothing, device=text.device)
        open = torch.cat([may, real], dim=1)
        return EncodedText(places, self.start.prepare(places), self.end.prepare(places), open, state)

    def starts(self, read: EncodedText) -> Attended:
        """The first pointer, `(batch, 1, places)`."""
        pointed: Attended = self.start(read.state[:, None], read.starts, mask=masks.keep(read.open[:, None]))
        return pointed

    def ends(self, read: EncodedText, starts: Int[Tensor, "batch given"]) -> Attended:
        """The second pointer after each of some starts, `(batch, given, places)`."""
        batch, given = starts.shape
        begun = read.places.gather(1, starts[..., None].expand(-1, -1, read.places.shape[-1]))
        before = read.state.repeat_interleave(given, dim=0)[:, None]
        after, _ = self.follow(begun.flatten(0, 1)[:, None], (before,))
        place = torch.arange(read.open.shape[1], device=starts.device)
        first = starts[..., None]
        reachable = (place >= first) & (place < first + self.settings.longest) & read.open[:, None]
        # After "nothing" there is nothing but that.
        reachable = torch.where(first == NOTHING, place == NOTHING, reachable)
        pointed: Attended = self.end(after.view(batch, given, -1), read.ends, mask=masks.keep(reachable))
        return pointed

    def loss(self, batch: Questions) -> Objective:
        """`−log Σ p(start) p(end | start)` over the answers that are given, in nats a question, summed.

        All given answers are right, and which occurrence of a word is meant is not labelled (as in Kadlec et al.
        2016, arXiv 1603.01547). A question is correct if the likeliest start, and the likeliest end after it, are an
        answer's. Questions without a known answer count nowhere.
        """
        read = self.read(batch)
        first, last = batch.spans.unbind(-1)
        start, end = self.starts(read).log_weights.squeeze(1), self.ends(read, first).log_weights
        each = start.gather(1, first) + end.gather(-1, last[..., None]).squeeze(-1)
        known = batch.is_answer.any(-1)
        total = -torch.where(batch.is_answer, each, -torch.inf)[known].logsumexp(-1).sum()
        best = (start.detach().argmax(-1, keepdim=True) == first) & (end.detach().argmax(-1) == last) & batch.is_answer
        return Objective(total, known.sum(), best.any(-1).sum())

    def _embedded(self, ids: Tensor) -> Tensor:
        """Words as the sums of their features; in training with word dropout."""
        if self.training and self.settings.word_dropout:
            dropped = torch.rand(ids.shape[:2], device=ids.device) < self.settings.word_dropout
            own = torch.where(dropped & (ids[..., 0] != 0), self.unknown, ids[..., 0])
            ids = torch.cat([own.unsqueeze(-1), ids[..., 1:]], -1)
        words: Tensor = self.words(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        return words


class SpanPrediction(NamedTuple):
    """The likeliest span of each text.

    Attributes:
        first, last: its places.
        log_probability: of the span.
        nothing: the probability that the text does not answer.
        starts: the weights of the first pointer.
    """

    first: Int[Tensor, " batch"]
    last: Int[Tensor, " batch"]
    log_probability: Float[Tensor, " batch"]
    nothing: Float[Tensor, " batch"]
    starts: Float[Tensor, "batch places"]


@torch.no_grad()
def point(model: SpanReader, read: EncodedText, beam: int = 8) -> SpanPrediction:
    """The likeliest span, exactly: a span is no likelier than its start, so the beam grows until no other could win.

    Args:
        model: in eval mode.
        read: what it read.
        beam: starts that are followed first; it changes the time, not the answer.
    """
    starts = model.starts(read).log_weights.squeeze(1)
    order = starts.argsort(dim=-1, descending=True, stable=True)
    places = starts.shape[1]
    while True:
        some = order[:, :beam]
        after, last = model.ends(read, some).log_weights.max(-1)
        best, which = (starts.gather(1, some) + after).max(-1)
        following = starts.gather(1, order[:, beam : beam + 1]) if beam < places else None
        if following is None or bool((best >= following.squeeze(1)).all()):
            break
        beam = min(4 * beam, places)
    first, last = (one.gather(1, which[:, None]).squeeze(1) for one in (some, last))
    return SpanPrediction(first, last, best, starts[:, NOTHING].exp(), starts.exp())
