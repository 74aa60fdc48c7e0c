package catalog_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Loading any manifest gives a catalog whose methods can be called, or faults with positions.
func FuzzManifest(f *testing.F) {
	files := smallFiles(f)
	for _, name := range []string{"upstream.yaml", "types.yaml", "events.yaml", "resources/notes.yaml"} {
		f.Add(name, string(files[name].Data))
	}
	f.Add("upstream.yaml", string(filesOf(f, "sites")["upstream.yaml"].Data))
	f.Add("types.yaml", "types: {A: {a: {of: A, from: .}}}")
	f.Add("resources/a.yaml", "resource: a\nsummary: x\nmethods: {b: {summary: c., access: read, http: GET /x, result: User}}")
	f.Fuzz(func(t *testing.T, name, text string) {
		changed := fstest.MapFS{}
		maps.Copy(changed, files)
		if !fs.ValidPath(name) || name == "." {
			name = "types.yaml"
		}
		changed[name] = &fstest.MapFile{Data: []byte(text)}
		c, faults := catalog.Draft(changed)
		for _, fault := range faults {
			if fault.File == "" || fault.Detail == "" {
				t.Fatalf("a fault has no file or detail: %+v", fault)
			}
		}
		if c == nil {
			return
		}
		for _, m := range c.Methods() {
			args, err := m.Parse(m.Example, false)
			if err != nil {
				t.Fatalf("%s: the example is rejected: %v", m.ID(), err)
			}
			args.Request()
			if !json.Valid(m.ArgsSchema()) || !json.Valid(m.ResultSchema()) {
				t.Fatalf("%s: %s %s", m.ID(), m.ArgsSchema(), m.ResultSchema())
			}
		}
		for _, ty := range c.Types() {
			if !json.Valid(ty.Schema) {
				t.Fatalf("%s: %s", ty.Name, ty.Schema)
			}
		}
	})
}

// For any response, the result satisfies its schema, or the error is exactly one of ErrInvalid and ErrChanged.
func FuzzResult(f *testing.F) {
	c := small(f)
	methods := c.Methods()
	page := string(notePage(2))
	for i := range methods {
		for _, body := range []string{theirNote, page, `{"data":{"user":{"id":1,"name":"x"}}}`, `{"count":1e2}`, ``} {
			f.Add(uint8(i), []byte(body))
		}
	}
	type validator interface{ Validate(v any) error }
	schemas := make([]validator, len(methods))
	for i, m := range methods {
		schemas[i] = resultSchema(f, c, m.ResultSchema())
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		i := int(which) % len(methods)
		got, err := methods[i].Result(body)
		if err != nil {
			if errors.Is(err, catalog.ErrInvalid) == errors.Is(err, catalog.ErrChanged) {
				t.Fatalf("%v is neither or both of ErrInvalid and ErrChanged", err)
			}
			return
		}
		if err := schemas[i].Validate(value(t, got)); err != nil {
			// URLs of the platform are passed on unchecked.
			if !strings.Contains(err.Error(), "uri") {
				t.Fatalf("%s: %v\n%s", methods[i].ID(), err, got)
			}
		}
	})
}

// Any frame becomes an event whose data is a JSON object, or an error.
func FuzzDecode(f *testing.F) {
	c := small(f)
	for _, frame := range []string{
		`{"id":17,"type":"note.new","ts":1700000000.25,"body":{"note":` + theirNote + `}}`,
		`{"id":1,"type":"note.gone","ts":1,"body":{"note_id":3,"by":{"kind":"creator"}}}`,
		`{"type":"counts","body":{"by":{"user":{"name":"Ann"}}}}`, `{"type":"x","body":1}`, `{"type":"x","ts":"2026-11-14T22:50:00Z","body":[]}`,
	} {
		f.Add([]byte(frame))
	}
	kinds := map[string]catalog.Class{}
	for _, k := range c.Events() {
		kinds[k.Kind] = k.Class
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		e, err := c.Decode(frame)
		if err != nil {
			if !errors.Is(err, catalog.ErrInvalid) && !errors.Is(err, catalog.ErrChanged) {
				t.Fatal(err)
			}
			return
		}
		if kinds[e.Kind] == "" || kinds[e.Kind] != e.Class || !json.Valid(e.Data) || e.Data[0] != '{' {
			t.Fatalf("%+v %s", e, e.Data)
		}
	})
}

