"""Heads with each kind of position, of weights and tables that are not 0."""

import torch
from torch import nn

from regard.attention.modules.multihead import MultiHeadAttention
from regard.attention.parts.position import positions
from regard.attention.parts.position_factory import position

DIM, HEADS, HEAD = 12, 3, 4
PARTS = {
    "none": dict,
    "rotary": lambda: {"position": position("rotary", dim=HEAD)},
    "rotary half": lambda: {"position": position("rotary", dim=2, convention="half")},
    "alibi": lambda: {"position": position("alibi", heads=HEADS)},
    "t5": lambda: {"position": position("t5", heads=HEADS, buckets=8, max_distance=9)},
    "shaw": lambda: {"score": position("shaw", dim=HEAD, clip=2)},
}


def made(kind="none", **options):
    torch.manual_seed(0)
    attention = MultiHeadAttention(DIM, HEADS, **PARTS[kind](), **options)
    for name, parameter in attention.named_parameters():
        if parameter.dim() == 1 or "position" in name or "score" in name:
            nn.init.normal_(parameter)  # biases and tables that are not all zero
    return attention.double().eval()


def at(*keeps):
    return positions(torch.tensor(keeps).bool())


def numbered(batch, length):
    return torch.arange(length).expand(batch, length)
