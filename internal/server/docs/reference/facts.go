package reference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// scopeID returns the anchor of a scope.
func scopeID(name string) string { return strings.ReplaceAll(name, ":", "-") }

func (m *builder) scopePage() Page {
	p := Page{
		Path: "/docs/scopes", Title: "Scopes", Label: "Scopes",
		Lead: "Scopes say what a key may do. A key gets its scopes when it is created, and can also be limited to methods and accounts.",
		Intro: "A call without the required scope gets 403 [`scope-missing`](/docs/problems/scope-missing), which names the scope. " +
			"A key can only give another key scopes that it has itself. See [API keys](/docs/keys).",
	}
	for _, s := range m.doc.Components.SecuritySchemes.APIKey.Scopes {
		i := Item{ID: scopeID(s.Name), Title: s.Name, Mono: true, Body: s.Description}
		var list strings.Builder
		for _, f := range families {
			for _, op := range m.doc.Operations(func(op *apimodel.Operation) bool {
				return op.SDK == nil && op.Scope == s.Name && len(op.Tags) > 0 && op.Tags[0] == f.tag
			}) {
				list.WriteString("- [`" + op.Method + " " + op.Path + "`](/docs/api/" + f.slug + "#" + op.ID + "): " + escape(op.Summary) + "\n")
			}
		}
		i.Folds = []Fold{{Title: "Operations", Body: list.String(), Open: true}}
		if s.Name == scope.SDKCall.String() {
			i.Body += " All [SDK methods](/docs/sdk) need it."
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
	{"callsPerMinute", "calls of the organisation per minute", func(l org.Limits) int { return l.CallsPerMinute }},
	{"callsPerMonth", "calls of the organisation per calendar month", func(l org.Limits) int { return l.CallsPerMonth }},
	{"accountReadPerMinute", "read calls on one account per minute", func(l org.Limits) int { return l.AccountReadPerMinute }},
	{"accountWritePerMinute", "write calls on one account per minute", func(l org.Limits) int { return l.AccountWritePerMinute }},
	{"connectAttemptsPerHour", "connect attempts per hour", func(l org.Limits) int { return l.ConnectAttemptsPerHour }},
	{"maxAccounts", "connected accounts", func(l org.Limits) int { return l.MaxAccounts }},
	{"maxKeys", "API keys", func(l org.Limits) int { return l.MaxKeys }},
	{"maxStreamsPerAccount", "concurrent streams of one account", func(l org.Limits) int { return l.MaxStreamsPerAccount }},
	{"eventRetentionDays", "days that events are kept", func(l org.Limits) int { return l.EventRetentionDays }},
	{"deliveryRetentionDays", "days that deliveries are kept", func(l org.Limits) int { return l.DeliveryRetentionDays }},
	{"maxRequestBytes", "bytes of a request", func(l org.Limits) int { return l.MaxRequestBytes }},
	{"maxResponseBytes", "bytes of a response", func(l org.Limits) int { return l.MaxResponseBytes }},
	{"uploadMaxBytes", "bytes of an upload", func(l org.Limits) int { return l.UploadMaxBytes }},
}

// limitPage returns the page of the limits by plan.
func limitPage() Page {
	p := Page{
		Path: "/docs/limits", Title: "Limits", Label: "Limits",
		Lead: "The limits of an organisation by plan. A call beyond a limit gets 429 with the time to wait. Refused calls do not count.",
	}
	order := []org.Plan{org.Sandbox, org.Starter, org.Growth, org.Scale}
	var b strings.Builder
	b.WriteString("## By plan\n\n| limit | counts |")
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
An organisation can have different limits. Its current limits are in ` + "[`GET /v1/me`](/docs/api/identity#getMe)" + `, and what is left of each in ` + "[`GET /v1/me/usage`](/docs/api/usage#getUsage)" + `.

## When a limit is reached

The response is 429 ` + "[`quota-exceeded`](/docs/problems/quota-exceeded)" + ` with ` + "`reason`, `limit`, `current` and `retryAfterSec`" + `. Wait that long, then repeat the request: the client libraries do this automatically. [Backoff](/docs/recipes/backoff) shows it in code.

The header ` + "`RateLimit`" + ` of every response says how much is left, so that a caller can slow down in time.

## Same for all plans

| what | limit |
|---|---|
| JSON body of a request | 1 MiB |
| ` + "`cookie`" + ` and ` + "`curl`" + ` of a connect attempt | 16 KiB and 64 KiB |
| names in an ` + "`events`" + ` filter | 64 |
| ` + "`label`, `reference_id`" + ` | 120 and 255 characters |
| items of a page | 100 |
| webhook tests of an account | 10 per minute |
| codes for one challenge | 5 |
`)
	p.Intro = b.String()
	return p
}

// amount formats a number for readers.
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
