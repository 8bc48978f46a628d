# Primus Studio. `make run` opens the window, `make test` runs every check; both set up what they need, once.

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev run test lint benchmarks screenshots lock clean

PYTHON_DEV := .venv/bin/python
STUDY := mixtral-8x22b-mi355x-4x8
# Nothing in a test may look for a screen; the few that want one get a virtual one.
OFFSCREEN := QT_QPA_PLATFORM=offscreen

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r goal words; do \
		printf '%-20s %s\n' "$$goal" "$$words"; done

setup: ## make .venv with what the program needs (no torch)
	@packaging/setup.sh run

setup-dev: ## add what the tests need (torch, linters, a virtual display)
	@packaging/setup.sh dev

run: setup ## open the window; ARGS="project llama3.1-70b-h100-8x8" runs any command
	@.venv/bin/primus-studio $(ARGS)

lint: setup-dev ## style, types, walls between packages
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

test: lint ## everything that must hold before a change lands
	$(OFFSCREEN) $(PYTHON_DEV) -m pytest -n 2 --dist loadfile --max-worker-restart 0

benchmarks: setup-dev ## time what is promised in seconds
	$(OFFSCREEN) $(PYTHON_DEV) -m pytest tests/benchmarks --benchmark-enable --benchmark-only

screenshots: setup ## draw the pictures in the README anew
	.venv/bin/primus-studio screenshot $(STUDY) resources/screenshots/window-dark.png --theme dark
	.venv/bin/primus-studio screenshot $(STUDY) resources/screenshots/window-light.png --theme light

lock: ## resolve pyproject.toml anew into packaging/*.lock
	python3.11 packaging/lock.py

clean: ## remove .venv and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks build dist
	find projectors primus_studio tests packaging -name __pycache__ -type d -prune -exec rm -rf {} +
