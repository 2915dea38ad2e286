# Every target installs what it needs by itself; see CONTRIBUTING.md.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help demo build check lint vet shellcheck deploy-check docs-check docs smoke test test-long interop model bench bench-claim bench-maintenance bench-hold bench-readers bench-rewrite setup dev-up dev-down clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Build the program and watch it repair a table in a folder (needs only Go)
	bin/compactor demo

build: ## Build the static program bin/compactor
	CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags '-s -w' -o bin/compactor ./cmd/compactor

check: lint vet shellcheck deploy-check docs-check ## Linters, vet, scripts, configs, and that generated documents are current

lint:
	@scripts/setup.sh check
	. scripts/lib.sh && "$$golangci_lint" run --build-tags interop,spark --allow-parallel-runners ./...
	. scripts/lib.sh && cd internal/deploy && "$$golangci_lint" run --allow-parallel-runners ./...

vet:
	go vet -tags interop,spark ./...

shellcheck:
	@scripts/setup.sh check
	shellcheck -x .ci/run scripts/*.sh

deploy-check: ## Hold configs/ and the workflows to Helm, Kubernetes, hadolint, systemd, Compose and actionlint
	@scripts/setup.sh check
	cd internal/deploy && go test ./...

docs-check: ## Fail when a generated document differs from what the program says, or the documentation is incomplete
	go test ./cmd/compactor -run '^TestDocs|^TestDoc(Blocks|Links|Index)|^TestRunbook'
	go test ./internal/config -run '^TestReferenceIsCurrent$$'

docs: ## Write the generated parts of the documentation
	go test ./cmd/compactor -run '^TestDocs' -update
	go test ./internal/config -run '^TestReferenceIsCurrent$$' -update

test: check model ## Everything that continuous integration runs: check, the model, then all tests on real servers
	@scripts/setup.sh interop
	scripts/test.sh -race -tags interop ./...

test-long: ## The tests of "make test" and those with the build tag "long"
	@scripts/setup.sh interop
	@scripts/setup.sh spark
	scripts/test.sh -race -tags long,interop,spark -timeout 60m ./...

smoke: ## Try the built program on servers, see scripts/smoke.sh
	scripts/smoke.sh

interop: ## Tables of PyIceberg, DuckDB and Spark, maintained and read back by each of them
	@scripts/setup.sh interop
	@scripts/setup.sh spark
	scripts/test.sh -tags interop,spark -v ./internal/interop
	scripts/test.sh -tags interop,spark -run '^TestCorpus' -v ./pkg/rewrite

model: ## Check every configuration of the protocol's model with Spin
	@scripts/setup.sh test
	go run ./formal/check

bench-claim: ## Latency and rate of bakery claims on 1 and 3 nodes, also beside a heavy insert
	GOTESTSUM_FORMAT=standard-verbose scripts/test.sh -run '^$$' -bench Bakery -benchtime 500x -v ./pkg/claim

bench: ## Go benchmarks
	GOTESTSUM_FORMAT=standard-verbose scripts/test.sh -run '^$$' -bench . -benchmem -v ./...

bench-rewrite: ## Compare the engines that rewrite data files
	@scripts/setup.sh interop
	go test -tags bench ./pkg/rewrite -run '^TestBenchEngines$$' -count 1 -timeout 60m -v

bench-maintenance: ## Time and requests of expire and orphans, beside the client library's own calls
	GOTESTSUM_FORMAT=standard-verbose scripts/test.sh -tags bench -run '^TestBenchMaintenance$$' -v ./cmd/compactor

bench-hold: ## Compact a table of 1 GiB with each engine while another session wants the claim
	GOTESTSUM_FORMAT=standard-verbose scripts/test.sh -tags bench -run '^TestBenchHold$$' -timeout 60m -v ./cmd/compactor

bench-readers: ## Compare how fast DuckDB and PyArrow read what each engine writes
	@scripts/setup.sh interop
	go test -tags bench ./pkg/rewrite -run '^TestBenchReaders$$' -count 1 -timeout 60m -v

setup: ## Install servers and tools without running anything
	scripts/setup.sh

dev-up: ## Start PostgreSQL and a lake for work by hand and print their settings
	scripts/dev-up.sh

dev-down: ## Stop the servers of dev-up
	scripts/dev-down.sh

clean: ## Remove what was built in the checkout
	rm -rf bin
