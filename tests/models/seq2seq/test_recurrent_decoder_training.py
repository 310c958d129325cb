"""A recurrent translator that reads its own choices as it learns, and whose tables of words are one or several."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from tests.models.variants import pairs, run, settings, translator


class TestTeacherForcing:
    @pytest.mark.parametrize("name", ["luong-additive", "luong-feeding", "bahdanau-gru", "fixed-every_step"])
    def test_ratio_0_reads_its_own_choices(self, name):
        model, batch = translator(name, teacher_forcing=0.0).train(), pairs()
        features, _ = model.features(batch)
        state, word, expected = run(model, batch)[1], batch.target_in[:, :1], []
        for _ in range(5):
            step = model.decoder.step(state, word)
            expected.append(step.logits)
            state, word = step.state, step.logits.argmax(-1)
        kept = torch.arange(5) < batch.target_lengths[:, None]
        assert torch.allclose(model.vocabulary(features), torch.cat(expected, dim=1)[kept], atol=1e-10)
        assert torch.isfinite(torch.autograd.grad(features.sum(), list(model.encoder.parameters()))[0]).all()

    def test_ratio_between_is_seeded_and_only_in_training(self):
        model, batch = translator(teacher_forcing=0.5), pairs()
        full = translator().objective(batch).total
        assert torch.equal(model.objective(batch).total, full)
        model.train()
        torch.manual_seed(5)
        first = model.objective(batch).total
        torch.manual_seed(5)
        assert torch.equal(model.objective(batch).total, first)
        assert not torch.allclose(first, full)

    def test_ratio_just_below_1_loops_to_the_same_numbers(self):
        batch = pairs()
        model = translator(teacher_forcing=1 - 1e-12).train()
        assert torch.allclose(model.objective(batch).total, translator().objective(batch).total, atol=1e-10)


class TestTables:
    def test_one_table_for_all(self):
        torch.manual_seed(0)
        model = RecurrentTranslator(settings(tied="all"), 23, 23)
        tables = [name for name, tensor in model.state_dict().items() if 23 in tensor.shape and tensor.ndim == 2]
        assert tables == ["decoder.embedding.weight"]
        batch = pairs()
        used = torch.autograd.grad(
            model.encode(batch.source, batch.source_lengths).states.sum(), model.decoder.embedding.weight
        )
        assert used[0].any()

    def test_the_output_layer_is_the_target_table(self):
        model = translator("luong-dot")
        features = torch.randn(2, 5, dtype=torch.float64)
        expected = features @ model.decoder.embedding.weight.T + model.decoder.output_bias
        assert torch.allclose(model.vocabulary(features), expected)

    def test_two_sizes_are_an_error(self):
        with pytest.raises(ConfigError, match="source has 19 words, the target 23"):
            RecurrentTranslator(settings(tied="all"), 19, 23)

    def test_the_encyclopaedias_output_layer(self):
        """W18: 500 × 10,000 weights."""
        big = settings(cell="gru", embedding_dim=300, decoder_dim=500, readout_dim=500)
        model = RecurrentTranslator(big, 11, 10_000)
        assert model.decoder.output.numel() == 5_000_000

    def test_the_recipes_size(self):
        """The published recipe's model has 3.9 million parameters."""
        sizes = {"embedding_dim": 256, "encoder_dim": 256, "decoder_dim": 384, "attention_dim": 256}
        model = RecurrentTranslator(settings(tied="all", **sizes), 4000, 4000)
        assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(3.9e6, rel=0.02)
