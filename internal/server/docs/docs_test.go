package docs_test

import (
	"cmp"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/server/docs"
	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const publicURL = "https://docs.test"

// shared is built once: pages are the same for every reader.
var shared = sync.OnceValues(func() (*docs.Docs, error) {
	return docs.New(docs.Deps{
		PublicURL: publicURL, OpenAPI: func() ([]byte, error) { return os.ReadFile("../../../openapi/openapi.json") },
		Plans: org.NewPlans(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
})

func site(t testing.TB) *docs.Docs {
	t.Helper()
	d, err := shared()
	must.OK(t, err)
	return d
}

// response is a response without its body.
type response struct {
	StatusCode int
	Header     http.Header
}

func get(t testing.TB, target string, header ...string) (response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	site(t).ServeHTTP(w, r)
	return response{w.Code, w.Header()}, w.Body.String()
}

var location = regexp.MustCompile(`<loc>` + regexp.QuoteMeta(publicURL) + `([^<]*)</loc>`)

// allPages returns the addresses of all pages, from the sitemap.
func allPages(t testing.TB) (list []string) {
	t.Helper()
	_, body := get(t, "/docs/sitemap.xml")
	for _, m := range location.FindAllStringSubmatch(body, -1) {
		list = append(list, m[1])
	}
	if len(list) < 150 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// Every document is in the navigation, and every entry of the navigation exists.
func TestNavigationIsComplete(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, file := range docs.NavFiles() {
		if listed[file] {
			t.Errorf("%s is listed twice", file)
		}
		listed[file] = true
		if _, err := os.Stat(path.Join("../../../docs", file)); err != nil {
			t.Errorf("%s is listed in nav.go but does not exist", file)
		}
	}
	err := fs.WalkDir(os.DirFS("../../../docs"), ".", func(file string, d fs.DirEntry, err error) error {
		problem := strings.HasPrefix(file, "problems/") && file != "problems/README.md"
		if err == nil && !d.IsDir() && strings.HasSuffix(file, ".md") && !problem && !listed[file] {
			t.Errorf("docs/%s is not in nav.go", file)
		}
		return err
	})
	must.OK(t, err)
}

// attributes yields the attributes of all elements of a page, with names in lower case. There are hundreds of large
// pages, so it searches for the mark between name and value instead of looking at every byte.
func attributes(body string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for {
			before, rest, found := strings.Cut(body, `="`)
			value, after, closed := strings.Cut(rest, `"`)
			if !found || !closed {
				return
			}
			name := before[strings.LastIndexAny(before[max(len(before)-40, 0):], " \n\t")+1+max(len(before)-40, 0):]
			if !yield(strings.ToLower(name), strings.ReplaceAll(value, "&amp;", "&")) {
				return
			}
			body = after
		}
	}
}

// refused reports whether the policy of a page refuses an attribute.
func refused(name, value string) bool {
	value = strings.ToLower(value)
	return name == "style" || strings.HasPrefix(name, "on") || strings.HasPrefix(value, "javascript:") ||
		name == "src" && strings.HasPrefix(value, "http") || name == "href" && strings.HasPrefix(value, "http") && strings.HasSuffix(value, ".css")
}

func TestRefusedAttributesAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`<p class="a" STYLE="x">`: "style", "<a\nonClick=\"x\" id=\"b\">": "onclick", `<a href="JavaScript:x">`: "href", `<img src="https://other.test/x.png">`: "src",
		`<link href="http://other.test/x.css">`: "href", `<a href="https://other.test/">on="</a>`: "", `<p id="on" class="style">`: "",
	} {
		var found string
		for name, value := range attributes(text) {
			if refused(name, value) {
				found = name
			}
		}
		if found != want {
			t.Errorf("%s: found %q, want %q", text, found, want)
		}
	}
}

// elsewhere reports whether an address is served by another part of the server.
func elsewhere(to string) bool {
	return to == "/v1/openapi.json" || to == "/app" || strings.HasPrefix(to, "/app/") || strings.HasPrefix(to, "http") || strings.HasPrefix(to, "mailto:")
}

// No page has a broken link or anchor, a repeated id, or anything that its own policy refuses.
func TestPagesAreSound(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{}
	bodies := map[string]string{}
	for _, page := range allPages(t) {
		response, body := get(t, page)
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", page, response.StatusCode, body)
			continue
		}
		bodies[page] = body
		for name, value := range attributes(body) {
			if name == "id" && slices.Contains(anchors[page], value) {
				t.Errorf("%s has the id %s twice", page, value)
			} else if name == "id" {
				anchors[page] = append(anchors[page], value)
			}
			if refused(name, value) {
				t.Errorf("%s has %s=%q", page, name, value)
			}
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, "<style") {
			t.Errorf("%s has a script or a style in it", page)
		}
		if strings.Count(body, "<h1>") != 1 || strings.Contains(body, "<h1></h1>") {
			t.Errorf("%s does not have exactly one h1", page)
		}
	}
	checked := map[string]bool{}
	for page, body := range bodies {
		for name, value := range attributes(body) {
			if name != "href" && name != "action" {
				continue
			}
			to, anchor, _ := strings.Cut(value, "#")
			to = cmp.Or(to, page)
			if anchor != "" && !slices.Contains(anchors[to], anchor) {
				t.Errorf("%s links to %s#%s, which does not exist", page, to, anchor)
			}
			if _, read := bodies[to]; read || checked[to] || elsewhere(to) {
				continue
			}
			checked[to] = true
			if response, _ := get(t, to); response.StatusCode != http.StatusOK {
				t.Errorf("%s links to %s: %d", page, to, response.StatusCode)
			}
		}
	}
}

// Every page is available as HTML, and with .md as Markdown. One of the full files contains it. llms.txt lists those for
// customers, without the pages below others.
func TestMarkdownForPrograms(t *testing.T) {
	t.Parallel()
	_, list := get(t, "/llms.txt")
	var full string
	for _, name := range docs.FullTexts() {
		response, text := get(t, "/"+name)
		if response.StatusCode != http.StatusOK || len(text) < 10_000 {
			t.Errorf("/%s: %d, %d bytes", name, response.StatusCode, len(text))
		}
		full += text
	}
	if len(list) > 20_000 || strings.Contains(list, "/docs/runbooks/") {
		t.Errorf("llms.txt has %d bytes", len(list))
	}
	for _, page := range allPages(t) {
		response, body := get(t, page+".md")
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.HasPrefix(body, "# ") {
			t.Errorf("%s.md: %d %s %.40q", page, response.StatusCode, response.Header.Get("Content-Type"), body)
		}
		if !strings.Contains(full, strings.TrimSpace(body)) {
			t.Errorf("no full file contains %s", page)
		}
	}
	for _, page := range []string{"/docs/quickstart", "/docs/webhooks", "/docs/recipes/one-endpoint", "/docs/api", "/docs/sdk"} {
		if !strings.Contains(list, "]("+publicURL+page+".md)") {
			t.Errorf("llms.txt does not list %s", page)
		}
	}
	if response, again := get(t, "/docs/llms.txt"); again != list || response.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Error("/docs/llms.txt is not /llms.txt")
	}
}

