"""What a call costs, before it is made: its operations and its memory, by formulas of its sizes alone.

Operations are the multiply-adds of matrix products, counted as 2 as torch's own counter has them; an additive score's
sum over hidden units is such a product, and exponentials and additions are not counted. Memory is the peak beyond what
the caller holds already, the answer and the gradients included: right within a factor of two above some 16 MiB. Each
path's own formula is in its file.
"""

from dataclasses import dataclass

from regard.attention.cost.workload import Workload

SQUARE, LENGTH = "queries × keys × heads", "positions × width × heads"
WIDTHS = f"{SQUARE} × width"

# How many numbers a weight the normalizers hold at their peak, forwards and with gradients, measured.
_HELD = {
    "softmax": (4.5, 4.5),
    "sigmoid": (4.5, 4.5),
    "sum": (4.5, 6.5),
    "identity": (3.5, 3.5),
    "hard": (4.8, 4.8),
    "sample": (5.8, 6.8),
    "gumbel": (6.8, 7.8),
    "sparsemax": (7.5, 9.5),
    "entmax15": (10.5, 14.5),
}
_DRAWING = 10  # bytes for each of a mask's bools while it is drawn: positions are whole numbers of 64 bits


@dataclass(frozen=True)
class Cost:
    """What one path would take for a call.

    Attributes:
        path: its name.
        operations: multiply-adds of products, counted as 2, of the forward pass.
        operations_with_gradients: those of both ways.
        bytes: the most memory at once beyond what is held before, in the forward pass.
        bytes_with_gradients: likewise, on both ways.
        operations_grow: what operations are proportional to, in words.
        bytes_grow: what memory is proportional to, in words.
    """

    path: str
    operations: int
    operations_with_gradients: int
    bytes: int
    bytes_with_gradients: int
    operations_grow: str
    bytes_grow: str

    def __str__(self) -> str:
        operations = _in_units(self.operations, self.operations_with_gradients, _OPERATIONS)
        memory = _in_units(self.bytes, self.bytes_with_gradients, _BYTES)
        return f"{self.path}: {operations}, as {self.operations_grow}; {memory} at the peak, as {self.bytes_grow}"


def formed(work: Workload, weights: int) -> tuple[int, int]:
    """Bytes where so many weights are formed at once: forward, and with gradients."""
    held = _HELD.get(work.normalizer, _HELD["softmax"])
    narrowed = 2 * weights * work.given if work.given < work.wide else 0
    around = (work.made + work.of_all_heads) * work.wide + work.context * work.given
    dropped = weights * work.wide if work.dropout else 0
    forward, backward = (int(weights * work.wide * numbers) + narrowed + around for numbers in held)
    return forward, backward + dropped + work.gradients


def by_tiles(path: str, work: Workload, pairs: int, bools: int, held: tuple[int, int], words: str) -> Cost:
    """The cost of a path of dot products that keeps no weights: the backward pass makes the scores again.

    Args:
        path: its name.
        work: of the call.
        pairs: queries × keys that it computes, of all heads.
        bools: of the mask that it must be given as a table.
        held: bytes beyond answers and gradients, in the forward pass and on both.
        words: what its operations grow with.
    """
    made = pairs * (work.width + work.value_width) + work.prepared
    masked = _DRAWING * bools + work.bias[0] * (2 if bools else 1)
    made_wide = work.made * work.wide
    narrow = (work.query + work.key + work.value + work.context) * 4 if work.given < 4 else 0
    forward, backward = held
    answer = work.context * work.given
    return Cost(
        path,
        2 * made,
        6 * made + 2 * pairs * work.width,
        answer + made_wide + narrow + masked + forward,
        answer + 2 * made_wide + 2 * narrow + masked + backward + work.gradients,
        words,
        f"{LENGTH}, and the mask as queries × keys" if bools else LENGTH,
    )


_OPERATIONS = ((10**9, "billion operations"), (10**6, "million operations"), (1, "operations"))
_BYTES = ((2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))


def _in_units(one: int, other: int, units: tuple[tuple[int, str], ...]) -> str:
    """Both numbers in the largest unit that the first one reaches."""
    size, name = next((unit for unit in units if one >= unit[0]), units[-1])
    first, second = (
        f"{number / size:,.0f}" if number >= 100 * size else f"{number / size:.3g}" for number in (one, other)
    )
    return f"{first} ({second} with gradients) {name}"