// For any response of a feed, every item has a key and a time, and an event or an error.
func FuzzItems(f *testing.F) {
	c := sites(f)
	for _, body := range []string{
		`{"events":[{"type":"signup_event","data":{"id":"` + anID + `","created_at":"2026-11-14T22:50:00Z","member_id":"1"}}]}`,
		`{"events":[{"type":"other","data":{"id":"` + anID + `"}}]}`, `{"posts":[{"id":"1","title":"x","updated_at":1}]}`,
		`{"posts":[{"id":"1","updated_at":"2026-11-14 22:50:00"}]}`, `{"site":{"uuid":"x"}}`, `[]`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, feed := range c.Poll.Feeds {
			items, err := c.Items(feed, body)
			if err != nil && errors.Is(err, catalog.ErrInvalid) == errors.Is(err, catalog.ErrChanged) {
				t.Fatalf("%v is neither or both of ErrInvalid and ErrChanged", err)
			}
			for _, item := range items {
				if !strings.HasPrefix(item.Key, feed.Name+":") || item.At.Nanosecond() != 0 || item.Event.UpstreamID != item.Key {
					t.Fatalf("%+v", item)
				}
				if item.Err == nil && (item.Event.Kind == "" || !json.Valid(item.Event.Data)) {
					t.Fatalf("%+v %s", item, item.Event.Data)
				}
			}
		}
		if info, err := c.Site.Read(body); err == nil && (info.ID == "" || strings.ContainsAny(info.ID+info.Title, "\r\n\x00")) {
			t.Fatalf("%+v", info)
		}
	})
}

// For any arguments, the request stays on its path and host, its parts are well-formed, and the forms agree.
func FuzzBind(f *testing.F) {
	methods := append(small(f).Methods(), sites(f).Methods()...)
	for i, m := range methods {
		f.Add(uint8(i), string(m.Example), "noteId=5&name=n")
	}
	f.Add(uint8(6), `{"noteId":"1","name":"%2e%2e"}`, "noteId=1&name=..")
	f.Add(uint8(6), `{"args":["1","\u002e\u002e/x"]}`, "noteId=1&name=%2e%2e%2fadmin")
	f.Add(uint8(6), `{"noteId":"1","name":"a?b#c@d:e"}`, "args=[]")
	f.Fuzz(func(t *testing.T, which uint8, body, query string) {
		m := methods[int(which)%len(methods)]
		args, err := m.Parse([]byte(body), false)
		if err == nil {
			checkRequest(t, m, args)
			again, err := m.FromObject(args.JSON(), false)
			if err != nil || string(again.JSON()) != string(args.JSON()) {
				t.Fatalf("%s: %s is not its own canonical form: %s %v", m.ID(), args.JSON(), again.JSON(), err)
			}
		} else if _, ok := errors.AsType[*problem.Error](err); !ok {
			t.Fatal(err)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if args, err := m.FromQuery(values, true); err == nil {
			checkRequest(t, m, args)
		}
	})
}

func checkRequest(t *testing.T, m *catalog.Method, args catalog.Args) {
	t.Helper()
	example, err := m.Parse(m.Example, false)
	must.OK(t, err)
	want, req := example.Request(), args.Request()
	u, err := url.Parse("https://platform.test" + req.Path + "?" + req.Query)
	if err != nil || u.Host != "platform.test" || u.User != nil || u.Fragment != "" || u.EscapedPath() != req.Path {
		t.Fatalf("%s: %s?%s is not a URL on the host: %v", m.ID(), req.Path, req.Query, err)
	}
	if strings.Count(req.Path, "/") != strings.Count(want.Path, "/") {
		t.Fatalf("%s: %s does not have as many segments as %s", m.ID(), req.Path, want.Path)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			t.Fatalf("%s: %s leaves its path", m.ID(), req.Path)
		}
	}
	if _, err := url.ParseQuery(req.Query); err != nil {
		t.Fatalf("%s: %s: %v", m.ID(), req.Query, err)
	}
	if req.Body != nil && !json.Valid(req.Body) {
		t.Fatalf("%s: %s is not JSON", m.ID(), req.Body)
	}
	for name, values := range req.Header {
		if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
			t.Fatalf("%s: a header contains a line break", m.ID())
		}
	}
}

// For any error response, the message is one line and the wait is bounded.
func FuzzClassify(f *testing.F) {
	c := small(f)
	f.Add(429, "17", "", `{"error":{"code":1,"message":"x","retry_after":2.5}}`)
	f.Add(503, "Sat, 14 Nov 2026 22:50:10 GMT", "Sat, 14 Nov 2026 22:50:00 GMT", `<html>`)
	f.Add(0, "-1", "1e309", `{"error":{"retry_after":1e309,"challenge":{"token":1}}}`)
	f.Fuzz(func(t *testing.T, status int, after, date, body string) {
		header := map[string][]string{"Retry-After": {after}, "Date": {date}}
		r := c.Classify(status, header, []byte(body))
		if r.Kind == "" || r.RetryAfter < 0 || r.RetryAfter.Hours() > 24 || strings.ContainsAny(r.Message, "\r\n\x00\x1b") || len([]rune(r.Message)) > 300 {
			t.Fatalf("%+v", r)
		}
		c.SignIn.Challenge([]byte(body), r)
	})
}

// The small manifest also loads straight from its folder.
func TestSmallManifestLoads(t *testing.T) {
	t.Parallel()
	if _, err := catalog.Load(os.DirFS("testdata/small")); err != nil {
		t.Fatal(err)
	}
}
