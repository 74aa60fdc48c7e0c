# Targets for developers. The work is done in scripts/.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help up down reset restart logs status build web generate fmt lint test check proof bench bench-gateway bench-delivery chaos soak mutants release-snapshot ci tools

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  NODES=3 make up runs three nodes; DEV_PORT_OFFSET=500 make up moves every port; GHOST=1 make up runs Ghost."

up: ## Install what is missing, start everything, create a demo key
	@scripts/up

down: ## Stop everything this clone started and keep the data
	@scripts/down

reset: ## Stop everything and delete the data
	@scripts/down --forget

restart: ## Rebuild, and restart the nodes and the sandbox only
	@scripts/restart

logs: ## Follow the logs of the nodes and the platforms (N=500 for more lines, WHAT="postgres proxy-us" for others)
	@scripts/logs $(WHAT)

status: ## Show what is running
	@scripts/status

build: ## Build the commands into bin/
	@scripts/build

web: ## Build the dashboard into web/dist, if it changed
	@scripts/web

generate: ## Regenerate the generated code, the OpenAPI document, the client libraries, the CLI reference and the figures in documents
	@scripts/tool sqlc
	.dev/bin/sqlc generate
	go run ./cmd/stagedoord openapi > .dev/openapi.json
	@mkdir -p openapi
	@mv -f .dev/openapi.json openapi/openapi.json
	go run ./cmd/sdkgen
	@# The document contains the code samples, which sdkgen writes from the rest of it.
	go run ./cmd/stagedoord openapi > .dev/openapi.json
	@mv -f .dev/openapi.json openapi/openapi.json
	@scripts/web types
	go test -count=1 -run '^TestTheReferenceIsCurrent$$' ./internal/command/cli -update
	go test -count=1 -run '^TestArchitectureShowsTheGroups$$' ./internal/test/archtest -update
	go test -count=1 -run '^TestFiguresInDocumentsAreCurrent$$' ./internal/test/facts -update
	go run ./cmd/dashgen
	go test -count=1 -run '^TestDashboardsShowEveryMetric$$' ./internal/app -update

fmt: ## Format the Go code
	@scripts/tool golangci-lint
	.dev/bin/golangci-lint fmt ./...

lint: ## Lint (includes the checks of go vet)
	@scripts/tool golangci-lint
	.dev/bin/golangci-lint run ./...

test: ## Run the tests with the race detector (PKG=./internal/tenant/admission/... for some of them)
	scripts/test $(PKG)

proof: ## Run the long proofs of load, faults and time limits, on a quiet machine (WHAT=Revocation for some of them)
	scripts/proof $(WHAT)

check: ## Run what CI checks on the code, without the smoke test
	@bash .ci/run check

bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

bench-gateway: ## Compare a whole call with a bare reverse proxy (BENCH_ROUND=1s BENCH_ACCOUNTS=1000 for a quick run)
	go test -run '^$$' -bench '^BenchmarkGateway' -benchtime 1x -timeout 90m -v ./bench

bench-delivery: ## Compare event delivery to webhooks with a bare loop (BENCH_ROUND=1s for a quick run, BENCH_FULL=1 for a million events)
	go test -run '^$$' -bench '^BenchmarkDelivery' -benchtime 1x -timeout 90m -v ./bench

chaos: ## Inject faults under 100,000 events per case and count the events (WHAT=kill for one case, WHAT=pair for pairs)
	STAGEDOOR_CHAOS=1 go test -count=1 -timeout 6h -v -run '^TestEventsSurviveTrouble$$/^$(WHAT)' ./test

soak: ## Rotate faults for two hours on the same nodes, and check that they do not grow (MINUTES=10 for less)
	STAGEDOOR_CHAOS=1 STAGEDOOR_CHAOS_RATE=300 STAGEDOOR_CHAOS_EVENTS=1000 STAGEDOOR_SOAK=$(or $(MINUTES),120) go test -count=1 -timeout 6h -v -run '^TestSoak$$' ./test

mutants: ## Break the code in known ways and check that the tests notice (WHAT=lease for some)
	test/mutants/run $(WHAT)

release-snapshot: ## Build what a release consists of, without publishing, and try it
	@scripts/web
	@scripts/release-snapshot

ci: ## Run everything that CI runs
	@bash .ci/run

tools: ## Build the pinned tools into .dev/bin (takes minutes the first time)
	@scripts/tool nats-server golangci-lint sqlc govulncheck actionlint dex versitygw helm goreleaser
