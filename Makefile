# Toolroom. `make help` lists the targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Slow tests are skipped: thousands of repetitions, and programs that every driver runs
# in the same guest. SUITE=whole runs all tests.
SHORT    = $(if $(filter whole,$(SUITE)),,-short)
# VET=-vet=off leaves out the part of vet that go test runs, after make lint.
VET      =
# Twice as many packages as processors are tested at once, because half of them wait for
# processes and deadlines most of the time. Whole suites use the processors.
BESIDE   = $(if $(filter whole,$(SUITE)),,-p $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN)))
# These take longest and mostly wait, so they start first and the others run meanwhile.
FIRST    = ./cmd/toolroom ./drivers/proxmox ./internal/cli ./test/...
LDFLAGS  = -s -w -X main.version=$(VERSION)

.PHONY: dist definitions heavy microvm pyodide temporal stores s3 runtimes kubernetes help build test race lint fuzz bench peers integration conformance demo clean
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build the programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/... ./examples/mcp-folder ./test/conformance
	CGO_ENABLED=0 $(GO) build -C drivers -trimpath -ldflags '$(LDFLAGS)' -o ../bin/ ./cmd/...

# -count=1: a cached result means little, because tests use programs and files that go test
# does not track. Recording the files that tests open took it 200 seconds for internal/app alone.
test race: export TOOLROOM_TEST_COMPILED ?= $(CURDIR)/.compiled
# The flags of the released programs, so that each package is compiled once: make build, and
# tests that build programs, use them too.
test: export GOFLAGS = $(shell $(GO) env GOFLAGS) -trimpath
test: export CGO_ENABLED ?= 0
test: ## run the tests and list what was skipped; needs only Go. SUITE=whole adds thousands of repetitions
	GO=$(GO) $(GO) run ./test/report $(SHORT) $(VET) $(BESIDE) -count=1 -timeout 30m $(FIRST) ./... ./drivers/...

race: ## run the tests under the race detector (needs a C compiler)
	$(GO) test -race -timeout 30m ./... ./drivers/...

lint: ## run gofumpt, vet and staticcheck, and compile for the other systems
	@test -z "$$(GOWORK=off $(GO) tool -modfile=tools/go.mod gofumpt -l . | tee -a /dev/stderr)" || { echo "run: GOWORK=off go tool -modfile=tools/go.mod gofumpt -w ."; exit 1; }
	$(GO) vet ./... && $(GO) -C drivers vet ./... && GOWORK=off $(GO) -C packaging vet .
	GOWORK=off $(GO) tool -modfile=tools/go.mod staticcheck ./...
	cd drivers && GOWORK=off $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	GOOS=darwin $(GO) vet ./cmd/... ./room/... ./internal/... && GOOS=windows $(GO) vet ./examples/... && GOOS=windows $(GO) build -ldflags '-s -w' ./cmd/... ./room/... ./serve ./internal/...
	cd drivers && GOOS=darwin $(GO) vet ./... && GOOS=windows $(GO) build -ldflags '-s -w' ./...

fuzz: ## run each fuzz test for a short while (FUZZTIME=10s)
	GO=$(GO) ./scripts/fuzz.sh $${FUZZTIME:-10s}

bench: build ## print the figures of docs/benchmarks.md
	./scripts/bench.sh
	./scripts/bench-mcp.sh
	./scripts/bench-builtins.sh

peers: ## install the servers and clients for the integration tests (npm, python3-venv, Go)
	cd test/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	python3 -m venv test/python/.venv && test/python/.venv/bin/pip install -q --disable-pip-version-check -r test/python/requirements.txt
	GOWORK=off $(GO) build -C test/github -o ../../bin/ github.com/github/github-mcp-server/cmd/github-mcp-server

integration: build ## test against real MCP servers and clients (npm), git and curl
	$(GO) test -tags integration -count=1 -timeout 30m -parallel 4 ./test/integration
	$(GO) test -tags integration -count=1 -timeout 30m -run TestDeno ./test/guest

s3: ## build MinIO and Versity Gateway and test the pack storage against them (500 CPU seconds the first time)
	CI=true ./scripts/s3.sh

stores: ## install OpenBao and GNOME's keyring and test against them (pip, apt)
	CI=true ./scripts/stores.sh

# The tests wait for engines half of the time.
runtimes: build ## test against real Docker, containerd and gVisor (root); scripts/engines.sh installs them; SUITE=whole runs all
	CI=true $(GO) -C drivers test $(SHORT) -tags integration -count=1 -timeout 40m -parallel 6 ./test/runtimes/

temporal: build ## test against a real Temporal server (compiles it: about 11 CPU minutes the first time)
	cd drivers/test/temporal && export GOWORK=off && $(GO) vet . && $(GO) test -count=1 -timeout 15m .

microvm: ## run a part of the driver suites in QEMU's VMs (root, apt); SUITE=whole runs all
	CI=true ./scripts/microvm.sh $(SUITE)

heavy: ## run all tests that .ci/run leaves out: kubernetes, temporal, pyodide, stores, fuzz, and whole suites
	@for target in kubernetes temporal pyodide stores s3 fuzz microvm runtimes test; do $(MAKE) $$target SUITE=whole || failed="$$failed $$target"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

kubernetes: ## test against a real Kubernetes node (root; builds it the first time, 1,150 CPU seconds)
	CI=true ./scripts/kubernetes.sh test -v

pyodide: build ## install Pyodide and Deno and run the engine suites on them (npm)
	bin/toolroom --home .pyodide setup engines --with pyodide
	CI=true TOOLROOM_TEST_PYODIDE=$(CURDIR)/.pyodide $(GO) test -tags integration -count=1 -timeout 20m ./internal/engine/pyodide

definitions: build ## look for false alarms in the API documents of GitHub, Stripe and Kubernetes (npm, Go)
	scripts/definitions.sh bin/toolroom

conformance: suite-conformance suite-conformance-client suite-conformance-relay ## run the official MCP suite, every revision and extension (npm)
suite-%: build
	./scripts/$*.sh

demo: build ## start a room, add sources, find, call and chain their tools, write and release one
	./scripts/demo.sh

dist: ## build the packages into dist/ (PLATFORMS=linux/amd64,darwin/arm64) and install those for this system
	cd packaging && export GOWORK=off && $(GO) vet . && $(GO) test . && $(GO) run -trimpath . -version '$(VERSION)' $(if $(PLATFORMS),-platforms $(PLATFORMS))
	./scripts/dist-test.sh

firstday: ## play a newcomer's first day on the packages of dist/ (after make dist and peers; python3, git, curl)
	./test/firstday/run.sh

clean: ## remove files that the targets made
	rm -rf bin dist .demo .compiled
