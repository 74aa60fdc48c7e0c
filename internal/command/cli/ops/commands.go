package ops

import (
	"net/http"
	"slices"
)

// Sources of completions.
var (
	orgs     = &source{"/admin/v1/orgs?limit=100", "orgs", "id", "name"}
	switches = &source{"/admin/v1/switches", "switches", "name", "about"}
	regions  = &source{"/admin/v1/egress", "regions", "region", "region"}
	jobs     = &source{"/admin/v1/jobs?limit=100", "jobs", "id", "kind"}
	letters  = &source{"/admin/v1/dead-letters?limit=100", "deadLetters", "id", "kind"}
	plans    = &source{"/admin/v1/plans", "plans", "name", "name"}
	sessions = &source{"/admin/v1/sessions", "sessions", "id", "operator"}
)

// Parameters of several commands.
var (
	org      = param{name: "org", to: "path/id", arg: true, suggest: orgs}
	ofOrg    = param{name: "org", to: "query/org", optional: true, usage: "only of the organisation with this id", suggest: orgs}
	search   = param{name: "text", to: "query/q", arg: true, optional: true}
	reason   = param{name: "reason", to: "body/reason", usage: "the reason, for the audit log"}
	limit    = param{name: "limit", to: "query/limit", optional: true, usage: "the number of rows, up to 100 (default 50)"}
	cursor   = param{name: "cursor", to: "query/cursor", optional: true, usage: "continue after this page, with the cursor that it ended with"}
	job      = param{name: "job", to: "path/id", arg: true, suggest: jobs}
	letter   = param{name: "letter", to: "path/id", arg: true, suggest: letters}
	region   = param{name: "region", to: "path/region", arg: true, suggest: regions}
	proxy    = param{name: "proxy", to: "path/proxy", arg: true}
	orgName  = param{name: "name", to: "body/name", optional: true, usage: "the name"}
	orgEmail = param{name: "email", to: "body/contactEmail", optional: true, usage: "the contact address"}
	orgPlan  = param{name: "plan", to: "body/plan", optional: true, usage: "a plan of stagedoor ops orgs plans", suggest: plans}
)

// lanes are the parameters that select webhooks for a change.
func lanes(states ...string) []param {
	return []param{
		{name: "org", to: "body/orgId", optional: true, usage: "only of the organisation with this id", suggest: orgs},
		{name: "accounts", to: "body/accountIds", kind: words, optional: true, usage: "only of the accounts with these ids"},
		{name: "state", to: "body/state", optional: true, usage: "only in this state (default: every state to which it applies)", values: states},
		{name: "limit", to: "body/limit", kind: amount, optional: true, usage: "the most webhooks to change, up to 1000 (default 100)"},
	}
}

// required returns a parameter that must be given.
func required(p param) param {
	p.optional = false
	return p
}

// commands are all commands but login, logout and usage.
var commands = slices.Concat(service, organisations, traffic, work)

