package driver_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/upstreamtest"
)

// exampleCreator is whose ids the manifest's examples have: that of ok@sandbox.test.
const exampleCreator = "343826782"

// of turns an example into one of another creator. Seeded ids are the creator's, and ten digits that are the same for all.
func of(s driver.Session, c *catalog.Catalog, example string) string {
	return strings.ReplaceAll(example, exampleCreator, s.Owner(c))
}

// judge validates results against their schemas.
type judge struct{ schemas map[string]*jsonschema.Schema }

func newJudge(t *testing.T, c *catalog.Catalog) *judge {
	t.Helper()
	types := map[string]json.RawMessage{}
	for _, one := range c.Types() {
		types[one.Name] = one.Schema
	}
	j := &judge{schemas: map[string]*jsonschema.Schema{}}
	for _, m := range c.Methods() {
		text, err := json.Marshal(map[string]any{"types": types, "result": m.ResultSchema()})
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource("catalog.json", document); err != nil {
			t.Fatal(err)
		}
		if j.schemas[m.ID()], err = compiler.Compile("catalog.json#/result"); err != nil {
			t.Fatalf("%s: %v", m.ID(), err)
		}
	}
	return j
}

func (j *judge) check(t *testing.T, m *catalog.Method, result []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(result)))
	if err != nil {
		t.Fatalf("%s answers no JSON: %v", m.ID(), err)
	}
	if err := j.schemas[m.ID()].Validate(value); err != nil {
		t.Errorf("%s: %v\n%.400s", m.ID(), err, result)
	}
}

// The examples of the manifest are documentation; each is executed here on the seed data, with the answer judged by its schema and
// the events waited for.
func TestEveryMethodsExampleRunsOnTheSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := newJudge(t, r.catalog)
	for _, m := range r.catalog.Methods() {
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			r := r.in(t)
			s := r.session(r.owner(m))
			var socket *driver.Socket
			if len(m.Emits) > 0 {
				socket = r.listen(s)
			}
			a, err := r.call(s, m.ID(), of(s, r.catalog, string(m.Example)))
			if err != nil {
				t.Fatalf("%s: %v", m.Example, told(err))
			}
			j.check(t, m, a.Result)
			for _, kind := range m.Emits {
				upstreamtest.Await(t, socket, kind)
			}
		})
	}
}

// owner is who calls a method: a read is called by the creator of the examples, a write by a new one whom nothing disturbs.
func (r *rig) owner(m *catalog.Method) string {
	if m.Access == catalog.Read {
		return "ok@sandbox.test"
	}
	return r.login("ok")
}

// told is an error with what the platform said, for the reader of a test.
func told(err error) string {
	if refused, ok := err.(*driver.Refused); ok { //nolint:errorlint // it is not wrapped
		return fmt.Sprintf("%v: %s", refused, refused.Message)
	}
	return err.Error()
}

// Any arguments that the schema allows are taken by the platform. Ids are those of the examples; everything else is made up.
func TestEveryMethodTakesWhatItsSchemaAllows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := newJudge(t, r.catalog)
	ids := exampleIDs(t, r.catalog)
	for _, m := range r.catalog.Methods() {
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			r := r.in(t)
			for round := range 4 {
				s := r.session(r.owner(m))
				g := &generator{Rand: random(m.ID(), round), ids: ids}
				args := of(s, r.catalog, string(g.args(t, m)))
				a, err := r.call(s, m.ID(), args)
				if err != nil {
					t.Errorf("%.600s: %v", args, told(err))
					continue
				}
				j.check(t, m, a.Result)
			}
		})
	}
}

func random(name string, round int) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(round)))
}

// exampleIDs are the ids that examples give, by the argument's name.
func exampleIDs(t *testing.T, c *catalog.Catalog) map[string][]any {
	t.Helper()
	all := map[string][]any{}
	for _, m := range c.Methods() {
		var example map[string]any
		if err := json.Unmarshal(m.Example, &example); err != nil {
			t.Fatalf("%s: %v", m.ID(), err)
		}
		for name, value := range example {
			if list, ok := value.([]any); ok {
				name = strings.TrimSuffix(name, "s")
				all[name] = append(all[name], list...)
			} else {
				all[name] = append(all[name], value)
			}
		}
	}
	return all
}

// generator makes arguments.
type generator struct {
	*rand.Rand
	ids map[string][]any
}

