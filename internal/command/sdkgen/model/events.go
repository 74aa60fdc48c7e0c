package model

import "strings"

// events reads the webhooks section: the platform's kinds, then the service's own.
func (l *loader) events() {
	for _, w := range l.doc.Webhooks {
		kind, facts := w.Name, w.Value.Post.Facts
		e := &Event{
			Kind: kind, Doc: w.Value.Post.Summary, Ephemeral: facts.Class == "ephemeral",
			Org: facts.Scope == "organisation", Service: facts.Source == "service",
		}
		data := w.Value.Data()
		if data == nil {
			l.fail("the event %s is not an envelope with data", kind)
			return
		}
		e.Data = l.ref(data, Title(kind, "Data"))
		if t := l.model.byName[e.Data.Name]; t != nil && t.Doc == "" && strings.HasSuffix(t.Name, "Data") {
			t.Doc = "The data of the event " + kind + "."
		}
		l.model.Events = append(l.model.Events, e)
	}
}
