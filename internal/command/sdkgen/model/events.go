package model

import "strings"

// events reads the webhooks section: the platform's kinds, then the service's own.
func (l *loader) events() {
	for _, kind := range l.doc.at("webhooks").Keys {
		o := l.doc.at("webhooks", kind, "post")
		x := o.at("x-event")
		e := &Event{
			Kind: kind, Doc: o.at("summary").text(), Ephemeral: x.at("class").text() == "ephemeral",
			Org: x.at("scope").text() == "organisation", Service: x.at("source").text() == "service",
		}
		forms := o.at("requestBody", "content", "application/json", "schema", "allOf").Items
		if len(forms) != 2 {
			l.fail("the event %s is not an envelope with data", kind)
			return
		}
		e.Data = l.ref(forms[1].at("properties", "data"), Title(kind, "Data"))
		if t := l.model.byName[e.Data.Name]; t != nil && t.Doc == "" && strings.HasSuffix(t.Name, "Data") {
			t.Doc = "The data of the event " + kind + "."
		}
		l.model.Events = append(l.model.Events, e)
	}
}
