# make demo   weigh one real program        make test    every test
# make unit   those that start no process and are quick, in a minute or two
# make check  formatters, linters, types    make bench   what Tare itself costs
# make papers docs/papers.md, in a night     make soak    long runs, TARE_SOAK_SECONDS of layers
# make wheel  what pip installs, in dist    make docs    the documentation as a site
# make steady every test beside twenty busy loops: names those that a busy machine can fail
# make tuned  docs/tuned.md, in an hour       make trixie  demo and tests in a bare Debian 13
# make noble, make resolute                   the same in a bare Ubuntu 24.04, 26.04
# make arm64  a wheel for arm64, tried in a bare Debian 12 under QEMU 8 or newer
# make wheel-systems  dist's wheel tried in bare Debians without a compiler
# make machine  tests of containers under control groups of version 2, in QEMU
.DEFAULT_GOAL := help
.PHONY: help setup build demo unit test check format bench papers tuned soak steady trixie noble resolute machine arm64 wheel wheel-systems docs lock clean

VENV := .venv
PYTHON := $(VENV)/bin/python
TARE := $(VENV)/bin/tare
STEP := scripts/step.sh
DICTIONARY := /usr/share/dict/american-english
NATIVE_SOURCES := $(shell find observers managers platform replay workloads/kernels -type f \
	-not -path '*/__pycache__/*') CMakeLists.txt pyproject.toml

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

setup:
	@scripts/setup.sh build

$(VENV)/.dependencies: requirements.lock
	@scripts/setup.sh build
	@$(STEP) "Python environment" environment \
		"If the network or a full disk was in the way, run the same command again." \
		scripts/environment.sh $(VENV)
	@touch $@

# Native sources need a new build; the Python parts are used in place, but where a package is new or
# has moved, the installation has to learn of it.
$(VENV)/.built: $(VENV)/.dependencies $(NATIVE_SOURCES) $(shell find tare -name __init__.py)
	@scripts/setup.sh build
	@$(STEP) "native parts and allocators" native \
		"The same command again goes on from here; after make clean it begins from nothing." \
		$(VENV)/bin/pip install -v --no-build-isolation --no-deps -e .
	@touch $@

build: $(VENV)/.built

demo: build
	@scripts/setup.sh demo
	@$(TARE) weigh -o demo-results -- \
		gawk -v widest=50 -f workloads/gawk/format.awk $(DICTIONARY) \
		|| { code=$$?; echo "to weigh anew: rm -r demo-results; make demo"; exit $$code; }

unit: build
	@$(PYTHON) -m compileall -q tare
	@$(PYTHON) -m pytest -n 2 --dist worksteal -m "not soak and not thorough" tests/unit

test: build
	@scripts/setup.sh demo test
	@$(PYTHON) -m compileall -q tare  # most tests start tare anew, where nothing may be compiled
	@$(STEP) "programs of the native tests" native-tests \
		"The log names the file and the line." $(PYTHON) -m tests.native.programs
	@$(PYTHON) -m tests

steady: build
	@scripts/setup.sh demo test
	@$(PYTHON) -m compileall -q tare
	@$(PYTHON) -m tests --beside 20

trixie noble resolute:
	scripts/in-system.sh $@ make demo test

machine: build
	scripts/in-machine.sh $(PYTHON) -m pytest -q tests/studies/test_minheap_container.py

arm64: $(VENV)/.dependencies
	PYTHON=$(PYTHON) scripts/build-arm64.sh
	scripts/try-wheel.sh dist/tare-*-linux_aarch64.whl bookworm-arm64

check: build
	@scripts/setup.sh check
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache > /dev/null || { $(VENV)/bin/lint-imports --no-cache; exit 1; }
	git ls-files '*.c' '*.cpp' '*.h' '*.hpp' | xargs $(VENV)/bin/clang-format --dry-run --Werror
	git ls-files '*.sh' .ci/run | xargs shellcheck
	@scripts/check-rust.sh replay replay/mmtk replay/load kits/cargo-tare
	@$(STEP) "C and C++ with warnings as errors" warnings "The log names the file and the line." \
		scripts/check-warnings.sh

format: build
	@scripts/setup.sh check
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	git ls-files '*.c' '*.cpp' '*.h' '*.hpp' | xargs $(VENV)/bin/clang-format -i

bench: build
	@scripts/setup.sh demo
	@$(PYTHON) -m compileall -q tare  # its commands start anew for each row
	$(PYTHON) -m bench

tuned: build
	@scripts/setup.sh demo
	$(PYTHON) -m bench.tuned

papers: build
	@scripts/setup.sh demo
	$(PYTHON) -m bench.papers run

soak: build
	@scripts/setup.sh demo test soak
	$(PYTHON) -m pytest -m soak

wheel: build
	@scripts/setup.sh wheel
	PYTHON=$(PYTHON) scripts/build-wheel.sh

wheel-systems:
	scripts/try-wheel.sh dist/tare-*-manylinux_2_28_x86_64.whl

docs: build
	$(PYTHON) -m mkdocs build --strict

lock:
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --group dev \
		pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) build build.log
