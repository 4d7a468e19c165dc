# Toolroom. `make help` lists the targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# What takes long is left out: repetitions by the thousand, and programs that every
# driver runs in the same guest. SUITE=whole has it all.
SHORT    = $(if $(filter whole,$(SUITE)),,-short)
LDFLAGS  = -s -w -X main.version=$(VERSION)

.PHONY: heavy microvm pyodide temporal stores runtimes kubernetes help build test race lint fuzz bench peers integration conformance demo clean
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build the binary into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/... ./examples/mcp-folder ./test/conformance

test: ## run the tests; needs Go and nothing else. SUITE=whole repeats by the thousand
	$(GO) test $(SHORT) -timeout 30m ./...

race: ## run the tests under the race detector (needs a C compiler)
	$(GO) test -race -timeout 30m ./...

lint: ## gofumpt, vet, staticcheck, and the other systems still compile
	@test -z "$$($(GO) tool -modfile=tools/go.mod gofumpt -l . | tee /dev/stderr)" || { echo "run: go tool -modfile=tools/go.mod gofumpt -w ."; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	GOOS=darwin $(GO) vet ./cmd/... ./room/... ./internal/... && GOOS=windows $(GO) build ./...

fuzz: ## run each fuzz test for a short while (FUZZTIME=10s)
	GO=$(GO) ./scripts/fuzz.sh $${FUZZTIME:-10s}

bench: build ## print the figures of docs/benchmarks.md
	./scripts/bench.sh
	./scripts/bench-mcp.sh

peers: ## install the servers and clients that the integration tests use (npm, python3-venv, Go)
	cd test/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	python3 -m venv test/python/.venv && test/python/.venv/bin/pip install -q --disable-pip-version-check -r test/python/requirements.txt
	$(GO) build -C test/github -o ../../bin/ github.com/github/github-mcp-server/cmd/github-mcp-server

integration: build ## test against real MCP servers and clients (npm), git and curl
	$(GO) test -tags integration -count=1 -timeout 30m $$($(GO) list -tags integration ./test/... | grep -v -e /test/runtimes -e /test/stores -e /test/kubernetes)

stores: ## test against a real OpenBao and GNOME's keyring, which it installs (pip, apt)
	CI=true ./scripts/stores.sh

runtimes: build ## test against real Docker, containerd and gVisor (root); scripts/engines.sh installs them; SUITE=whole runs all
	CI=true $(GO) test $(SHORT) -tags integration -count=1 -timeout 40m ./test/runtimes/

temporal: build ## test against a real Temporal server (compiles it: about 11 CPU minutes the first time)
	cd test/temporal && $(GO) vet . && $(GO) test -count=1 -timeout 15m .

microvm: ## a part of the suites of drivers in QEMU's machines (root, apt); SUITE=whole runs all
	CI=true ./scripts/microvm.sh $(SUITE)

heavy: ## all that .ci/run leaves out, one after the other: kubernetes, temporal, pyodide, stores, fuzz, and suites as a whole
	@for target in kubernetes temporal pyodide stores fuzz microvm runtimes test; do $(MAKE) $$target SUITE=whole || failed="$$failed $$target"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

kubernetes: ## test against a real Kubernetes node (root; builds it once, 1,150 seconds of CPU)
	CI=true ./scripts/kubernetes.sh test -v

pyodide: build ## the suites of engines on Pyodide and Deno, which it installs (npm)
	bin/toolroom --home .pyodide setup engines --with pyodide
	CI=true TOOLROOM_TEST_PYODIDE=$(CURDIR)/.pyodide $(GO) test -tags integration -count=1 -timeout 20m ./internal/engine/pyodide

conformance: build ## the official MCP suite, every revision and extension (npm)
	./scripts/conformance.sh
	./scripts/conformance-client.sh
	./scripts/conformance-relay.sh

demo: build ## start a room, add sources, find, call and chain their tools
	./scripts/demo.sh

clean: ## remove what the targets made
	rm -rf bin .demo
