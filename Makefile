# What CI runs, step by step; each step can be typed alone.
PYTHON ?= .venv/bin/python

.PHONY: check lint types test samples bench

check: lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

samples:
	$(PYTHON) sample_docs/make_samples.py

bench:
	$(PYTHON) benchmarks/throughput.py
