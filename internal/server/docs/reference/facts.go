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

// limitWords describe the limits, by name.
var limitWords = map[string]string{
	"callsPerMinute":         "calls of the organisation per minute",
	"callsPerMonth":          "calls of the organisation per calendar month",
	"accountReadPerMinute":   "read calls on one account per minute",
	"accountWritePerMinute":  "write calls on one account per minute",
	"connectAttemptsPerHour": "connect attempts per hour",
	"maxAccounts":            "connected accounts",
	"maxKeys":                "API keys",
	"maxStreamsPerAccount":   "concurrent streams of one account",
	"eventRetentionDays":     "days that events are kept",
	"deliveryRetentionDays":  "days that deliveries are kept",
	"maxRequestBytes":        "bytes of a request",
	"maxResponseBytes":       "bytes of a response",
	"uploadMaxBytes":         "bytes of an upload",
}

// limitPage returns the page of the limits by plan.
func (m *builder) limitPage() Page {
	p := Page{
		Path: "/docs/limits", Title: "Limits", Label: "Limits",
		Lead: "The limits of an organisation by plan. A call beyond a limit gets 429 with the time to wait. Refused calls do not count.",
	}
	var b strings.Builder
	b.WriteString("## By plan\n\n| limit | counts |")
	for _, plan := range m.plans {
		b.WriteString(" " + string(plan.Name) + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(m.plans)) + "\n")
	for i, name := range org.LimitNames() {
		b.WriteString("| `" + name + "` | " + limitWords[name] + " |")
		for _, plan := range m.plans {
			b.WriteString(" " + amount(name, plan.List()[i].Value) + " |")
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
	case strings.HasSuffix(name, "Bytes") && n%(1<<30) == 0:
		return strconv.Itoa(n>>30) + " GiB"
	case strings.HasSuffix(name, "Bytes") && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + " MiB"
	}
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = fmt.Sprintf("%s,%s", text[:at], text[at:])
	}
	return text
}
