package reference

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// families are the groups of operations in reading order.
var families = []struct{ tag, slug, title string }{
	{"Identity", "identity", "Identity"},
	{"Connect", "connect", "Connect"},
	{"Accounts", "accounts", "Accounts"},
	{"SDK", "calls", "Calls"},
	{"Events", "events", "Events"},
	{"Jobs", "jobs", "Jobs"},
	{"Webhooks", "webhooks", "Webhooks"},
	{"Media", "media", "Media"},
	{"Keys", "keys", "API keys"},
	{"Usage", "usage", "Usage"},
	{"Logs", "logs", "Logs"},
	{"Audit", "audit", "Audit"},
	{"Team", "team", "Team"},
	{"Sandbox", "sandbox", "Sandbox"},
	{"Status", "status", "Status"},
	{"Documents", "documents", "Documents"},
}

// firstOf lists operations in the order of their use, where it differs from that of their paths.
var firstOf = []string{
	"connectLogin", "getAttempt", "submitAttempt", "resendCode", "sendEmailToCreator", "cancelAttempt", "streamAttempt", "connectMobile", "getAttemptQR",
	"connectCookie", "connectCurl", "createConnectSession", "getConnectSession", "listConnectSessions", "callMethod", "readMethod", "streamAccountEvents",
	"streamEvents", "putWebhook", "getWebhook", "deleteWebhook", "testWebhook", "mintKey",
}

// lead returns the description of a tag.
func (m *builder) lead(tag string) string {
	for _, t := range m.doc.Tags {
		if t.Name == tag {
			return t.Description
		}
	}
	return ""
}

// byUse orders the operations of a family by their use.
func byUse(a, b *apimodel.Operation) int {
	place := func(op *apimodel.Operation) int {
		if at := slices.Index(firstOf, op.ID); at >= 0 {
			return at
		}
		return len(firstOf)
	}
	return cmp.Compare(place(a), place(b))
}

// api returns the pages of the REST API: an index, then one per family.
func (m *builder) api() []Page {
	index := Page{
		Path: "/docs/api", Title: "REST API", Label: "REST API", Index: true,
		Lead: "Every operation of the API. This reference is generated from the OpenAPI document of this server, /v1/openapi.json, so it describes the running version.",
	}
	var intro strings.Builder
	intro.WriteString("All paths are relative to the address of the service, `$STAGEDOOR_URL` in the examples. Send the key as `Authorization: Bearer $STAGEDOOR_API_KEY`. " +
		"Bodies are JSON in UTF-8. Ids are strings, money is in cents, times are RFC 3339. A response with status 400 or above has a [problem](/docs/problems) as its body.\n\n" +
		"- [OpenAPI 3.1 document](/v1/openapi.json) for your own tools\n- [Scopes](/docs/scopes) and [limits](/docs/limits)\n- [SDK methods](/docs/sdk) that can be called on an account\n\n")
	pages := []Page{}
	for _, f := range families {
		operations := m.doc.Operations(func(op *apimodel.Operation) bool {
			return op.SDK == nil && slices.Contains(op.Tags, f.tag) && op.Method != "OPTIONS"
		})
		if len(operations) == 0 {
			continue
		}
		slices.SortStableFunc(operations, byUse)
		p := Page{Path: "/docs/api/" + f.slug, Title: f.title, Label: f.title, Lead: m.lead(f.tag)}
		intro.WriteString("## [" + f.title + "](" + p.Path + ")\n\n" + p.Lead + "\n\n| operation | what it does |\n|---|---|\n")
		for _, op := range operations {
			p.Items = append(p.Items, m.operation(op))
			intro.WriteString("| [`" + op.Method + " " + op.Path + "`](" + p.Path + "#" + op.ID + ") | " + escape(op.Summary) + " |\n")
		}
		intro.WriteByte('\n')
		pages = append(pages, p)
	}
	index.Intro = intro.String()
	return append([]Page{index}, pages...)
}

