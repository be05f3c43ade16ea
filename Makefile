# What each target does by hand is beside it in README.md.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
VLLM := .venv-vllm/bin/python

.PHONY: demo test lint format docs clean

demo: .venv/.demo
	@$(SHELL) fixtures/demo.sh $(CURDIR)/$(BIN)/modelcheck

test: .venv/.dev .venv-vllm
	MODELCHECK_VLLM_PYTHON=$$(test -x $(VLLM) && echo $(CURDIR)/$(VLLM) || true) \
	  $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(TESTS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Writes the table of rules in README.md and docs/rules anew.
docs: .venv/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .venv-vllm build *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml requirements/test.txt | .venv/bin/python
	$(BIN)/pip install -q -c requirements/test.txt -e '.[dryrun]'
	@touch $@

.venv/.dev: pyproject.toml requirements/test.txt | .venv/bin/python
	$(BIN)/pip install -q -c requirements/test.txt -e '.[dryrun,dev]'
	@touch $@

# The CPU build of vLLM exists for some machines only; without it the other tests still run.
.venv-vllm: requirements/vllm.txt
	@rm -rf $@.new && $(PYTHON) -m venv $@.new && rm -rf $@ && mv $@.new $@ \
	  && $@/bin/python -m pip install -q -r requirements/vllm.txt \
	  && $@/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec \
	  && touch $@ \
	  || { rm -rf $@ $@.new; echo "pip found no CPU build of vLLM: tests/differential will be skipped"; }
