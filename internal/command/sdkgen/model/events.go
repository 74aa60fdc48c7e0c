package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

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
		e.Example = l.example(e)
		l.model.Events = append(l.model.Events, e)
	}
}

// example returns a complete event whose data is valid for its schema.
func (l *loader) example(e *Event) json.RawMessage {
	account, class, seq := `"acct_01k9x5ahzre4bb3069xb2way0g"`, "durable", "4711"
	if e.Org {
		account = "null"
	}
	if e.Ephemeral {
		class, seq = "ephemeral", "null"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":"evt_01k9x5ahzre4bb3069xb2way0g","event":%q,"accountId":%s,"ts":"2026-11-15T12:00:00.123Z","data":`, e.Kind, account)
	l.sample(&b, e.Data, "", 0)
	fmt.Fprintf(&b, `,"meta":{"seq":%s,"class":%q,"ofUserId":"90210","referenceId":null,"sandbox":true,"upstreamAt":"2026-11-15T12:00:00Z","schema":1}}`, seq, class)
	return b.Bytes()
}

// sample writes a value of the given type. name is the name of the member, which decides what strings look like.
func (l *loader) sample(b *bytes.Buffer, r Ref, name string, depth int) {
	switch {
	case depth > 4 || r.Nullable && (r.Kind == Named || r.Kind == Any):
		b.WriteString("null")
	case r.Kind == Named:
		l.sampleObject(b, r, depth)
	case r.Kind == Array:
		b.WriteByte('[')
		if r.Elem.Kind == String && depth < 2 {
			l.sample(b, *r.Elem, singular(name), depth+1)
		}
		b.WriteByte(']')
	case r.Kind == Map:
		b.WriteString("{}")
	default:
		b.WriteString(sampleValue(r, name))
	}
}

func (l *loader) sampleObject(b *bytes.Buffer, r Ref, depth int) {
	t := l.model.byName[r.Name]
	b.WriteByte('{')
	comma := ""
	for _, f := range t.Fields {
		if !f.Required {
			continue
		}
		fmt.Fprintf(b, "%s%q:", comma, f.JSON)
		comma = ","
		l.sample(b, f.Type, f.JSON, depth+1)
	}
	b.WriteByte('}')
}

// samples holds example values of members by the end of their name. The first match wins.
var samples = []struct{ suffix, value string }{
	{"accountId", `"acct_01k9x5ahzre4bb3069xb2way0g"`}, {"attemptId", `"att_01k9x5ahzre4bb3069xb2way0g"`}, {"attempt_id", `"att_01k9x5ahzre4bb3069xb2way0g"`},
	{"sessionId", `"cs_01k9x5ahzre4bb3069xb2way0g"`}, {"requestId", `"req_01k9x5ahzre4bb3069xb2way0g"`}, {"url", `"https://example.com/hook"`},
	{"userId", `"3438267820000000001"`}, {"chatId", `"3438267820000000001"`}, {"Id", `"3438267820300000001"`}, {"id", `"3438267820300000001"`}, {"Ids", `"3438267820300000001"`},
	{"username", `"jamie"`}, {"name", `"Jamie"`}, {"label", `"Maya"`}, {"title", `"Hello"`}, {"text", `"Hi"`}, {"message", `"Hi"`}, {"userAction", `"none"`}, {"kind", `"profile"`},
}

func sampleValue(r Ref, name string) string {
	switch {
	case r.Const != "":
		return r.Const
	case len(r.Enum) > 0 && r.Kind == String:
		return fmt.Sprintf("%q", r.Enum[0])
	case r.Format == "date-time":
		return `"2026-11-15T12:00:00Z"`
	case r.Format == "date":
		return `"2026-11-15"`
	case r.Nullable || r.Kind == Null || r.Kind == Any:
		return "null"
	case r.Kind == Integer && strings.HasSuffix(name, "Cents"):
		return "1200"
	case r.Kind == Integer || r.Kind == Number:
		return "1"
	case r.Kind == Boolean:
		return "false"
	case r.Format == "uri":
		return `"https://platform.example/files/1"`
	}
	for _, s := range samples {
		if strings.HasSuffix(name, s.suffix) {
			return s.value
		}
	}
	return `"…"`
}
