"""A trained model of the task `greater`: two numbers a line in, the place of the greater one out."""

from pathlib import Path

import torch
from regard.tasks.greater.settings import GreaterSettings
from torch import Tensor, nn

from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.core.task import Nothing


class GreaterPredictor(StreamPredictor[GreaterSettings, Nothing, nn.Module, str, Tensor, str]):
    settings_type = GreaterSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Nothing:
        return Nothing()

    @classmethod
    def build(cls, settings: GreaterSettings, parts: Nothing) -> nn.Module:
        if settings.model.kind == "flat":
            return nn.Linear(2, 2, bias=settings.model.bias)
        return nn.Sequential(nn.Linear(2, settings.model.width), nn.Tanh(), nn.Linear(settings.model.width, 2))

    def read(self, given: str, line: int = 1) -> Tensor:
        return torch.tensor([float(number) for number in given.split()])

    def length(self, item: Tensor) -> int:
        return len(item)

    def blank(self, item: Tensor) -> str:
        return ""

    @inference
    def answer(self, items: list[Tensor]) -> list[str]:
        return [("1st", "2nd")[int(row.argmax())] for row in self.model(torch.stack(items).to(self.device))]
