package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// wantedResource is one resource of testdata/catalog.json, the catalogue that the product promises.
type wantedResource struct {
	Resource, Description string
	Methods               []wantedMethod
}

type wantedMethod struct {
	Method, Access, Result                               string
	Args                                                 []wantedArg
	Idempotent, Destructive, Paginated, Async, Sensitive bool
	Emits                                                []string
}

type wantedArg struct {
	Name, Type string
	Required   bool
	Default    json.RawMessage
}

// The sandbox's manifest has everything that the product promises, method by method. To check one file while writing
// it: go test ./internal/platform/catalog -run 'TestSandboxHoldsTheWholeCatalog/messages'. The subtests
// upstream.yaml, types.yaml and events.yaml report the faults of these files; the subtest events compares the kinds
// of events.
func TestSandboxHoldsTheWholeCatalog(t *testing.T) {
	t.Parallel()
	c, faults := catalog.Draft(os.DirFS("manifests/sandbox"))
	for _, file := range []string{"upstream.yaml", "types.yaml", "events.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			reportFaults(t, faults, file)
		})
	}
	if c == nil {
		reportFaults(t, faults, "upstream.yaml")
		t.FailNow()
	}
	wanted := wantedCatalog(t)
	for _, w := range wanted {
		t.Run(w.Resource, func(t *testing.T) {
			t.Parallel()
			reportFaults(t, faults, "resources/"+w.Resource+".yaml")
			compareResource(t, c, w)
		})
	}
	for _, r := range c.Resources() {
		if !slices.ContainsFunc(wanted, func(w wantedResource) bool { return w.Resource == r.Name }) {
			t.Errorf("the resource %s is not in the catalogue", r.Name)
		}
	}
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		compareEvents(t, c)
	})
}

// reportFaults fails the test for each fault of one file.
func reportFaults(t *testing.T, faults []catalog.Fault, file string) {
	t.Helper()
	for _, f := range faults {
		if f.File == file {
			t.Error(f)
		}
	}
}

func wantedCatalog(t testing.TB) []wantedResource {
	t.Helper()
	text, err := os.ReadFile("testdata/catalog.json")
	must.OK(t, err)
	var list []wantedResource
	must.OK(t, json.Unmarshal(text, &list))
	return list
}

func compareResource(t *testing.T, c *catalog.Catalog, w wantedResource) {
	t.Helper()
	for _, m := range w.Methods {
		got, ok := c.Method(w.Resource, m.Method)
		if !ok {
			t.Errorf("%s.%s is missing, or has faults", w.Resource, m.Method)
			continue
		}
		for _, d := range compareMethod(got, m) {
			t.Errorf("%s: %s", got.ID(), d)
		}
	}
	r, _ := c.Resource(w.Resource)
	if r == nil {
		return
	}
	if r.Summary != w.Description {
		t.Errorf("%s: summary is %q, want %q", r.Name, r.Summary, w.Description)
	}
	for _, m := range r.Methods {
		if !slices.ContainsFunc(w.Methods, func(x wantedMethod) bool { return x.Method == m.Name }) {
			t.Errorf("%s is not in the catalogue", m.ID())
		}
	}
}

// compareMethod lists the differences between a method and the catalogue.
func compareMethod(m *catalog.Method, w wantedMethod) []string {
	var list []string
	differ := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			list = append(list, fmt.Sprintf("%s is %v, want %v", what, got, want))
		}
	}
	differ("access", m.Access, w.Access)
	differ("result", m.ResultName(), w.Result)
	differ("idempotent", m.Idempotent, w.Idempotent)
	differ("destructive", m.Destructive, w.Destructive)
	differ("async", m.Async, w.Async)
	differ("sensitive", m.Sensitive, w.Sensitive)
	differ("paginated", m.Paginated, w.Paginated)
	differ("emits", m.Emits, w.Emits)
	var names, required []string
	for _, a := range w.Args {
		names = append(names, a.Name)
		if a.Required {
			required = append(required, a.Name)
		}
	}
	differ("positional", m.Positional(), names)
	differ("required", m.Required(), required)
	for _, a := range w.Args {
		if !slices.Contains(m.Positional(), a.Name) || m.Paginated && (a.Name == "limit" || a.Name == "cursor") {
			continue
		}
		for _, d := range compareArg(m.ArgSchema(a.Name), a) {
			list = append(list, a.Name+": "+d)
		}
	}
	return list
}

// argSchema holds the parts of an argument's JSON Schema that are compared.
type argSchema struct {
	Type, Pattern, Format                                      string
	Enum                                                       []json.RawMessage
	Default                                                    json.RawMessage
	MinLength, MaxLength, MinItems, MaxItems, Minimum, Maximum *int
	Items                                                      json.RawMessage
	Properties                                                 map[string]json.RawMessage
}

