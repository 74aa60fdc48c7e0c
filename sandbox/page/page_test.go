package page_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// inline matches code or style that the policy would block, and links to other machines.
var inline = regexp.MustCompile(`(?i)<script(?:\s+type="module")?>|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href)="(?:https?:)?//`)

func TestNoPageRunsOrLoadsAnythingForeign(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/", s.openQR(chrome).path, "/qr/none", s.openSelfie().path, "/verify/none", "/mails", "/page/main.js", "/page/none.js"} {
		a := s.get(path)
		policy := a.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has no nosniff header", path)
		}
		if found := inline.FindString(a.text); found != "" && strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s has %q", path, found)
		}
	}
}

func TestTheRootIsThePageAndNothingElseIs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.wants(s.get("/"), http.StatusOK, "Sandbox platform", `src="/page/main.js"`)
	s.wants(s.get("/?login=ok@sandbox.test"), http.StatusOK)
	s.wants(s.get("/other"), http.StatusNotFound)
	s.wants(s.get("/page/"), http.StatusNotFound)
	s.wants(s.get("/page/page.go"), http.StatusNotFound)
	if a := s.get("/page/..%2ftemplates%2fqr.html"); a.status == http.StatusOK {
		t.Error("a template can be read as a file")
	}
}

func TestFilesAreTypedAndNotSentTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files, err := filepath.Glob("static/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	types := map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json"}
	for _, file := range files {
		path := "/page/" + filepath.Base(file)
		a := s.get(path)
		if want := types[filepath.Ext(file)]; want == "" || !strings.HasPrefix(a.header.Get("Content-Type"), want) {
			t.Errorf("%s is %q", path, a.header.Get("Content-Type"))
		}
		again := s.send("GET", path, nil, map[string]string{"If-None-Match": a.header.Get("ETag")})
		if again.status != http.StatusNotModified {
			t.Errorf("%s: %d with a matching If-None-Match", path, again.status)
		}
	}
}

// Modules import each other by name, and only a browser would notice a typo.
func TestModulesImportOnlyWhatExists(t *testing.T) {
	t.Parallel()
	imports := regexp.MustCompile(`from '\./([a-z.]+)'`)
	files, err := filepath.Glob("static/*.js")
	sandboxtest.OK(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		sandboxtest.OK(t, err)
		for _, found := range imports.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("static", string(found[1]))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if strings.Contains(string(text), "innerHTML") {
			t.Errorf("%s writes HTML: the platform's texts must stay text", file)
		}
	}
}

type words struct {
	Personas []struct {
		Logins []struct{ Login, Does string }
	}
	Happenings []struct {
		Acts []struct {
			What, Label   string
			Fields        []string
			Labels, Hints map[string]string
		}
	}
	Faults []struct{ Kind, Label, About string }
}

func readWords(t *testing.T) words {
	t.Helper()
	text, err := os.ReadFile("static/words.json")
	sandboxtest.OK(t, err)
	var w words
	sandboxtest.OK(t, json.Unmarshal(text, &w))
	return w
}

func TestThePageExplainsEveryFault(t *testing.T) {
	t.Parallel()
	var explained []string
	for _, fault := range readWords(t).Faults {
		if fault.Label == "" || fault.About == "" {
			t.Errorf("%s is not explained", fault.Kind)
		}
		explained = append(explained, fault.Kind)
	}
	if !slices.Equal(explained, gate.Kinds()) {
		t.Errorf("the page explains %v, the platform has %v", explained, gate.Kinds())
	}
}

func TestThePageExplainsThePersonasOfTheContract(t *testing.T) {
	t.Parallel()
	var explained []string
	for _, group := range readWords(t).Personas {
		for _, one := range group.Logins {
			persona, err := world.Persona(one.Login)
			if err != nil || one.Does == "" || slices.Contains(explained, persona) {
				t.Errorf("%s: %v, %q", one.Login, err, one.Does)
			}
			explained = append(explained, persona)
		}
	}
	for _, persona := range strings.Fields("ok sms app email face sms-email app-face sms-email-face locked banned terms captcha fan " +
		"slow flaky timeout down changed expires60 logout mismatch restricted") {
		if !slices.Contains(explained, persona) {
			t.Errorf("%s is not explained", persona)
		}
	}
}

func TestActsAskOnlyForWhatAHappeningTakes(t *testing.T) {
	t.Parallel()
	var takes []string
	for field := range reflect.TypeFor[fanaction.Input]().Fields() {
		takes = append(takes, field.Tag.Get("json"))
	}
	seen := map[string]bool{}
	for _, group := range readWords(t).Happenings {
		for _, act := range group.Acts {
			if act.Label == "" || seen[act.What] {
				t.Errorf("%s has no label or appears twice", act.What)
			}
			seen[act.What] = true
			for _, field := range act.Fields {
				if !slices.Contains(takes, field) {
					t.Errorf("%s asks for %s, which is not one of %v", act.What, field, takes)
				}
			}
			for _, named := range []map[string]string{act.Labels, act.Hints} {
				for field := range named {
					if !slices.Contains(act.Fields, field) {
						t.Errorf("%s names %s, which it does not ask for", act.What, field)
					}
				}
			}
		}
	}
}

// The reverse is not required: the page lists happenings without a description under More.
func TestEveryActOfThePageCanHappen(t *testing.T) {
	t.Parallel()
	happenings := sandbox.Happenings()
	for _, group := range readWords(t).Happenings {
		for _, act := range group.Acts {
			if happenings[act.What] == nil {
				t.Errorf("%s is on the page, but is not a happening", act.What)
			}
		}
	}
}
