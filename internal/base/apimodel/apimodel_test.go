package apimodel_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestReadKeepsOrderAndResolvesReferences(t *testing.T) {
	t.Parallel()
	doc, err := apimodel.Read([]byte(`{
		"paths": {"/b": {"post": {
			"operationId": "b", "parameters": [{"$ref": "#/components/parameters/p"}],
			"responses": {"200": {"content": {"application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/S"}, {}]}}}}}
		}}, "/a": {"get": {"operationId": "a"}}},
		"components": {
			"parameters": {"p": {"name": "limit", "in": "query"}},
			"schemas": {"S": {"type": ["object", "null"], "properties": {"z": {"const": null}, "y": {}, "x": {}}}}
		}
	}`))
	must.OK(t, err)
	all := doc.Operations(func(*apimodel.Operation) bool { return true })
	if len(all) != 2 || all[0].ID != "b" || all[0].Method != "POST" || all[1].Path != "/a" {
		t.Fatalf("operations %+v", all)
	}
	if p := all[0].Parameters[0]; p.Name != "limit" {
		t.Errorf("parameter %+v", p)
	}
	status, _, answer := all[0].Success()
	s, name := doc.Follow(answer)
	if status != "200" || name != "S" || s.Type.Main() != "object" {
		t.Fatalf("status %s, schema %s %+v", status, name, s)
	}
	order := ""
	for _, p := range s.Properties {
		order += p.Name
	}
	if z, _ := s.Properties.Get("z"); order != "zyx" || string(z.Const) != "null" {
		t.Errorf("members %s, const %q", order, z.Const)
	}
}
