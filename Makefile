# Two commands do all set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test check format lint types mutants bench clean

demo: $(STAMP)
	$(BIN)/python -m sklearn_fedpriv demo $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: $(STAMP) format lint types test

format: $(STAMP)
	$(BIN)/ruff format .

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

mutants: $(STAMP)
	$(BIN)/python -m tests.mutants.run $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
