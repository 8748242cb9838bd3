# Two commands do all the set-up: `make demo` and `make test`. Needed: make, and a Python from 3.11 to 3.13 with its venv module.

VENV := .venv
BIN := $(VENV)/bin
# Every process imports TensorFlow and traces its own graphs: more than four of them gain nothing.
PYTEST_FLAGS ?= -n auto --maxprocesses=4
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# `make PYTHON=/path/to/python demo` takes that one; otherwise the first of these that is new enough and not too new.
ifndef PYTHON
PYTHON = $(eval PYTHON := $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell $(name) -c '$(SUPPORTED)' 2>/dev/null && echo $(name)))))$(PYTHON)
endif

DEMO_TRAINER := ut-trainer --problem=babi_sim --problem_args=supporting_facts=1+2,story_length=8 --hparams_set=ut_demo \
	--output_dir=demo/run --data_dir=demo/data --tmp_dir=demo/downloads
# Ctrl-C reaches the shell as well, which must wait for the command's checkpoint.
resumable = trap : INT; $(BIN)/$(1) || { status=$$?; test $$status -ne 130 || echo 'make $@ goes on where it stopped.'; exit $$status; }
DEMO_EVAL := ut-eval --output_dir=demo/run
DEMO_SHOW := ut-show --output_dir=demo/run --examples=3 --html=demo/think.html --no_open

.PHONY: help demo demo-sudoku test slow-test mutants faults faults-sample bench lint typecheck imports format docs results pictures reproduce page site notebooks lock audit sbom install clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       installs into $(VENV), trains on simulated stories, evaluates and shows some; everything it writes is below demo/"
	@echo "make demo-sudoku  trains on Sudoku with 4 digits instead, in about three minutes, and opens a page that shows boards step by step"
	@echo "make test       installs into $(VENV) with what the tests need, and runs them"
	@echo "make slow-test  the tests that take long or repeat what quicker ones cover; make THIRD=0 slow-test: a third of them"
	@echo "make faults     damages files and processes for half an hour, and reports (docs/reliability.md); faults-sample: for a minute"
	@echo "make bench      the benchmarks of docs/performance.md into build/bench.txt; on an idle machine, and with pip install torch jax optax ctranslate2 beside peers"
	@echo "make lint       ruff check, ruff format --check, mypy, import-linter"
	@echo "make format     rewrites the files as ruff wants them"
	@echo "make docs       writes the generated tables of docs/ anew"
	@echo "make results    writes the tables of docs/results.md and docs/results/ anew from the records in results/"
	@echo "make pictures   draws the pictures of docs/images anew; needs chromium and its driver"
	@echo "make reproduce  trains a cheap run of each table of results/ again and compares (half an hour on two cores); make ROWS=lengths reproduce"
	@echo "make page       builds page/ into ut_tf/insights/page/index.html; needs Node.js 20 or newer"
	@echo "make site       writes the documentation as a site to build/site; fails on dead links"
	@echo "make notebooks  runs notebooks/ in full, into build/notebooks; takes a quarter of an hour"
	@echo "make lock       writes requirements/lock-3.11.txt anew: the newest versions that are allowed, with checksums"
	@echo "make audit      looks each version of that file up among the known vulnerabilities"
	@echo "make sbom       writes what is installed in $(VENV), with licenses, to build/sbom.json (CycloneDX)"
	@echo "make clean      removes $(VENV), demo/, build/ and all caches"

demo: $(VENV)/.installed
	@echo 'Stories about people and objects, simulated; a question needs one or two of the facts before it. This takes about two minutes on two cores.'
	@echo '$$ $(DEMO_TRAINER)'
	@$(call resumable,$(DEMO_TRAINER))
	@echo '$$ $(DEMO_EVAL)'
	@$(BIN)/$(DEMO_EVAL) > demo/metrics.json
	@echo '$$ $(DEMO_SHOW)'
	@$(BIN)/$(DEMO_SHOW)
	@echo
	@echo 'Above: the percentage of wrong answers by number of supporting facts, the mean steps (ponder time) of questions and of facts, and three test'
	@echo 'stories with a bar for the steps of each fact and of the question. demo/think.html, which needs no network, shows every step of these stories.'
	@echo 'Next: source $(BIN)/activate; ut-show --output_dir=demo/run; then type facts and a question of your own.'

SUDOKU_TRAINER := ut-trainer --problem=sudoku_4x4 --hparams_set=ut_exit_sudoku4 --hparams=train_steps=1000 \
	--output_dir=demo/sudoku --data_dir=demo/data --tmp_dir=demo/downloads
SUDOKU_SHOW := ut-show --output_dir=demo/sudoku --examples=3 --html=demo/sudoku.html

demo-sudoku: $(VENV)/.installed
	@echo 'Sudoku with 4 digits; a cell stops once it is sure. This takes about three minutes on two cores.'
	@echo '$$ $(SUDOKU_TRAINER)'
	@$(call resumable,$(SUDOKU_TRAINER))
	@echo '$$ $(SUDOKU_SHOW)'
	@$(BIN)/$(SUDOKU_SHOW)
	@echo
	@echo 'Does it think as long as it should?  source $(BIN)/activate; ut-eval --output_dir=demo/sudoku --by_difficulty'

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --dist=loadfile --no-loadscope-reorder

