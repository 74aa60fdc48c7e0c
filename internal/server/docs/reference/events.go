package reference

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

func eventID(kind string) string { return strings.ReplaceAll(kind, ".", "-") }

// eventPage returns the page of all kinds of events.
func (m *builder) eventPage() Page {
	p := Page{
		Path: "/docs/events", Title: "Event kinds", Label: "Event kinds",
		Lead: fmt.Sprintf("All %d kinds of events with an example of each: those of the platform, and those of the service itself, whose names contain a dot.", len(m.events)),
		Intro: "[Events](/docs/guides/events) and [Webhooks](/docs/webhooks) describe how to receive them. A durable event is stored in order and never lost; an ephemeral event is not stored, and sent only to " +
			"open streams and to webhooks. Kinds may be added at any time: ignore those that you do not know.",
	}
	for _, k := range m.events {
		p.Items = append(p.Items, m.event(k))
	}
	return p
}

func (m *builder) event(k event.Kind) Item {
	i := Item{ID: eventID(k.Name), Title: k.Name, Mono: true, Body: escape(k.Summary)}
	if k.Class == catalog.Ephemeral {
		i.Facts = append(i.Facts, "Ephemeral")
	} else {
		i.Facts = append(i.Facts, "Durable")
	}
	if k.Org {
		i.Facts = append(i.Facts, "Of the organisation")
	}
	if strings.Contains(k.Name, ".") || k.Name == event.KindTest {
		i.Facts = append(i.Facts, "By the service")
	}
	if s := m.data[k.Name]; s != nil {
		if fields := m.fields(s, 0); fields != "" {
			i.Folds = append(i.Folds, Fold{Title: "data", Body: strings.ReplaceAll(fields, " **required**", ""), Open: true})
		}
	}
	if example, ok := m.samples.Events[k.Name]; ok {
		i.Side = "```json\n" + indent(example) + "\n```"
	}
	return i
}

// dataOf parses the schemas of the platform's events.
func dataOf(platform *catalog.Catalog) (map[string]*schema, error) {
	all := map[string]*schema{}
	for _, k := range platform.Events() {
		s := &schema{}
		if err := json.Unmarshal(k.Schema(), s); err != nil {
			return nil, fmt.Errorf("read schema of %s: %w", k.Kind, err)
		}
		all[k.Kind] = s
	}
	return all, nil
}
