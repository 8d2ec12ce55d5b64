# Everything below sets itself up: a virtual environment in .venv, with the files whose SHA-256 is in locks/.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs

.PHONY: demo browser quick test pytest pytest-quick test-crash lint docs site clean

demo: $(READY)
	rm -rf demo
	$(BIN)/twoclocks demo --out demo

# Style and types beside the tests: they take one core for half a minute.
test: $(READY) browser
	$(MAKE) --no-print-directory -j2 lint pytest

# Three processes for two cores: many tests wait for processes that they start or kill.
pytest: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal

# The inner loop, under a minute on two cores: style, types, and the tests of what everything else is built on.
QUICK := tests/test_layers.py tests/core tests/data tests/clocks tests/monitor/test_monitor.py \
	tests/monitor/test_never_silently_wrong.py tests/evaluation tests/store tests/models tests/objectives/test_edm.py \
	tests/objectives/test_autoregressive.py tests/runs/test_run.py tests/runs/test_old_formats.py
quick: $(READY)
	$(MAKE) --no-print-directory -j2 lint pytest-quick

pytest-quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not ray and not gpu" $(QUICK)

# The crash campaigns whole, about ten minutes; their short form is part of `make test`.
test-crash: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/crash/everything.py --out results/reliability.json

# What tests/browser needs beside .venv: a browser (not installed here, since that needs root) and axe-core from npm.
# Where one of them cannot be had, these tests are skipped and say so.
browser: $(READY)
	@command -v chromium >/dev/null || echo "no chromium: install it, such as by: apt-get install chromium"
	test -f .venv/axe/axe.min.js || $(BIN)/python tools/fetch_axe.py || echo "axe-core cannot be fetched; is npm installed?"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Tables in README.md and docs/ that come from the registries, the source tree and results/.
docs: $(READY)
	$(BIN)/python tools/generate_docs.py

# The documentation as a site of static pages in site/, with an API reference from the docstrings.
site: $(READY) $(DOCS_READY)
	$(BIN)/python tools/build_site.py

# Only `make site` needs these packages.
$(DOCS_READY): $(READY) locks/docs.txt
	$(INSTALL) -r locks/docs.txt
	touch $(DOCS_READY)

# Exactly what locks/ names, each file with a SHA-256 that is there. What builds packages comes first, so that nothing
# else is fetched for it. torch is the CPU build where pip finds it; the other one brings CUDA's libraries on Linux.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --require-hashes
$(READY): pyproject.toml locks/build.txt locks/dev.txt locks/torch.txt locks/torch-cpu.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "twoclocks needs Python 3.11 or newer; set PYTHON=python3.x"'
	$(PYTHON) -m venv .venv
	$(INSTALL) -r locks/build.txt
	$(INSTALL) -r locks/dev.txt
	$(INSTALL) -r locks/torch-cpu.txt 2>/dev/null || $(INSTALL) -r locks/torch.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	touch $(READY)

clean:
	rm -rf .venv demo runs build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
