package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// theirNote is a note as the platform sends it, ourNote the result of mapping it.
const theirNote = `{"id":4242000000000000001,"text":"Caf\u00e9 \ud83d\ude00","by":{"user":{"id":7,"name":"Ann","avatar_url":null}},
 "price":12.5,"tip":{"amount":0.07},"count":3.0,"is_open":true,"is_new":1,"created_at":"2026-11-15T00:50:00.1239+02:00",
 "read_at":1700000000.25,"tags":"a, b","lists":"1,2","user_ids":[5,12345678901234567890],"state":2,"level":"high",
 "extra":{"a":[1,2.50,{"b":null}]},"src":{"kind":"link","link_id":null},"geo":{"city":"X"},"unknown_to_us":[1,2,3]}`

const ourNote = `{"id":"4242000000000000001","text":"Café 😀","author":{"id":"7","name":"Ann","avatarUrl":null},"priceCents":1250,` +
	`"tipCents":7,"count":3,"ratio":0,"isOpen":true,"isNew":true,"createdAt":"2026-11-14T22:50:00.123Z","readAt":"2023-11-14T22:13:20.250Z",` +
	`"tags":["a","b"],"listIds":["1","2"],"userIds":["5","12345678901234567890"],"replies":[],"state":"ready","level":2,` +
	`"extra":{"a":[1,2.50,{"b":null}]},"more":null,"source":{"kind":"link","linkId":null},"place":{"city":"X"},"kind":"note",` +
	`"owner":{"ownerName":"Ann"}}`

// Every feature of types and results works as docs/manifest.md says.
func TestResult(t *testing.T) {
	t.Parallel()
	c := small(t)
	for name, r := range map[string]struct{ method, body, want string }{
		"a type":             {"create", theirNote, ourNote},
		"a type at a path":   {"me", `{"data":{"user":{"name":"A","id":1}}}`, `{"id":"1","name":"A","avatarUrl":null}`},
		"a page":             {"list", `{"has_more":true,"next_marker":"m+1","list":[` + theirNote + `]}`, `{"items":[` + ourNote + `],"nextCursor":"m+1","hasMore":true}`},
		"the last page":      {"list", `{"list":[],"has_more":false,"next_marker":"old"}`, `{"items":[],"nextCursor":null,"hasMore":false}`},
		"a numeric marker":   {"list", `{"list":[],"has_more":true,"next_marker":17}`, `{"items":[],"nextCursor":"17","hasMore":true}`},
		"before":             {"history", `{"list":[` + theirNote + `],"has_more":true}`, `{"items":[` + ourNote + `],"nextCursor":"4242000000000000001","hasMore":true}`},
		"whole":              {"all", `{"list":[` + theirNote + `]}`, `{"items":[` + ourNote + `],"nextCursor":null,"hasMore":false}`},
		"fields":             {"estimate", `{"count":12}`, `{"count":12}`},
		"fields at a path":   {"rename", `{"data":` + theirNote + `}`, `{"renamed":true,"note":` + ourNote + `}`},
		"constants":          {"delete", ``, `{"deleted":true}`},
		"constants of much":  {"delete", `{"anything":[1]}`, `{"deleted":true}`},
		"other enumerations": {"create", strings.NewReplacer(`"state":2`, `"state":9`, `"level":"high"`, `"level":7`).Replace(theirNote), strings.NewReplacer(`"ready"`, `"9"`, `"level":2`, `"level":7`).Replace(ourNote)},
		"a word":             {"create", strings.Replace(theirNote, `"state":2`, `"state":"broken"`, 1), strings.Replace(ourNote, `"ready"`, `"failed"`, 1)},
		"nested":             {"create", theirNote[:len(theirNote)-1] + `,"replies":[` + theirNote + `]}`, strings.Replace(ourNote, `"replies":[]`, `"replies":[`+ourNote+`]`, 1)},
		"half a character":   {"me", `{"data":{"user":{"name":"\ud800x","id":1}}}`, `{"id":"1","name":"` + "\ufffd" + `x","avatarUrl":null}`},
		"no tags":            {"create", strings.Replace(theirNote, `"a, b"`, `""`, 1), strings.Replace(ourNote, `"tags":["a","b"]`, `"tags":[]`, 1)},
		"escaped names":      {"estimate", `{"c\u006funt":12}`, `{"count":12}`},
	} {
		got, err := method(t, c, "notes", r.method).Result([]byte(r.body))
		if err != nil || string(got) != r.want {
			t.Errorf("%s: %v\n%s\n%s", name, err, got, r.want)
		}
	}
}

