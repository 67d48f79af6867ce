# What CI runs, step by step; each step can be typed alone.
PYTHON ?= .venv/bin/python

.PHONY: check lint types test coverage samples bench

check: lint types test coverage

# The modules that only plan: every line and every branch of them is run by the unit tests.
PURE = errors selection schedule option foreign pattern config/__init__ config/documents config/reading config/running document location census page bucket expectation budget batch packer result block soundness stats task intake rasterizing reading flow ledger \
	placement order/__init__ order/box order/direction order/columns order/cells order/numbered order/stories order/rows order/text \
	engines/generated engines/certainty engines/ladder engines/answer engines/rapid/groups engines/hunyuan/prompts engines/hunyuan/spotting engines/hunyuan/memory \
	tuning/unimodal tuning/figures tuning/trial tuning/estimate tuning/search tuning/tuning upkeep/groups upkeep/retention
comma := ,
empty :=
pure_files = $(subst $(empty) $(empty),$(comma),$(PURE:%=pipeline/%.py))

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest --numprocesses 2 --dist loadfile

# Tests of what draws pixels, of files and of storage run no line of these modules that the others do not; nor do
# those that only repeat what others do: most pages made to take forever, a hundred seeds.
PIXELS = raster upright layer ink quarantine odd strange command untrusted repetition progress sizes guards grid

coverage:
	$(PYTHON) -m pytest --numprocesses 2 tests/unit --hypothesis-profile=short --quiet --cov=pipeline --cov-report= $(PIXELS:%=--ignore-glob='*/test_%*.py') -k 'not 100_seeds and not (forever and not columns and not mixed)'
	$(PYTHON) -m coverage report --include='$(pure_files)' --fail-under=100

samples:
	$(PYTHON) sample_docs/make_samples.py

bench:
	$(PYTHON) benchmarks/throughput.py
