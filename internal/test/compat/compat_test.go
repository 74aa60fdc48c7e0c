package compat_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/test/compat"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var release = flag.Bool("release", false, "write openapi/released.json from the document")

// The document keeps what that of the last release promised. scripts/release replaces openapi/released.json.
func TestTheDocumentBreaksNoClient(t *testing.T) {
	t.Parallel()
	current, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	if *release {
		kept, err := compat.Contract(current)
		must.OK(t, err)
		must.OK(t, os.WriteFile(testenv.Path(t, "openapi", "released.json"), kept, 0o600))
	}
	released, err := os.ReadFile(testenv.Path(t, "openapi", "released.json"))
	must.OK(t, err)
	faults, err := compat.Breaking(released, current, clock.Now())
	must.OK(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
}

const document = `{
	"paths": {"/things/{id}": {
		"get": {"operationId": "getThing", "deprecated": true, "x-sunset": "2027-06-30", "parameters": [
			{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
			{"name": "sort", "in": "query", "schema": {"type": "string", "enum": ["up", "down"]}}
		], "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}},
		"put": {"operationId": "putThing", "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/PutThing"}}}}, "responses": {"200": {}}}
	}},
	"webhooks": {"thing.made": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}}},
	"components": {"schemas": {
		"Thing": {"type": "object", "required": ["id", "state"], "properties": {
			"id": {"type": "string"}, "state": {"type": "string", "enum": ["on", "off"]}, "kind": {"type": "string", "x-extensible-enum": ["a"]},
			"parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}
		}},
		"PutThing": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 10}, "size": {"type": ["integer", "null"]}}}
	}}
}`

// Every change that can break a client is found, and nothing else: the document may grow.
func TestBreakingChangesAreFound(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		change, old, new string
		want             string // a part of a fault; empty if clients keep working
	}{
		{"nothing", "", "", ""},
		{"a removed property", `"id": {"type": "string"}, "state"`, `"state"`, "thing.made.id is gone"},
		{"a new required parameter", `"parameters": [`, `"parameters": [{"name": "page", "in": "query", "required": true, "schema": {"type": "string"}},`, "query page is required"},
		{"a narrowed enum of a parameter", `["up", "down"]`, `["up"]`, "no longer takes down"},
		{"a wider enum of a parameter", `["up", "down"]`, `["up", "down", "none"]`, ""},
		{"a new value of a closed set", `["on", "off"]`, `["on", "off", "broken"]`, "can be broken"},
		{"a new value of an open set", `["a"]`, `["a", "b"]`, ""},
		{"a new property", `"id": {"type": "string"}, "state"`, `"id": {"type": "string"}, "more": {"type": "string"}, "state"`, ""},
		{"a property that can be absent", `["id", "state"]`, `["id"]`, "state can be absent"},
		{"a new required member of a request", `["name"]`, `["name", "size"]`, "size is required"},
		{"an optional member of a request", `["name"]`, `[]`, ""},
		{"a shorter text", `"maxLength": 10`, `"maxLength": 9`, "maxLength is 9"},
		{"a longer text", `"maxLength": 10`, `"maxLength": 11`, ""},
		{"no null in a request", `["integer", "null"]`, `"integer"`, "is now integer"},
		{"null in a response", `"id": {"type": "string"}, "state"`, `"id": {"type": ["string", "null"]}, "state"`, "is now string or null"},
		{"another type", `"id": {"type": "string"}, "state"`, `"id": {"type": "integer"}, "state"`, "is now integer"},
		{"a removed parameter", `{"name": "sort"`, `{"name": "order"`, "query sort is gone"},
		{"a removed operation", `"put": {`, `"patch": {`, "PUT /things/{id} is gone"},
		{"a removed operation before its end", `"get": {`, `"head": {`, "GET /things/{id} is gone"},
		{"a renamed operation", `"getThing"`, `"readThing"`, "operationId"},
		{"a removed response", `"responses": {"200": {}}`, `"responses": {"204": {}}`, "no longer responds with 200"},
		{"a removed event", `"thing.made"`, `"thing.created"`, "POST thing.made is gone"},
	} {
		t.Run(test.change, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(document, test.old) {
				t.Fatal("the change changes nothing")
			}
			faults, err := compat.Breaking([]byte(document), []byte(strings.Replace(document, test.old, test.new, 1)), now)
			must.OK(t, err)
			if found := strings.Join(faults, "\n"); test.want == "" && found != "" || !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

// An operation may be removed after its announced end.
func TestDeprecatedOperationsCanEnd(t *testing.T) {
	t.Parallel()
	without := strings.Replace(document, `"get": {`, `"head": {`, 1)
	for day, want := range map[string]int{"2027-06-29": 1, "2027-07-01": 0} {
		now, err := time.Parse(time.DateOnly, day)
		must.OK(t, err)
		faults, err := compat.Breaking([]byte(document), []byte(without), now)
		must.OK(t, err)
		if len(faults) != want {
			t.Errorf("on %s: %v", day, faults)
		}
	}
}

// What a release keeps of a document breaks nothing by itself, and still shows what a later document breaks.
func TestAReleaseKeepsTheContract(t *testing.T) {
	t.Parallel()
	current, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	kept, err := compat.Contract(current)
	must.OK(t, err)
	if len(kept) > len(current)/2 {
		t.Errorf("a release keeps %d of %d bytes", len(kept), len(current))
	}
	faults, err := compat.Breaking(kept, current, clock.Now())
	must.OK(t, err)
	if len(faults) > 0 {
		t.Errorf("the document breaks itself: %v", faults)
	}
	faults, err = compat.Breaking(kept, []byte(strings.ReplaceAll(string(current), `"ofUserId"`, `"creatorId"`)), clock.Now())
	must.OK(t, err)
	if len(faults) == 0 {
		t.Error("a renamed member is not found")
	}
}
