"""Show, Attend and Tell: the model by its equations, its decoder in the search, its encoders."""

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, DataError, ShapeError
from regard.models.captioning.backbone import PretrainedEncoder, load_backbone
from regard.models.captioning.captioner import IMAGE, Captioner, places
from regard.models.captioning.settings import Backbone, CaptionerSettings

VOCABULARY = 11
SIZES = {"annotation_dim": 7, "attention_dim": 5, "embedding_dim": 3, "state_dim": 13}


def captioner(**others: object) -> Captioner:
    torch.manual_seed(3)
    settings = {"encoder": {"kind": "convolutions", "channels": [5, 3], "strides": [2, 2]}, **SIZES, **others}
    return Captioner(CaptionerSettings.model_validate(settings), VOCABULARY).eval()


def pictures(count: int, size: int = 12) -> torch.Tensor:
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


def test_a_step_follows_the_equations_of_the_paper() -> None:
    """Xu et al. 2015, eq. 1–7, 13 and the gate of §4.2.1, written out beside the decoder's own step."""
    model, words = captioner(), torch.tensor([[2, 5, 7], [2, 9, 4]])
    memory = model.encode(pictures(2))
    decoder, annotations = model.decoder, memory.annotations
    assert memory.shape == (3, 3) and annotations.shape == (2, 9, 7)
    mean = annotations.mean(1) * 3  # √9
    hidden, cell = (to(mean) for to in decoder.first)
    step = decoder.step(decoder.start(memory, 2), words)
    lstm = decoder.recurrence.each[0]
    for time in range(3):
        keys, query = annotations @ decoder.score.key_weight.T, hidden @ decoder.score.query_weight.T
        weights = (torch.tanh(keys + query[:, None]) @ decoder.score.vector).softmax(-1)
        torch.testing.assert_close(step.attended[IMAGE].weights[:, time], weights)
        context = torch.sigmoid(decoder.gate(hidden)) * (weights[..., None] * annotations).sum(1)
        embedded = decoder.embedding.weight[words[:, time]]
        hidden, cell = lstm(torch.cat([embedded, context], -1), (hidden, cell))
        deep = torch.tanh(embedded + decoder.from_state(hidden) + decoder.from_context(context))
        torch.testing.assert_close(step.logits[:, time], decoder.output(deep))


def test_steps_one_by_one_are_the_steps_at_once() -> None:
    model, words = captioner(), torch.tensor([[2, 5, 7, 1], [2, 9, 4, 3]])
    memory = model.encode(pictures(2))
    whole = model.decoder.step(model.decoder.start(memory, 2), words)
    state = model.decoder.start(memory, 2)
    for time in range(4):
        step = model.decoder.step(state, words[:, time : time + 1])
        state = step.state
        torch.testing.assert_close(step.logits[:, 0], whole.logits[:, time])
    torch.testing.assert_close(state.moving["carried"], whole.state.moving["carried"])


def test_no_picture_depends_on_its_neighbours_and_places_are_its_own() -> None:
    model = captioner()
    given = pictures(3)
    together, alone = model.encode(given).annotations, model.encode(given[1:2]).annotations
    torch.testing.assert_close(together[1:2], alone)
    grid = places(torch.zeros(2, 3, 5, 1))
    assert (
        grid[1, 0, 0].tolist() == [-1, -1] and grid[1, 2, 4].tolist() == [1, 1] and grid[1, 1, 3].tolist() == [0, 0.5]
    )


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_captions_that_never_end_are_cut_at_their_limit_b26(beam: int, limit: int) -> None:
    """B26: a public captioner crashed where no hypothesis of the beam had ended."""
    model = captioner()
    with torch.no_grad():
        model.decoder.output.bias[3] = -math.inf  # the end mark has probability 0
    settings = SearchSettings(beam=beam, n_best=beam)
    found = search(model.decoder, model.encode(pictures(2)), 2, begin=2, end=3, settings=settings, limits=[limit] * 2)
    for hypotheses in found:
        assert hypotheses and all(not one.finished and len(one.ids) == limit for one in hypotheses)
        alignment = hypotheses[0].alignment
        assert alignment is not None and alignment.shape == (limit, 9 if limit else alignment.shape[1])
        torch.testing.assert_close(alignment.sum(-1), torch.ones(limit))


def test_a_beam_as_wide_as_all_captions_finds_the_likeliest() -> None:
    model = captioner()
    memory = model.encode(pictures(1))
    found = search(
        model.decoder, memory, 1, begin=2, end=3, settings=SearchSettings(beam=121, length_penalty=0.0), limits=[2]
    )[0][0]
    first = model.decoder.step(model.decoder.start(memory, 1), torch.tensor([[2]])).logits.log_softmax(-1)[0, 0]
    scores = {(3,): first[3].item()}
    for word in [one for one in range(VOCABULARY) if one != 3]:
        step = model.decoder.step(model.decoder.start(memory, 1), torch.tensor([[2, word]]))
        scores[word, 3] = (first[word] + step.logits.log_softmax(-1)[0, 1, 3]).item()
    best = max(scores, key=scores.__getitem__)
    assert (*found.ids, 3) == best
    assert found.log_probability == pytest.approx(scores[best], rel=1e-5)


def test_words_are_detected_by_their_best_cells() -> None:
    """`log mean_i exp(u · a_i + b)`."""
    model = captioner()
    memory = model.encode(pictures(2))
    by_cell = F.linear(memory.annotations, model.detectors.weight, model.detectors.bias)
    torch.testing.assert_close(model.detected(memory), by_cell.exp().mean(1).log())


