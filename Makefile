# make demo    set up everything and run the demo in the lab
# make test    the tests that CI runs; they set up what they need
# make help    all targets

.PHONY: help demo setup setup-dev test compiled-tests test-fast test-system test-deep test-long recompute image image-test dist dist-sources elk-test twin-paths laws sanitize fuzz-iperf3 serve-iperf3 fuzz-capflow fuzz-agent faults check man format lock clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

demo: setup ## run configs/demo.ini in the lab; prints the table, the answer and the report's path
	@rm -rf results/demo
	@.venv/bin/ccmix demo

setup: ## install what running needs; leaves .venv/bin/ccmix
	@tools/setup

setup-dev:
	@tools/setup --dev

test: ## formatter, linter, types, and the tests, in about 30 minutes; sudo is asked for once
	@$(MAKE) --no-print-directory --jobs=2 check compiled-tests
	@tools/test.py test

# pytest rewrites the assertions of all tests in each process that collects them, unless that is kept
compiled-tests: setup-dev
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest --collect-only -qq -p no:cacheprovider >.venv/collected || \
		{ cat .venv/collected; exit 1; }

test-fast: setup-dev ## the tests without the lab, Docker, Elasticsearch and root, in a minute
	@tools/test.py fast

test-system: setup-dev ## what CI runs besides: Docker, packages and hosts, in about 25 minutes; sudo is asked for once
	@tools/test.py system

test-deep: setup-dev ## these, more cases in the lab, and the tests of C again with sanitizers, in about an hour
	@tools/test.py deep

test-long: setup-dev ## long grids, kills and fuzzing, by hand
	@tools/test.py long --timeout 3600

recompute: setup-dev ## compute the metrics of 120 runs of uncommon shapes a second time, from raw files, and compare
	@tools/test.py test,long --timeout 7200 tests/recomputed

image: ## build ccmix:harness, with this machine's Docker or, where there is none, a private one
	container/build harness

image-test: setup-dev ## all tests of the images, in a private Docker engine, which needs sudo
	REQUIRE_DOCKER=1 tools/test.py test,deep,long --timeout 3600 tests/containers

dist: setup ## build the files of a release into dist/: wheel, packages, checksums, bill of materials
	packaging/dist

dist-sources: ## fetch the sources of what is under the GPL in dist/ into dist/sources
	packaging/dist --sources

elk-test: setup-dev ## all tests of Elasticsearch and Kibana, against a real node, the long ones too
	tools/test.py test,deep,long --timeout 3600 tests/index $(wildcard tests/elk)

twin-paths: setup-dev ## measure 200 blind paths in the lab and score what is said of them; each call goes on for 10 minutes
	.venv/bin/python bench/twin.py --seeds 201-400 -o results/twin-paths -j 2 --seconds 540

laws: setup-dev ## count false alarms of the conservation laws in 500 honest runs, and the lies they find; each call goes on for 10 minutes
	.venv/bin/python bench/laws.py -o results/laws -j 2 --seconds 540

sanitize: setup-dev ## the tests of the C programs, built with AddressSanitizer and UBSan
	@tools/test.py sanitize

fuzz-iperf3: ## fuzz the patched iperf3 with clang's libFuzzer, and by talks with a server: four times 10 minutes
	tools/setup --fuzz
	iperf3-patch/fuzz/run 600

faults: setup-dev ## 1,000 hostile mutations and 200 kills, with counts, in at most an hour; each call goes on where the last stopped
	tests/faults/run_parts.py results/faults

serve-iperf3: setup-dev ## 10,000 hostile talks with one server of the patched iperf3, in about 10 minutes
	iperf3-patch/fuzz/serve.py --talks 10000

fuzz-capflow: ## fuzz the reader of captures for 10 minutes
	tools/setup --fuzz
	probes/capflow/fuzz.py --seconds 600

fuzz-agent: setup-dev ## fuzz the protocol of the agent in both directions, for 20 minutes
	CCMIX_FUZZ_SECONDS=1200 tools/test.py long --timeout 3600 tests/agent/test_fuzz.py

check: setup-dev ## formatter, linter, type checker, layers of imports, wording
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/pytest -q -p no:cacheprovider tests/test_wording.py
	shellcheck --severity=warning $$(git grep -lE '^#!.*(bash|/bin/sh)') tools/cache.sh tools/packages.sh lab/additions.sh

man: setup ## write ccmix.1, the man page of all commands
	@.venv/bin/python -I -m ccmix.cli.man_page >ccmix.1

format: setup-dev ## format the Python code
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

lock: ## write the files in requirements/ again, with the newest versions
	tools/lock

clean: ## remove .venv; results and the cache stay
	rm -rf .venv