slow-test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow $(if $(THIRD),--third=$(THIRD) $(PYTEST_FLAGS) --dist=worksteal)

mutants: $(VENV)/.installed-test
	$(BIN)/python tests/mutants/run.py

faults: $(VENV)/.installed-test
	$(BIN)/python benchmarks/faults/campaign.py

faults-sample: $(VENV)/.installed-test
	$(BIN)/python benchmarks/faults/campaign.py --sample

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory typecheck imports

# The installed package has problems/, hparams/ and bin/ inside ut_tf; these links show them to mypy
# and import-linter in the same place.
LINKED := build/typecheck
.PHONY: linked
linked:
	@rm -rf $(LINKED) && mkdir -p $(LINKED)/ut_tf
	@ln -s $(addprefix $(CURDIR)/,$(filter-out ut_tf/__pycache__,$(wildcard ut_tf/*)) problems hparams bin) $(LINKED)/ut_tf/

typecheck: $(VENV)/.installed-test linked
	cd $(LINKED) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p ut_tf

imports: $(VENV)/.installed-test linked
	cd $(LINKED) && PYTHONPATH=$(CURDIR)/$(LINKED) $(CURDIR)/$(BIN)/lint-imports --no-logo --no-cache --config $(CURDIR)/pyproject.toml

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Widths and shares are those of docs/performance.md; peers run where they are installed, in bfloat16
# where the processor multiplies it: elsewhere an update of theirs takes up to half a minute.
BFLOAT16 := $(shell grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo && echo ,pytorch_bfloat16,jax_bfloat16)
PEERS := --peers=pytorch,jax$(BFLOAT16)
WIDE := $(PEERS) $(if $(BFLOAT16),,--dtype_policies=float32)
bench: $(VENV)/.installed-test
	@mkdir -p build
	set -e; { $(BIN)/python benchmarks/train.py $(PEERS) --hparams=num_steps=4,batch_size=2048,parallel_parts=2 --seconds=8 --rounds=3 --peer_batches=3 --warmup_steps=1; \
	$(BIN)/python benchmarks/train.py $(WIDE) --hparams_set=ut_small --hparams=num_steps=6,batch_size=1024,parallel_parts=2 --seconds=14 --rounds=3 --peer_batches=3 --warmup_steps=1; \
	$(BIN)/python benchmarks/decode.py --compute_types=float,int8; \
	$(BIN)/python benchmarks/halting.py --modes=inference,training --shares=25,100 --repetitions=5; \
	$(BIN)/python benchmarks/halting.py --modes=greedy,beam --hidden_sizes=512 --shares=25 --repetitions=3; \
	$(BIN)/python benchmarks/drafts.py --repetitions=5; \
	$(BIN)/python benchmarks/refill.py; \
	$(BIN)/python benchmarks/growth.py --seconds=4; } > build/bench.txt
	@cat build/bench.txt

docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py

results: $(VENV)/.installed
	$(BIN)/ut-report results/*.jsonl $(addprefix --page=,README.md docs/results.md $(wildcard docs/results/*.md))

pictures: $(VENV)/.installed-test
	$(BIN)/python docs/pictures.py

reproduce: $(VENV)/.installed
	$(BIN)/python benchmarks/reproduce.py $(if $(ROWS),--rows='$(ROWS)')

page:
	cd page && npm ci --no-audit --no-fund && npm run lint && npm run build

# The variable silences an announcement of mkdocs-material.
site: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(VENV)/.installed-test
	@mkdir -p build/notebooks
	$(BIN)/jupyter-execute --timeout=3600 --output='../build/notebooks/{notebook_name}' notebooks/*.ipynb

# Tools that have nothing to do with what runs the package.
TOOLS := build/tools
$(TOOLS)/.installed: $(VENV)/.created
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet 'uv>=0.5' 'pip-audit>=2.9' 'cyclonedx-bom>=6'
	@touch $@

LOCK := requirements/lock-3.11.txt
lock: $(TOOLS)/.installed
	$(TOOLS)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
		--generate-hashes --no-annotate --extra hub --extra figures --custom-compile-command 'make lock' \
		--output-file $(LOCK) pyproject.toml

audit: $(TOOLS)/.installed
	$(TOOLS)/bin/pip-audit --disable-pip --requirement $(LOCK) --vulnerability-service=pypi

sbom: $(TOOLS)/.installed $(VENV)/.installed
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json $(VENV)

install: $(VENV)/.installed
	@echo 'source $(BIN)/activate puts ut-trainer and the other commands on your path.'

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "make: no Python from 3.11 to 3.13 found; name one with make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c '$(SUPPORTED)' || { echo "make: $(PYTHON) is not a Python from 3.11 to 3.13"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml setup.py
	@echo 'Installing TensorFlow and what else ut-tf needs, 2.8 GB: 2 to 4 minutes.'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) demo build page/node_modules dist ut_tf.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
