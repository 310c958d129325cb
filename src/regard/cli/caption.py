"""`regard caption`: one image in is one caption out."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, RunFolder, Threads, command
from regard.cli.console import complain, out, say
from regard.cli.inputs import STANDARD_INPUT, refuse_input, standard_input
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.captioning.predictor import CaptionedFile

Images = Annotated[
    list[Path],
    typer.Argument(
        metavar="IMAGE…|-",
        help="Images, or folders of them, taken in the order of names; - reads such paths from standard input, one a "
        "line.",
        show_default=False,
    ),
]
Draw = Annotated[
    list[Path] | None,
    typer.Option(
        "--draw", help="The attention over the image at each word, as .html, .png, .svg, .json or .csv; repeatable."
    ),
]
Beam = Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept at each step; 1 is greedy.")]
Format = Annotated[
    Literal["text", "tsv", "jsonl"],
    typer.Option("--format", help="text: captions; tsv: file and caption; jsonl: also words and probability."),
]
Looks = Annotated[bool, typer.Option("--looks", help="With jsonl: each word's weights, row by row of the grid.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write the lines to this file, when all are there.")]

_BLANK = str.maketrans("\t\n\r", "   ")
"""What ends a field or a line, in the name of a file."""


@command(
    app,
    "caption",
    examples="""
    regard caption runs/captions photo.jpg
    regard caption runs/captions photo.jpg --draw looks.html
    regard caption runs/captions pictures/ --beam 3 --format jsonl --out captions.jsonl
    find pictures -name '*.png' | regard caption runs/captions - --format tsv
    """,
)
def caption(
    run: RunFolder,
    images: Images,
    draw: Draw = None,
    beam: Beam = 1,
    format: Format = "text",
    looks: Looks = False,
    out_: Out = None,
    threads: Threads = None,
) -> None:
    """Describe images.

    Images are PNG, JPEG, WebP, GIF (its first frame), BMP, TIFF or PPM, of any size; a run made for features reads
    .npy and .safetensors. One image in is one line out, in order. Of a file that is none the line is empty (in
    jsonl it has an `error`), a message names it, and the exit code is 1.
    """
    from regard.tasks.core.load import load
    from regard.tasks.core.runs import config_of
    from regard.views.write import check_ending

    if looks and format != "jsonl":
        raise ConfigError("--looks writes whole grids of weights; choose --format jsonl")
    features = config_of(run, "caption").get("model", {}).get("encoder", {}).get("kind") == "features"
    for path in draw or []:
        check_ending(path)  # before the model is loaded
    paths = list(_files(_named(images), features))
    for written in (*(draw or []), out_):
        refuse_input(written, *paths)
    seen: list[CaptionedFile] = []
    faults = _written(
        _watched(load(run, threads=threads).stream(paths, beam=beam), seen if draw else None), format, looks, out_
    )
    if seen:
        from regard.tasks.captioning.view import captions_view
        from regard.views.write import write

        view = captions_view(seen)
        for path in draw or []:
            write(view, path)
            say(f"Written to {path}.")
    if faults:
        raise typer.Exit(FAILED)


def _named(given: list[Path]) -> Iterator[Path]:
    """What is named, and for `-` what each line of standard input names, whatever its bytes."""
    for path in given:
        if str(path) != "-":
            yield path
            continue
        for number, line in enumerate(standard_input(), start=1):
            name = line.rstrip(b"\r\n")
            if not name.strip():
                raise DataError(f"{STANDARD_INPUT}, line {number} is empty; the path of an image is expected")
            yield Path(os.fsdecode(name))


def _files(given: Iterable[Path], features: bool) -> Iterator[Path]:
    """The files that are named, and those in folders that are named, by their endings."""
    from regard.data.images import image_file
    from regard.data.images.features import ENDINGS

    endings = ENDINGS if features else image_file.ENDINGS
    for path in given:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(one for one in path.iterdir() if one.suffix.lower() in endings and one.is_file())
        if not inside:
            raise DataError(f"{path}: no file in this folder ends in {', '.join(endings)}")
        yield from inside


def _watched(seen: "Iterator[CaptionedFile]", kept: "list[CaptionedFile] | None") -> "Iterator[CaptionedFile]":
    """All of them; those that can be drawn are kept if there is a list for them, and faults are reported."""
    for one in seen:
        if one.fault is not None:
            complain(str(one.fault))
        elif kept is not None:
            kept.append(one)
        yield one


def _written(seen: "Iterator[CaptionedFile]", format: str, looks: bool, path: Path | None) -> int:
    """Write a line for each, as they come or all in a file; the number of faults."""
    from regard.files import write_atomically

    lines, faults = [], 0
    for one in seen:
        faults += one.fault is not None
        line = _line(one, format, looks)
        if path is None or str(path) == "-":
            out(line)
        else:
            lines.append(f"{line}\n")
    if path is not None and str(path) != "-":
        # As on standard output, bytes of a file's name that are not UTF-8 are written as escapes.
        write_atomically(path, "".join(lines).encode("utf-8", "backslashreplace"))
    return faults


def _line(one: "CaptionedFile", format: str, looks: bool) -> str:
    if format == "text":
        return one.caption.text if one.caption else ""
    if format == "tsv":
        name = str(one.path).translate(_BLANK)
        return f"{name}\t{one.caption.text if one.caption else ''}"
    entry: dict[str, Any] = {"image": str(one.path)}
    if one.caption is None:
        return json.dumps({**entry, "error": str(one.fault)}, ensure_ascii=False)
    said = one.caption
    entry |= {"caption": said.text, "words": said.words, "probability": said.probability}
    if looks:
        entry["looks"] = said.weights.round(6).tolist()
    return json.dumps(entry, ensure_ascii=False)
