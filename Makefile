# CI runs .ci/run. The targets here are parts of it, for use by hand.
.DEFAULT_GOAL := help
export CGO_ENABLED = 0

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bothy and its other programs here
	go build -o . ./cmd/...

.PHONY: install
install: ## put bothy into $(go env GOPATH)/bin
	go install ./cmd/...

.PHONY: tour
tour: ## build, and show what a sandbox is, on this directory
	sh examples/tour.sh

.PHONY: test
test: ## run all tests
	CGO_ENABLED=0 go test -timeout 2h ./...

FUZZTIME ?= 10m
.PHONY: fuzz
fuzz: ## fuzz every target, each for FUZZTIME (10m)
	FUZZTIME=$(FUZZTIME) FUZZCACHE=$$(go env GOCACHE)/fuzz .ci/fuzz

.PHONY: unit
unit: ## run the tests that start no sandbox
	go test -short ./internal/... ./spec/...

.PHONY: race
race: ## run the unit tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -short ./internal/... ./spec/...

.PHONY: faults
faults: ## make every kind of state-changing system call of every job fail (hours)
	BOTHY_FAULT_CALLS=all BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestFailingCalls$$' ./test/faults

.PHONY: record
record: ## record the state that COMMIT writes, for TestOlder (as root)
	test/versions/record.sh $(COMMIT)

STORM ?= 2h
.PHONY: soak
soak: ## kill at random and take random steps for STORM (2h) each
	BOTHY_STORM=$(STORM) BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestStorm$$' ./test/faults
	BOTHY_SOAK=$(STORM) BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./test
	BOTHY_SOAK_ITERATIONS=500 BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestSoakLoop$$' ./test
	BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^Test(KillAtRandomMoments|Growth)$$' ./test/faults

.PHONY: floods
floods: ## make sandboxes send more to the gateway than it can hold
	BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 60m -v -run '^TestB10' ./test/attacks

INSTALLS ?= registry.example
.PHONY: installs
installs: ## make package managers install from their registries; INSTALLS is the registries' network if it is private
	BOTHY_INSTALLS=$(INSTALLS) CGO_ENABLED=0 go test -count=1 -timeout 60m -v -run 'TestScript/.*/^installs-' ./test

.PHONY: agents
agents: ## run the tests of agents with every agent
	BOTHY_TEST_SWEEPS=1 CGO_ENABLED=0 go test -count=1 -timeout 90m ./test/agents

.PHONY: arch
arch: ## check layers, doors, pins and the init budget
	go test ./internal/archtest

.PHONY: races
races: ## exchange paths inside while the host walks them, 100000 times a case
	BOTHY_RACES=100000 BOTHY_TEST_SWEEPS=1 go test -count=1 -timeout 90m -v -run '^TestExchangedPaths$$' ./test/attacks

.PHONY: lint
lint: ## run the linters at their pinned versions
	go tool -modfile=tools/go.mod golangci-lint run ./...

.PHONY: fmt
fmt: ## format the code
	go tool -modfile=tools/go.mod golangci-lint fmt

.PHONY: tidy
tidy: ## tidy go.mod and go.sum
	go mod tidy && go mod verify

.PHONY: ci
ci: ## run what CI runs (as root, on Debian)
	.ci/run

.PHONY: clean
clean: ## remove the built programs
	rm -f bothy bothy-build bothy-guest bothy-keeper
