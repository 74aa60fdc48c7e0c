package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const sandboxURL = "http://127.0.0.1:18200"

func TestParseSources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]registry.Source{
		"":                {{ID: "sandbox", URL: sandboxURL}},
		"sandbox=builtin": {{ID: "sandbox", URL: sandboxURL}},
		"ghost=builtin":   {{ID: "ghost"}},
		" ghost=builtin\n\ttiny=/etc/tiny,https://tiny.example  ": {{ID: "ghost"}, {ID: "tiny", Folder: "/etc/tiny", URL: "https://tiny.example"}},
		"sandbox=builtin,http://127.0.0.1:9":                      {{ID: "sandbox", URL: "http://127.0.0.1:9"}},
		"sandbox=/my/sandbox":                                     {{ID: "sandbox", Folder: "/my/sandbox"}},
	} {
		got, err := registry.ParseSources(text, sandboxURL)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %+v %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"ghost":                              "write it as id=folder,url",
		"=builtin":                           "write it as id=folder,url",
		"Ghost=builtin":                      "write it as id=folder,url",
		"ghost=":                             "write it as id=folder,url",
		"cows=builtin":                       "no platform cows is built in",
		"ghost=builtin ghost=/x":             "listed twice",
		"tiny=/x,tiny.example":               "not an http or https origin",
		"tiny=/x,https://tiny.example/path":  "not an http or https origin",
		"tiny=/x,https://user@tiny.example":  "not an http or https origin",
		"tiny=/x,ftp://tiny.example":         "not an http or https origin",
		"cows=builtin tiny=/x,tiny.example ": "not an http or https origin", // all faults are reported
	} {
		if _, err := registry.ParseSources(text, sandboxURL); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A folder must exist, hold a valid manifest, and hold that of the platform which it is listed as.
func TestLoad(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	load := func(id, folder string) error {
		_, err := registry.Source{ID: id, Folder: folder}.Load()
		return err
	}
	if err := load("tiny", filepath.Join(folder, "none")); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("no folder: %v", err)
	}
	must.OK(t, os.WriteFile(filepath.Join(folder, "upstream.yaml"), []byte("upstream: {id: 7}\n"), 0o600))
	if _, ok := errors.AsType[catalog.Faults](load("tiny", folder)); !ok {
		t.Errorf("a manifest with faults: %v", load("tiny", folder))
	}
	sandbox, err := filepath.Abs("../catalog/manifests/sandbox")
	must.OK(t, err)
	must.OK(t, load("sandbox", sandbox))
	if err := load("tiny", sandbox); err == nil || !strings.Contains(err.Error(), "has the id sandbox") {
		t.Errorf("another platform: %v", err)
	}
	_, err = registry.New(registry.Deps{Sources: []registry.Source{{ID: "tiny", Folder: folder}}})
	if err == nil || !strings.Contains(err.Error(), "platform tiny") || !strings.Contains(err.Error(), "upstream.yaml") {
		t.Errorf("a server does not name the platform and the file: %v", err)
	}
}

// The first platform of an environment is its default, and an environment does not have those of another.
func TestChoose(t *testing.T) {
	t.Parallel()
	r := registry.Of(
		registry.Platform{ID: "tiny", Environment: environment.Live}, registry.Platform{ID: "sandbox", Environment: environment.Sandbox},
		registry.Platform{ID: "ghost", Environment: environment.Live},
	)
	for _, c := range []struct {
		env      environment.Environment
		id, want string
	}{
		{environment.Live, "", "tiny"}, {environment.Live, "tiny", "tiny"}, {environment.Live, "ghost", "ghost"}, {environment.Sandbox, "", "sandbox"},
	} {
		if p, err := r.Choose(c.env, c.id); err != nil || p.ID != c.want {
			t.Errorf("%s %q: %s %v", c.env, c.id, p.ID, err)
		}
	}
	_, err := r.Choose(environment.Live, "sandbox")
	p := problem.Of(err)
	if p.Kind.Code != problem.ValidationFailed.Code || len(p.Fields) != 1 || p.Fields[0].Pointer != "/platform" || !strings.Contains(p.Fields[0].Detail, "tiny, ghost") {
		t.Errorf("a platform of another environment: %+v", p)
	}
	_, err = registry.Registry{}.Choose(environment.Live, "")
	if p := problem.Of(err); p.Kind.Code != problem.ConnectUnavailable.Code || p.Kind.Retryable && p.RetryAfter > 0 {
		t.Errorf("no platform: %+v", p)
	}
	if _, ok := r.Get("cows"); ok {
		t.Error("an unknown platform is found")
	}
}

// Ghost has no sign-in by phone, and every account has its own hosts.
func TestFlowsAndHosts(t *testing.T) {
	t.Parallel()
	ghost, err := catalog.Builtin("ghost")
	must.OK(t, err)
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	g, s := registry.Platform{Catalog: ghost}, registry.Platform{Catalog: sandbox}.WithHost("127.0.0.1:18200")
	if !slices.Equal(g.Flows(), []string{"token", "credentials", "cookie", "curl"}) || len(s.Flows()) != 4 {
		t.Errorf("flows: %v and %v", g.Flows(), s.Flows())
	}
	if got := g.Hosts("https://maya.example.com/blog"); !slices.Equal(got, []string{"maya.example.com"}) {
		t.Errorf("hosts of a site: %v", got)
	}
	if got := s.Hosts(""); !slices.Equal(got, []string{"127.0.0.1:18200"}) {
		t.Errorf("hosts of a platform: %v", got)
	}
	if !g.Listens() || !s.Listens() || (registry.Platform{}).Listens() {
		t.Error("wrong platforms listen")
	}
}

// Cookies are imported from the origin in the manifest, unless the settings replace it.
func TestTheSettingsReplaceTheHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "least.example", "http://127.0.0.1:9000": "127.0.0.1:9000"} {
		r, err := registry.New(registry.Deps{Sources: []registry.Source{{ID: "least", Folder: "../catalog/testdata/least", URL: address}}})
		must.OK(t, err)
		if got := r.All()[0].Hosts(""); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %v", address, got)
		}
	}
}
