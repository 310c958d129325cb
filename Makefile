# Everything runs inside .venv, which any target makes when it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lowest lint docs benchmarks clean

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "regard needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/regard demo

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/.installed
	$(BIN)/python -m pytest -m slow

# The tests with the lowest versions that pyproject.toml names, and the newest of what those ask for; several GB.
lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	sed -n 's/^ *"\([A-Za-z0-9-]*\)>=\([0-9.]*\)".*/\1==\2/p' pyproject.toml | sort -u > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable '.[dev]'
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n 2 --dist worksteal

docs: .venv/.installed
	$(BIN)/python -m regard.attention.family.page docs
	$(BIN)/python -m regard.worked.page docs

# JoeyNMT asks for an old protobuf, which nothing here would use; so it comes without what it asks for.
benchmarks: .venv/.installed
	$(BIN)/python -m pip install --quiet --no-deps joeynmt==2.3.0 subword-nmt==0.3.8 importlib-metadata==8.5.0 zipp
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/train.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/translate.py

clean:
	rm -rf .venv .venv-lowest dist build .pytest_cache .mypy_cache .ruff_cache