var service = []command{
	{
		use: "whoami", operation: "getOperator", method: http.MethodGet, path: "/admin/v1/me",
		short: "Show the operator, the role and the node that responds", fields: []string{"name", "role", "person", "node", "version"},
	},
	{
		use: "home", operation: "getHome", method: http.MethodGet, path: "/admin/v1/home",
		short: "Show what is wrong with the service, the worst first", list: "troubles", empty: "Nothing is wrong.",
		long: "Show what is wrong with the service, the worst first: where, since when, and which runbook helps. " +
			"For error budgets, engines, regions and the last three hours, add --json.",
		columns: []string{"harm", "title", "where", "since", "runbook"},
	},
	{
		use: "nodes", operation: "listNodes", method: http.MethodGet, path: "/admin/v1/nodes",
		short: "List the nodes that are alive", list: "nodes", empty: "No node is alive.",
		columns: []string{"name", "id", "roles", "version", "started=startedAt", "seen=seenAt"},
	},
	{
		use: "leases", operation: "listLeases", method: http.MethodGet, path: "/admin/v1/leases",
		short: "List the share of each node in the work", list: "work.nodes", empty: "No node holds a lease.",
		long: "List the share of each node in the work: listen is live connections of accounts, ingest is storing events and delivering webhooks. " +
			"Free slots should be taken within seconds. For each slot, add --json.",
		columns: []string{"kind", "name", "id", ">slots", ">free", "until", "live", "leaving"},
	},
	{
		use: "keyring", operation: "getKeyring", method: http.MethodGet, path: "/admin/v1/keyring",
		short: "Show the progress of key rotation",
		fields: []string{
			"key management=kms", "wraps now=wrapsNow.id", "version=wrapsNow.version", "root key=root.id", "root version=root.version", ">organisations=orgs",
			">data keys=dataKeys", ">renewed", ">waiting", ">percent done=percentDone", ">accounts and attempts=holders", ">shredded",
		},
		list: "orgKeys", columns: []string{"wrapped by=by.id", "version=by.version", ">keys", "current"},
	},
	{
		use: "audit", operation: "listAllAudit", method: http.MethodGet, path: "/admin/v1/audit",
		short: "List audit entries of all organisations", list: "entries", empty: "No entry matches.",
		long:    "List audit entries of all organisations, or of the service itself with --own, newest first. For changes from and to, add --json.",
		example: "  stagedoor ops audit --since 1d --actor-kind operator\n  stagedoor ops audit --own --action switches.set",
		params: []param{
			ofOrg, {name: "own", to: "query/own", kind: yes, optional: true, usage: "only changes to the service itself by operators"},
			{name: "action", to: "query/action", optional: true, usage: "only this action, such as org.update"},
			{name: "actor-kind", to: "query/actorKind", optional: true, usage: "only by a key, member, operator, system or creator", values: []string{"key", "member", "operator", "system", "creator"}},
			{name: "actor", to: "query/actorId", optional: true, usage: "only by the actor with this id"},
			{name: "target", to: "query/target", optional: true, usage: "only changes of this"},
			{name: "since", to: "query/since", kind: past, optional: true, usage: "from this time on: 15m, 1h, 2d or a time"},
			{name: "until", to: "query/until", kind: past, optional: true, usage: "until this time: 15m, 1h, 2d or a time"}, limit, cursor,
		},
		columns: []string{"at", "organisation~=org.name", "actor~=actor.label", "actor kind=actor.kind", "action", "target", "changes~"},
	},
	{
		use: "sessions list", operation: "listOperatorSessions", method: http.MethodGet, path: "/admin/v1/sessions",
		short: "List browsers in which operators are signed in", list: "sessions", empty: "No operator is signed in to the console.",
		columns: []string{"id", "operator", "person", "role", "created=createdAt", "last used=lastSeenAt", "expires=expiresAt", "browser~=userAgent"},
	},
	{
		use: "sessions end", operation: "endOperatorSession", method: http.MethodDelete, path: "/admin/v1/sessions/{id}",
		short: "Sign an operator's browser out", long: "Sign an operator's browser out, on every node. To remove an operator, change the settings.",
		params: []param{{name: "session", to: "path/id", arg: true, suggest: sessions}}, done: "Signed out {session}.",
	},
	{
		use: "switches list", operation: "getSwitches", method: http.MethodGet, path: "/admin/v1/switches",
		short: "List switches", list: "switches", columns: []string{"name", "on", "since", "by", "reason~", "while off~=about"},
	},
	{
		use: "switches off", operation: "setSwitches", method: http.MethodPut, path: "/admin/v1/switches",
		short: "Switch a part of the service off", long: "Switch a part of the service off, on all nodes within seconds. Customers do not see the reason.",
		example: "  stagedoor ops switches off connects --reason 'The platform has changed its sign-in'\n  stagedoor ops switches off region/us --reason 'The provider is down' --confirm region/us",
		params:  []param{{name: "switch", to: "body/switches", kind: off, arg: true, suggest: switches}, reason},
		ask:     &question{name: "{switch}", consequence: "This switches {switch} off for all customers."}, done: "Switched {switch} off.",
	},
	{
		use: "switches on", operation: "setSwitches", method: http.MethodPut, path: "/admin/v1/switches",
		short: "Switch a part of the service on again", done: "Switched {switch} on.",
		params: []param{{name: "switch", to: "body/switches", kind: on, arg: true, suggest: switches}},
	},
	{
		use: "banner get", operation: "getBanner", method: http.MethodGet, path: "/admin/v1/banner",
		short: "Show the banner", empty: "There is no banner.",
		fields: []string{"text=banner.text", "level=banner.level", "url=banner.url", "until=banner.until", "by=banner.by", "since=banner.since"},
	},
	{
		use: "banner set", operation: "setBanner", method: http.MethodPut, path: "/admin/v1/banner",
		short: "Show a sentence to all customers", long: "Show a sentence to all customers, at the top of the dashboard. It replaces the previous one.",
		example: "  stagedoor ops banner set 'Connecting accounts is slow right now. We are on it.' --level warning --until 2h",
		params: []param{
			{name: "text", to: "body/text", arg: true},
			{name: "level", to: "body/level", optional: true, usage: "info (default), warning or critical", values: []string{"info", "warning", "critical"}},
			{name: "url", to: "body/url", optional: true, usage: "the https address of more information"},
			{name: "until", to: "body/until", kind: future, optional: true, usage: "when it disappears: 30m, 2h or a time"},
		},
		done: "All customers see the banner.",
	},
	{
		use: "banner clear", operation: "setBanner", method: http.MethodPut, path: "/admin/v1/banner",
		short: "Remove the banner", body: map[string]any{"text": ""}, done: "Removed the banner.",
	},
}

