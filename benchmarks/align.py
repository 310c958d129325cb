"""Alignment error on the Hansards: two runs of opposite directions beside eflomal (Östling & Tiedemann 2016).

    python benchmarks/align.py RUN_FR_EN RUN_EN_FR --data DIR [--json]

DIR holds `tatoeba/fra-eng.zip` and `gold_alignments/hansards/`, as for the recipes tatoeba-fr-en and tatoeba-en-fr.
eflomal learns from the sentences that it aligns, so it reads Tatoeba and the 447 test pairs together; the runs have
never seen the latter. Both get lower-cased text and count the same words. Its third row reads the test pairs alone.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eflomal import Aligner

from regard.data.pairs.parallel_text import Links, Pair
from regard.data.pairs.pharaoh import read_pharaoh
from regard.data.text.units import split_words
from regard.data.translation.corpus import read_corpus
from regard.data.translation.settings import CorpusSettings
from regard.metrics.alignment import AlignmentScores, alignment_scores
from regard.metrics.symmetrize import SYMMETRIZATIONS
from regard.tasks.core.load import load
from regard.tasks.translation.align import align

Directions = tuple[list[Links], list[Links]]


def hansards(data: Path) -> list[Pair]:
    """French, English and their true links; in the file English comes first."""
    folder = data / "gold_alignments" / "hansards"
    return read_corpus(
        CorpusSettings(
            tsv=folder / "enfr.src-tgt",
            separator=" ||| ",
            columns=(2, 1),
            links=folder / "enfr.gold",
            links_from=1,
            links_reversed=True,
        )
    )


def of_runs(forward: Path, backward: Path, pairs: Sequence[Pair]) -> Directions:
    """Links (French word, English word) by a run of either direction."""
    texts = [(pair.source, pair.target) for pair in pairs]
    found = list(align(load(forward), texts, backward=load(backward)))
    return [one.forward for one in found], [one.backward or frozenset() for one in found]


def of_eflomal(pairs: Sequence[Pair], more: Sequence[Pair] = ()) -> Directions:
    """The same by eflomal's third model; what is aligned comes first, what else it learns from after that."""
    sides = [
        [" ".join(getattr(pair, side).split()) for pair in pairs]
        + [" ".join(split_words(getattr(pair, side), "tokenizer")) for pair in more]
        for side in ("source", "target")
    ]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("forward", "backward")]
        Aligner(model=3).align(*sides, links_filename_fwd=files[0], links_filename_rev=files[1])
        forward, backward = ([gold.sure for gold in read_pharaoh(file, first=0)[: len(pairs)]] for file in files)
    return forward, backward


def rates(found: Directions, gold: Sequence[Pair]) -> dict[str, AlignmentScores]:
    """Each direction, and both joined."""
    joined = {name: [join(*both) for both in zip(*found, strict=True)] for name, join in SYMMETRIZATIONS.items()}
    sure, possible = [pair.links or frozenset() for pair in gold], [pair.possible or frozenset() for pair in gold]
    every = {"by English word": found[0], "by French word": found[1], **joined}
    return {name: alignment_scores(links, sure, possible) for name, links in every.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("forward", type=Path, help="a run from French to English")
    parser.add_argument("backward", type=Path, help="a run from English to French")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gold = hansards(options.data)
    tatoeba = read_corpus(CorpusSettings(tsv=options.data / "tatoeba/fra-eng.zip/fra.txt", columns=(2, 1)))
    report = {
        "regard": rates(of_runs(options.forward, options.backward, gold), gold),
        "eflomal": rates(of_eflomal(gold, tatoeba), gold),
        "eflomal, test pairs alone": rates(of_eflomal(gold), gold),
    }
    if options.json:
        print(json.dumps({name: {kind: one._asdict() for kind, one in each.items()} for name, each in report.items()}))
        return
    print(f"| AER (precision, recall) of {len(gold)} pairs | " + " | ".join(report) + " |")
    print("|---" * (1 + len(report)) + "|")
    for kind in next(iter(report.values())):
        cells = [
            f"{one.error_rate:.3f} ({one.precision:.3f}, {one.recall:.3f})"
            for one in (each[kind] for each in report.values())
        ]
        print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
