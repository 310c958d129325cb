"""Searches of tables whose every number is known."""

import math

import pytest
import torch

from regard.decoding.search import search
from tests.reference.search import TableDecoder

BEGIN, END = 0, 1


def find(rule, items, settings, *, columns=None, lengths=None, aligned=True, decoder=None, **options):
    decoder = decoder or TableDecoder(rule, columns, aligned)
    return search(
        decoder, torch.tensor(items), len(items), begin=options.pop("begin", BEGIN), end=options.pop("end", END),
        settings=settings, source_lengths=lengths, **options,
    )  # fmt: skip


def table(rows, default=None, weights=(1.0,)):
    """A rule from {prefix without begin: probabilities}; the same for every item."""

    def rule(item, prefix):
        probabilities = rows.get(prefix[1:], default)
        return [math.log(one) if one else -math.inf for one in probabilities], list(weights)

    return rule


def same(one, other):
    assert [h.ids for h in one] == [h.ids for h in other]
    assert [h.finished for h in one] == [h.finished for h in other]
    for a, b in zip(one, other, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-5)
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-5)
        rows = torch.as_tensor(b.alignment, dtype=torch.float32).reshape(a.alignment.shape)
        torch.testing.assert_close(a.alignment, rows, atol=1e-6, rtol=0)
