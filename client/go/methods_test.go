package stagedoor_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// TestEveryMethodOfTheDocumentCanBeCalled calls all methods and compares the requests with the OpenAPI document.
func TestEveryMethodOfTheDocumentCanBeCalled(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, `{"result":{}}`) })
	resources := reflect.ValueOf(s.client.Account("{id}").Resources)
	for i := range resources.NumField() {
		service := resources.Field(i)
		for m := range service.NumMethod() {
			callZero(t, service.Type().Elem().Name()+"."+service.Type().Method(m).Name, service.Method(m))
		}
	}
	called := map[string]seen{}
	for _, r := range s.requests() {
		called[r.path] = r
	}
	methods := 0
	for path, operations := range document(t) {
		o, ok := operations["post"]
		if !ok || o.SDK == nil {
			continue
		}
		methods++
		r, ok := called[path]
		if !ok {
			t.Errorf("nothing calls %s", path)
			continue
		}
		_, byGet := operations[strings.ToLower(r.method)]
		key := r.header.Get("Idempotency-Key") != ""
		if !byGet || key != (o.SDK.Access == "write" && !o.SDK.Idempotent) {
			t.Errorf("%s is called with %s, idempotency key %t", path, r.method, key)
		}
	}
	if methods != 250 || len(called) != 250 {
		t.Errorf("got %d methods in the document, %d called; want 250", methods, len(called))
	}
}

// TestEveryOperationOfTheDocumentCanBeCalled does the same for the API's own operations.
func TestEveryOperationOfTheDocumentCanBeCalled(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		respond(w, `{"state":"completed_success"}`)
	})
	groups := reflect.ValueOf(s.client.Groups)
	for i := range groups.NumField() {
		service := groups.Field(i)
		for m := range service.NumMethod() {
			callZero(t, service.Type().Elem().Name()+"."+service.Type().Method(m).Name, service.Method(m))
		}
	}
	called := map[string]bool{}
	for _, r := range s.requests() {
		called[r.method+" "+r.path] = true
	}
	// Written by hand, or only for other clients.
	for _, other := range []string{
		"POST /v1/accounts/x/x/x", "GET /v1/accounts/x/x/x", "GET /v1/accounts/x/media", "POST /v1/accounts/x/media",
		"GET /v1/accounts/x/media/x", "PUT /v1/accounts/x/media/uploads/x/parts/x", "OPTIONS /v1/accounts/x/events", "GET /v1/connect/login/x/events",
	} {
		called[other] = true
	}
	for _, refuses := range []string{ // they refuse keys
		"DELETE /v1/org", "POST /v1/org/restore", "POST /v1/org/support-access/x/grant", "DELETE /v1/org/support-access/x",
	} {
		called[refuses] = true
	}
	for path, operations := range document(t) {
		for method, o := range operations {
			if o.SDK == nil && !called[strings.ToUpper(method)+" "+fill(path)] {
				t.Errorf("nothing calls %s %s", method, path)
			}
		}
	}
}

// fill replaces the parameters of a path by x.
func fill(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "x"
		}
	}
	return strings.Join(parts, "/")
}

// callZero calls a method with x for every string, UntilEnd for a function, and zero values
// otherwise. It skips iterators.
func callZero(t *testing.T, name string, method reflect.Value) {
	t.Helper()
	typ := method.Type()
	if typ.NumOut() != 2 || typ.Out(1) != reflect.TypeFor[error]() {
		return
	}
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < typ.NumIn(); i++ {
		switch in := typ.In(i); {
		case typ.IsVariadic() && i == typ.NumIn()-1:
		case in.Kind() == reflect.Func:
			args = append(args, reflect.ValueOf(stagedoor.UntilEnd))
		case in.Kind() == reflect.String:
			args = append(args, reflect.ValueOf("x").Convert(in))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	if err, failed := method.Call(args)[1].Interface().(error); failed {
		t.Errorf("%s: %v", name, err)
	}
}

type operation struct {
	SDK *struct {
		Access     string `json:"access"`
		Idempotent bool   `json:"idempotent"`
	} `json:"x-sdk"`
}

func document(t *testing.T) map[string]map[string]operation {
	t.Helper()
	data, err := os.ReadFile("../../openapi/openapi.json")
	if err != nil {
		t.Fatal("cannot read the document: ", err)
	}
	var d struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d.Paths
}
