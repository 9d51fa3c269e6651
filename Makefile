# `make rank` and `make test` install what they need into .venv and write nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: jax-installed rank check-rank test test-all checks kernels lint types docs docs-serve notebooks bench results figures pages model fuzz kills laws audit lower newest jax pythons wheel soak clean-kernels clean

# Rank the candidates of a run, then search for a better mapping.
RUN := --comm lammps-droplet-128 --torus 4x4x8
rank: .venv/installed
	@$(BIN)/toruscast rank $(RUN) --top 1 --report .venv/rank.html
	@$(BIN)/toruscast search $(RUN) --seconds 10 --report .venv/search.html | sed -n '1,2p;$$p' | fold -s -w 80

# Rank, simulate all candidates, and score the prediction.
check-rank: .venv/installed
	$(BIN)/toruscast rank --comm lammps-lj-512 --torus 8x8x8 --check

test: checks
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: checks
	$(BIN)/python -m pytest -n 2

# Both cores work: the kernels would otherwise be compiled once by each of the two test workers.
checks: .venv/installed-dev
	@$(MAKE) --jobs 2 --output-sync lint kernels types docs

kernels: .venv/installed-dev
	$(BIN)/python tools/wheel.py --here

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	MYPYPATH=src $(BIN)/mypy --cache-dir .venv/mypy -p toruscast