// args makes arguments of a method: the example's required ones, and optional ones at random.
func (g *generator) args(t *testing.T, m *catalog.Method) []byte {
	t.Helper()
	var schema struct {
		Required   []string                  `json:"required"`
		Properties map[string]map[string]any `json:"properties"`
	}
	var example map[string]any
	if err := json.Unmarshal(m.ArgsSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Example, &example); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		given, shown := example[name]
		switch {
		case slices.Contains(schema.Required, name) && shown && (isID(name) || taken[m.ID()] == name || g.IntN(3) == 0):
			out[name] = given
		case name == "cursor":
		case isID(name) && !shown && len(g.pool(name)) == 0:
		case isID(name):
			if g.IntN(2) == 0 {
				out[name] = g.id(name, property, given)
			}
		case slices.Contains(schema.Required, name) || g.IntN(2) == 0:
			out[name] = g.value(name, property)
		}
	}
	order(out)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// taken are arguments that only the platform knows good values of: who exists, how much there is to pay out, of which kind a draft is.
var taken = map[string]string{
	"users.getByUsername": "username", "payouts.request": "amountCents", "drafts.get": "kind", "drafts.delete": "kind", "drafts.publish": "kind",
}

func isID(name string) bool {
	return strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids")
}

func (g *generator) pool(name string) []any { return g.ids[strings.TrimSuffix(name, "s")] }

// id is the example's, or one that another method's example gives under that name.
func (g *generator) id(name string, property map[string]any, given any) any {
	if given != nil {
		return given
	}
	pool := g.pool(name)
	if property["type"] == "array" {
		return []any{pool[g.IntN(len(pool))]}
	}
	return pool[g.IntN(len(pool))]
}

// order puts spans of time in order: a platform refuses a span that ends before it begins, and no schema can say so.
func order(args map[string]any) {
	from, ok1 := args["from"].(string)
	to, ok2 := args["to"].(string)
	if ok1 && ok2 && from > to {
		args["from"], args["to"] = to, from
	}
}

// value makes a value that a schema allows.
func (g *generator) value(name string, s map[string]any) any {
	if list, ok := s["enum"].([]any); ok {
		return list[g.IntN(len(list))]
	}
	switch s["type"] {
	case "boolean":
		return g.IntN(2) == 0
	case "integer":
		low, high := number(s["minimum"], 0), number(s["maximum"], 5000)
		return low + g.IntN(high-low+1)
	case "array":
		items, _ := s["items"].(map[string]any)
		var list []any
		for range max(number(s["minItems"], 0), g.IntN(3)) {
			list = append(list, g.value(name, items))
		}
		if list == nil {
			list = []any{}
		}
		return list
	case "object":
		return g.object(s)
	}
	return g.text(name, s)
}

func (g *generator) object(s map[string]any) any {
	out := map[string]any{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || g.IntN(2) == 0 {
			out[name] = g.value(name, properties[name].(map[string]any))
		}
	}
	return out
}

// text makes a text of the right form; a quarter of the free ones are as long as allowed.
func (g *generator) text(name string, s map[string]any) any {
	switch s["format"] {
	case "date":
		return fmt.Sprintf("2026-%02d-%02d", 1+g.IntN(11), 1+g.IntN(28))
	case "date-time":
		return fmt.Sprintf("2027-%02d-%02dT%02d:00:00Z", 1+g.IntN(12), 1+g.IntN(28), g.IntN(24))
	case "email":
		return fmt.Sprintf("somebody%d@example.com", g.IntN(1000))
	case "uri":
		return fmt.Sprintf("https://example.com/%d", g.IntN(1000))
	}
	low, high := number(s["minLength"], 1), number(s["maxLength"], 40)
	n := min(high, low+g.IntN(20))
	if g.IntN(4) == 0 {
		n = high
	}
	letters := []rune("abc XYZ 0189 äß漢字🎭\"\\/<&'")
	if pool := g.ids[name]; len(pool) > 0 && s["pattern"] != nil {
		return pool[g.IntN(len(pool))]
	}
	out := []rune{'x'}
	for len(out) < n {
		out = append(out, letters[g.IntN(len(letters))])
	}
	return string(out)
}

func number(v any, usual int) int {
	if f, ok := v.(float64); ok {
		return int(f)
	}
	return usual
}