func compareArg(schema json.RawMessage, w wantedArg) []string {
	var s argSchema
	if err := json.Unmarshal(schema, &s); err != nil {
		return []string{err.Error()}
	}
	list := compareType(s, w.Type)
	want, got := strings.Trim(string(w.Default), `"`), strings.Trim(string(s.Default), `"`)
	if want != got {
		list = append(list, fmt.Sprintf("default is %q, want %q", got, want))
	}
	return list
}

// notation matches the types of the catalogue: id, string(1..64), id[](..40), {a,b}.
var notation = regexp.MustCompile(`^([A-Za-z]+|\{[^}]*\})(\[\])?(?:\((\d*)\.\.(\d*)\))?$`)

// compareType lists the differences between a schema and a type in the catalogue's notation. The manifest may have
// bounds where the catalogue has none.
func compareType(s argSchema, want string) []string {
	m := notation.FindStringSubmatch(want)
	if m == nil {
		return []string{"unknown type in the catalogue: " + want}
	}
	name, isList, low, high := m[1], m[2] != "", m[3], m[4]
	if isList {
		if s.Type != "array" {
			return []string{fmt.Sprintf("is %s, want an array: %s", s.Type, want)}
		}
		var item argSchema
		if err := json.Unmarshal(s.Items, &item); err != nil {
			return []string{err.Error()}
		}
		return append(compareType(item, name), bounds("items", s.MinItems, s.MaxItems, low, high)...)
	}
	if strings.HasPrefix(name, "{") {
		return compareEnum(s, name)
	}
	wrong := []string{fmt.Sprintf("is %s, want %s", describe(s), want)}
	switch name {
	case "id":
		if s.Type == "string" && s.Pattern == "^(0|[1-9][0-9]{0,19})$" {
			return nil
		}
	case "string":
		if s.Type == "string" && s.Enum == nil && (s.Format == "" || s.Format == "email") {
			return bounds("length", s.MinLength, s.MaxLength, low, high)
		}
	case "int":
		if s.Type == "integer" && s.Enum == nil {
			return bounds("value", s.Minimum, s.Maximum, low, high)
		}
	case "bool":
		if s.Type == "boolean" {
			return nil
		}
	case "date", "datetime", "url":
		format := map[string]string{"date": "date", "datetime": "date-time", "url": "uri"}[name]
		if s.Type == "string" && s.Format == format {
			return nil
		}
	case "object":
		if s.Type == "object" {
			return nil
		}
	default: // PollInput and the like
		if s.Type == "object" && len(s.Properties) > 0 {
			return nil
		}
	}
	return wrong
}

func describe(s argSchema) string {
	return strings.TrimSpace(s.Type + " " + s.Format + " " + s.Pattern)
}

func compareEnum(s argSchema, want string) []string {
	var got []string
	for _, v := range s.Enum {
		got = append(got, strings.Trim(string(v), `"`))
	}
	wanted := strings.Split(strings.Trim(want, "{}"), ",")
	if slices.Equal(got, wanted) {
		return nil
	}
	return []string{fmt.Sprintf("enum is %v, want %v", got, wanted)}
}

func bounds(what string, low, high *int, wantLow, wantHigh string) []string {
	if wantLow == "" && wantHigh == "" {
		return nil
	}
	text := func(p *int) string {
		if p == nil {
			return ""
		}
		return fmt.Sprint(*p)
	}
	gotLow, gotHigh := text(low), text(high)
	if wantLow == "" {
		gotLow = ""
	}
	if gotLow == wantLow && gotHigh == wantHigh {
		return nil
	}
	return []string{fmt.Sprintf("%s has the bounds %s..%s, want %s..%s", what, gotLow, gotHigh, wantLow, wantHigh)}
}

// wantedEvents lists the kinds of events that the product promises, by class.
const wantedEvents = `
durable message messageSent messageRead messageDeleted messageLiked messageUnliked messagePurchased chatRead
ephemeral typing linkClicked storyViewed streamViewers streamLiked counts online toast
durable subscribed resubscribed subscriptionRenewed subscriptionExpired autoRenewChanged trialClaimed
durable tips transaction chargeback payoutRequested payoutPaid payoutFailed
durable postPublished postUpdated postDeleted postExpired postLiked postCommented postPurchased postFundraisingUpdated mention
durable storyPublished storyExpired stream streamStarted streamStopped streamUpdated streamComment
durable massMessageSent queuePublished queueFailed mediaReady mediaFailed listUpdated profileUpdated settingsChanged notification
durable unknown`

func compareEvents(t *testing.T, c *catalog.Catalog) {
	t.Helper()
	want := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(wantedEvents), "\n") {
		words := strings.Fields(line)
		for _, kind := range words[1:] {
			want[kind] = words[0]
		}
	}
	for _, k := range c.Events() {
		if want[k.Kind] != string(k.Class) {
			t.Errorf("the event %s is %s, want %q", k.Kind, k.Class, want[k.Kind])
		}
		delete(want, k.Kind)
	}
	for kind, class := range want {
		t.Errorf("the event %s (%s) is missing, or has faults", kind, class)
	}
}
