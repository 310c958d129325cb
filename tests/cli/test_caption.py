"""`regard train captioning`, `caption`, `show` and `evaluate`, by a tiny network."""

import json
import os

import numpy as np
import pytest
from PIL import Image

TINY = ["data.size=32", "data.scenes=8", "data.validation=3", "data.test=3", "captions.batch=4", "captions.longest=4",
        "model.encoder.channels=[3]", "model.encoder.strides=[4]", "model.annotation_dim=3", "model.attention_dim=3",
        "model.embedding_dim=3", "model.state_dim=3", "training.steps=2"]  # fmt: skip


@pytest.fixture(scope="module")
def captions(regard, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "captions"
    regard("train", "captioning", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An image that is no square, one of a pixel, and a file that is none; in the order of names."""
    path = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(3).integers(0, 256, (11, 31, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path / "a wide.png")
    Image.new("L", (1, 1)).save(path / "b.jpg")
    (path / "c.png").write_text("no picture", encoding="utf-8")
    (path / "notes.txt").write_text("not looked at", encoding="utf-8")
    return path


def test_a_picture_in_is_a_line_out_whatever_the_picture_k8(regard, captions, folder):
    result = regard("caption", captions, folder, code=1)
    lines = result.stdout.split("\n")
    assert len(lines) == 4 and lines[0] and lines[2] == "" == lines[3]
    assert "c.png: this is no image" in result.stderr
    two = regard("caption", captions, folder / "b.jpg", folder / "a wide.png").stdout
    assert two.splitlines() == [lines[1], lines[0]]
    tsv = regard("caption", captions, folder, "--format", "tsv", code=1).stdout.splitlines()
    assert tsv == [
        f"{folder / name}\t{line}" for name, line in zip(("a wide.png", "b.jpg", "c.png"), lines, strict=False)
    ]


def test_paths_come_from_standard_input_a_line_each_k8(regard, captions, folder):
    output = regard("caption", captions, folder, "--format", "tsv", code=1).stdout
    wide, bad = folder / "a wide.png", folder / "c.png"
    from_pipe = regard("caption", captions, "-", "--format", "tsv", stdin=f"{folder}\n".encode(), code=1)
    assert from_pipe.stdout == output
    lines = output.splitlines()
    some = regard("caption", captions, bad, "-", "--format", "tsv", stdin=f"{wide}\r\n{bad}".encode(), code=1)
    assert some.stdout.splitlines() == [lines[2], lines[0], lines[2]]
    assert regard("caption", captions, "-", stdin=b"").stdout == ""
    blank = regard("caption", captions, "-", stdin=f"{wide}\n\n".encode(), code=1)
    assert "standard input, line 2 is empty; the path of an image is expected" in blank.stderr and not blank.stdout


def test_json_tells_words_probability_and_looks(regard, captions, folder, tmp_path):
    out = tmp_path / "out.jsonl"
    options = "--format", "jsonl", "--looks", "--beam", 3, "--out", out
    regard("caption", captions, folder, *options, code=1)
    first, _, fault = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert first["image"].endswith("a wide.png") and 0 < first["probability"] <= 1
    looks = np.array(first["looks"])
    assert looks.shape == (len(first["words"]), 8, 8)
    np.testing.assert_allclose(looks.sum((1, 2)), 1, atol=1e-4)
    assert set(fault) == {"image", "error"} and "this is no image" in fault["error"]
    assert (
        "the beam is 9999 hypotheses, and the vocabulary has"
        in regard("caption", captions, folder, "--beam", 9999, code=2).stderr
    )
    assert "choose --format jsonl" in regard("caption", captions, folder, "--looks", code=2).stderr


def test_names_that_are_not_utf8_are_written_as_escapes_b31(regard, captions, folder, tmp_path):
    """A folder of an old archive has such names; the lines and the page were lost after all images were captioned."""
    pictures = tmp_path / "old"
    pictures.mkdir()
    try:
        for name in (b"b\xff.jpg", b"c\rd.jpg"):
            (pictures / os.fsdecode(name)).write_bytes((folder / "b.jpg").read_bytes())
    except OSError:
        pytest.skip("this file system takes no such name")
    out, page = tmp_path / "out.tsv", tmp_path / "looks.html"
    regard("caption", captions, pictures, "--format", "tsv", "--out", out, "--draw", page)
    bad, cut = out.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    assert "old/b\\udcff.jpg\t" in bad and "old/c d.jpg\t" in cut
    assert "b\\udcff.jpg: " in page.read_text(encoding="utf-8")
    named = os.fsencode(pictures) + b"/b\xff.jpg\n"
    regard("caption", captions, "-", "--format", "tsv", "--out", out, stdin=named)
    assert out.read_text(encoding="utf-8") == f"{bad}\n"


def test_looks_are_drawn_over_the_picture(regard, captions, folder, tmp_path):
    page = tmp_path / "looks.html"
    said = regard("caption", captions, folder / "a wide.png", "--draw", page)
    assert "Written to" in said.stderr and page.read_text(encoding="utf-8").count("data:image/png;base64") == 1
    assert "the name's ending" in regard("caption", captions, folder / "b.jpg", "--draw", "looks.bmp", code=2).stderr
    given = folder / "a wide.png"
    assert "is the input itself" in regard("caption", captions, given, "--draw", given, code=2).stderr
    assert "正确的描述是" in regard("show", captions, "--seed", 1, "--lang", "zh").stdout
    assert "--length says nothing about a run of captioning" in regard("show", captions, "--length", 3, code=2).stderr
    (tmp_path / "empty").mkdir()
    assert "no file in this folder ends in .png" in regard("caption", captions, tmp_path / "empty", code=1).stderr
    assert "none.png" in regard("caption", captions, tmp_path / "none.png", code=1).stderr


def test_a_run_is_evaluated_beside_chance(regard, captions):
    table = regard("evaluate", captions, "part=validation").stdout
    assert "a cell at random" in table and "exact_unseen" in table
