"""The wheel carries all that the program needs, and works where nothing but the wheel and its dependencies is."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built by the backend that pyproject.toml names."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build as backend; print(backend.build_wheel({str(folder)!r}))"
    run([sys.executable, "-c", code], ROOT)
    [built] = folder.glob("*.whl")
    return built


def run(command: list[str], folder: Path, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**clean, **environment}, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_source_and_nothing_else(wheel):
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.glob("regard/**/*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert "regard/py.typed" in wanted
    assert {".yaml", ".cpp", ".hpp"} <= {Path(name).suffix for name in wanted}  # loops are built where it is installed
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert names == wanted
        licences = [name for name in archive.namelist() if name.endswith("LICENSE")]
        assert [archive.read(name) for name in licences] == [(ROOT / "LICENSE").read_bytes()]


def test_the_metadata_has_the_readme_and_asks_for_lower_bounds(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    assert metadata["Name"] == "regard" and metadata["Version"] == regard.__version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload(decode=True).decode().strip() == (ROOT / "README.md").read_text("utf-8").strip()
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert any(line.startswith("torch>=") for line in needed)
    assert not [line for line in needed if "==" in line]


def test_installed_from_the_wheel_it_runs_in_any_folder(wheel, tmp_path):
    """A fresh environment: the wheel is installed in it, its dependencies are lent by this one."""
    home = tmp_path / "env"
    run([sys.executable, "-m", "venv", "--without-pip", str(home)], tmp_path)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)], tmp_path)
    packages = Path(
        run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip()
    )
    # A plain line adds the folder to the path but reads no .pth file in it, so an editable install there stays unseen.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    def call(*arguments: str) -> str:
        return run([str(python.with_name("regard")), *arguments], tmp_path, PYTHONIOENCODING="utf-8")

    where = run([str(python), "-c", "import regard; print(regard.__file__)"], tmp_path).strip()
    assert Path(where).is_relative_to(packages)
    assert call("--version") == f"regard {regard.__version__}\n"
    assert "Bahdanau" in call("family")
    assert "multi30k-bahdanau-short" in call("recipes")