def test_the_receptive_field_of_a_cell_is_small() -> None:
    """One changed pixel changes only the cells around it: convolutions of stride 2, 2, 1, 1 see 23 pixels."""
    model = captioner(encoder={"kind": "convolutions", "channels": [3, 5, 7, 2], "strides": [2, 2, 1, 1]})
    one = torch.full((1, 64, 64, 3), 200, dtype=torch.uint8)
    other = one.clone()
    other[0, 32, 20] = 0
    changed = (model.encode(one).annotations - model.encode(other).annotations).abs().amax(-1).unflatten(1, (16, 16))[0]
    rows, columns = torch.nonzero(changed > 1e-7, as_tuple=True)
    assert len(rows)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        assert abs(4 * row - 32) <= 12 and abs(4 * column - 20) <= 12


def test_features_of_another_width_are_refused() -> None:
    model = captioner(encoder={"kind": "features", "width": 17})
    assert model.encode(torch.zeros(2, 3, 5, 17)).annotations.shape == (2, 15, 7)
    with pytest.raises(ShapeError, match="16 wide; this model was made for 17"):
        model.encode(torch.zeros(2, 3, 5, 16))


def test_soft_attention_draws_nothing() -> None:
    with pytest.raises(ValueError, match="drawn is of hard attention"):
        CaptionerSettings.model_validate({"at_use": "drawn"})
    with pytest.raises(ValueError, match="2 channels for 1 strides"):
        captioner(encoder={"kind": "convolutions", "channels": [5, 3], "strides": [2]})
    drawn, memory = captioner(look="sample", at_use="drawn"), None
    memory = drawn.encode(pictures(1))
    looks = [drawn.decoder.step(drawn.decoder.start(memory, 1), torch.tensor([[2]])) for _ in range(20)]
    assert len({int(one.attended[IMAGE].weights.argmax()) for one in looks}) > 1


class Tiny(nn.Module):
    """Stands for a network of torchvision, which the tests do not install."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 5, 3, stride=4)
        self.layer = nn.Sequential(nn.Conv2d(5, 7, 3, stride=2), nn.BatchNorm2d(7))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(7, 2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.layer(self.stem(pixels))).flatten(1))


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    library, models = ModuleType("torchvision"), ModuleType("torchvision.models")

    def get_model(name: str) -> nn.Module:
        if name != "tiny":
            raise ValueError(f"Unknown model {name}")
        return Tiny()

    models.get_model = get_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", library)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.usefixtures("torchvision")
def test_a_backbone_gives_the_grid_of_a_layer(tmp_path: Any) -> None:
    encoder = PretrainedEncoder(Backbone(name="torchvision:tiny"))
    assert (encoder.layer, encoder.width) == ("layer", 7)  # the last grid: pooling leaves one cell
    stem = PretrainedEncoder(Backbone(name="torchvision:tiny", layer="stem"))
    given = pictures(2, 32)
    normalized = (given.permute(0, 3, 1, 2) / 255 - stem.mean / 255) / (stem.deviation / 255)
    torch.testing.assert_close(stem(given), stem.network.stem(normalized).permute(0, 2, 3, 1), rtol=1e-4, atol=1e-4)
    assert not any(one.requires_grad for one in encoder.parameters())
    assert not encoder.train().network.training  # frozen: its statistics stay
    assert PretrainedEncoder(Backbone(name="torchvision:tiny", frozen=False)).train().network.training
    other = Tiny()
    save_file(other.state_dict(), tmp_path / "tiny.safetensors")
    torch.save(other.state_dict(), tmp_path / "tiny.pth")
    for name in ("tiny.safetensors", "tiny.pth"):
        load_backbone(encoder, tmp_path / name)
        torch.testing.assert_close(encoder.network.stem.weight, other.stem.weight)


@pytest.mark.usefixtures("torchvision")
def test_a_backbone_that_cannot_be_is_an_error_that_says_why(tmp_path: Any) -> None:
    for name, message in (
        ("tiny", "expected a library and a network, as in torchvision:resnet18"),
        ("torchvision:tony", "torchvision makes no network of the name 'tony'"),
    ):
        with pytest.raises(ConfigError, match=message):
            PretrainedEncoder(Backbone(name=name))
    with pytest.raises(ConfigError, match="has no layer 'layr'. Did you mean 'layer'"):
        PretrainedEncoder(Backbone(name="torchvision:tiny", layer="layr"))
    with pytest.raises(ConfigError, match="the layer 'pool' of torchvision:tiny gives no grid"):
        PretrainedEncoder(Backbone(name="torchvision:tiny", layer="pool"))
    encoder = PretrainedEncoder(Backbone(name="torchvision:tiny"))
    with pytest.raises(DataError, match="no such file of weights"):
        load_backbone(encoder, tmp_path / "none.safetensors")
    np.save(tmp_path / "weights.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"weights\.npy"):
        load_backbone(encoder, tmp_path / "weights.npy")
    save_file({"stem.weight": torch.zeros(2)}, tmp_path / "few.safetensors")
    with pytest.raises(DataError, match="does not hold the weights of this network"):
        load_backbone(encoder, tmp_path / "few.safetensors")


def test_a_backbone_whose_library_is_absent_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r"needs timm, which is not installed: pip install 'regard\[vision\]'"):
        PretrainedEncoder(Backbone(name="timm:resnet18"))
