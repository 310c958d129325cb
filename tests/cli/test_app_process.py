"""The program as a process: how it starts, its streams, its signals."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

from regard.data.synthetic.phrases import phrases

REGARD = [sys.executable, "-m", "regard"]
PLAIN = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def call(*arguments, stdin=b"", env=None, code=0):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    done = subprocess.run(
        [*REGARD, *map(str, arguments)], input=stdin, capture_output=True, env=environment, timeout=240
    )
    assert done.returncode == code, done.stderr.decode(errors="replace")
    return done


def test_help_starts_without_torch_and_at_once():
    """Help takes at most 0.5 s on an idle machine; here it is only made sure that nothing slow is imported."""
    script = (
        "import sys, time\n"
        "from regard.cli.app import app\n"
        "for arguments in (['--help'], ['train', '--help'], ['--version'], ['recipes'], ['family']):\n"
        "    try:\n        app(arguments)\n    except SystemExit as stop:\n        assert not stop.code, stop.code\n"
        "slow = {'torch', 'transformers', 'matplotlib', 'tokenizers', 'sacrebleu'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "--print-config" in done.stdout and "2 called wrongly" in done.stdout
    seconds = time.monotonic() - began
    if seconds > 3:
        warnings.warn(
            f"five starts took {seconds:.1f} s: the machine is busy, or starting has become slow", stacklevel=1
        )


def test_completion_offers_commands_and_options():
    environment = {"_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard tra", "COMP_CWORD": "1"}
    script = "from regard.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})  # fmt: skip
    assert done.stdout.split() == ["train", "translate"]


def test_a_plain_locale_neither_crashes_nor_garbles(run, tmp_path):
    """B31: under PYTHONUTF8=0 and LC_ALL=C text is UTF-8 on the command line, in pipes and in files."""
    text = "à midi “Ünïcode” 中 🙂"
    typed = call("translate", run, text, "--format", "jsonl", env=PLAIN)
    assert json.loads(typed.stdout.decode("utf-8"))["source"] == text
    piped = call("translate", run, "-", "--format", "jsonl", stdin=text.encode(), env=PLAIN)
    assert piped.stdout == typed.stdout
    shown = call("show", run, text, "--target", "雪 🙂 \u201f", "--lang", "zh", env=PLAIN).stdout.decode("utf-8")
    assert "雪" in shown and "🙂" in shown
    invalid = subprocess.run([*REGARD, "translate", str(run), b"caf\xe9"], capture_output=True, timeout=240)
    assert invalid.returncode == 1 and b"is not UTF-8" in invalid.stderr and b"Traceback" not in invalid.stderr


def test_training_under_a_plain_locale(tmp_path):
    """B31: a vocabulary with U+201F, é, 中 and an emoji is written and read there."""
    lines = ["\u201f é", "中 国", "🙂 a", *"bcdefghijk"]
    (tmp_path / "a").write_text("\n".join(lines), encoding="utf-8")
    call("train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "a", "--run", tmp_path / "run",
         "training.steps=1", "model.embedding_dim=5", "model.encoder_dim=3", "model.decoder_dim=7",
         "model.attention_dim=3", "data.tokenizer=words", "data.held_out=2", env=PLAIN)  # fmt: skip
    vocabulary = (tmp_path / "run" / "tokenizers" / "source" / "tokenizer.json").read_text(encoding="utf-8")
    assert sum(character in vocabulary for character in "\u201f中🙂") >= 2
    assert call("translate", tmp_path / "run", "-", stdin="中 é 🙂\n".encode(), env=PLAIN).stdout.endswith(b"\n")


def test_a_reader_that_leaves_is_no_error_to_see(run, files):
    """As `regard translate … | head -1` does."""
    program = subprocess.Popen(
        [*REGARD, "translate", str(run), "-", "--batch", "1", "--quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert program.stdin and program.stdout and program.stderr
    program.stdin.write((files / "test.en").read_bytes())
    program.stdin.flush()
    assert program.stdout.readline()
    program.stdout.close()
    try:
        program.stdin.write((files / "test.en").read_bytes() * 40)
        program.stdin.close()
    except BrokenPipeError:
        pass
    assert program.wait(timeout=120) in (0, 1)
    assert program.stderr.read() == b""


def test_an_interrupted_training_says_how_to_go_on_and_does(tmp_path):
    """B33: Ctrl-C ends with 130 and the command to resume; the resumed run ends with the weights of an unbroken one."""
    made = phrases(60, seed=2)
    for name, side in (("a", "source"), ("b", "target")):
        (tmp_path / name).write_text("".join(getattr(pair, side) + "\n" for pair in made), encoding="utf-8")
    arguments = ["train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "b", "--threads", "1",
                 "model.embedding_dim=8", "model.encoder_dim=8", "model.decoder_dim=8", "model.attention_dim=8",
                 "data.tokenizer=words", "data.tokens=200", "data.held_out=3", "training.steps=24",
                 "training.log_every=1", "training.validate_every=20", "search.max_length=5"]  # fmt: skip
    program = subprocess.Popen(
        [*REGARD, *map(str, arguments), "--run", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True
    )
    assert program.stderr
    said = []
    for line in program.stderr:
        said.append(line)
        if line.startswith("step 3 "):
            program.send_signal(signal.SIGINT)
    assert program.wait(timeout=120) == 130, "".join(said)
    assert f"regard train --resume {tmp_path / 'run'}" in "".join(said) and "Traceback" not in "".join(said)
    call("train", "--resume", tmp_path / "run", "--quiet")
    call(*arguments, "--run", tmp_path / "whole", "--quiet")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
