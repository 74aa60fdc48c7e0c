package link_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

func TestOnlyExactOriginsMayFrame(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		text          string
		live, sandbox bool
	}{
		{"https://app.example.com", true, true},
		{"https://app.example.com:8443", true, true},
		{"https://xn--bcher-kva.example", true, true},
		{"http://localhost:3000", false, true},
		{"http://127.0.0.1:3000", false, true},
		{"http://127.0.0.2", false, true},
		{"http://app.example.com", false, false},
		{"https://app.example.com/", false, false},
		{"https://app.example.com/path", false, false},
		{"https://app.example.com?x", false, false},
		{"https://app.example.com#x", false, false},
		{"https://app.example.com:443", false, false}, // browsers omit the default port, so it would never match
		{"https://app.example.com:", false, false},
		{"https://app.example.com:0", false, false},
		{"https://app.example.com:99999999", false, false},
		{"https://App.example.com", false, false},
		{"https://*.example.com", false, false},
		{"*", false, false},
		{"null", false, false},
		{"", false, false},
		{"https://", false, false},
		{"https://a b.example", false, false},
		{"https://a.example;script-src *", false, false},
		{"https://a.example,https://b.example", false, false},
		{"https://a.example'", false, false},
		{"https://user@a.example", false, false},
		{"https://user:pw@a.example", false, false},
		{"https://[::1]", false, false},
		{"http://[::1]:3000", false, false},
		{"https://bücher.example", false, false},
		{"https://a..example", false, false},
		{"javascript://a.example", false, false},
		{"data:text/html,x", false, false},
		{"https:a.example", false, false},
		{"https://a.example\n", false, false},
	} {
		if got := link.ValidOrigin(one.text, environment.Live); got != one.live {
			t.Errorf("live %q: %v", one.text, got)
		}
		if got := link.ValidOrigin(one.text, environment.Sandbox); got != one.sandbox {
			t.Errorf("sandbox %q: %v", one.text, got)
		}
	}
}

// An accepted origin is safe in a header with space-separated values.
func FuzzOrigin(f *testing.F) {
	f.Add("https://app.example.com:8443")
	f.Add("https://a.example;script-src *")
	f.Fuzz(func(t *testing.T, text string) {
		if link.ValidOrigin(text, environment.Sandbox) && (strings.ContainsAny(text, " \t\r\n;,'\"*@?#\\") || strings.Count(text, "/") != 2) {
			t.Errorf("%q passes", text)
		}
	})
}

func TestDraftProblemListsAllErrorsAndNoValues(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	_, _, err := r.Create(t.Context(), by("connect.session_create"), r.org, link.Draft{
		Kinds: []string{"cookie-canary"}, ReferenceID: strings.Repeat("é", 256), Label: strings.Repeat("é", 121), Region: "canary",
		ReturnURL: "ftp://canary.example", AllowedOrigins: []string{"https://*.canary.example"}, ExpiresIn: 59 * time.Second, Locale: "canary",
		Remember: "canary", DeliverEmail: "Canary <canary@example.com>",
	})
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind.Code != "validation-failed" {
		t.Fatalf("%v", err)
	}
	var pointers []string
	for _, f := range p.Fields {
		pointers = append(pointers, f.Pointer)
	}
	want := "/kinds /label /reference_id /proxy_country /return_url /allowed_origins /expires_in_sec /locale /remember_credentials /deliver/email"
	if got := strings.Join(pointers, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	text, err := p.Document(problem.Place{})
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReturnURLsAreChecked(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	live := r.org
	live.Environment = environment.Live
	for _, one := range []struct {
		url string
		org org.Org
		ok  bool
	}{
		{"https://app.example/cb?x=1&y=%20", live, true},
		{"http://localhost:3000/cb", r.org, true},
		{"http://localhost:3000/cb", live, false},
		{"http://app.example/cb", r.org, false},
		{"https://user:pw@app.example/cb", live, false},
		{"https://app.example/cb#done", live, false},
		{"https://app.example/cb#", live, false},
		{"javascript:alert(1)", live, false},
		{"//app.example/cb", live, false},
		{"https:app.example", live, false},
		{"https://app.example/" + strings.Repeat("x", 2048), live, false},
	} {
		_, _, err := r.Create(t.Context(), by("connect.session_create"), one.org, link.Draft{ReturnURL: one.url})
		if (err == nil) != one.ok {
			t.Errorf("%.60s for %s: %v", one.url, one.org.Environment, err)
		}
	}
}

func TestAtMostTenOriginsAndNoKindTwice(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, d := range []link.Draft{
		{AllowedOrigins: strings.Split(strings.Repeat("https://a.example ", 10)+"https://a.example", " ")},
		{Kinds: []string{"credentials", "credentials"}},
		{ExpiresIn: 604801 * time.Second},
	} {
		if _, _, err := r.Create(t.Context(), by("connect.session_create"), r.org, d); !errors.Is(err, problem.ValidationFailed.New("")) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

func TestPageIsStoredAndChecked(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	if p, err := r.Page(t.Context(), r.org.ID); err != nil || p.Scheme != "system" || p.BrandLight != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	want := link.Page{BrandLight: "#0f766e", Scheme: "dark", AllowedOrigins: []string{"https://app.example"}, HelpURL: "https://help.example/connect"}
	for range 2 {
		if _, err := r.SetPage(t.Context(), by("connect.page_set"), r.org, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Page(t.Context(), r.org.ID)
	if err != nil || got.BrandLight != want.BrandLight || got.Scheme != "dark" || len(got.AllowedOrigins) != 1 || got.HelpURL != want.HelpURL {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = r.SetPage(t.Context(), by("connect.page_set"), r.org, link.Page{
		BrandLight: "red", BrandDark: "#12345", Scheme: "sepia", HelpURL: "javascript:alert(1)", AllowedOrigins: []string{"*"},
	})
	if p, ok := errors.AsType[*problem.Error](err); !ok || len(p.Fields) != 5 {
		t.Fatalf("%v", err)
	}
}
