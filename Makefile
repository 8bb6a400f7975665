# What a stranger needs: make demo, make test. What a developer needs besides: make check, make bench.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= auto

.PHONY: demo test check format bench clean help

help:           ## these lines
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/  /'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eventsched needs Python 3.11 or newer; set PYTHON=")'
	@echo 'Setting up $(VENV) from the package index (about a minute, once)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(READY)  ## a cluster under load, with progress and a summary
	@echo 'A cluster of 300 nodes, and 3,000 pods that ask for more than it has at a time:'
	@echo '  eventsched simulate --generate nodes=300,pods=3000,shape=tight,seed=1 --why default/pod-001059'
	@echo
	@$(BIN)/eventsched simulate --generate nodes=300,pods=3000,shape=tight,seed=1 --why default/pod-001059
	@echo
	@echo 'Ask about any other pod with --why; run it on your own cluster with'
	@echo '  kubectl get nodes,pods -A -o yaml > cluster.yaml'
	@echo '  $(BIN)/eventsched simulate --manifests cluster.yaml'

test: $(READY)  ## all tests
	$(BIN)/pytest -n $(WORKERS)

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY) ## put the format right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure; writes benchmarks/results/
	$(BIN)/python -m benchmarks

clean:          ## forget the environment
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