var organisations = []command{
	{
		use: "orgs list", operation: "listOrgs", method: http.MethodGet, path: "/admin/v1/orgs",
		short: "List organisations", long: "List organisations. The text is an id, or a part of the name or of the contact address.",
		example: "  stagedoor ops orgs list acme\n  stagedoor ops orgs list --plan scale --suspended true",
		params: []param{
			search, {name: "plan", to: "query/plan", optional: true, usage: "only with this plan", suggest: plans},
			{name: "environment", to: "query/environment", optional: true, usage: "only sandbox or live", values: []string{"sandbox", "live"}},
			{name: "suspended", to: "query/suspended", optional: true, usage: "only suspended ones (true) or others (false)", values: []string{"true", "false"}}, limit, cursor,
		},
		list: "orgs", columns: []string{"id", "name~", "plan", "environment", "contact~=contactEmail", "suspended", "created=createdAt"}, empty: "No organisation matches.",
	},
	{
		use: "orgs get", operation: "getOrg", method: http.MethodGet, path: "/admin/v1/orgs/{id}",
		short: "Show an organisation", long: "Show an organisation with its limits, its usage this month, and the states of its accounts and webhooks.",
		params: []param{org},
		fields: []string{
			"id=org.id", "name=org.name", "plan=org.plan", "environment=org.environment", "contact=org.contactEmail", "suspended=org.suspended",
			"suspended since=org.suspendedAt", "reason=org.suspendedReason", "destroyed at=org.deletion.purgeAt", "created=org.createdAt",
			">calls this month=month.used", ">limit=month.limit", "accounts", "webhooks",
		},
		list: "effectiveLimits", columns: []string{"limit=name", ">value", "overridden"},
	},
	{
		use: "orgs plans", operation: "listPlans", method: http.MethodGet, path: "/admin/v1/plans",
		short: "List the plans that organisations can have", long: "List the plans that organisations can have. For their limits, add --json.",
		list: "plans", columns: []string{"name"}, empty: "There are no plans.",
	},
	{
		use: "orgs create", operation: "createOrg", method: http.MethodPost, path: "/admin/v1/orgs",
		short: "Create an organisation and its first key", long: "Create an organisation and its first key. The key is shown once, on standard output.",
		example: "  stagedoor ops orgs create --name Acme --plan growth --email ops@acme.example",
		params: []param{
			required(orgName), required(orgEmail), {name: "plan", to: "body/plan", usage: orgPlan.usage, suggest: plans, otherwise: "starter"},
			{name: "environment", to: "body/environment", usage: "sandbox or live", values: []string{"sandbox", "live"}, otherwise: "live"},
			{name: "limit", to: "body/limits", kind: limits, optional: true, usage: "a limit that differs from the plan, such as callsPerMinute=50; -1 is unlimited (repeatable)"},
		},
		done: "Created {org.name} ({org.id}). Save its first key now; it will not be shown again:", data: "key.key",
	},
	{
		use: "orgs update", operation: "updateOrg", method: http.MethodPatch, path: "/admin/v1/orgs/{id}",
		short: "Change an organisation's name, contact, plan or limits", long: "Change an organisation's name, contact, plan or limits. The next call on every node goes by it.",
		example: "  stagedoor ops orgs update org_01k9x5ahzre4bb3069xb2way0g --plan growth --limit callsPerMinute=5000",
		params: []param{
			org, orgName, orgEmail, orgPlan,
			{name: "limit", to: "body/limits", kind: limits, optional: true, usage: "a limit that differs from the plan, such as callsPerMinute=50; replaces all others (repeatable)"},
			{name: "no-limits", to: "body/limits", kind: none, optional: true, usage: "remove all limits that differ from the plan"},
		},
		done: "Updated {org.name} ({org.id}).",
	},
	{
		use: "orgs suspend", operation: "updateOrg", method: http.MethodPatch, path: "/admin/v1/orgs/{id}",
		short: "Suspend an organisation", long: "Suspend an organisation. All its keys stop working until it is resumed.",
		params: []param{org, {name: "reason", to: "body/suspendedReason", usage: "the reason, which the organisation sees"}},
		body:   map[string]any{"suspended": true},
		ask:    &question{look: "/admin/v1/orgs/{org}", name: "{org.name}", consequence: "This suspends {org.name} ({org.id}): all its keys stop working."},
		done:   "Suspended {org.name} ({org.id}).",
	},
	{
		use: "orgs resume", operation: "updateOrg", method: http.MethodPatch, path: "/admin/v1/orgs/{id}",
		short: "End the suspension of an organisation", params: []param{org}, body: map[string]any{"suspended": false}, done: "Resumed {org.name} ({org.id}).",
	},
	{
		use: "orgs delete", operation: "deleteOrg", method: http.MethodDelete, path: "/admin/v1/orgs/{id}",
		short: "Suspend an organisation and destroy it after 7 days", params: []param{org},
		long: "Suspend an organisation immediately, and destroy everything of it after 7 days unless it is restored before.",
		ask:  &question{look: "/admin/v1/orgs/{org}", name: "{org.name}", consequence: "This suspends {org.name} ({org.id}) immediately and destroys everything of it after 7 days."},
		done: "Suspended {org}. Everything of it will be destroyed at {deletion.purgeAt}. The receipt will be at {deletion.receiptUrl}.",
	},
	{
		use: "orgs restore", operation: "restoreOrg", method: http.MethodPost, path: "/admin/v1/orgs/{id}/restore",
		short: "End the deletion of an organisation", params: []param{org}, done: "Restored {org}.",
	},
	{
		use: "orgs issue-key", operation: "issueKey", method: http.MethodPost, path: "/admin/v1/orgs/{id}/keys",
		short: "Issue a key for an organisation that has lost its last one",
		long: "Issue a key for an organisation that has lost its last one. It is shown once, on standard output.\n\n" +
			"If the organisation has an owner, it needs the access that the owner granted (stagedoor ops access request).",
		params: []param{
			org, {name: "label", to: "body/label", usage: "what the key is for", otherwise: "Issued by an operator"},
			{name: "scopes", to: "body/scopes", kind: words, optional: true, usage: "scopes of the key (default: the default set)"},
			{name: "methods", to: "body/methods", kind: words, optional: true, usage: "restrict the key to these SDK methods: 'chats.*', '!payouts.*'"},
		},
		done: "Issued key {id} ({label}). Save it now; it will not be shown again:", data: "key",
	},
	{
		use: "orgs invite", operation: "inviteToOrg", method: http.MethodPost, path: "/admin/v1/orgs/{id}/invitations",
		short: "Invite a member to an organisation",
		long: "Invite a member to an organisation: its first owner, or one after the last owner has left. The link to send is shown once, on standard output.\n\n" +
			"If the organisation has an owner, it needs the access that the owner granted (stagedoor ops access request).",
		params: []param{
			org, {name: "email", to: "body/email", arg: true},
			{name: "role", to: "body/role", usage: "owner, admin, developer or support", values: []string{"owner", "admin", "developer", "support"}, otherwise: "owner"},
			{name: "locale", to: "body/locale", optional: true, usage: "the language of the email: en or es (default: en)", values: []string{"en", "es"}},
			{name: "again", to: "body/again", kind: yes, optional: true, usage: "invite even if a member has the address, because the identity provider has changed"},
		},
		done: "Invited {email} as {role}, until {expiresAt}. Send this link; it works once, and only for this address:", data: "url",
	},
	{
		use: "orgs verify-audit", operation: "verifyAudit", method: http.MethodGet, path: "/admin/v1/orgs/{id}/audit/verification",
		short: "Verify that no entry of an organisation's audit log is missing or altered",
		long: "Verify that no entry of an organisation's audit log is missing or altered. The exit code is 1 if one is.\n\n" +
			"The node verifies it, without anchors. To need no node, run stagedoord admin verify-audit.",
		params: []param{org}, fields: []string{">entries", "intact"}, intact: "intact",
	},
	{
		use: "access request", operation: "requestAccess", method: http.MethodPost, path: "/admin/v1/orgs/{id}/access",
		short:   "Ask the owners of an organisation for access",
		long:    "Ask the owners of an organisation for access to what is inside it. They read the reason and decide in the dashboard. A request expires after 7 days; another one replaces it.",
		example: "  stagedoor ops access request org_01k9x5ahzre4bb3069xb2way0g --reason 'Ticket 1423: webhooks do not arrive'",
		params:  []param{org, {name: "reason", to: "body/reason", usage: "the reason, which the owners read"}},
		done:    "Requested access until {access.expiresAt}. Nothing tells the owners: ask them to look at the dashboard.",
	},
	{
		use: "access list", operation: "listAccess", method: http.MethodGet, path: "/admin/v1/orgs/{id}/access",
		short: "List requests for access to an organisation", params: []param{org}, empty: "No requests in the last 90 days.",
		list: "access", columns: []string{"id", "state", "operator", "mine", "reason~", "requested=requestedAt", "granted=grantedAt", "expires=expiresAt", "ended=endedAt"},
	},
	{
		use: "access open", operation: "openOrg", method: http.MethodPost, path: "/admin/v1/orgs/{id}/open",
		short: "Print an address that opens an organisation's dashboard", params: []param{org},
		long: "Print an address that opens an organisation's dashboard read-only, once, with the access that an owner granted. The organisation's audit log shows what is read.",
		done: "Open this address until {expiresAt}. It works once:", data: "url",
	},
}

