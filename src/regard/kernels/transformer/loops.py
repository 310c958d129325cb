"""What the loops of `step.cpp` are given: a stack's weights, looked up once, and the numbers of a call."""

import torch

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output
from regard.kernels.native.structure import Part

LIBRARY = Library("transformer/step", (torch.float32,))

linear = LIBRARY.structure(
    "Linear",
    inputs=INTEGER,
    outputs=INTEGER,
    transposed=INTEGER,  # whether the weight lies by its inputs
    weight=Input("outputs", "inputs", laid=False),
    bias=Input("outputs", optional=True),
)
norm = LIBRARY.structure(
    "Norm",
    size=INTEGER,
    weight=Input("size", optional=True),  # one without weights passes all on
    bias=Input("size", optional=True),
    epsilon=REAL,
    square=INTEGER,  # whether it is of the root of the mean square
)
layer = LIBRARY.structure(
    "Layer",
    attention_norm=Part(norm),
    feed_forward_norm=Part(norm),
    projection=Part(linear),
    output=Part(linear),
    widening=Part(linear),
    narrowing=Part(linear),
)
stack = LIBRARY.structure(
    "Stack",
    **dict.fromkeys(("layers", "dim", "heads", "key_heads", "width", "hidden", "activation", "pre"), INTEGER),
    scale=REAL,
    each=Part(layer, apart="layers"),
    norm=Part(norm),
)
words = LIBRARY.structure(
    "Words",
    **dict.fromkeys(("words", "positions", "dim"), INTEGER),
    table=Input("words", "dim", strides=2),
    scale=REAL,
    places=Input("positions", "dim", optional=True),
    readout=Part(linear),
)

_past = LIBRARY.structure(
    "Past",
    stack=Part(stack, apart="1"),
    # Of items (one), layers, keys and values, heads: rows of `width` numbers, a slot each. The last slot is new.
    states=Output(
        "1", "stack['layers']", "2", "stack['key_heads']", "slots", "stack['width']", dtype=torch.float32, strides=4
    ),
    slots=INTEGER,
    bias=Input("stack['heads']", "slots", dtype=torch.float32, optional=True),
    shown=Output("stack['layers']", "2", "stack['dim']", dtype=torch.float32),
    threads=THREADS,
)
stack_step = LIBRARY.loop("stack_step", _past, x=Output("stack['dim']"))
language_step = LIBRARY.loop(
    "language_step",
    _past,
    words=Part(words, apart="1"),
    word=INTEGER,
    position=INTEGER,
    place=Input("stack['dim']", optional=True),
    logits=Output("words['readout']['outputs']"),
)
gelu_and_slope = LIBRARY.loop("gelu_and_slope", size=INTEGER, threads=THREADS, x=Output("size"), y=Output("size"))
