# Everything starts here; `make help` lists the targets. Each target does its own set-up, so a fresh
# machine needs python3, make and a package index, no more.

PYTHON ?= python3
VENV   ?= .venv
# Other people's programs have an environment of their own, in which there is no PyTorch.
PROGRAMS_VENV ?= .venv-programs
ARGS   ?=
DTYPES ?= float32,float64,bfloat16,complex64,int64,bool

bin    := $(VENV)/bin
python := $(bin)/python

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-backends test-backends-quick lint format parity oracle transforms onnx bench doctor clean \
        test-programs test-intel-opencl

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.with-plot  ## train a small GPT, compare it with count models, let it write (ARGS="--resume", "--attention window", "--loss fused")
	$(bin)/rushlight demo $(ARGS)

test: $(VENV)/.with-test  ## the fast tests; need no PyTorch and no compiler
	$(python) -m pytest -n 2 tests -m "not slow and not parity" --ignore=tests/parity $(ARGS)

test-programs: $(PROGRAMS_VENV)/.ready  ## other people's packages, without PyTorch (ARGS="--quick", "timm gpt2")
	HF_HUB_OFFLINE=1 $(PROGRAMS_VENV)/bin/python tests/programs/run.py $(ARGS)

test-all: $(VENV)/.with-test  ## the fast and the slow tests
	$(python) -m pytest tests -m "not parity" --ignore=tests/parity $(ARGS)

# Metal runs emulated (g++), Triton in its interpreter; OpenCL on PoCL, whose compiler is several times
# faster without passes. Emulations see every kind of tile program with constant sizes alone. What
# cannot be installed or found here is skipped, with its reason.
BACKENDS ?= c opencl metal wgsl triton
CHECKED_MODELS ?= tests/models/test_gpt_on_backends.py tests/models/test_articles_on_backends.py
backend_tests := $(addprefix tests/unit/,backends/test_metal.py backends/test_metal_clang.py \
    backends/test_triton.py backends/test_cuda.py backends/test_module_files.py \
    engine/test_devices.py engine/test_device_modules.py engine/test_telemetry.py \
    engine/test_writes_on_devices.py engine/test_kernels_of_backends_on_disk.py)
cute_tests := $(addprefix tests/unit/backends/,test_cute.py test_cute_attention.py test_cute_run.py \
    test_makers.py)
# Other tools watch or run what was generated: Oclgrind (races), qemu-aarch64 with a cross compiler.
watched_tests := $(addprefix tests/unit/backends/,test_races.py test_arm.py)
test-backends test-backends-quick: export RUSHLIGHT_METAL_EMULATION = 1
test-backends test-backends-quick: export RUSHLIGHT_TRITON_INTERPRET = 1
test-backends test-backends-quick: export RUSHLIGHT_OPENCL_OPTIONS = -cl-opt-disable
test-backends: $(VENV)/.with-test  ## conformance and models on every backend (BACKENDS="c opencl")
	@$(call try_extras,opencl wgpu triton cute clang)
	$(call conformance,$(BACKENDS),static or sampled)
	$(python) -m pytest -n 2 tests/conformance/test_backend.py --backend=c -m "not slow" -k symbolic -q
	$(call models,$(BACKENDS),$(CHECKED_MODELS),)
	$(python) -m pytest -n 2 tests/unit/backends/test_wgsl.py -q $(ARGS)
	$(python) -m pytest -n 2 $(backend_tests) -q $(ARGS)
	$(python) -m pytest -n 2 $(cute_tests) -q $(ARGS)
	$(python) -m pytest -n 2 $(watched_tests) -q $(ARGS)

