package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// sdk returns the pages of the platform's methods: an index, one per resource, and the types of their results.
func (m *builder) sdk() []Page {
	methods := m.doc.Operations(func(op *apimodel.Operation) bool { return op.SDK != nil && op.Method == "POST" })
	byResource := map[string][]*apimodel.Operation{}
	for _, op := range methods {
		byResource[op.SDK.Resource] = append(byResource[op.SDK.Resource], op)
	}
	index := Page{
		Path: "/docs/sdk", Title: "SDK methods", Label: "All methods", Index: true,
		Lead: fmt.Sprintf("The %d methods that can be called on a connected account, in %d resources. Read methods can be called with GET, all methods with POST.", len(methods), len(byResource)),
	}
	var intro strings.Builder
	intro.WriteString("`POST /v1/accounts/{id}/{resource}/{method}` takes the arguments as a JSON object and returns `{\"result\": …}`. All methods need the scope " +
		"[`sdk:call`](/docs/scopes#sdk-call). [Calls](/docs/calls) describes limits, retries and timeouts; [Types](/docs/sdk/types) has the objects in results.\n\n")
	pages := []Page{}
	for _, tag := range m.doc.Tags {
		list := byResource[tag.Name]
		if len(list) == 0 {
			continue
		}
		p := Page{Path: "/docs/sdk/" + tag.Name, Title: spaced(tag.Name), Label: tag.Name, Lead: sentence(tag.Description)}
		intro.WriteString("## [" + tag.Name + "](" + p.Path + ")\n\n" + p.Lead + "\n\n| method | what it does |\n|---|---|\n")
		for _, op := range list {
			p.Items = append(p.Items, m.sdkMethod(op))
			intro.WriteString("| [`" + op.SDK.Resource + "." + op.SDK.Method + "`](" + p.Path + "#" + op.SDK.Method + ") | " + escape(op.Summary) + " |\n")
		}
		intro.WriteByte('\n')
		pages = append(pages, p)
	}
	index.Intro = intro.String()
	return append(append([]Page{index}, pages...), m.typePage())
}

func (m *builder) sdkMethod(op *apimodel.Operation) Item {
	f := op.SDK
	verb := op.Method
	item, _ := m.doc.Paths.Get(op.Path)
	if _, ok := item.Get("get"); ok {
		verb = "GET" // POST works too, as the facts say.
	}
	i := Item{
		ID: f.Method, Title: f.Resource + "." + f.Method, Mono: true, Verb: verb, Address: op.Path, Body: escape(op.Summary), Side: m.code(op),
		Facts: sdkWords(f),
	}
	if len(f.Emits) > 0 {
		links := make([]string, len(f.Emits))
		for n, kind := range f.Emits {
			links[n] = "[`" + kind + "`](/docs/events#" + eventID(kind) + ")"
		}
		i.Body += "\n\nA successful call normally causes the event " + strings.Join(links, ", ") + "."
	}
	if f.Async {
		i.Body += "\n\nAsynchronous: the result arrives as an event."
	}
	s, _ := m.doc.JSONBody(op)
	if body := m.fields(s, 0); body != "" {
		i.Folds = append(i.Folds, Fold{Title: "Arguments", Body: body, Open: true})
	} else {
		i.Body += "\n\nThis method has no arguments."
	}
	_, _, answer := op.Success()
	if answer != nil {
		if result, ok := answer.Properties.Get("result"); ok {
			i.Folds = append(i.Folds, Fold{Title: "Result", Body: m.result(result)})
		}
	}
	i.Folds = append(i.Folds, Fold{Title: "Problems", Body: m.problemList(op)})
	return i
}

// sdkWords returns short facts about a method.
func sdkWords(f *apimodel.Method) []string {
	words := []string{map[string]string{"read": "Read, with GET or POST", "write": "Write"}[f.Access]}
	if f.Paginated {
		words = append(words, "[Paginated](/docs/recipes/pagination)")
	}
	if f.Access == "write" && !f.Idempotent {
		words = append(words, "[Accepts an Idempotency-Key](/docs/idempotency)")
	}
	if f.Destructive {
		words = append(words, "Cannot be undone")
	}
	if f.Sensitive {
		words = append(words, "Money or legal data")
	}
	return words
}

// result describes the result of a method: a link for a named type, its members for any other.
func (m *builder) result(s *apimodel.Schema) string {
	target, name := m.doc.Follow(s)
	if inside, ok := strings.CutPrefix(name, "Sdk.Page."); ok {
		return "A page: `items` *array of [" + inside + "](/docs/sdk/types#" + typeID("Sdk."+inside) + ")*, `nextCursor` *string or null*, `hasMore` *boolean*.\n"
	}
	if target == nil {
		return "*any*\n"
	}
	body := "*" + m.typeName(s) + "*\n"
	if name == "" {
		body += "\n" + strings.ReplaceAll(m.fields(s, 0), " **required**", "")
	}
	return body
}

// typePage returns the page of the objects in results and events.
func (m *builder) typePage() Page {
	p := Page{
		Path: "/docs/sdk/types", Title: "Types", Label: "Types",
		Lead: "The objects in results of SDK methods and in events. Listed members are always present; those that can be null say so.",
	}
	names := []string{}
	for name := range m.doc.Components.Schemas {
		if strings.HasPrefix(name, "Sdk.") && !strings.HasPrefix(name, "Sdk.Page.") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		s := m.doc.Components.Schemas[name]
		p.Items = append(p.Items, Item{
			ID: typeID(name), Title: sdkName(name), Mono: true, Body: described(s.Description),
			Folds: []Fold{{Title: "Members", Body: strings.ReplaceAll(m.fields(s, 0), " **required**", ""), Open: true}},
			Side:  "```json\n" + m.example(s) + "\n```",
		})
	}
	return p
}

// spaced turns a name such as massMessages into words: Mass messages.
func spaced(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// sentence adds a full stop if there is none.
func sentence(words string) string {
	if words == "" || strings.HasSuffix(words, ".") {
		return words
	}
	return words + "."
}

func digits(n int) string { return strconv.Itoa(n) }
