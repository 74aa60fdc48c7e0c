package ops_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/cli/ops"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// schema is a schema of the OpenAPI document.
type schema struct {
	Ref                  string `json:"$ref"`
	Enum                 []any
	Properties           map[string]*schema
	Items                *schema
	AnyOf, OneOf, AllOf  []*schema
	AdditionalProperties json.RawMessage
}

type content map[string]struct{ Schema *schema }

type operation struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name, In string
		Schema   *schema
	}
	RequestBody struct{ Content content }
	Responses   map[string]struct{ Content content }
}

type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schema }
}

// member returns the schema of a member; nil if there is none.
func (d *document) member(s *schema, name string) *schema {
	if s == nil {
		return nil
	}
	if known := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]; known != nil {
		return d.member(known, name)
	}
	if found := s.Properties[name]; found != nil {
		return found
	}
	for _, form := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		if found := d.member(form, name); found != nil {
			return found
		}
	}
	return nil
}

// has reports whether one of the schemas has a member at a path.
func (d *document) has(path string, in ...*schema) bool {
	return slices.ContainsFunc(in, func(at *schema) bool {
		for step := range strings.SplitSeq(path, ".") {
			at = d.member(at, step)
		}
		return at != nil
	})
}

// Every operation of the admin API has a command, and every parameter of it an argument or a flag. Commands name only
// parameters, values and members of responses that exist.
func TestEveryOperationOfTheAdminAPIHasACommand(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	text, err := node.App.Admin().OpenAPI()
	must.OK(t, err)
	var doc document
	must.OK(t, json.Unmarshal(text, &doc))
	rows := map[string][]ops.Row{}
	for _, r := range ops.Rows() {
		rows[r.Operation] = append(rows[r.Operation], r)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if len(rows[op.OperationID]) == 0 {
				t.Errorf("no command calls %s", op.OperationID)
			}
			parameters := doc.parameters(op)
			sent := map[string]bool{}
			for _, r := range rows[op.OperationID] {
				if r.Method != strings.ToUpper(method) || r.Path != path {
					t.Errorf("%s calls %s %s; %s is %s %s", r.Use, r.Method, r.Path, op.OperationID, method, path)
				}
				for _, p := range r.Params {
					sent[p.To] = true
					at, found := parameters[p.To]
					if !found {
						t.Errorf("%s has no parameter %s (%s)", op.OperationID, p.To, r.Use)
						continue
					}
					for _, v := range p.Values {
						if len(at.Enum) > 0 && !slices.Contains(at.Enum, any(v)) {
							t.Errorf("%s of %s cannot be %s", p.Name, r.Use, v)
						}
					}
				}
				for name := range r.Body {
					sent["body/"+name] = true
				}
				doc.checkAnswer(t, r, op)
			}
			for name := range parameters {
				if !sent[name] {
					t.Errorf("no command sends %s of %s", name, op.OperationID)
				}
			}
			delete(rows, op.OperationID)
		}
	}
	for id := range rows {
		t.Errorf("the admin API has no operation %s", id)
	}
}

// parameters returns the parameters of an operation: path/…, query/… and body/….
func (d *document) parameters(op operation) map[string]*schema {
	all := map[string]*schema{}
	for _, p := range op.Parameters {
		if p.In == "path" || p.In == "query" {
			all[p.In+"/"+p.Name] = p.Schema
		}
	}
	body := op.RequestBody.Content["application/json"].Schema
	if body == nil {
		return all
	}
	if known := d.Components.Schemas[strings.TrimPrefix(body.Ref, "#/components/schemas/")]; known != nil {
		body = known
	}
	for name, at := range body.Properties {
		if name != "$schema" {
			all["body/"+name] = at
		}
	}
	return all
}

// checkAnswer checks that the response has what a command prints.
func (d *document) checkAnswer(t *testing.T, r ops.Row, op operation) {
	t.Helper()
	var answer *schema
	for status, response := range op.Responses {
		if strings.HasPrefix(status, "2") {
			answer = response.Content["application/json"].Schema
		}
	}
	if answer == nil {
		t.Fatalf("%s has no response in JSON", op.OperationID)
	}
	levels := []*schema{answer}
	if r.List != "" {
		for step := range strings.SplitSeq(r.List, ".") {
			list := d.member(levels[len(levels)-1], step)
			if list == nil || list.Items == nil {
				t.Fatalf("the response of %s has no list %s (%s)", op.OperationID, r.List, r.Use)
			}
			levels = append(levels, list.Items)
		}
	}
	named := func(name string) bool {
		return slices.ContainsFunc(r.Params, func(p ops.Param) bool { return p.Name == name })
	}
	for _, path := range slices.Concat(r.Fields, r.Texts, []string{r.Data, r.Intact}) {
		if path != "" && !d.has(path, answer) && !named(path) {
			t.Errorf("the response of %s has no %s (%s)", op.OperationID, path, r.Use)
		}
	}
	for _, path := range r.Columns {
		if !d.has(path, levels...) {
			t.Errorf("an item of %s has no %s (%s)", op.OperationID, path, r.Use)
		}
	}
}
