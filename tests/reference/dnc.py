"""The differentiable neural computer of Graves et al. (2016) in plain loops over slots, one memory at a time."""

import math

Vector = list[float]
Rows = list[Vector]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def oneplus(x: float) -> float:
    return 1 + math.log(1 + math.exp(x))


def softmax(scores: Vector) -> Vector:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def content(memory: Rows, key: Vector, strength: float) -> Vector:
    def cosine(row: Vector) -> float:
        lengths = math.sqrt(sum(x * x for x in row)) * math.sqrt(sum(x * x for x in key))
        return sum(x * y for x, y in zip(row, key, strict=True)) / lengths if lengths else 0.0

    return softmax([strength * cosine(row) for row in memory])


def retention(free: Vector, read: Rows) -> Vector:
    slots = range(len(read[0]))
    return [math.prod(1 - free[head] * read[head][slot] for head in range(len(read))) for slot in slots]


def used(usage: Vector, write: Vector, kept: Vector) -> Vector:
    return [(u + w - u * w) * k for u, w, k in zip(usage, write, kept, strict=True)]


def allocation(usage: Vector) -> Vector:
    order = sorted(range(len(usage)), key=lambda slot: usage[slot])
    given = [0.0] * len(usage)
    for place, slot in enumerate(order):
        given[slot] = (1 - usage[slot]) * math.prod(usage[freer] for freer in order[:place])
    return given


def linked(link: Rows, precedence: Vector, write: Vector) -> Rows:
    slots = range(len(write))
    return [
        [0.0 if i == j else (1 - write[i] - write[j]) * link[i][j] + write[i] * precedence[j] for j in slots]
        for i in slots
    ]


def preceding(precedence: Vector, write: Vector) -> Vector:
    return [(1 - sum(write)) * p + w for p, w in zip(precedence, write, strict=True)]


def along(link: Rows, read: Vector) -> tuple[Vector, Vector]:
    slots = range(len(read))
    forward = [sum(link[i][j] * read[j] for j in slots) for i in slots]
    backward = [sum(link[i][j] * read[i] for i in slots) for j in slots]
    return forward, backward


def written(memory: Rows, write: Vector, erase: Vector, add: Vector) -> Rows:
    return [
        [m * (1 - w * e) + w * v for m, e, v in zip(row, erase, add, strict=True)]
        for row, w in zip(memory, write, strict=True)
    ]


class Memory:
    """The state of one memory, empty at first."""

    def __init__(self, slots: int, width: int, reads: int) -> None:
        self.slots = [[0.0] * width for _ in range(slots)]
        self.usage, self.precedence, self.write = ([0.0] * slots for _ in range(3))
        self.link = [[0.0] * slots for _ in range(slots)]
        self.read = [[0.0] * slots for _ in range(reads)]

    def step(self, told: Vector, frees: bool = True) -> Rows:
        """What the heads read after one step with the interface vector `told`, as in `kernels/memory/computer.py`."""
        reads, width = len(self.read), len(self.slots[0])
        left = iter(told)

        def take(count: int) -> Vector:
            return [next(left) for _ in range(count)]

        read_keys, write_key, add = [take(width) for _ in range(reads)], take(width), take(width)
        erase, free = [sigmoid(x) for x in take(width)], [sigmoid(x) for x in take(reads)]
        allocation_gate, write_gate = (sigmoid(x) for x in take(2))
        read_strengths, write_strength = [oneplus(x) for x in take(reads)], oneplus(take(1)[0])
        modes = [softmax(take(3)) for _ in range(reads)]

        self.usage = used(self.usage, self.write, retention(free if frees else [0.0] * reads, self.read))
        found = content(self.slots, write_key, write_strength)
        self.write = [
            write_gate * (allocation_gate * a + (1 - allocation_gate) * c)
            for a, c in zip(allocation(self.usage), found, strict=True)
        ]
        self.slots = written(self.slots, self.write, erase, add)
        self.link = linked(self.link, self.precedence, self.write)
        self.precedence = preceding(self.precedence, self.write)
        for head in range(reads):
            forward, backward = along(self.link, self.read[head])
            found = content(self.slots, read_keys[head], read_strengths[head])
            before, by_content, after = modes[head]
            self.read[head] = [
                before * b + by_content * c + after * f for b, c, f in zip(backward, found, forward, strict=True)
            ]
        return [
            [sum(w * row[part] for w, row in zip(read, self.slots, strict=True)) for part in range(width)]
            for read in self.read
        ]