// A response of another form gives ErrChanged with its place, and garbage gives ErrInvalid. Errors never contain
// values.
func TestResultErrorsNamePlacesNotValues(t *testing.T) {
	t.Parallel()
	c := small(t)
	swap := func(from, to string) string {
		return `{"list":[` + theirNote + `,` + strings.Replace(theirNote, from, to, 1) + `],"has_more":false}`
	}
	for name, r := range map[string]struct{ method, body, want string }{
		"a missing field":    {"list", swap(`"text":`, `"txt":`), "list.1.text: is missing"},
		"null":               {"list", swap(`"price":12.5`, `"price":null`), "list.1.price: is missing"},
		"a type":             {"list", swap(`"text":"Caf\u00e9 \ud83d\ude00"`, `"text":7`), "list.1.text: should be a string"},
		"no object":          {"list", swap(`"user":{"id":7,"name":"Ann","avatar_url":null}`, `"user":[]`), "list.1.by.user: should be an object"},
		"no object between":  {"list", swap(`"tip":{"amount":0.07}`, `"tip":0`), "list.1.tip: should be an object"},
		"no list":            {"list", swap(`"user_ids":[5,12345678901234567890]`, `"user_ids":{}`), "list.1.user_ids: should be an array"},
		"an item":            {"list", swap(`12345678901234567890`, `"hunter2"`), "list.1.user_ids.1: should be a non-negative integer"},
		"a fine price":       {"list", swap(`12.5`, `12.505`), "list.1.price: should be a number with at most two decimals"},
		"a text as a price":  {"list", swap(`12.5`, `"12.5"`), "list.1.price: should be a number"},
		"a fraction":         {"list", swap(`"count":3.0`, `"count":3.1`), "list.1.count: should be an integer"},
		"a flag":             {"list", swap(`"is_new":1`, `"is_new":true`), "list.1.is_new: should be 0 or 1"},
		"another flag":       {"list", swap(`"is_new":1`, `"is_new":2`), "list.1.is_new: should be 0 or 1"},
		"a boolean":          {"list", swap(`"is_open":true`, `"is_open":1`), "list.1.is_open: should be true or false"},
		"a time":             {"list", swap(`2026-11-15T00:50:00.1239+02:00`, `hunter2`), "list.1.created_at: should be an RFC 3339 time"},
		"a unix time":        {"list", swap(`1700000000.25`, `1e30`), "list.1.read_at: should be seconds"},
		"a list with commas": {"list", swap(`"1,2"`, `"1,hunter2"`), "list.1.lists.1: has an item that should be an integer"},
		"an enumeration":     {"list", swap(`"state":2`, `"state":{}`), "list.1.state: should be a string"},
		"page without items": {"list", `{"has_more":false}`, "list: should be an array"},
		"page without more":  {"list", `{"list":[]}`, "has_more: should be true or false"},
		"page without next":  {"list", `{"list":[],"has_more":true,"next_marker":null}`, "next_marker: should be the cursor"},
		"page without last":  {"history", `{"list":[],"has_more":true}`, "list: has no last item"},
		"another answer":     {"create", `[]`, ".: should be an object"},
		"a path":             {"me", `{"data":null}`, "data.user: is missing"},
	} {
		_, err := method(t, c, "notes", r.method).Result([]byte(r.body))
		if !errors.Is(err, catalog.ErrChanged) || errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), r.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, r.want)
		}
	}
	create := method(t, c, "notes", "create")
	for name, body := range map[string]string{
		"empty": "", "HTML": "<html>", "cut": theirNote[:100], "UTF-8": "{\"a\":\"\xff\"}", "deep": strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"digits": `{"id":` + strings.Repeat("9", 100) + `}`, "two": `{} {}`,
	} {
		if _, err := create.Result([]byte(body)); !errors.Is(err, catalog.ErrInvalid) || errors.Is(err, catalog.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := method(t, c, "notes", "delete").Result([]byte("<html>")); !errors.Is(err, catalog.ErrInvalid) {
		t.Errorf("an HTML page is accepted as a response: %v", err)
	}
}

// resultSchema compiles the published schema of a result together with the types that it refers to.
func resultSchema(t testing.TB, c *catalog.Catalog, schema json.RawMessage) *jsonschema.Schema {
	t.Helper()
	var root map[string]json.RawMessage
	must.OK(t, json.Unmarshal(schema, &root))
	types := map[string]json.RawMessage{}
	for _, ty := range c.Types() {
		types[ty.Name] = ty.Schema
	}
	root["types"], _ = json.Marshal(types)
	text, err := json.Marshal(root)
	must.OK(t, err)
	return compileSchema(t, text)
}

// Results satisfy the published schema of their method.
func TestResultsSatisfyTheirSchema(t *testing.T) {
	t.Parallel()
	c := small(t)
	page := `{"has_more":true,"next_marker":"m","list":[` + theirNote + `,` + theirNote + `]}`
	for name, body := range map[string]string{
		"create": theirNote, "list": page, "history": page, "all": page, "delete": "", "estimate": `{"count":1}`, "rename": `{"data":` + theirNote + `}`,
	} {
		m := method(t, c, "notes", name)
		got, err := m.Result([]byte(body))
		must.OK(t, err)
		if err := resultSchema(t, c, m.ResultSchema()).Validate(value(t, got)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// All published schemas of every manifest are valid JSON Schemas.
func TestSchemasCompile(t *testing.T) {
	t.Parallel()
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	for _, c := range []*catalog.Catalog{small(t), sandbox} {
		parts := map[string]map[string]json.RawMessage{"types": {}, "results": {}, "args": {}, "events": {}}
		for _, ty := range c.Types() {
			parts["types"][ty.Name] = ty.Schema
		}
		for _, m := range c.Methods() {
			parts["results"][m.ID()] = m.ResultSchema()
			parts["args"][m.ID()] = m.ArgsSchema()
		}
		for _, k := range c.Events() {
			parts["events"][k.Kind] = k.Schema()
		}
		text, err := json.Marshal(parts)
		must.OK(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		must.OK(t, err)
		compiler := jsonschema.NewCompiler()
		must.OK(t, compiler.AddResource("catalog.json", doc))
		for part, schemas := range parts {
			for name := range schemas {
				if _, err := compiler.Compile("catalog.json#/" + part + "/" + name); err != nil {
					t.Errorf("%s of %s: %v", part, name, err)
				}
			}
		}
	}
}

// A small response of a type that uses each part twice does not become a huge result.
func TestResultSizeIsBounded(t *testing.T) {
	t.Parallel()
	files := withEdit(t, "types.yaml", "  Owner:", "  Twice:\n    id: {const: x}\n    a?: {of: Twice, from: n}\n    b?: {of: Twice, from: n}\n  Owner:")
	files["resources/notes.yaml"].Data = bytes.Replace(files["resources/notes.yaml"].Data, []byte("result: {of: User, from: data.user}"), []byte("result: Twice"), 1)
	files["types.yaml"].Data = append(files["types.yaml"].Data, []byte("    user: {of: User, from: .}\n")...)
	c, err := catalog.Load(files)
	must.OK(t, err)
	body := strings.Repeat(`{"n":`, 60) + "{}" + strings.Repeat("}", 60)
	if _, err := method(t, c, "notes", "me").Result([]byte(body)); !errors.Is(err, catalog.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// notePage returns a page of notes as a platform sends it.
func notePage(n int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	notes := make([]string, n)
	for i := range notes {
		notes[i] = strings.Replace(strings.Join(strings.Fields(theirNote), " "), "4242000000000000001", fmt.Sprint(4242000000000000000+r.Int64N(1e15)), 1)
	}
	return []byte(`{"list":[` + strings.Join(notes, ",") + `],"has_more":true,"next_marker":"abc"}`)
}

// Maps a page of twenty notes, which are about as large as messages.
func BenchmarkResult(b *testing.B) {
	m := method(b, small(b), "notes", "list")
	page := notePage(20)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Result(page); err != nil {
			b.Fatal(err)
		}
	}
}

// For comparison: the standard library parsing the same page, without mapping it.
func BenchmarkResultStandardDecode(b *testing.B) {
	page := notePage(20)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		dec := json.NewDecoder(bytes.NewReader(page))
		dec.UseNumber()
		var v any
		must.OK(b, dec.Decode(&v))
	}
}