# Build the documentation into .venv/site. Warnings are errors.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Run the notebooks and store their output.
notebooks: .venv/installed-dev
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace docs/notebooks/*.ipynb

bench: .venv/installed-dev
	$(BIN)/python benchmarks/run.py --out benchmarks/results --large
	$(BIN)/python benchmarks/plain_numba.py --out benchmarks/results
	$(BIN)/python benchmarks/level_one.py --out benchmarks/results
	$(BIN)/python benchmarks/sensitivity.py --out benchmarks/results
	$(BIN)/python benchmarks/bisection.py --out benchmarks/results
	$(BIN)/python tools/train_default.py --check --samples .venv/default-samples.parquet
	$(BIN)/python benchmarks/posterior.py .venv/default-samples.parquet --out benchmarks/results
	$(BIN)/python benchmarks/forecast.py --out benchmarks/results --kept .venv/forecast
	$(BIN)/python benchmarks/rank.py --out benchmarks/results
	$(BIN)/python benchmarks/startup.py --out benchmarks/results
	$(BIN)/python benchmarks/page.py --out benchmarks/results
	$(BIN)/python benchmarks/cost.py --out benchmarks/results
	$(BIN)/python benchmarks/workers.py --out benchmarks/results
	PYTHONPATH=. $(BIN)/python benchmarks/fluid.py --out benchmarks/results
	PYTHONPATH=. $(BIN)/python benchmarks/fluid.py --out benchmarks/results --adaptive
	test -z "$(DATA)" || $(BIN)/python benchmarks/validation.py --data "$(DATA)" --out benchmarks/results
	test -z "$(DATA)" || $(BIN)/python benchmarks/plan.py --data "$(DATA)" --out benchmarks/results
	$(BIN)/python -m studies.patterns --csv benchmarks/results/composition.csv
	$(BIN)/python benchmarks/report.py benchmarks/results .

# DATA=FOLDER has the public measurements, which the results page needs. Results of studies that
# cannot run are kept, such as those of SimGrid if it is not installed.
results: .venv/installed-dev
	@test -n "$(DATA)" || { echo "make results DATA=FOLDER: expected the folder of measurements"; exit 1; }
	rm -rf .venv/results
	$(BIN)/python -m studies run all --out .venv/results --data "$(DATA)"
	cd .venv/results/tables && for name in *; do \
		rm -rf $(CURDIR)/docs/studies/tables/$$name $(CURDIR)/docs/studies/figures/$$name-*.svg; \
	done
	cp -R .venv/results/figures .venv/results/tables docs/studies
	for page in .venv/results/*.md; do \
		sed -E 's#\]\((figures|tables)/#](../../docs/studies/\1/#g' $$page > studies/results/$$(basename $$page); \
	done

figures: .venv/installed-dev
	$(BIN)/python tools/draw_rooms.py docs/figures/rooms.svg
	$(BIN)/python tools/draw_validation.py benchmarks/results/validation.csv docs/figures/validation.svg
	$(BIN)/python tools/draw_strategies.py
	$(BIN)/python tools/draw_report.py docs/figures/report.png

# Train the default model, with intervals by kind of traffic, in about ten minutes.
# With --check it compares the model with the file.
model: .venv/installed
	$(BIN)/python tools/train_default.py --samples .venv/default-samples.parquet

# Generate the pages of docs/reference that describe the program.
pages: .venv/installed
	$(BIN)/python tools/pages.py

# Fuzz the readers with RUNS files per family. FAMILIES selects families by name.
RUNS ?= 10000
fuzz: .venv/installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[fuzz]'
	$(BIN)/python tools/fuzz.py --runs $(RUNS) $(FAMILIES)

# Kill each long command KILLS times and resume it. The results must not change.
KILLS ?= 50
kills: .venv/installed
	$(BIN)/python tools/kills.py --kills $(KILLS) --keep

# Check each law on EXAMPLES random tori, mappings and traffic graphs.
EXAMPLES ?= 10000
laws: .venv/installed-dev
	$(BIN)/python tools/laws.py --examples $(EXAMPLES) --keep
	$(BIN)/python tools/bound_law.py --cases $(EXAMPLES)

# Check the installed packages for known vulnerabilities, which needs a server.
audit: .venv/installed-dev
	$(BIN)/pip install --quiet pip-audit
	@$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip 2> .venv/audit.log; \
	code=$$?; if grep -q "^requests.exceptions" .venv/audit.log; then \
		echo "make audit: the vulnerability server cannot be reached (.venv/audit.log)"; exit 1; \
	fi; cat .venv/audit.log; exit $$code

# Test meshes and compiled programs with the newest JAX, a download of 100 MB.
jax: jax-installed
	$(BIN)/python -m pytest -q tests/mesh/test_frameworks.py tests/mesh/test_mesh_jax.py \
		tests/mesh/test_hlo.py tests/cli/test_mesh.py

jax-installed: .venv/installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[jax]'

# Test the minimum versions in pyproject.toml with Python 3.11 or 3.12. They were resolved by
# uv pip compile --resolution lowest-direct --python-version 3.11 pyproject.toml
lower:
	rm -rf .venv/lower build
	$(PYTHON) -m venv .venv/lower
	.venv/lower/bin/pip install --quiet --constraint constraints-lower.txt . hypothesis matplotlib 'pytest<9'
	rm -rf build
	.venv/lower/bin/toruscast rank --comm lammps-lj-64 --torus 4x4x4
	.venv/lower/bin/toruscast features --comm lammps-lj-64 --torus tpu_v4:4x4x8 --routing adaptive --candidates 2
	.venv/lower/bin/toruscast search --comm lammps-lj-64 --torus 4x4x4 --seconds 2
	.venv/lower/bin/python -m pytest -q -m "not slow" tests/mapping tests/routing tests/features tests/scaling \
		tests/search/test_search.py tests/decision/test_plan.py tests/training/test_model_file.py

# Test the newest numba, because `_llvm.py` and `_jit.py` use private options that may change.
newest:
	rm -rf .venv/newest build
	$(PYTHON) -m venv .venv/newest
	.venv/newest/bin/pip install --quiet . hypothesis 'pytest<9'
	.venv/newest/bin/pip install --quiet --upgrade numba
	rm -rf build
	.venv/newest/bin/python -m pytest -q -m "not slow" tests/house/test_llvm.py tests/house/test_kept_kernels.py \
		tests/routing tests/simulation

# Test the wheel in an empty environment of each installed Python in PYTHONS.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
pythons: .venv/installed
	rm -rf .venv/pythons build
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir .venv/pythons .
	rm -rf build
	for python in $(PYTHONS); do \
		$$python -m venv --clear .venv/pythons/env 2> /dev/null || { echo "$$python: not installed"; continue; }; \
		.venv/pythons/env/bin/pip install --quiet .venv/pythons/*.whl || exit 1; \
		.venv/pythons/env/bin/toruscast rank --comm lammps-lj-64 --torus 4x4x4 > /dev/null || exit 1; \
		echo "$$(.venv/pythons/env/bin/python --version): the wheel ranks lammps-lj-64"; \
	done

# Build a wheel with compiled kernels in dist/, and test it in a read-only environment.
wheel: .venv/installed
	$(BIN)/python tools/wheel.py --pythons "$(PYTHONS)" --out dist

# Check for memory growth during MINUTES of predictions and simulations.
MINUTES ?= 120
soak: .venv/installed
	$(BIN)/python tools/soak.py --minutes $(MINUTES)

clean-kernels:
	find . -name '*.nb[ic]' -not -path './.venv/*' -delete

clean:
	rm -rf .venv build *.egg-info .pytest_cache .hypothesis .ruff_cache

.venv/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "toruscast needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt setuptools
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	touch $@
