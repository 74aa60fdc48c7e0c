package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Errors point at invalid arguments in the form that the caller used, and never repeat a value.
func TestInvalidArgumentsAreReported(t *testing.T) {
	t.Parallel()
	c := small(t)
	create, list, rename := method(t, c, "notes", "create"), method(t, c, "notes", "list"), method(t, c, "notes", "rename")
	ok := `"userId":"42","slug":"s"`
	for name, call := range map[string]struct {
		m    *catalog.Method
		body string
		want []string
	}{
		"nothing":           {create, ``, []string{"/userId required", "/slug required"}},
		"no object":         {create, `"hunter2"`, []string{" type"}},
		"unknown":           {create, `{` + ok + `,"hunter":1}`, []string{"/hunter unknown"}},
		"unknown escaped":   {create, `{` + ok + `,"a/~b":1}`, []string{"/a~1~0b unknown"}},
		"type":              {create, `{` + ok + `,"text":7}`, []string{"/text type"}},
		"null":              {create, `{` + ok + `,"text":null}`, []string{"/text type"}},
		"length":            {create, `{` + ok + `,"text":"` + strings.Repeat("é", 51) + `"}`, []string{"/text length"}},
		"range":             {create, `{` + ok + `,"priceCents":20001}`, []string{"/priceCents range"}},
		"range negative":    {create, `{` + ok + `,"priceCents":-1}`, []string{"/priceCents range"}},
		"range huge":        {create, `{` + ok + `,"priceCents":99999999999999999999}`, []string{"/priceCents range"}},
		"fraction":          {create, `{` + ok + `,"priceCents":1.5}`, []string{"/priceCents type"}},
		"id":                {create, `{"userId":"x","slug":"s"}`, []string{"/userId format"}},
		"id number":         {create, `{"userId":42,"slug":"s"}`, []string{"/userId type"}},
		"items":             {create, `{` + ok + `,"mediaIds":["1","2","3","4","5"]}`, []string{"/mediaIds items"}},
		"item":              {create, `{` + ok + `,"mediaIds":["1","a"]}`, []string{"/mediaIds/1 format"}},
		"enum":              {create, `{` + ok + `,"days":2}`, []string{"/days enum"}},
		"time":              {create, `{` + ok + `,"at":"tomorrow"}`, []string{"/at format"}},
		"uri":               {create, `{` + ok + `,"url":"javascript:x"}`, []string{"/url format"}},
		"email":             {create, `{` + ok + `,"email":"x"}`, []string{"/email format"}},
		"pattern":           {create, `{` + ok + `,"code":"abc"}`, []string{"/code pattern"}},
		"header":            {create, `{` + ok + `,"device":"a\r\nx: y"}`, []string{"/device format"}},
		"comma":             {create, `{` + ok + `,"tags":["a,b"]}`, []string{"/tags/0 format"}},
		"NUL":               {create, `{` + ok + `,"text":"a\u0000"}`, []string{"/text character"}},
		"member":            {create, `{` + ok + `,"poll":{"question":"q","options":[{"label":1,"x":2}]}}`, []string{"/poll/options/0/x unknown", "/poll/options/0/label type"}},
		"member missing":    {create, `{` + ok + `,"poll":{}}`, []string{"/poll/question required"}},
		"several":           {create, `{"userId":"x","slug":3,"days":2}`, []string{"/userId format", "/slug type", "/days enum"}},
		"both forms":        {create, `{"args":[],"slug":"s"}`, []string{"/args conflict"}},
		"args no list":      {create, `{"args":"hunter2"}`, []string{"/args type"}},
		"position":          {create, `{"args":["x","s",7]}`, []string{"/args/0 format", "/args/2 type"}},
		"position missing":  {create, `{"args":["42"]}`, []string{"/args/1 required"}},
		"position null":     {create, `{"args":[null,"s"]}`, []string{"/args/0 required"}},
		"too many":          {rename, `{"args":["1","n","x"]}`, []string{"/args/2 unknown"}},
		"option unknown":    {create, `{"args":["42","s",{"hunter":1}]}`, []string{"/args/2/hunter unknown"}},
		"option wrong":      {create, `{"args":["42","s",{"days":2}]}`, []string{"/args/2/days enum"}},
		"option twice":      {create, `{"args":["42","s",{"slug":"t"}]}`, []string{"/args/2/slug repeated"}},
		"option not last":   {create, `{"args":["42",{"text":"x"},"s"]}`, []string{"/args/1 type"}},
		"unique":            {list, `{"userIds":["1","1"]}`, []string{"/userIds unique"}},
		"unique by meaning": {list, `{"userIds":["1","\u0031"]}`, []string{"/userIds unique"}},
		"few":               {list, `{"userIds":[]}`, []string{"/userIds items"}},
		"empty segment":     {rename, `{"noteId":"1","name":""}`, []string{"/name format"}},
		"dots":              {rename, `{"noteId":"1","name":".."}`, []string{"/name format"}},
		"slash":             {rename, `{"noteId":"1","name":"a/b"}`, []string{"/name format"}},
		"escaped slash":     {rename, `{"noteId":"1","name":"a\u002fb"}`, []string{"/name format"}},
		"backslash":         {rename, `{"noteId":"1","name":"a\\b"}`, []string{"/name format"}},
		"control":           {rename, `{"noteId":"1","name":"a\nb"}`, []string{"/name format"}},
	} {
		_, err := call.m.Parse([]byte(call.body), false)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if got := fieldsOf(t, err); !slices.Equal(got, call.want) {
			t.Errorf("%s: %q, want %q", name, got, call.want)
		}
		doc, _ := problem.Of(err).Document(problem.Place{})
		if strings.Contains(string(doc), "hunter2") {
			t.Errorf("%s: the problem repeats a value: %s", name, doc)
		}
	}
	for _, body := range []string{`{"userId":"1"`, `{"slug":1,"slug":2}`, `[`, "\xff"} {
		if _, err := create.Parse([]byte(body), false); !errors.Is(err, problem.MalformedJSON.New("")) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// An error about an unknown argument lists the known ones. A lenient call drops unknown arguments.
func TestUnknownArguments(t *testing.T) {
	t.Parallel()
	m := method(t, small(t), "notes", "rename")
	for _, body := range []string{`{"noteId":"1","name":"n","title":"x"}`, `{"args":["1",{"name":"n","title":"x"}]}`} {
		_, err := m.Parse([]byte(body), false)
		if p, _ := errors.AsType[*problem.Error](err); p == nil || !strings.Contains(p.Fields[0].Detail, "noteId, name") {
			t.Errorf("%s: %v", body, err)
		}
		args, err := m.Parse([]byte(body), true)
		if err != nil || string(args.JSON()) != `{"noteId":"1","name":"n"}` {
			t.Errorf("%s: %s %v", body, args.JSON(), err)
		}
	}
	if _, err := m.FromQuery(url.Values{"noteId": {"1"}, "name": {"n"}, "title": {"x"}}, true); err != nil {
		t.Error(err)
	}
}

// Query parameters become values of their declared types.
func TestQueryForm(t *testing.T) {
	t.Parallel()
	c := small(t)
	list, all := method(t, c, "notes", "list"), method(t, c, "notes", "all")
	for query, want := range map[string]string{
		"":                                    `{"order":"newest","limit":20}`,
		"userIds=1&userIds=2&limit=5":         `{"order":"newest","userIds":["1","2"],"limit":5}`,
		"userIds=1,2":                         `{"order":"newest","userIds":["1","2"],"limit":20}`,
		"userIds[]=1&userIds[]=2":             `{"order":"newest","userIds":["1","2"],"limit":20}`,
		"tags=":                               `{"order":"newest","tags":[],"limit":20}`,
		"open=1&ratio=0.5&order=oldest":       `{"order":"oldest","open":true,"ratio":0.5,"limit":20}`,
		"open=false&cursor=a%26b":             `{"order":"newest","open":false,"limit":20,"cursor":"a&b"}`,
		`args={"limit":3}`:                    `{"order":"newest","limit":3}`,
		`args=["oldest",null,["a"]]`:          `{"order":"oldest","tags":["a"],"limit":20}`,
		`args=["oldest",{"limit":7}]`:         `{"order":"oldest","limit":7}`,
		"since=2026-11-14T22:50:00.5%2B01:00": `{"order":"newest","since":"2026-11-14T22:50:00.5+01:00","limit":20}`,
	} {
		values, err := url.ParseQuery(query)
		must.OK(t, err)
		args, err := list.FromQuery(values, false)
		if err != nil || string(args.JSON()) != want {
			t.Errorf("%s: %s %v", query, args.JSON(), err)
		}
	}
	for query, want := range map[string]string{
		"limit=0": "query/limit range", "limit=05": "query/limit type", "limit=1.0": "query/limit type", "limit=1e1": "query/limit type",
		"limit=": "query/limit type", "limit=1&limit=2": "query/limit repeated", "open=yes": "query/open type", "x=1": "query/x unknown",
		"limit[]=1": "query/limit[] unknown", "ratio=1.": "query/ratio type", "tags=a&tags=": "query/tags/1 length", "tags[]=a,b": "query/tags/0 format",
		"args=[1": "query/args format", "args=7": "query/args type", "args={}&limit=1": "query/args conflict", `args=["x"]`: "query/args/0 enum",
		`args={"limit":0}`: "query/args/limit range",
	} {
		values, err := url.ParseQuery(query)
		must.OK(t, err)
		_, err = list.FromQuery(values, false)
		if err == nil || !slices.Equal(fieldsOf(t, err), []string{want}) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	if args, err := all.FromQuery(nil, false); err != nil || string(args.JSON()) != `{"limit":10}` {
		t.Errorf("%s %v", args.JSON(), err)
	}
}

// Integers keep every digit on the way to the platform.
func TestBigIntegersKeepEveryDigit(t *testing.T) {
	t.Parallel()
	m := method(t, small(t), "notes", "create")
	for _, n := range []string{"9007199254740993", "12345678901234567890", "-9223372036854775808"} {
		args, err := m.Parse([]byte(`{"userId":"18446744073709551615","slug":"s","big":`+n+`,"free":{"a":`+n+`,"b":1e400}}`), false)
		must.OK(t, err)
		req := args.Request()
		if !strings.Contains(string(req.Body), `"big":`+n) || !strings.Contains(string(req.Body), `"free":{"a":`+n+`,"b":1e400}`) ||
			!strings.HasPrefix(req.Path, "/api/v2/users/18446744073709551615/") {
			t.Errorf("%s %s", req.Path, req.Body)
		}
	}
}

// random generates values that satisfy a schema. It knows the patterns and formats that manifests use.
type random struct{ *rand.Rand }

type schemaNode struct {
	Type, Format, Pattern string
	Enum                  []json.RawMessage
	Required              []string
	Properties            map[string]schemaNode
	Items                 *schemaNode
	MinLength, MaxLength  *int
	MinItems, MaxItems    *int
	Minimum, Maximum      *int64
	UniqueItems           bool
}

func (r random) value(s schemaNode) any {
	if s.Enum != nil {
		return s.Enum[r.IntN(len(s.Enum))]
	}
	low := func(p *int, or int) int {
		if p == nil {
			return or
		}
		return *p
	}
	switch s.Type {
	case "string":
		return r.text(s, low(s.MinLength, 1), low(s.MaxLength, 20))
	case "integer":
		from, to := int64(-5), int64(1000)
		if s.Minimum != nil {
			from = *s.Minimum
			to = from + 1000
		}
		if s.Maximum != nil {
			to = *s.Maximum
			from = min(from, to)
		}
		return from + r.Int64N(to-from+1)
	case "number":
		return json.Number(fmt.Sprintf("%d.%d", r.IntN(100), r.IntN(10)))
	case "boolean":
		return r.IntN(2) == 0
	case "array":
		n := low(s.MinItems, 0) + r.IntN(4)
		n = max(min(n, low(s.MaxItems, 10)), low(s.MinItems, 0))
		list := []any{}
		for i := range n {
			v := r.value(*s.Items)
			if s.UniqueItems && s.Items.Pattern != "" {
				v = strconv.Itoa(1000 + i)
			}
			list = append(list, v)
		}
		return list
	}
	m := map[string]any{}
	for name, p := range s.Properties {
		if slices.Contains(s.Required, name) || r.IntN(2) == 0 {
			m[name] = r.value(p)
		}
	}
	return m
}

var alphabet = []rune("abcXYZ 019-_.~%&=?#+\"\\é漢😀<>'")

func (r random) text(s schemaNode, low, high int) string {
	switch {
	case s.Pattern == "^(0|[1-9][0-9]{0,19})$":
		return strconv.FormatUint(r.Uint64(), 10)
	case s.Pattern == "^[A-Z]{2}$":
		return "AB"
	case s.Pattern != "":
		return strings.Repeat("a", max(low, 1)) // all other patterns of the manifests allow this
	case s.Format == "date":
		return fmt.Sprintf("20%02d-0%d-1%d", r.IntN(100), 1+r.IntN(9), r.IntN(10))
	case s.Format == "date-time":
		return fmt.Sprintf("20%02d-0%d-1%dT0%d:00:00.%03d+0%d:00", r.IntN(100), 1+r.IntN(9), r.IntN(10), r.IntN(10), r.IntN(1000), r.IntN(10))
	case s.Format == "uri":
		return "https://example.com/" + strconv.Itoa(r.IntN(1000)) + "?a=b%20c"
	case s.Format == "email":
		return "a" + strconv.Itoa(r.IntN(1000)) + "@example.com"
	}
	n := low + r.IntN(max(min(high, low+20)-low, 0)+1)
	var out []rune
	for range n {
		out = append(out, alphabet[r.IntN(len(alphabet))])
	}
	if n > 0 && r.IntN(4) > 0 {
		out[0] = 'x'
	}
	return string(out)
}

// All forms of a call give the same arguments and the same request, byte for byte, for every method of every manifest.
// Arguments that satisfy the published schema are accepted.
func TestAllFormsOfACallGiveTheSameRequest(t *testing.T) {
	t.Parallel()
	const rounds = 12
	r := random{rand.New(rand.NewPCG(1, 2))}
	accepted := 0
	for _, m := range everyMethod(t) {
		var schema schemaNode
		must.OK(t, json.Unmarshal(m.ArgsSchema(), &schema))
		oracle := compileSchema(t, m.ArgsSchema())
		for range rounds {
			given, _ := r.value(schema).(map[string]any)
			object, err := json.Marshal(given)
			must.OK(t, err)
			args, err := m.Parse(object, false)
			if valid := oracle.Validate(value(t, object)) == nil; !valid {
				t.Fatalf("%s: the generator made %s, which the schema rejects", m.ID(), object)
			}
			if err != nil {
				if onlyPlacement(t, err) {
					continue
				}
				t.Fatalf("%s: %s: %v", m.ID(), object, problem.Of(err).Fields)
			}
			accepted++
			want := args.Request()
			for form, other := range forms(t, m, given) {
				if !bytes.Equal(other.JSON(), args.JSON()) || !reflect.DeepEqual(other.Request(), want) {
					t.Fatalf("%s: %s differs:\n%s\n%s\n%#v %s", m.ID(), form, args.JSON(), other.JSON(), other.Request(), other.Request().Body)
				}
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d calls were compared", accepted)
	}
}

// With any junk in place of a valid argument, Parse rejects what the published schema rejects. It also rejects strings
// that are unsafe in their place, and nothing else.
func TestArgumentChecksAgreeWithTheSchema(t *testing.T) {
	t.Parallel()
	r := random{rand.New(rand.NewPCG(3, 4))}
	junk := []string{
		`null`, `7`, `-1`, `0`, `1.5`, `1.0`, `1e2`, `99999999999999999999`, `"x"`, `""`, `"7"`, `[]`, `{}`, `true`, `["1"]`, `[1]`, `["1","1"]`,
		`[null]`, `[[]]`, `{"a":1}`, `{"question":"q"}`, `"2026-11-14"`, `"2026-02-30"`, `"2026-11-14T22:50:00Z"`, `"https://x.example"`, `"a@b.example"`,
		`"` + strings.Repeat("y", 6000) + `"`, `[` + strings.Repeat(`"1",`, 1200) + `"1"]`, `"newest"`, `"AB"`,
	}
	refused := 0
	for _, m := range everyMethod(t) {
		var schema schemaNode
		must.OK(t, json.Unmarshal(m.ArgsSchema(), &schema))
		oracle := compileSchema(t, m.ArgsSchema())
		for _, name := range m.Positional() {
			for i, text := range junk {
				if long := len(text) > 1000; long && m.Resource != "notes" || m.Resource != "notes" && i%3 != r.IntN(3) {
					continue // the small manifest uses every feature; for other methods a third is enough
				}
				given, _ := r.value(schema).(map[string]any)
				given[name] = json.RawMessage(text)
				object, err := json.Marshal(given)
				must.OK(t, err)
				_, err = m.Parse(object, false)
				valid := oracle.Validate(value(t, object)) == nil
				if err == nil && !valid {
					t.Fatalf("%s: %s is accepted, but the schema rejects it", m.ID(), object)
				}
				if err != nil && valid && !onlyPlacement(t, err) {
					t.Fatalf("%s: %s is rejected, but the schema allows it: %v", m.ID(), object, problem.Of(err).Fields)
				}
				if err != nil {
					refused++
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d calls were rejected", refused)
	}
}

// onlyPlacement reports whether arguments were rejected only for reasons that the schema cannot express: a path
// segment, a comma or a header.
func onlyPlacement(t *testing.T, err error) bool {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return false
	}
	return !slices.ContainsFunc(p.Fields, func(f problem.Field) bool {
		return !strings.HasPrefix(f.Detail, "must be a single path segment") && f.Detail != "must not contain a comma" && f.Detail != "must be printable ASCII"
	})
}

// forms parses the same arguments in every form that a caller can use.
func forms(t *testing.T, m *catalog.Method, given map[string]any) map[string]catalog.Args {
	t.Helper()
	found := map[string]catalog.Args{}
	take := func(form string, args catalog.Args, err error) {
		if err != nil {
			t.Fatalf("%s as %s: %v", m.ID(), form, problem.Of(err).Fields)
		}
		found[form] = args
	}
	var positions []any
	options := map[string]any{}
	for i, name := range m.Positional() {
		v, ok := given[name]
		if i < 2 {
			positions = append(positions, v)
		} else if ok {
			options[name] = v
		}
	}
	var all []any
	for _, name := range m.Positional() {
		all = append(all, given[name])
	}
	encode := func(v any) []byte {
		text, err := json.MarshalIndent(v, "", " ")
		must.OK(t, err)
		return text
	}
	args, err := m.Parse(encode(map[string]any{"args": append([]any{}, all...)}), false)
	take("positions", args, err)
	args, err = m.FromPositional(encode(append([]any{}, all...)), false)
	take("list", args, err)
	if len(options) > 0 {
		args, err = m.Parse(encode(map[string]any{"args": append(positions, options)}), false)
		take("positions and options", args, err)
	}
	args, err = m.FromObject(encode(given), false)
	take("object", args, err)
	if m.Access == catalog.Read {
		args, err = m.FromQuery(parameters(given), false)
		take("query", args, err)
		args, err = m.FromQuery(url.Values{"args": {string(encode(given))}}, false)
		take("query args", args, err)
	}
	return found
}

func parameters(given map[string]any) url.Values {
	values := url.Values{}
	for name, v := range given {
		list, ok := v.([]any)
		if !ok {
			values.Set(name, plain(v))
			continue
		}
		if len(list) == 0 {
			values.Set(name, "")
		}
		for _, item := range list {
			values.Add(name+"[]", plain(item))
		}
	}
	return values
}

func plain(v any) string {
	if raw, ok := v.(json.RawMessage); ok {
		return strings.Trim(string(raw), `"`)
	}
	return fmt.Sprint(v)
}

func compileSchema(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	must.OK(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.OK(t, c.AddResource("schema.json", doc))
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%v in %s", err, schema)
	}
	return compiled
}
