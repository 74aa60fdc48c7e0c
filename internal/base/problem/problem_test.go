package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Every kind is complete, and its code is a unique slug.
func TestCatalogueIsWellFormed(t *testing.T) {
	t.Parallel()
	slug := regexp.MustCompile(`^(upstream/)?[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, k := range problem.All() {
		if !slug.MatchString(k.Code) || seen[k.Code] {
			t.Errorf("%q is not a unique slug", k.Code)
		}
		seen[k.Code] = true
		if k.Status < 400 || k.Status > 599 || k.Title == "" || k.Fix == "" {
			t.Errorf("%+v is incomplete", k)
		}
		if got, ok := problem.Lookup(k.Code); !ok || got != k {
			t.Errorf("Lookup(%q) = %+v, %v", k.Code, got, ok)
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d kinds", len(seen))
	}
}

// The document has the members of every problem, then the extra ones, and its type ends with its code.
func TestDocument(t *testing.T) {
	t.Parallel()
	e := problem.QuotaExceeded.New("slow down").After(12).With("reason", "org_rpm").With("limit", 600)
	got := render(t, e)
	want := `{"type":"https://x.test/problems/quota-exceeded","title":"Rate limit reached","status":429,` +
		`"detail":"slow down","instance":"urn:request:req_1","code":"quota-exceeded","retryable":true,` +
		`"retryAfterSec":12,"reason":"org_rpm","limit":600}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	got = render(t, problem.UpstreamNotFound.New(""))
	want = `{"type":"https://x.test/problems/upstream/not-found","title":"Not found on the platform","status":404,` +
		`"instance":"urn:request:req_1","code":"upstream/not-found","retryable":false,"upstreamCode":null,"upstreamMessage":null}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The platform's code is a number in the document if it is an integer, else a string, and null if there is none.
func TestUpstreamCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"1001": `1001`, "-7": `-7`, "0": `0`, "": `null`, "PASSWORD_INCORRECT": `"PASSWORD_INCORRECT"`, "007": `"007"`, "+7": `"+7"`, "1.5": `"1.5"`,
		"99999999999999999999": `"99999999999999999999"`,
	} {
		if doc := render(t, problem.UpstreamRejected.New("").From(code, "no")); !strings.Contains(doc, `"upstreamCode":`+want+`,"upstreamMessage":"no"`) {
			t.Errorf("%s: %s", code, doc)
		}
	}
}

// The text of an unexpected error reaches the log and never the caller.
func TestOfHidesUnexpectedErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("pq: password authentication failed for user bob")
	e := problem.Of(fmt.Errorf("load key: %w", cause))
	if e.Kind.Code != "internal" || !errors.Is(e, cause) {
		t.Fatalf("Of = %v", e)
	}
	if doc := render(t, e); regexp.MustCompile("bob|load key").MatchString(doc) {
		t.Errorf("the document contains the cause: %s", doc)
	}
	kept := problem.KeyRevoked.New("gone")
	if problem.Of(fmt.Errorf("verify: %w", kept)) != kept || !errors.Is(kept, problem.KeyRevoked.New("")) {
		t.Error("a wrapped problem is not found")
	}
}

func render(t *testing.T, e *problem.Error) string {
	t.Helper()
	doc, err := e.Document(problem.Place{ProblemsURL: "https://x.test/problems", Instance: "urn:request:req_1"})
	must.OK(t, err)
	return string(doc)
}

// Whatever the detail and the members contain, the document is one valid JSON object.
func FuzzDocument(f *testing.F) {
	f.Add("plain", "name", "value")
	f.Add("\xff\x00\"\\\u2028</script>", "a\"b", "\x1f")
	f.Fuzz(func(t *testing.T, detail, name, value string) {
		e := problem.ValidationFailed.New(detail).With(name, value).At("/"+name, "x", value)
		doc, err := e.Document(problem.Place{ProblemsURL: "https://x.test/problems", Instance: "urn:request:x"})
		must.OK(t, err)
		var back map[string]any
		if err := json.Unmarshal(doc, &back); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
	})
}
