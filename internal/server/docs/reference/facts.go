package reference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// scopeID is the anchor of a scope.
func scopeID(name string) string { return strings.ReplaceAll(name, ":", "-") }

// scopeWords say what a scope lets a key do.
var scopeWords = map[scope.Scope]string{
	scope.AccountsRead: "See accounts, their state and their events, and attempts to connect.", scope.AccountsWrite: "Connect, change, pause and disconnect accounts.",
	scope.SDKCall: "Call methods of the SDK on accounts, and carry files.", scope.WebhooksRead: "See webhooks and their deliveries.",
	scope.WebhooksWrite: "Set, test, pause, replay and delete webhooks.", scope.MeRead: "See the organisation, its people, keys and audit log.",
	scope.MeWrite: "Change the organisation, mint and revoke keys, invite people.", scope.UsageRead: "See usage and the request log.",
}

// scopePage lists what a key may do.
func (m *maker) scopePage(all scope.Set) Page {
	p := Page{
		Path: "/docs/scopes", Title: "Scopes", Label: "Scopes",
		Lead: "What a key may do. A key is minted with scopes, and can be limited further to methods and accounts.",
		Intro: "A key without a scope that an operation needs is answered with 403 [`scope-missing`](/docs/problems/scope-missing), which names the scope. " +
			"A key can give another key only what it has itself. See [API keys](/docs/keys).",
	}
	for s := scope.AccountsRead; s < scope.AdminOrgs; s++ {
		if !all.Has(s) {
			continue
		}
		i := Item{ID: scopeID(s.String()), Title: s.String(), Mono: true, Body: scopeWords[s]}
		var list strings.Builder
		for _, f := range families {
			for _, op := range m.doc.operations(func(op *operation) bool {
				return op.SDK == nil && op.Scope == s.String() && len(op.Tags) > 0 && op.Tags[0] == f.tag
			}) {
				list.WriteString("- [`" + op.method + " " + op.path + "`](/docs/api/" + f.slug + "#" + op.ID + "): " + escape(op.Summary) + "\n")
			}
		}
		i.Folds = []Fold{{Title: "Operations", Body: list.String(), Open: true}}
		if s == scope.SDKCall {
			i.Body += " All [methods of the SDK](/docs/sdk) need it."
		}
		p.Items = append(p.Items, i)
	}
	return p
}

// limitRows are the limits in the order of the page.
var limitRows = []struct {
	name, words string
	of          func(org.Limits) int
}{
	{"callsPerMinute", "calls of the organisation a minute", func(l org.Limits) int { return l.CallsPerMinute }},
	{"callsPerMonth", "calls of the organisation a calendar month", func(l org.Limits) int { return l.CallsPerMonth }},
	{"accountReadPerMinute", "reading calls to one account a minute", func(l org.Limits) int { return l.AccountReadPerMinute }},
	{"accountWritePerMinute", "writing calls to one account a minute", func(l org.Limits) int { return l.AccountWritePerMinute }},
	{"connectAttemptsPerHour", "attempts to connect an hour", func(l org.Limits) int { return l.ConnectAttemptsPerHour }},
	{"maxAccounts", "connected accounts", func(l org.Limits) int { return l.MaxAccounts }},
	{"maxKeys", "API keys", func(l org.Limits) int { return l.MaxKeys }},
	{"maxStreamsPerAccount", "streams of one account at a time", func(l org.Limits) int { return l.MaxStreamsPerAccount }},
	{"eventRetentionDays", "days that events are kept", func(l org.Limits) int { return l.EventRetentionDays }},
	{"deliveryRetentionDays", "days that deliveries are kept", func(l org.Limits) int { return l.DeliveryRetentionDays }},
	{"maxRequestBytes", "bytes of a request", func(l org.Limits) int { return l.MaxRequestBytes }},
	{"maxResponseBytes", "bytes of an answer", func(l org.Limits) int { return l.MaxResponseBytes }},
	{"uploadMaxBytes", "bytes of an upload", func(l org.Limits) int { return l.UploadMaxBytes }},
}

// limitPage lists what the plans include.
func limitPage() Page {
	p := Page{
		Path: "/docs/limits", Title: "Limits", Label: "Limits",
		Lead: "What an organisation may do, by its plan. A limit that is reached is answered with 429 and says when to try again; nothing is used up by a call that was refused.",
	}
	order := []org.Plan{org.Sandbox, org.Starter, org.Growth, org.Scale}
	var b strings.Builder
	b.WriteString("## By plan\n\n| limit | what is counted |")
	for _, plan := range order {
		b.WriteString(" " + string(plan) + " |")
	}
	b.WriteString("\n|---|---|---:|---:|---:|---:|\n")
	for _, row := range limitRows {
		b.WriteString("| `" + row.name + "` | " + row.words + " |")
		for _, plan := range order {
			b.WriteString(" " + amount(row.name, row.of(plan.Limits())) + " |")
		}
		b.WriteByte('\n')
	}
	b.WriteString(`
An organisation can have limits of its own. Those that hold are in ` + "[`GET /v1/me`](/docs/api/identity#getMe)" + `, and what is left of each right now in ` + "[`GET /v1/me/usage`](/docs/api/usage#getUsage)" + `.

## When one is reached

The answer is 429 ` + "[`quota-exceeded`](/docs/problems/quota-exceeded)" + ` with ` + "`reason`, `limit`, `current` and `retryAfterSec`" + `. Wait that long, once, and repeat the request: the client libraries do so by themselves. [Backoff](/docs/recipes/backoff) shows it in code.

The header ` + "`RateLimit`" + ` of every answer says how much is left, so that a caller can slow down before.

## That do not differ by plan

| what | limit |
|---|---|
| JSON body of a request | 1 MiB |
| ` + "`cookie`" + ` and ` + "`curl`" + ` of a connect | 16 KiB and 64 KiB |
| names in an ` + "`events`" + ` filter | 64 |
| ` + "`label`, `reference_id`" + ` | 120 and 255 characters |
| items of a page | 100 |
| webhook tests of an account | 10 a minute |
| codes for one challenge | 5 |
`)
	p.Intro = b.String()
	return p
}

// amount sets a number so that people can read it.
func amount(name string, n int) string {
	switch {
	case n == org.Unlimited:
		return "unlimited"
	case strings.HasSuffix(name, "Bytes") && n >= 1<<30:
		return strconv.Itoa(n>>30) + " GiB"
	case strings.HasSuffix(name, "Bytes"):
		return strconv.Itoa(n>>20) + " MiB"
	}
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = fmt.Sprintf("%s,%s", text[:at], text[at:])
	}
	return text
}
