package reference

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// families are the groups of operations in the order in which they are met, with what they are for.
var families = []struct{ tag, slug, title, lead string }{
	{"Identity", "identity", "Identity", "Which organisation and key is calling, and its settings."},
	{"Connect", "connect", "Connect", "Connect a creator's account: by email and password, on their phone, with cookies, or on pages of ours."},
	{"Accounts", "accounts", "Accounts", "The accounts that are connected: list, read, label, pause, reconnect, disconnect."},
	{"SDK", "calls", "Calls", "Call any method of the SDK on an account, and list the methods that there are."},
	{"Events", "events", "Events", "Everything that happens on accounts, as a stream or page by page."},
	{"Webhooks", "webhooks", "Webhooks", "Have events sent to a URL of yours: register, test, pause, replay, and look at deliveries."},
	{"Media", "media", "Media", "Download and upload files of an account."},
	{"Keys", "keys", "API keys", "Mint, list and revoke the organisation's API keys."},
	{"Usage", "usage", "Usage", "What is left of every limit, and what was used."},
	{"Logs", "logs", "Logs", "The request log, and errors grouped."},
	{"Audit", "audit", "Audit", "Who changed what in the organisation."},
	{"Team", "team", "Team", "The people of the organisation, their invitations and browser sessions."},
	{"Sandbox", "sandbox", "Sandbox", "Make things happen in the sandbox: fans act, events fire, faults come and go."},
	{"Status", "status", "Status", "Whether the service is well."},
	{"Documents", "documents", "Documents", "The problems and the OpenAPI document, in a form for programs."},
}

// firstOf are the operations that a family begins with, where the order of their addresses is not that of their use.
var firstOf = []string{
	"connectLogin", "getAttempt", "submitAttempt", "resendCode", "sendEmailToCreator", "cancelAttempt", "streamAttempt", "connectMobile", "getAttemptQR",
	"connectCookie", "connectCurl", "createConnectSession", "getConnectSession", "listConnectSessions", "callMethod", "readMethod", "streamAccountEvents",
	"streamEvents", "putWebhook", "getWebhook", "deleteWebhook", "testWebhook", "mintKey",
}

// byUse puts the operations of a family in the order of their use.
func byUse(a, b *operation) int {
	place := func(op *operation) int {
		if at := slices.Index(firstOf, op.ID); at >= 0 {
			return at
		}
		return len(firstOf)
	}
	return cmp.Compare(place(a), place(b))
}

// api writes the pages of the REST interface: one for all, then one a family.
func (m *maker) api() []Page {
	index := Page{
		Path: "/docs/api", Title: "REST API", Label: "REST API", Index: true,
		Lead: "Every operation of the interface. This reference is made from the OpenAPI document that this server gives out at /v1/openapi.json, so it is what is running.",
	}
	var intro strings.Builder
	intro.WriteString("All addresses are below the address of the service, `$STAGEDOOR_URL` in the examples. Send the key as `Authorization: Bearer $STAGEDOOR_API_KEY`. " +
		"Bodies are JSON in UTF-8. Ids are strings, money is in cents, times are RFC 3339. An answer of 400 or above has a [problem](/docs/problems) in its body.\n\n" +
		"- [OpenAPI 3.1 document](/v1/openapi.json) for your own tools\n- [Scopes](/docs/scopes) and [limits](/docs/limits)\n- [SDK methods](/docs/sdk): what can be called on an account\n\n")
	pages := []Page{}
	for _, f := range families {
		operations := m.doc.operations(func(op *operation) bool {
			return op.SDK == nil && slices.Contains(op.Tags, f.tag) && op.method != "OPTIONS"
		})
		if len(operations) == 0 {
			continue
		}
		slices.SortStableFunc(operations, byUse)
		p := Page{Path: "/docs/api/" + f.slug, Title: f.title, Label: f.title, Lead: f.lead}
		intro.WriteString("## [" + f.title + "](" + p.Path + ")\n\n" + f.lead + "\n\n| operation | what it does |\n|---|---|\n")
		for _, op := range operations {
			p.Items = append(p.Items, m.operation(op))
			intro.WriteString("| [`" + op.method + " " + op.path + "`](" + p.Path + "#" + op.ID + ") | " + escape(op.Summary) + " |\n")
		}
		intro.WriteByte('\n')
		pages = append(pages, p)
	}
	index.Intro = intro.String()
	return append([]Page{index}, pages...)
}

// operation writes one operation of the interface.
func (m *maker) operation(op *operation) Item {
	i := Item{ID: op.ID, Title: op.Summary, Verb: op.method, Address: op.path, Side: m.code(op)}
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
		description = description[:at] // the facts say it
	}
	i.Body = described(description)
	for _, place := range []struct{ in, title string }{{"path", "Path"}, {"query", "Query"}, {"header", "Headers"}} {
		if body := m.parameters(op, place.in); body != "" {
			i.Folds = append(i.Folds, Fold{Title: place.title, Body: body, Open: place.in == "query"})
		}
	}
	if s, _ := m.doc.body(op); s != nil {
		body := m.fields(s, 0)
		if body == "" {
			body = "A JSON object.\n"
		}
		i.Folds = append(i.Folds, Fold{Title: "Body", Body: body, Open: true})
	}
	status, kinds, s := m.doc.answer(op)
	if status != "" {
		i.Folds = append(i.Folds, Fold{Title: "Answer " + status, Body: m.answerFields(kinds, s)})
	}
	if problems := m.problemList(op); problems != "" {
		i.Folds = append(i.Folds, Fold{Title: "Problems", Body: problems})
	}
	return i
}

// described keeps the paragraphs of a description.
func described(words string) string {
	parts := strings.Split(strings.TrimSpace(words), "\n\n")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	return strings.Join(parts, "\n\n")
}

func (m *maker) parameters(op *operation, in string) string {
	var b strings.Builder
	for _, p := range op.Parameters {
		if p.In != in {
			continue
		}
		s := p.Schema
		if s == nil {
			s = &schema{Type: types{"string"}}
		}
		if p.Description != "" && s.Description == "" {
			copied := *s
			copied.Description = p.Description
			s = &copied
		}
		if slices.Contains(s.Type, "null") { // a list that may be left out is no null in an address
			copied := *s
			copied.Type = types{s.Type.main()}
			s = &copied
		}
		m.writeField(&b, p.Name, s, p.Required && in != "path", 0)
	}
	return b.String()
}

func (m *maker) answerFields(kinds []string, s *schema) string {
	body := ""
	if fields := m.fields(s, 0); fields != "" {
		body = strings.ReplaceAll(fields, " **required**", "") // of an answer it says little
	} else if s != nil {
		body = "*" + m.typeName(s) + "*\n"
	}
	others := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "application/json" })
	if len(others) > 0 {
		body += "\nAlso as `" + strings.Join(others, "`, `") + "`.\n"
		if s == nil {
			body = "As `" + strings.Join(others, "`, `") + "`.\n"
		}
	}
	if body == "" {
		return "No body.\n"
	}
	return body
}

// problemList links what an operation can be refused with, by status.
func (m *maker) problemList(op *operation) string {
	var b strings.Builder
	byStatus := map[int][]string{}
	statuses := []int{}
	for _, code := range m.doc.problems(op) {
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
