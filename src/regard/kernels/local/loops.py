"""What the loops of `local.cpp` are given: products with windows, their softmax, and the prediction of centers."""

import torch

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output

LIBRARY = Library("local/local", (torch.float32, torch.float64))
PARTS = 16
"""In which the gradient of the vector is added up, `softmax.hpp`'s kParts."""

# --- products, see local.py -----------------------------------------------------------------------------------------

_QUERIES = ("batch", "queries")
_windows = LIBRARY.structure(
    "LocalWindows",
    **dict.fromkeys(("batch", "queries", "rows", "window", "width"), INTEGER),
    threads=THREADS,
    first=Input(*_QUERIES, dtype=torch.int64),  # where the window of a query begins
    order=Input(*_QUERIES, dtype=torch.int64),  # the queries of all items, in the order of their windows
)
dots = LIBRARY.loop(
    "local_dots",
    _windows,
    left=Input(*_QUERIES, "width"),
    matrix=Input("batch", "rows", "width", strides=2),
    out=Output(*_QUERIES, "window"),
)
mix = LIBRARY.loop(
    "local_mix",
    _windows,
    weights=Input(*_QUERIES, "window"),
    matrix=Input("batch", "rows", "width", strides=2),
    out=Output(*_QUERIES, "width"),
)
spread = LIBRARY.loop(
    "local_spread",
    _windows,
    weights=Input(*_QUERIES, "window"),
    left=Input(*_QUERIES, "width"),
    into=Output("batch", "rows", "width", strides=2),
)

# --- softmax over windows around centers, see softmax.py ------------------------------------------------------------

_call = LIBRARY.structure(
    "LocalCall",
    **dict.fromkeys(("batch", "queries", "rows", "window", "width", "value_width"), INTEGER),
    threads=THREADS,
    radius=REAL,
    epsilon=REAL,
    sigma=REAL,  # 0 for no Gaussian
    scale=REAL,
    center=Input(*_QUERIES),
    lengths=Input("batch", dtype=torch.int64),
    left=Input(*_QUERIES, "width"),
    key=Input("batch", "rows", "width", strides=2),
    value=Input("batch", "rows", "value_width", strides=2),
)
attend = LIBRARY.predicate(
    "local_attend",
    _call,
    context=Output(*_QUERIES, "value_width"),
    scores=Output(*_QUERIES, "window"),
    first=Output(*_QUERIES, dtype=torch.int64),
    order=Output(*_QUERIES, dtype=torch.int64),
)
attend_backward = LIBRARY.loop(
    "local_attend_backward",
    _call,
    scores=Input(*_QUERIES, "window"),
    first=Input(*_QUERIES, dtype=torch.int64),
    order=Input(*_QUERIES, dtype=torch.int64),
    above=Input(*_QUERIES, "value_width", optional=True),
    above_scores=Input(*_QUERIES, "window", optional=True),
    to_left=Output(*_QUERIES, "width", optional=True),
    to_key=Output("batch", "rows", "width", optional=True),
    to_value=Output("batch", "rows", "value_width", optional=True),
    to_center=Output(*_QUERIES, optional=True),
)

# --- the prediction of centers --------------------------------------------------------------------------------------

_predicted = LIBRARY.structure(
    "LocalPredicted",
    **dict.fromkeys(("batch", "queries", "width"), INTEGER),
    threads=THREADS,
    hidden=Input(*_QUERIES, "width"),
    vector=Input("width"),
    lengths=Input("batch", dtype=torch.int64),
)
predict = LIBRARY.predicate("local_predict", _predicted, center=Output(*_QUERIES))
predict_backward = LIBRARY.loop(
    "local_predict_backward",
    _predicted,
    center=Input(*_QUERIES),
    above=Input(*_QUERIES),
    to_hidden=Output(*_QUERIES, "width"),
    to_vector=Output(str(PARTS), "width"),
)