// operation documents one operation of the API.
func (m *builder) operation(op *apimodel.Operation) Item {
	i := Item{ID: op.ID, Title: op.Summary, Verb: op.Method, Address: op.Path, Side: m.code(op)}
	switch {
	case op.Scope != "":
		i.Facts = append(i.Facts, "Scope [`"+op.Scope+"`](/docs/scopes#"+scopeID(op.Scope)+")")
	case len(op.Security) == 0:
		i.Facts = append(i.Facts, "No key needed")
	default:
		i.Facts = append(i.Facts, "Any key")
	}
	description := op.Description
	if at := strings.Index(description, "Needs the scope"); at >= 0 {
		description = description[:at] // The facts have it.
	}
	i.Body = described(description)
	for _, place := range []struct{ in, title string }{{"path", "Path"}, {"query", "Query"}, {"header", "Headers"}} {
		if body := m.parameters(op, place.in); body != "" {
			i.Folds = append(i.Folds, Fold{Title: place.title, Body: body, Open: place.in == "query"})
		}
	}
	if s, _ := m.doc.JSONBody(op); s != nil {
		body := m.fields(s, 0)
		if body == "" {
			body = "A JSON object.\n"
		}
		i.Folds = append(i.Folds, Fold{Title: "Body", Body: body, Open: true})
	}
	status, kinds, s := op.Success()
	if status != "" {
		i.Folds = append(i.Folds, Fold{Title: "Response " + status, Body: m.answerFields(kinds, s)})
	}
	if problems := m.problemList(op); problems != "" {
		i.Folds = append(i.Folds, Fold{Title: "Problems", Body: problems})
	}
	return i
}

// described escapes the paragraphs of a description.
func described(words string) string {
	parts := strings.Split(strings.TrimSpace(words), "\n\n")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	return strings.Join(parts, "\n\n")
}

func (m *builder) parameters(op *apimodel.Operation, in string) string {
	var b strings.Builder
	for _, p := range op.Parameters {
		if p.In != in {
			continue
		}
		s := p.Schema
		if s == nil {
			s = &apimodel.Schema{Type: apimodel.Types{"string"}}
		}
		if p.Description != "" && s.Description == "" {
			copied := *s
			copied.Description = p.Description
			s = &copied
		}
		if slices.Contains(s.Type, "null") { // An optional list is omitted from the query, not null.
			copied := *s
			copied.Type = apimodel.Types{s.Type.Main()}
			s = &copied
		}
		m.writeField(&b, p.Name, s, p.Required && in != "path", 0)
	}
	return b.String()
}

func (m *builder) answerFields(kinds []string, s *apimodel.Schema) string {
	body := ""
	if fields := m.fields(s, 0); fields != "" {
		body = strings.ReplaceAll(fields, " **required**", "") // It says little about a response.
	} else if s != nil {
		body = "*" + m.typeName(s) + "*\n"
	}
	others := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "application/json" })
	if len(others) > 0 {
		body += "\nAlso available as `" + strings.Join(others, "`, `") + "`.\n"
		if s == nil {
			body = "As `" + strings.Join(others, "`, `") + "`.\n"
		}
	}
	if body == "" {
		return "No body.\n"
	}
	return body
}

// problemList links the problems of an operation, by status.
func (m *builder) problemList(op *apimodel.Operation) string {
	var b strings.Builder
	byStatus := map[int][]string{}
	statuses := []int{}
	for _, code := range m.doc.Problems(op) {
		k, ok := problem.Lookup(code)
		if !ok {
			continue
		}
		if byStatus[k.Status] == nil {
			statuses = append(statuses, k.Status)
		}
		byStatus[k.Status] = append(byStatus[k.Status], "[`"+code+"`](/docs/problems/"+code+")")
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		b.WriteString("- **" + digits(status) + "** " + strings.Join(byStatus[status], ", ") + "\n")
	}
	return b.String()
}