var traffic = []command{
	{
		use: "accounts", operation: "findAccounts", method: http.MethodGet, path: "/admin/v1/accounts",
		short: "Find accounts of all organisations",
		long: "Find accounts of all organisations by state and region. The text is an id.\n\n" +
			"With --names and --org, names are shown, and the text is also the start of one. That needs access to the organisation, and its audit log shows it.",
		example: "  stagedoor ops accounts --state reconnect_required --region us\n  stagedoor ops accounts acct_01k9x5ahzre4bb3069xb2way0g",
		params: []param{
			search, ofOrg, {name: "names", to: "query/names", kind: yes, optional: true, usage: "show names; needs --org and access to it"},
			{
				name: "state", to: "query/state", optional: true, usage: "only in this state",
				values: []string{"connecting", "active", "degraded", "reauthenticating", "reconnect_required", "restricted", "paused"},
			},
			{name: "region", to: "query/region", optional: true, usage: "only of this region", suggest: regions}, limit, cursor,
		},
		list: "accounts", empty: "No account matches.",
		columns: []string{
			"id", "organisation~=org.name", "user name~=username", "label~", "state", "reason~=stateReason", "since=stateChangedAt", "region",
			"listener=listener.state", "seen=lastSeenAt",
		},
	},
	{
		use: "egress list", operation: "getEgress", method: http.MethodGet, path: "/admin/v1/egress",
		short: "List proxies by region", list: "regions.proxies", empty: "There are no proxies.", note: "Health and open connections are as {node} sees them.",
		columns: []string{"region", "on", "available", "proxy", "healthy", "since", "draining", "reason~", "last failure~=lastFailure", ">open=openConnections"},
	},
	{
		use: "egress drain", operation: "drainProxy", method: http.MethodPost, path: "/admin/v1/egress/{region}/{proxy}/drain",
		short:   "Drain a proxy",
		long:    "Drain a proxy: within seconds no node opens new connections through it, and open ones have two minutes to finish. Draining the last proxy of a region closes the region.",
		example: "  stagedoor ops egress drain us 0 --reason 'The provider is doing maintenance'", params: []param{region, proxy, reason},
		ask: &question{name: "{region}/{proxy}", consequence: "This moves the accounts of {region}/{proxy} to other proxies, and closes the region if there is none."}, done: "Draining {region}/{proxy}.",
	},
	{
		use: "egress undrain", operation: "undrainProxy", method: http.MethodPost, path: "/admin/v1/egress/{region}/{proxy}/undrain",
		short: "Use a drained proxy again", params: []param{region, proxy}, done: "Using {region}/{proxy} again.",
	},
	{
		use: "webhooks list", operation: "listLanes", method: http.MethodGet, path: "/admin/v1/webhooks/lanes",
		short: "List webhooks that are not up to date",
		params: []param{
			ofOrg, {name: "state", to: "query/state", optional: true, usage: "only in this state (default: all but live)", values: []string{"lagging", "backoff", "draining", "paused", "disabled"}},
			limit, cursor,
		},
		list: "lanes", empty: "No webhook matches.", note: "Webhooks by state: {counts}.",
		columns: []string{
			"organisation~=org.name", "account=accountId", "host~", "state", "reason", ">failures=failCount", "next=nextAttemptAt", "status=lastStatus",
			"error~=lastError", ">backlog",
		},
	},
	{
		use: "webhooks retry", operation: "retryLanes", method: http.MethodPost, path: "/admin/v1/webhooks/lanes/retry",
		short: "Retry failing and disabled webhooks immediately", params: lanes("backoff", "disabled"),
		example: "  stagedoor ops webhooks retry --state backoff --limit 1000", done: "Retrying webhooks: {changed}, of organisations: {orgs}. More match: {more}.",
	},
	{
		use: "webhooks pause", operation: "pauseLanes", method: http.MethodPost, path: "/admin/v1/webhooks/lanes/pause",
		short: "Pause webhooks that are not up to date", long: "Pause webhooks that are not up to date. Their events stay in the store.",
		params: lanes("lagging", "backoff", "draining"), done: "Paused webhooks: {changed}, of organisations: {orgs}. More match: {more}.",
	},
	{
		use: "webhooks resume", operation: "resumeLanes", method: http.MethodPost, path: "/admin/v1/webhooks/lanes/resume",
		short: "Resume webhooks that an operator paused", params: lanes("paused"), done: "Resumed webhooks: {changed}, of organisations: {orgs}. More match: {more}.",
	},
}