// At the address of the service, people see a page whose links work, and programs get what the API says.
func TestLandingPageIsForPeople(t *testing.T) {
	t.Parallel()
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for accept, want := range map[string]int{"text/html,application/xhtml+xml,*/*;q=0.8": http.StatusOK, "*/*": http.StatusTeapot, "application/json": http.StatusTeapot} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		site(t).Before(api).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Accept %s: %d, want %d", accept, w.Code, want)
		}
		for _, link := range regexp.MustCompile(`href="(/docs[^"#]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			if response, _ := get(t, link[1]); response.StatusCode != http.StatusOK {
				t.Errorf("the page links to %s: %d", link[1], response.StatusCode)
			}
		}
	}
}

// Responses say how long they may be cached, and a current copy gets 304.
func TestResponsesAreCacheable(t *testing.T) {
	t.Parallel()
	_, home := get(t, "/docs")
	style := regexp.MustCompile(`/docs/-/[0-9a-f]+/docs\.css`).FindString(home)
	for target, cache := range map[string]string{
		"/docs": "public, max-age=300", "/docs/connect.md": "public, max-age=300", "/llms.txt": "public, max-age=300",
		style: "public, max-age=31536000, immutable",
	} {
		response, body := get(t, target)
		tag := response.Header.Get("ETag")
		if response.Header.Get("Cache-Control") != cache || tag == "" || body == "" {
			t.Errorf("%s: %v", target, response.Header)
		}
		again, empty := get(t, target, "If-None-Match", tag)
		if again.StatusCode != http.StatusNotModified || empty != "" {
			t.Errorf("%s again: %d", target, again.StatusCode)
		}
		small, packed := get(t, target, "Accept-Encoding", "gzip")
		if small.Header.Get("Content-Encoding") != "gzip" || len(packed) >= len(body) || small.Header.Get("ETag") != tag {
			t.Errorf("%s compressed: %d of %d bytes, %v", target, len(packed), len(body), small.Header)
		}
	}
	if old, _ := get(t, "/docs/-/000000000000/docs.css"); old.StatusCode != http.StatusNotFound {
		t.Errorf("a style of another version: %d", old.StatusCode)
	}
}

// A page may use only its own files.
func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/docs", "/docs/search?q=x", "/docs/none", "/docs/connect.md", "/problems/key-missing"} {
		response, _ := get(t, target)
		want := "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
		if got := response.Header.Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: %s", target, got)
		}
		if response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", target, response.Header)
		}
	}
}

// A missing page gets 404 and suggests similar pages.
func TestMissingPage(t *testing.T) {
	t.Parallel()
	response, body := get(t, "/docs/verify-webhook")
	if response.StatusCode != http.StatusNotFound || !strings.Contains(body, "<h1>Page not found</h1>") || !strings.Contains(body, `href="/docs/recipes/verify-webhooks`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	for _, target := range []string{"/docs/nothing.md", "/docs/embed.go", "/docs/../go.mod", "/docs/verify", "/docs/problems/none", "/docs/<script>"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs", nil)
		r.URL.Path = target
		w := httptest.NewRecorder()
		site(t).ServeHTTP(w, r)
		if w.Code == http.StatusOK || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if post := httptest.NewRecorder(); true {
		site(t).ServeHTTP(post, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/docs", nil))
		if post.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", post.Code)
		}
	}
}

