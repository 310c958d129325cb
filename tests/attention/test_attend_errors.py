"""What a call that cannot be made says of it: every shape, and the nearest name."""

import pytest

import regard
from regard.attention.attend import attend
from regard.errors import ConfigError
from tests.attention.registered_parts import tensors
from tests.plain import run_plain


def test_shape_errors_show_every_shape():
    """In a Python of its own: in this suite the run-time checks speak first."""
    run_plain("""
        import torch, regard
        from regard.errors import ShapeError
        query, key, value = torch.ones(2, 3, 5), torch.ones(2, 7, 5), torch.ones(2, 7, 11)
        heads = torch.ones(2, 4, 3, 5), torch.ones(2, 3, 7, 5), torch.ones(2, 3, 7, 5)
        cases = [
            ((query, torch.ones(2, 7, 4), value), {}, ["(2, 3, 5)", "(2, 7, 4)", "general"]),
            ((query, key, torch.ones(2, 6, 11)), {}, ["(2, 7, 5)", "(2, 6, 11)"]),
            ((query, torch.ones(3, 7, 5), torch.ones(3, 7, 11)), {}, ["(2, 3, 5)", "(3, 7, 5)"]),
            (heads, {}, ["(2, 4, 3, 5)", "(2, 3, 7, 5)", "divide"]),
            ((query[0], key[0], value[0]), {}, ["(3, 5)", "(batch, positions, dim)"]),
            ((query, key.double(), value), {}, ["float32", "float64"]),
            ((query.long(), key.long(), value.long()), {}, ["int64"]),
            ((query, key, value), {"bias": torch.ones(2, 7)}, ["(2, 7)", "(3, 7)"]),
            ((query, key, value), {"bias": torch.ones(3, 7, dtype=torch.long)}, ["bias=", "mask="]),
            ((query, key, value), {"score": regard.score("location", query_dim=5, positions=3)}, ["3", "positions=7"]),
            ((query, key, value), {"score": regard.score("general", query_dim=5, key_dim=4, rank=2)}, ["(2, 7, 5)"]),
        ]
        for tensors, options, words in cases:
            try:
                regard.attend(*tensors, **options)
            except ShapeError as error:
                assert all(word in str(error) for word in words), (words, str(error))
            else:
                raise AssertionError(words)
    """)


def test_unknown_parts_name_the_nearest():
    query, key, value = tensors("dot")
    for options, words in (
        ({"score": "scaled_dott"}, "Did you mean 'scaled_dot'"),
        ({"normalizer": "sparsmax"}, "Did you mean 'sparsemax'"),
        ({"score": "additive"}, r"regard.score\('additive'"),
        ({"dropout": 1.5}, "between 0 and 1"),
    ):
        with pytest.raises(ConfigError, match=words):
            attend(query, key, value, **options)
    with pytest.raises(ConfigError, match="hidden_dim"):
        regard.score("additive", query_dim=5, key_dim=7)
