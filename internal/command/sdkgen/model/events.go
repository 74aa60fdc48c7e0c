package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Schemas that several of the service's own events use.
const (
	state = `{"type":"string","x-extensible-enum":["connecting","active","degraded","reauthenticating","reconnect_required","restricted","paused","disconnected"]}`
	actor = `{"title":"EventActor","description":"Who did it.","type":"object","required":["kind","id"],"properties":{"kind":{"type":"string"},"id":{"type":"string"},"label":{"type":"string"}}}`
	text  = `{"type":"string"}`
	maybe = `{"type":["string","null"]}`
	when  = `{"type":"string","format":"date-time"}`
	count = `{"type":"integer"}`
	names = `{"type":"array","items":{"type":"string"}}`
)

// changeData returns the schema of an event about an account: the states, the reason, what the user must do, and more.
func changeData(more ...string) json.RawMessage {
	return dataSchema(append([]string{"from", state, "to", state, "reason", maybe, "userAction", text}, more...)...)
}

// dataSchema returns the schema of an object from pairs of names and schemas. A member whose name ends
// in ? is optional.
func dataSchema(pairs ...string) json.RawMessage {
	var required, properties []string
	for i := 0; i < len(pairs); i += 2 {
		name, optional := strings.CutSuffix(pairs[i], "?")
		if !optional {
			required = append(required, fmt.Sprintf("%q", name))
		}
		properties = append(properties, fmt.Sprintf("%q:%s", name, pairs[i+1]))
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","required":[%s],"properties":{%s}}`, strings.Join(required, ","), strings.Join(properties, ",")))
}

func schemaRef(name string) string { return `{"$ref":"` + schemaPrefix + name + `"}` }

// serviceData holds the schemas of the service's own events. They repeat what the publishing packages write.
var serviceData = map[string]json.RawMessage{
	"test":                       dataSchema("message", text, "requestId", text),
	"account.connected":          changeData("account", schemaRef("Account"), "attemptId", maybe, "kind", text),
	"account.reconnected":        changeData("account", schemaRef("Account"), "attemptId", maybe, "downForSec", count),
	"account.reauthenticating":   changeData("attemptId", maybe),
	"account.degraded":           changeData("sinceSec", count),
	"account.recovered":          changeData("sinceSec", count),
	"account.reconnect_required": changeData("connectUrl", maybe),
	"account.challenge_required": dataSchema("attemptId", text, "state", text, "otp_channel", maybe,
		"email_mask", maybe, "phone_mask", maybe, "expires_at", `{"type":["string","null"],"format":"date-time"}`),
	"account.session_expiring": changeData("sessionExpiresAt", when, "daysLeft", count),
	"account.restricted":       changeData("upstreamCode?", `{"type":["integer","null"]}`, "upstreamMessage?", maybe),
	"account.paused":           changeData("by", actor),
	"account.resumed":          changeData("by", actor),
	"account.updated":          changeData("changes", names),
	"account.disconnected":     changeData("id", text, "ofUserId", text, "by", actor, "purgedAt", when),
	"listener.gap": dataSchema("fromSeq", `{"type":["integer","null"]}`, "toSeq", `{"type":["integer","null"]}`,
		"from", `{"type":["string","null"],"format":"date-time"}`, "to", when, "backfilled", `{"type":"boolean"}`),
	"connect.attempt_updated":   json.RawMessage(schemaRef("Attempt")),
	"connect.attempt_completed": json.RawMessage(schemaRef("Attempt")),
	"connect.session_finished": dataSchema("sessionId", text,
		"status", `{"type":"string","enum":["success","exited","expired"]}`, "attempts", names,
		"accountId?", text, "referenceId?", text),
	"webhook.disabled":    dataSchema("url", text, "reason", text, "failingSinceSec", count),
	"webhook.recovered":   dataSchema("url", text, "reason", text, "failingSinceSec", count),
	"key.created":         dataSchema("id", text, "label", text, "scopes?", names, "by", actor),
	"key.revoked":         dataSchema("id", text, "label", text, "scopes?", names, "by", actor),
	"usage.threshold":     dataSchema("metric", text, "percent", count, "limit", count, "used", count),
	"sdk.catalog_changed": dataSchema("version", text, "added", names, "removed", names, "changed", names),
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