var work = []command{
	{
		use: "jobs list", operation: "listJobs", method: http.MethodGet, path: "/admin/v1/jobs",
		short: "List jobs of the workers", long: "List pending and recent jobs of the workers, newest first.",
		example: "  stagedoor ops jobs list --state retryable\n  stagedoor ops jobs list --kind account_probe",
		params: []param{
			{
				name: "state", to: "query/state", optional: true, usage: "only in this state",
				values: []string{"available", "cancelled", "completed", "discarded", "pending", "retryable", "running", "scheduled"},
			},
			{name: "kind", to: "query/kind", optional: true, usage: "only of this kind"}, {name: "queue", to: "query/queue", optional: true, usage: "only in this queue"}, limit, cursor,
		},
		list: "jobs", empty: "No job matches.",
		columns: []string{
			"id", "kind~", "queue", "state", ">attempt", ">of=maxAttempts", "created=createdAt", "scheduled=scheduledAt", "attempted=attemptedAt", "ended=finalizedAt", "failed=failedAt",
		},
	},
	{
		use: "jobs retry", operation: "retryJob", method: http.MethodPost, path: "/admin/v1/jobs/{id}/retry",
		short: "Run a job immediately, even if it has ended", params: []param{job}, done: "Job {job.id} ({job.kind}) is {job.state}.",
	},
	{
		use: "jobs cancel", operation: "cancelJob", method: http.MethodPost, path: "/admin/v1/jobs/{id}/cancel",
		short: "Cancel a job", long: "Cancel a job. A running job is asked to stop; a job that has ended is not affected. Undo it with stagedoor ops jobs retry.",
		params: []param{job}, done: "Job {job.id} ({job.kind}) is {job.state}.",
	},
	{
		use: "dead-letters list", operation: "listDeadLetters", method: http.MethodGet, path: "/admin/v1/dead-letters",
		short: "List events that could not be stored", long: "List events that could not be stored, newest first. They are kept for 30 days. Their contents are not shown.",
		params: []param{limit, {name: "before", to: "query/before", optional: true, usage: "only with a lower id than this"}},
		list:   "deadLetters", columns: []string{"id", "at", "organisation=orgId", "account=accountId", "kind", "reason", "requeued", ">bytes"}, empty: "There are no dead letters.",
	},
	{
		use: "dead-letters requeue", operation: "requeueDeadLetter", method: http.MethodPost, path: "/admin/v1/dead-letters/{id}/requeue",
		short: "Store a dead letter again", long: "Store a dead letter again, within seconds. If it still cannot be stored, it stays.",
		params: []param{letter}, done: "Dead letter {letter} will be stored.",
	},
	{
		use: "dead-letters delete", operation: "deleteDeadLetter", method: http.MethodDelete, path: "/admin/v1/dead-letters/{id}",
		short: "Delete a dead letter", params: []param{letter},
		ask: &question{name: "{letter}", consequence: "This deletes dead letter {letter}; its event is lost."}, done: "Deleted dead letter {letter}.",
	},
}
