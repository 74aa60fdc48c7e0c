package reference_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/docs/reference"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func build(t *testing.T) map[string]reference.Page {
	t.Helper()
	text, err := os.ReadFile("../../../../openapi/openapi.json")
	must.OK(t, err)
	plans, _ := org.NewPlans().All()
	pages, err := reference.Build(text, plans)
	must.OK(t, err)
	byPath := map[string]reference.Page{}
	for _, p := range pages {
		if byPath[p.Path].Path != "" {
			t.Errorf("%s exists twice", p.Path)
		}
		byPath[p.Path] = p
	}
	return byPath
}

var fence = regexp.MustCompile("(?m)^```(\\w+)\n([^`]*)")

// Every operation and every method is shown once, with code in all languages.
func TestEveryOperationIsShownOnce(t *testing.T) {
	t.Parallel()
	pages := build(t)
	methods, operations := 0, 0
	for path, p := range pages {
		if p.Lead == "" || p.Title == "" {
			t.Errorf("%s has no title or lead", path)
		}
		for _, i := range p.Items {
			if i.Verb == "" {
				continue
			}
			if strings.HasPrefix(path, "/docs/sdk/") {
				methods++
			} else {
				operations++
			}
			languages := ""
			for _, m := range fence.FindAllStringSubmatch(i.Side, -1) {
				languages += m[1] + " "
			}
			if slices.Contains([]string{"uploadMedia", "uploadMediaPart", "putJobItems"}, i.ID) {
				languages = "sh " + languages // No command uploads files.
			}
			public := strings.HasPrefix(i.Address, "/problems") || i.ID == "getOpenAPI"
			if slices.Contains([]string{"deleteOrg", "restoreOrg", "grantSupportAccess", "revokeSupportAccess"}, i.ID) {
				continue // Only people in the dashboard may call them, so the libraries do not have them.
			}
			if !public && !strings.HasPrefix(languages, "sh sh typescript go python") {
				t.Errorf("%s of %s is shown in %s", i.ID, path, languages)
			}
		}
	}
	var doc struct {
		Paths map[string]map[string]struct {
			SDK json.RawMessage `json:"x-sdk"`
		}
	}
	text, err := os.ReadFile("../../../../openapi/openapi.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &doc))
	wantMethods, wantOperations := 0, 0
	for _, verbs := range doc.Paths {
		for verb, op := range verbs {
			switch {
			case op.SDK != nil && verb == "post":
				wantMethods++
			case op.SDK == nil && verb != "options":
				wantOperations++
			}
		}
	}
	if methods != wantMethods || operations != wantOperations {
		t.Errorf("%d methods and %d operations are shown; there are %d and %d", methods, operations, wantMethods, wantOperations)
	}
}

// Every kind of event has a description and a matching example.
func TestEveryEventHasAnExample(t *testing.T) {
	t.Parallel()
	for _, i := range build(t)["/docs/events"].Items {
		m := fence.FindStringSubmatch(i.Side)
		var example struct {
			ID, Event string
			Data      map[string]any
		}
		if len(m) != 3 || json.Unmarshal([]byte(m[2]), &example) != nil || example.Event != i.Title || example.Data == nil || !strings.HasPrefix(example.ID, "evt_") {
			t.Errorf("%s: the example is %q", i.Title, i.Side)
		}
		if i.Body == "" {
			t.Errorf("%s has no description", i.Title)
		}
	}
}

// Examples of responses are JSON.
func TestExamplesAreJSON(t *testing.T) {
	t.Parallel()
	for path, p := range build(t) {
		for _, i := range p.Items {
			for _, m := range fence.FindAllStringSubmatch(i.Side, -1) {
				if m[1] == "json" && !json.Valid([]byte(m[2])) {
					t.Errorf("%s#%s: %s", path, i.ID, m[2])
				}
			}
		}
	}
}