# Where pip has Intel's runtime: x86 on Linux. Its libraries lie in the environment's lib.
intel_icd = build/intel-icd
test-intel-opencl: $(VENV)/.with-test $(VENV)/.with-intel  ## OpenCL by Intel's runtime for CPUs, which has subgroups
	mkdir -p $(intel_icd) && echo $(abspath $(VENV))/lib/libintelocl.so > $(intel_icd)/intel.icd
	OCL_ICD_VENDORS=$(abspath $(intel_icd)) LD_LIBRARY_PATH=$(abspath $(VENV))/lib RUSHLIGHT_CACHE=0 \
	    $(python) -m pytest -n 2 tests/conformance/test_backend.py tests/unit/backends/test_scan_long.py \
	    --backend=opencl -m "not slow" -k "static or sampled or opencl" -q $(ARGS)

# What of it fits beside the other stages of .ci/run.
test-backends-quick: $(VENV)/.with-test  ## the part of it that .ci/run does
	@$(call try_extras,opencl triton clang)
	$(call conformance,c opencl metal triton,static or sampled)
	$(call models,opencl metal triton,tests/models/test_articles_on_backends.py,not resnet and)
	$(python) -m pytest -n 2 $(backend_tests) -q $(ARGS)

try_extras = for extra in $(1); do $(MAKE) --no-print-directory $(VENV)/.with-$$extra || \
    echo "extra $$extra cannot be installed here: its tests are skipped"; done
# A process for each: lavapipe and Triton bring an LLVM of their own, which may not meet.
models = for name in $(1); do $(python) -m pytest -n 2 $(2) -q -k "$(3) $$name]" $(ARGS) || exit 1; done
conformance = for name in $(1); do \
    $(python) -m pytest -n 2 tests/conformance/test_backend.py --backend=$$name -m "not slow" \
        -k "$(2)" -q $(ARGS) || exit 1; done

lint: $(VENV)/.with-dev  ## format, style, import directions, types
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(python) tools/arch_check.py
	$(python) tools/style_check.py
	$(bin)/pyright

format: $(VENV)/.with-dev  ## rewrite the files in the project's format
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

parity: $(VENV)/.with-parity $(VENV)/.with-test  ## compare with PyTorch 2.13.0 (a large download)
	$(python) -m pytest tests/parity $(ARGS)

oracle: $(VENV)/.with-parity  ## replay PyTorch's operator database (ARGS="--update", "--list", "--only REGEX")
	$(python) tests/parity/oracle/generate.py build/oracle $(DTYPES)
	$(python) tests/parity/oracle/generate_stateful.py build/oracle
	$(python) tests/parity/oracle/check.py build/oracle $(ARGS)

transforms: $(VENV)/.with-parity  ## the same cases under vmap and in derivatives of derivatives, after `oracle`
	$(python) tests/parity/oracle/generate_transforms.py build/oracle
	$(python) tests/parity/oracle/check_transforms.py build/oracle $(ARGS)

onnx: $(VENV)/.with-onnx  ## replay ONNX's operator cases (ARGS="--list", "--only REGEX")
	mkdir -p build && $(python) tests/parity/onnx_cases/generate.py build/onnx.pkl
	$(python) tests/parity/onnx_cases/replay.py build/onnx.pkl $(ARGS)

bench: $(VENV)/.with-plot  ## measure the workloads, beside PyTorch where it is installed
	$(python) benchmarks/run.py $(ARGS)

doctor: $(VENV)/.with-core  ## say what this machine offers and what is missing
	$(bin)/rushlight doctor

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) $(PROGRAMS_VENV) build dist out dump .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp file for each set of optional dependencies; pyproject.toml names them.
$(VENV)/.with-core: pyproject.toml tools/make_venv.sh
	@PYTHON=$(PYTHON) sh tools/make_venv.sh $(VENV)
	$(python) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.with-%: $(VENV)/.with-core
	$(python) -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

$(PROGRAMS_VENV)/.ready: pyproject.toml tests/programs/requirements.txt tests/programs/packages.txt
	@PYTHON=$(PYTHON) sh tools/make_venv.sh $(PROGRAMS_VENV)
	$(PROGRAMS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable . -r tests/programs/requirements.txt
	$(PROGRAMS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/programs/packages.txt
	@touch $@

# Stamps are kept although only pattern rules make them.
.PRECIOUS: $(VENV)/.with-%
