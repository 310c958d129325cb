"""What starting loads, and what it leaves for later. Without a clock: what is slow to load is known by its name."""

import os
import subprocess
import sys

HEAVY = {
    "accelerate", "babel", "fontTools", "matplotlib", "num2words", "pandas", "PIL", "pydantic", "rich", "sacrebleu",
    "safetensors", "scipy", "sympy", "tensorboard", "tokenizers", "transformers", "triton", "yaml",
}  # fmt: skip
COMPILING = {"torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes"}

FIRST_CALL = """
import torch, regard
three = [torch.randn(2, 300, 16, requires_grad=True) for _ in range(3)]
for options in ({}, {"dropout": 0.1}, {"mask": regard.masks.causal()}, {"refocus": [lambda weights: weights]}):
    regard.attend(*three, **options).context.sum().backward()
"""


def loaded(code: str, **environment: str) -> set[str]:
    """The names of all modules that a new Python has after the code."""
    told = f"{code}\nimport sys\nprint('loaded:', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


def test_the_package_alone_is_light():
    """`import regard` is two files of its own: names are imported on first use."""
    names = loaded("import regard; dir(regard); regard.__version__")
    assert "regard" in names
    assert not names & {"torch", "numpy", "jaxtyping", *HEAVY}
    assert {name for name in names if name.startswith("regard.")} == set()


def test_help_loads_no_more_than_it_prints():
    names = loaded(
        "import sys\nfrom regard.cli import main\nsys.argv = ['regard', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code"
    )
    assert "typer" in names
    assert not names & {"torch", "numpy", "jaxtyping", *HEAVY - {"rich"}}


def test_attention_loads_what_attention_needs():
    names = loaded("import regard as r; r.attend, r.explain, r.MultiHeadAttention, r.record, r.masks, r.position")
    assert {"torch", "jaxtyping"} <= names
    assert not names & (HEAVY | COMPILING)
    assert {one.split(".")[1] for one in names if one.startswith("regard.")} <= {
        "attention", "errors", "files", "kernels", "registry",
    }  # fmt: skip


def test_a_first_call_loads_no_compiler_of_torchs():
    """Torch's own takes seconds to load; a loop of ours is built by a program beside this one."""
    assert not loaded(FIRST_CALL, REGARD_COMPILE="0") & (HEAVY | COMPILING)