// Other addresses of a page redirect to it.
func TestOtherAddresses(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{"/docs/": "/docs", "/docs/connect/": "/docs/connect", "/docs/events.md": "", "/docs/reference/cli.md": "/docs/cli.md"} {
		response, _ := get(t, target)
		if want != "" && (response.StatusCode != http.StatusMovedPermanently || response.Header.Get("Location") != want) {
			t.Errorf("%s: %d %s", target, response.StatusCode, response.Header.Get("Location"))
		}
	}
	_, direct := get(t, "/docs/problems/key-missing")
	if _, linked := get(t, "/problems/key-missing"); linked != direct {
		t.Error("the address in a problem shows a different page")
	}
	response, body := get(t, "/docs/verify/go/verify.go")
	if response.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(body, "package verify") {
		t.Errorf("a program: %v %.60q", response.Header, body)
	}
}

// A search query is shown as text.
func TestSearchIsInert(t *testing.T) {
	t.Parallel()
	for _, q := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`, "\xff\xfe", strings.Repeat("a", 5000), `{{.}}`} {
		response, body := get(t, "/docs/search?q="+escape(q))
		if response.StatusCode != http.StatusOK || strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || strings.Contains(body, "' onfocus='alert") {
			t.Errorf("%q: %d", q, response.StatusCode)
		}
		if len(body) > 100_000 {
			t.Errorf("%.20q: %d bytes", q, len(body))
		}
	}
}

func escape(q string) string {
	var b strings.Builder
	const hex = "0123456789ABCDEF"
	for i := range len(q) {
		b.WriteByte('%')
		b.WriteByte(hex[q[i]>>4])
		b.WriteByte(hex[q[i]&15])
	}
	return b.String()
}

// The page about a topic is among the first results.
func TestSearchFinds(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"messages.send":                 "/docs/sdk/messages#send",
		"send message":                  "/docs/sdk/messages#send",
		"quota-exceeded":                "/docs/problems/quota-exceeded",
		"rate limit":                    "/docs/problems/quota-exceeded",
		"verify webhook signature":      "/docs/recipes/verify-webhooks",
		"quickstart":                    "/docs/quickstart",
		"pagination":                    "/docs/recipes/pagination",
		"how do I reconnect an account": "/docs/recipes/reconnect",
		"QR":                            "/docs/recipes/qr",
		"putWebhook":                    "/docs/api/webhooks#putWebhook",
		"account.reconnect_required":    "/docs/events#account-reconnect_required",
		"idempotency key":               "/docs/idempotency",
		"mass messages":                 "/docs/sdk/massMessages",
		"accounts:write":                "/docs/scopes#accounts-write",
		"mint an api key":               "/docs/api/keys#mintKey",
		"postgres down":                 "/docs/runbooks/postgres-down",
		"embed":                         "/docs/recipes/embed",
		"personas":                      "/docs/recipes/testing-with-personas",
		"upstream/rate-limited":         "/docs/problems/upstream/rate-limited",
		"callsPerMinute":                "/docs/limits",
		"/v1/connect/login":             "/docs/api/connect#connectLogin",
	} {
		t.Run(question, func(t *testing.T) {
			t.Parallel()
			found, err := site(t).Search(question)
			must.OK(t, err)
			near := found[:min(len(found), 4)]
			if !slices.ContainsFunc(near, func(f docs.Found) bool { return strings.HasPrefix(f.Path, want) }) {
				t.Errorf("found %+v", near)
			}
		})
	}
	for _, question := range []string{"", "   ", "the of a", "zzqqxx", "%%%"} {
		found, err := site(t).Search(question)
		if err != nil || len(found) != 0 {
			t.Errorf("%q: %v %v", question, found, err)
		}
	}
}

// Questions as people type them, in their own words: the page that answers one is among the first three results.
func TestSearchAnswersQuestions(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"how do I verify a webhook signature":   "/docs/recipes/verify-webhooks",
		"one webhook for all creators":          "/docs/recipes/one-endpoint",
		"what happens when my server is down":   "/docs/webhooks",
		"upload a logo for the connect page":    "/docs/connect-pages",
		"retry a request without sending twice": "/docs/idempotency",
		"creator changed password":              "/docs/recipes/reconnect",
		"test two factor code in the sandbox":   "/docs/recipes/two-factor-and-selfie",
		"how long should I wait after a 429":    "/docs/recipes/backoff",
		"export all data of my organisation":    "/docs/jobs",
		"back up and restore the database":      "/docs/operations/backup-and-restore",
	} {
		t.Run(question, func(t *testing.T) {
			t.Parallel()
			found, err := site(t).Search(question)
			must.OK(t, err)
			near := found[:min(len(found), 3)]
			if !slices.ContainsFunc(near, func(f docs.Found) bool { return strings.HasPrefix(f.Path, want) }) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// BenchmarkFirstPage measures how long the first reader after a start waits.
func BenchmarkFirstPage(b *testing.B) {
	text, err := os.ReadFile("../../../openapi/openapi.json")
	must.OK(b, err)
	for b.Loop() {
		d, err := docs.New(docs.Deps{
			PublicURL: publicURL, OpenAPI: func() ([]byte, error) { return text, nil },
			Plans: org.NewPlans(),
			Log:   slog.New(slog.DiscardHandler), Now: time.Now,
		})
		must.OK(b, err)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/docs", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

// Links to other files of the repository, which pages show as plain text, work for readers of the files themselves.
func TestLinksOfFilesLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, file := range docs.NavFiles() {
		source, err := os.ReadFile(path.Join("../../../docs", file))
		if err != nil {
			t.Error(err)
			continue
		}
		doc, err := markdown.Render(source, markdown.Options{Link: nil, Prefix: "", Plain: true})
		must.OK(t, err)
		for _, to := range doc.Links {
			target, _, _ := strings.Cut(to, "#")
			if target == "" || strings.HasPrefix(target, "/") || strings.Contains(target, ":") {
				continue
			}
			if _, err := os.Stat(path.Join("../../../docs", path.Dir(file), target)); err != nil {
				t.Errorf("docs/%s links to %s, which does not exist", file, to)
			}
		}
	}
}
