package endpoint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

// Bodies that two parsers could read differently, or that are made to exhaust one, are rejected.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		`{}`: true, `{"a":{"a":1}}`: true, `[1,2,3]`: true, " {\"a\":1}\n": true, `{"a":12345678901234567890}`: true,
		``: false, `   `: false, `{`: false, `{"a":1}{"b":2}`: false, `{"a":1,"a":2}`: false, `{"a":1,"\u0061":2}`: false,
		"{\"a\":\"\xff\"}": false, "\xef\xbb\xbf{}": false, `{'a':1}`: false, `{"a":01}`: false, `{"a":NaN}`: false,
		strings.Repeat("[", 10_000): false, strings.Repeat("[", 32) + strings.Repeat("]", 32): true,
		strings.Repeat("[", 33) + strings.Repeat("]", 33): false,
		"[" + strings.Repeat("1,", 1999) + "1]":           true, "[" + strings.Repeat("1,", 2000) + "1]": false,
	} {
		if err := endpoint.CheckJSON([]byte(body)); (err == nil) != ok {
			t.Errorf("%.60q: %v", body, err)
		}
	}
}

// A body that passes the check is valid JSON for the standard library, and no body makes the check panic.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,{"b":null}]}`, `{"a":1,"a":2}`, `[`, "\"\\ud800\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if endpoint.CheckJSON(body) == nil && !json.Valid(body) {
			t.Fatalf("%q passed and is not JSON", body)
		}
	})
}
