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
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// exampleCreator is the id of ok@sandbox.test, whose ids are in the manifest's examples.
const exampleCreator = "343826782"

// forCreator adapts an example to another creator. A seeded id is the creator's id followed by ten digits that are
// the same for all creators.
func forCreator(s driver.Session, c *catalog.Catalog, example string) string {
	return strings.ReplaceAll(example, exampleCreator, s.Owner(c))
}

// resultValidator validates results against their schemas.
type resultValidator struct{ schemas map[string]*jsonschema.Schema }

func newResultValidator(t *testing.T, c *catalog.Catalog) *resultValidator {
	t.Helper()
	types := map[string]json.RawMessage{}
	for _, one := range c.Types() {
		types[one.Name] = one.Schema
	}
	j := &resultValidator{schemas: map[string]*jsonschema.Schema{}}
	for _, m := range c.Methods() {
		text, err := json.Marshal(map[string]any{"types": types, "result": m.ResultSchema()})
		must.OK(t, err)
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		must.OK(t, err)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		must.OK(t, compiler.AddResource("catalog.json", document))
		if j.schemas[m.ID()], err = compiler.Compile("catalog.json#/result"); err != nil {
			t.Fatalf("%s: %v", m.ID(), err)
		}
	}
	return j
}

func (j *resultValidator) check(t *testing.T, m *catalog.Method, result []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(result)))
	if err != nil {
		t.Fatalf("%s does not return JSON: %v", m.ID(), err)
	}
	if err := j.schemas[m.ID()].Validate(value); err != nil {
		t.Errorf("%s: %v\n%.400s", m.ID(), err, result)
	}
}

// Each example of the manifest works on the seed data: the result satisfies its schema, and the declared events arrive.
func TestEveryMethodsExampleRunsOnTheSandbox(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	j := newResultValidator(t, r.catalog)
	for _, m := range r.catalog.Methods() {
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			r := r.forTest(t)
			s := r.session(r.owner(m))
			var socket *driver.Socket
			if len(m.Emits) > 0 {
				socket = r.listen(s)
			}
			a, err := r.call(s, m.ID(), forCreator(s, r.catalog, string(m.Example)))
			if err != nil {
				t.Fatalf("%s: %v", m.Example, describe(err))
			}
			j.check(t, m, a.Result)
			for _, kind := range m.Emits {
				drivertest.Await(t, socket, kind)
			}
		})
	}
}

// owner returns the login that calls a method. Reads use the creator of the examples, writes a new creator of their
// own.
func (r *fixture) owner(m *catalog.Method) string {
	if m.Access == catalog.Read {
		return "ok@sandbox.test"
	}
	return r.login("ok")
}

// describe returns an error with the platform's message.
func describe(err error) string {
	if refused, ok := err.(*driver.Refused); ok { //nolint:errorlint // it is not wrapped
		return fmt.Sprintf("%v: %s", refused, refused.Message)
	}
	return err.Error()
}

// The platform accepts any arguments that the schema allows. Ids come from the examples; everything else is random.
func TestEveryMethodTakesWhatItsSchemaAllows(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	j := newResultValidator(t, r.catalog)
	ids := exampleIDs(t, r.catalog)
	for _, m := range r.catalog.Methods() {
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			r := r.forTest(t)
			for round := range 4 {
				s := r.session(r.owner(m))
				g := &generator{Rand: random(m.ID(), round), ids: ids}
				args := forCreator(s, r.catalog, string(g.args(t, m)))
				a, err := r.call(s, m.ID(), args)
				if err != nil {
					t.Errorf("%.600s: %v", args, describe(err))
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

// exampleIDs returns the ids in the examples, by the name of the argument.
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

// generator generates random arguments.
type generator struct {
	*rand.Rand
	ids map[string][]any
}

// args generates the required arguments of a method and a random choice of the optional ones.
func (g *generator) args(t *testing.T, m *catalog.Method) []byte {
	t.Helper()
	var schema struct {
		Required   []string                  `json:"required"`
		Properties map[string]map[string]any `json:"properties"`
	}
	var example map[string]any
	must.OK(t, json.Unmarshal(m.ArgsSchema(), &schema))
	must.OK(t, json.Unmarshal(m.Example, &example))
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		given, shown := example[name]
		switch {
		case slices.Contains(schema.Required, name) && shown && (isID(name) || fixedArgs[m.ID()] == name || g.IntN(3) == 0):
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
	orderDates(out)
	text, err := json.Marshal(out)
	must.OK(t, err)
	return text
}

// fixedArgs are arguments whose valid values depend on the platform's data, so the example's value is used.
var fixedArgs = map[string]string{
	"users.getByUsername": "username", "payouts.request": "amountCents", "drafts.get": "kind", "drafts.delete": "kind", "drafts.publish": "kind",
}

func isID(name string) bool {
	return strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids")
}

func (g *generator) pool(name string) []any { return g.ids[strings.TrimSuffix(name, "s")] }

// id returns the id of the example, or one that another method's example has under the same name.
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

// orderDates swaps from and to if necessary. The platform rejects a range that ends before it begins, which a schema
// cannot express.
func orderDates(args map[string]any) {
	from, ok1 := args["from"].(string)
	to, ok2 := args["to"].(string)
	if ok1 && ok2 && from > to {
		args["from"], args["to"] = to, from
	}
}

// value generates a value that a schema allows.
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

// text generates a string of the right format. A quarter of the free texts have the maximum length.
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

func number(v any, fallback int) int {
	if f, ok := v.(float64); ok {
		return int(f)
	}
	return fallback
}
