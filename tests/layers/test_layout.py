import torch
from torch import nn

from regard.layers.layout import lay_out_for_steps
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings


def test_weights_lie_otherwise_and_are_the_same(tmp_path):
    """Shapes, numbers, sharing and what is saved stay; widening layers lie by their inputs."""
    torch.manual_seed(0)
    model = TransformerLanguageModel(TransformerLanguageSettings(dim=6, heads=3, layers=1, dropout=0.0), 31).eval()
    ids = torch.randint(1, 31, (2, 5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    logits = model.read(ids, model.start(None, 2).moving)[0]
    lay_out_for_steps(model)
    assert model.readout.weight is model.embedding.weight
    assert model.readout.weight.stride() == (1, 31)
    assert model.stack.blocks[0].feed_forward.output.weight.is_contiguous()  # it narrows
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    torch.testing.assert_close(model.read(ids, model.start(None, 2).moving)[0], logits, rtol=0, atol=1e-6)
    assert isinstance(model.readout.weight, nn.Parameter)
