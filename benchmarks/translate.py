"""Sentences a second in beam search, beside JoeyNMT: one model, one set of weights, the same batches, in turns.

    python benchmarks/translate.py [--source FILE] [--json] [--quick]

Both sides write as many words for each batch as its longest source has, so that the work is equal whatever the weights
(which are random) would end with. Before anything is timed, nine of ten translations must be the same; between equally
probable words rounding decides. A file's words become ids by their spelling: only how long its sentences are matters.
"""

import argparse
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import torch
from joeynmt.search import beam_search

import joey
from regard.data.batching import pad
from regard.data.text.lines import read_lines
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.vocabulary import BEGIN, END, PADDING
from translators import VARIANTS, Sizes, translator
from turns import in_turns, report

# Random output weights are so small that all words are nearly as probable and rounding would choose among them.
SHARPER = 10

Batch = tuple[torch.Tensor, torch.Tensor]


def read(file: Path | None, count: int, words: int) -> list[list[int]]:
    """Sources as ids, evenly from a file, or of 5 to 25 random words."""
    if file is None:
        chance = random.Random(0)
        return [[chance.randrange(4, words) for _ in range(chance.randint(5, 25))] for _ in range(count)]
    lines = [line.split() for line in read_lines(file)]
    chosen = [lines[len(lines) * number // count] for number in range(count)]
    return [[4 + zlib.crc32(word.encode()) % (words - 4) for word in line] for line in chosen]


def batches(sources: list[list[int]], size: int) -> list[Batch]:
    """Padded ids and lengths, sources of like length together, the longest first."""
    ordered = sorted(([*source, END] for source in sources), key=len, reverse=True)
    return [pad(ordered[start : start + size]) for start in range(0, len(ordered), size)]


@torch.no_grad()
def regard_search(model: RecurrentTranslator, batch: Batch, beam: int) -> list[list[int]]:
    """The best output of each source."""
    source, lengths = batch
    steps = source.shape[1]
    found = search(
        model.decoder,
        model.encode(source, lengths),
        len(source),
        begin=BEGIN,
        end=END,
        settings=SearchSettings(beam=beam, min_length=steps, length_rule="gnmt"),
        limits=[steps] * len(source),
        source_lengths=lengths,
        forbidden=(PADDING, BEGIN),
    )
    return [hypotheses[0].ids for hypotheses in found]


@torch.no_grad()
def joey_search(model: Any, batch: Batch, beam: int) -> list[list[int]]:
    """The best output of each source."""
    source, lengths = batch
    steps, mask = source.shape[1], (source != PADDING).unsqueeze(1)
    states, final, _, _ = model(return_type="encode", src=source, src_length=lengths, src_mask=mask)
    found, _, _ = beam_search(
        model, beam, states, final, mask, max_output_length=steps, alpha=1.0, min_output_length=steps
    )
    return [row[:steps] for row in found.tolist()]


def compare(name: str, sizes: Sizes, sources: list[list[int]], beam: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    model = translator(VARIANTS[name], sizes, dropout=0.0).eval()
    with torch.no_grad():
        model.decoder.output.mul_(SHARPER)
    other = joey.model_of(model, smoothing=0.0).eval()
    made = batches(sources, sizes.pairs)
    pairs = zip(regard_search(model, made[-1], beam), joey_search(other, made[-1], beam), strict=True)
    same = [one == another for one, another in pairs]
    if sum(same) < 0.9 * len(same):
        raise SystemExit(f"the two searches differ: of {len(same)} translations {sum(same)} are the same")
    sides = {
        "joeynmt": lambda: [joey_search(other, batch, beam) for batch in made],
        "regard": lambda: [regard_search(model, batch, beam) for batch in made],
    }
    seconds = in_turns(sides, rounds)
    row: dict[str, Any] = {"model": name, "beam": beam, "sentences": len(sources)}
    for side in sides:
        row[f"{side} sentences/s"] = len(sources) / seconds[side]["processor"]
    for kind in ("processor", "clock"):
        row[f"ratio, {kind}"] = seconds["joeynmt"][kind] / seconds["regard"][kind]
    return row


def main(arguments: list[str] | None = None) -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="a file of sentences, such as Multi30k's test_2016_flickr.de.gz")
    parser.add_argument("--sentences", type=int, default=128, help="how many of them")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sizes = Sizes(5, 0, 11, 26, 31) if options.quick else Sizes(64, 0, 256, 512, 8192)
    count, rounds = (7, 1) if options.quick else (options.sentences, options.rounds)
    sources = read(options.source, count, sizes.words)
    report([compare(name, sizes, sources, options.beam, rounds) for name in VARIANTS], options.json)


if __name__ == "__main__":
    sys.exit(main())
