package reference

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

func eventID(kind string) string { return strings.ReplaceAll(kind, ".", "-") }

// eventPage returns the page of all kinds of events.
func (m *builder) eventPage() Page {
	p := Page{
		Path: "/docs/events", Title: "Event kinds", Label: "Event kinds",
		Lead: fmt.Sprintf("All %d kinds of events with an example of each: those of the platform, and those of the service itself, whose names contain a dot.", len(m.doc.Webhooks)),
		Intro: "[Events](/docs/guides/events) and [Webhooks](/docs/webhooks) describe how to receive them. A durable event is stored in order and never lost; an ephemeral event is not stored, and sent only to " +
			"open streams and to webhooks. Kinds may be added at any time: ignore those that you do not know.",
	}
	for _, w := range m.doc.Webhooks {
		p.Items = append(p.Items, m.event(w.Name, w.Value))
	}
	return p
}

func (m *builder) event(kind string, w apimodel.Webhook) Item {
	i := Item{ID: eventID(kind), Title: kind, Mono: true, Body: escape(w.Post.Summary)}
	if w.Post.Facts.Class == "ephemeral" {
		i.Facts = append(i.Facts, "Ephemeral")
	} else {
		i.Facts = append(i.Facts, "Durable")
	}
	if w.Post.Facts.Scope == "organisation" {
		i.Facts = append(i.Facts, "Of the organisation")
	}
	if w.Post.Facts.Source == "service" {
		i.Facts = append(i.Facts, "By the service")
	}
	if fields := m.fields(w.Data(), 0); fields != "" {
		i.Folds = append(i.Folds, Fold{Title: "data", Body: strings.ReplaceAll(fields, " **required**", ""), Open: true})
	}
	i.Side = "```json\n" + m.eventExample(kind, w) + "\n```"
	return i
}

// eventExample returns a complete event.
func (m *builder) eventExample(kind string, w apimodel.Webhook) string {
	account, class, seq := `"acct_01k9x3m5v8e7rbq2n4t6w8y0za"`, "durable", "4711"
	if w.Post.Facts.Scope == "organisation" {
		account = "null"
	}
	if w.Post.Facts.Class == "ephemeral" {
		class, seq = "ephemeral", "null"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":"evt_01k9x3m5v8e7rbq2n4t6w8y0zc","event":%q,"accountId":%s,"ts":"2026-11-15T12:00:00.123Z","data":`,
		kind, account)
	m.writeExample(&b, "data", w.Data(), 0)
	fmt.Fprintf(&b, `,"meta":{"seq":%s,"class":%q,"ofUserId":"90210","referenceId":null,"sandbox":true,`+
		`"upstreamAt":"2026-11-15T12:00:00Z","schema":1}}`, seq, class)
	return indent(b.Bytes())
}
