package docs

// entry is one page of the navigation.
type entry struct {
	// file is a Markdown file below docs/, or with ../ one at the top of the repository; empty for a generated page.
	file string
	// path is the address of the page; empty to derive it from the file.
	path string
	// label is the name in the navigation; empty for the title of the page.
	label string
}

// group is a heading of the navigation with its pages. Generated pages (SDK resources, problems, …) are placed by their
// path.
type group struct {
	title   string
	entries []entry
	// folded groups are closed unless the reader is in them.
	folded bool
	// readers is who it is for.
	readers readers
}

// readers are who a page is for. A reader sees the navigation of their own pages only; search finds all.
type readers int

const (
	customers readers = iota
	operators
	contributors
)

// audiences describes the readers, in the order of their constants: their name, the page on which they start, and the
// file with all their pages for programs.
var audiences = []struct{ name, start, full string }{
	{"Customers", "/docs", "llms-full.txt"},
	{"Operators", "/docs/operators", "llms-operators.txt"},
	{"Contributors", "/docs/run-it-yourself", "llms-contributors.txt"},
}

// nav is the whole navigation, by readers and then in reading order, which previous and next follow. Tests fail for a Markdown file of docs/
// that is not listed here, and for a listed file that does not exist.
var nav = []group{
	{title: "Start", entries: []entry{
		{file: "README.md", label: "Overview"},
		{file: "quickstart.md", label: "Quickstart"},
		{file: "concepts.md", label: "Concepts"},
		{file: "glossary.md", label: "Glossary"},
		{file: "sandbox.md", label: "The sandbox"},
		{file: "examples.md", label: "Examples"},
	}},
	{title: "Recipes", entries: []entry{
		{file: "recipes/hosted-page.md", label: "Hosted page"},
		{file: "recipes/embed.md", label: "Embed it"},
		{file: "recipes/own-ui.md", label: "Your own UI"},
		{file: "recipes/qr.md", label: "QR code"},
		{file: "recipes/two-factor-and-selfie.md", label: "Two-factor and selfie"},
		{file: "recipes/reconnect.md", label: "Reconnect"},
		{file: "recipes/event-stream.md", label: "Event stream"},
		{file: "recipes/one-endpoint.md", label: "One endpoint for all creators"},
		{file: "recipes/verify-webhooks.md", label: "Verify webhooks"},
		{file: "recipes/backoff.md", label: "Backoff"},
		{file: "recipes/pagination.md", label: "Pagination"},
		{file: "recipes/many-creators.md", label: "Many creators"},
		{file: "recipes/testing-with-personas.md", label: "Testing with personas"},
		{file: "recipes/go-live.md", label: "Go-live list"},
		{file: "recipes/add-a-platform.md", label: "Add a platform"},
	}},
	{title: "Guides", entries: []entry{
		{file: "connect.md", label: "Connecting accounts"},
		{file: "connect-pages.md", label: "Connect pages"},
		{file: "accounts.md", label: "Accounts"},
		{file: "calls.md", label: "Calls"},
		{file: "media.md", label: "Files"},
		{file: "platforms/ghost.md", label: "Ghost"},
		{file: "events.md", path: "/docs/guides/events", label: "Events"},
		{file: "webhooks.md", label: "Webhooks"},
		{file: "errors.md", label: "Errors"},
		{file: "compatibility.md", label: "Compatibility"},
		{file: "idempotency.md", label: "Safe retries"},
		{file: "keys.md", label: "API keys"},
		{file: "usage.md", label: "Usage"},
		{file: "logs.md", label: "Request log"},
		{file: "jobs.md", label: "Jobs"},
		{file: "notices.md", label: "Notices"},
		{file: "dashboard.md", label: "Dashboard and teams"},
	}},
	{title: "Libraries and tools", entries: []entry{
		{file: "clients/typescript.md", label: "TypeScript"},
		{file: "clients/go.md", label: "Go"},
		{file: "clients/python.md", label: "Python"},
		{file: "reference/cli.md", path: "/docs/cli", label: "Command line"},
		{file: "mcp.md", label: "MCP for agents"},
	}},
	{title: "Reference", entries: []entry{
		{path: "/docs/api", label: "REST API"},
		{path: "/docs/sdk", label: "SDK methods"},
		{path: "/docs/events", label: "Event kinds"},
		{file: "problems/README.md", label: "Problems"},
		{path: "/docs/scopes", label: "Scopes"},
		{path: "/docs/limits", label: "Limits"},
		{file: "../CHANGELOG.md", path: "/docs/changelog", label: "Changelog"},
	}},
	{title: "Specification", folded: true, entries: []entry{
		{file: "spec/README.md", label: "About the specification"},
		{file: "spec/authentication-and-keys.md", label: "Authentication and keys"},
		{file: "spec/requests-and-errors.md", label: "Requests and errors"},
		{file: "spec/limits-and-quotas.md", label: "Limits and quotas"},
		{file: "spec/connect.md", label: "Connect"},
		{file: "spec/connect-pages.md", label: "Connect pages"},
		{file: "spec/accounts.md", label: "Accounts"},
		{file: "spec/calls.md", label: "Calls"},
		{file: "spec/media.md", label: "Media"},
		{file: "spec/events.md", label: "Events"},
		{file: "spec/streams.md", label: "Streams"},
		{file: "spec/webhooks.md", label: "Webhooks"},
		{file: "spec/webhook-endpoints.md", label: "Webhook endpoints"},
		{file: "spec/jobs.md", label: "Jobs"},
		{file: "spec/platforms.md", label: "Platforms"},
		{file: "spec/sandbox.md", label: "Sandbox"},
		{file: "spec/data-lifecycle.md", label: "Data lifecycle"},
		{file: "spec/organisations-and-members.md", label: "Organisations and members"},
		{file: "spec/logs-and-audit.md", label: "Logs and audit"},
		{file: "spec/operators.md", label: "Operators"},
		{file: "spec/security.md", label: "Security"},
	}},
	{title: "Operations", readers: operators, entries: []entry{
		{file: "operators.md", label: "For operators"},
		{file: "operations/deploy.md", label: "Deploy"},
		{file: "operations/one-vm.md", label: "One VM"},
		{file: "operations/releases.md", label: "Releases"},
		{file: "operations/kubernetes.md", label: "Kubernetes"},
		{file: "operations/nats-cluster.md", label: "NATS as a cluster"},
		{file: "operations/pgbouncer.md", label: "PgBouncer"},
		{file: "operations/transport.md", label: "Encrypted connections"},
		{file: "operations/observability.md", label: "Observability"},
		{file: "operations/metrics.md", label: "Metrics"},
		{file: "operations/database-roles.md", label: "Database roles"},
		{file: "operations/object-storage.md", label: "Object storage"},
		{file: "operations/plans.md", label: "Plans"},
		{file: "operations/mail.md", label: "Mail"},
		{file: "operations/audit-stream.md", label: "Audit stream"},
		{file: "operations/scale.md", label: "Scale out"},
		{file: "operations/backup-and-restore.md", label: "Backup and restore"},
		{file: "operations/key-rotation.md", label: "Key rotation"},
		{file: "operations/upgrade.md", label: "Upgrade"},
		{file: "runbooks/postgres-down.md", label: "PostgreSQL is down"},
		{file: "runbooks/redis-down.md", label: "Redis is down"},
		{file: "runbooks/nats-down.md", label: "NATS is down"},
		{file: "runbooks/events-late.md", label: "Events are late"},
		{file: "runbooks/webhooks-failing.md", label: "Webhooks fail"},
		{file: "runbooks/error-budget.md", label: "An error budget burns"},
		{file: "runbooks/node-down.md", label: "A node is down"},
		{file: "runbooks/overload.md", label: "Nodes are overloaded"},
		{file: "runbooks/platform-fails.md", label: "A platform fails"},
		{file: "runbooks/keys-unavailable.md", label: "Keys cannot be read"},
		{file: "runbooks/settings-file.md", label: "A settings file is refused"},
		{file: "runbooks/revoke-leaked-key.md", label: "A key has leaked"},
		{file: "runbooks/suspend-org.md", label: "Suspend an organisation"},
		{file: "runbooks/delete-org.md", label: "Delete an organisation"},
		{file: "runbooks/audit-finding.md", label: "The audit log has a finding"},
		{file: "runbooks/audit-stream.md", label: "The audit stream is late"},
		{file: "runbooks/usage-webhook.md", label: "The usage webhook is late"},
	}},
	{title: "For engineers", readers: contributors, entries: []entry{
		{file: "run-it-yourself.md", label: "Run it yourself"},
		{file: "../ARCHITECTURE.md", path: "/docs/architecture", label: "Architecture"},
		{file: "../SECURITY.md", path: "/docs/security", label: "Security"},
		{file: "../CONTRIBUTING.md", path: "/docs/contributing", label: "Contributing"},
		{file: "egress.md", label: "How traffic leaves"},
		{file: "listeners.md", label: "Listeners"},
		{file: "reliability.md", label: "Reliability of events"},
		{file: "scale.md", label: "Scale"},
		{file: "sealing.md", label: "Sealing"},
		{file: "manifest.md", label: "Driver manifest"},
		{file: "dependencies.md", label: "Dependencies"},
		{file: "adr/0001-engines.md"},
		{file: "adr/0002-layers.md"},
		{file: "adr/0003-huma-and-one-route-table.md"},
		{file: "adr/0004-ids-and-keys.md"},
		{file: "adr/0005-admission-in-redis.md"},
		{file: "adr/0006-month-ledger.md"},
		{file: "adr/0007-order-of-checks.md"},
		{file: "adr/0008-audit-chain.md"},
		{file: "adr/0009-sandbox-state.md"},
		{file: "adr/0010-manifest.md"},
		{file: "adr/0011-attempts-as-rows.md"},
		{file: "adr/0012-calls.md"},
		{file: "adr/0013-events.md"},
		{file: "adr/0014-dashboard.md"},
		{file: "adr/0015-developers.md"},
		{file: "adr/0016-fast-checks.md"},
		{file: "adr/0017-folders-are-layers.md"},
		{file: "adr/0018-lane-phases.md"},
		{file: "adr/0019-event-contract.md"},
		{file: "adr/0020-platforms.md"},
		{file: "adr/0021-credentials.md"},
		{file: "adr/0022-oauth.md"},
		{file: "adr/0023-one-clock.md"},
		{file: "adr/0024-generations.md"},
		{file: "adr/0025-overload.md"},
		{file: "adr/0026-sealed-content.md"},
		{file: "adr/0027-deletion.md"},
		{file: "adr/0028-keyed-audit.md"},
		{file: "adr/0029-row-security.md"},
		{file: "adr/0030-one-browser.md"},
		{file: "adr/0031-operators-are-people.md"},
		{file: "adr/0032-jobs-and-object-storage.md"},
		{file: "adr/0034-kubernetes.md"},
		{file: "adr/0035-releases.md"},
		{file: "adr/0037-one-vm.md"},
		{file: "adr/0039-traces.md"},
		{file: "adr/0041-redis-terms.md"},
		{file: "adr/0043-settings-files.md"},
		{file: "adr/0044-audit-stream.md"},
		{file: "adr/0045-webhook-endpoints.md"},
		{file: "adr/0046-device-sign-in.md"},
		{file: "adr/0047-mail.md"},
		{file: "adr/0048-openapi-as-a-product.md"},
		{file: "adr/0049-compatibility.md"},
		{file: "adr/0050-sdk-jobs.md"},
		{file: "adr/0052-figures-of-the-overview.md"},
		{file: "adr/0053-what-a-node-remembers.md"},
	}},
}
