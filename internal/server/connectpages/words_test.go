package connectpages_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func wordsOf(t *testing.T, lang string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("words/" + lang + ".json")
	must.OK(t, err)
	words := map[string]string{}
	must.OK(t, json.Unmarshal(text, &words))
	if n := strings.Count(string(text), `": "`); n != len(words) {
		t.Errorf("%s has %d lines and %d keys: a key is repeated", lang, n, len(words))
	}
	return words
}

var placeholder = regexp.MustCompile(`\{\w+\}|\*\*`)

func TestLanguagesSayTheSameThings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("words/*.json")
	if err != nil || len(files) != len(link.Locales()) {
		t.Fatalf("%v for the languages %v", files, link.Locales())
	}
	english := wordsOf(t, "en")
	for _, lang := range link.Locales() {
		words := wordsOf(t, lang)
		if n := len(strings.Fields(words["months"])); n != 12 {
			t.Errorf("%s has %d months", lang, n)
		}
		for key, text := range english {
			other, ok := words[key]
			want, got := placeholder.FindAllString(text, -1), placeholder.FindAllString(other, -1)
			slices.Sort(want)
			slices.Sort(got)
			switch {
			case !ok || strings.TrimSpace(other) == "":
				t.Errorf("%s has no text for %s", lang, key)
			case !slices.Equal(want, got):
				t.Errorf("%s: %s has %v, not %v", lang, key, got, want)
			case lang != "en" && other == text && len(text) > 12:
				t.Errorf("%s: %s is not translated", lang, key)
			}
		}
		for key := range words {
			if _, ok := english[key]; !ok {
				t.Errorf("%s has %s, which English lacks", lang, key)
			}
		}
	}
}

// uses matches keys in templates and code. made matches the keys that are composed at run time.
var (
	uses = regexp.MustCompile(`(?:\.T |\.T\(|text\(|texts\[|plain\(|complain\(|showStart\(|showAttempt\(\w+, )"([a-z0-9_.]+)"|"((?:start|site|code|selfie|pending|failed|can|open)\.[a-z0-9_.]+)"`)
	made = regexp.MustCompile(`^(failed\.\w+|use\.(sms|app|email|face)|code\.(sms|app|email)(\.(title|hint|nomask|send|send\.nomask))?)$`)
)

func TestEveryTextIsUsedAndEveryUseHasAText(t *testing.T) {
	t.Parallel()
	english := wordsOf(t, "en")
	used := map[string]bool{}
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		files, err := filepath.Glob(pattern)
		must.OK(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			must.OK(t, err)
			for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
				key := m[1] + m[2]
				if _, ok := english[key]; !ok && !strings.HasSuffix(key, ".") {
					t.Errorf("%s uses %s, which has no text", file, key)
				}
				used[key] = true
			}
			// The key of a title is derived from the name of its template.
			if name, ok := strings.CutSuffix(filepath.Base(file), ".html"); ok {
				used[name+".title"] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(english)) {
		whole, _, _ := strings.Cut(key, "@")
		if !used[whole] && !made.MatchString(whole) {
			t.Errorf("nothing uses %s", key)
		}
	}
}

// A variant of a text replaces a text that exists. A platform has all the texts about what an org can do, or none.
func TestVariantsOfTextsAreComplete(t *testing.T) {
	t.Parallel()
	english := wordsOf(t, "en")
	for key := range english {
		whole, variant, is := strings.Cut(key, "@")
		if !is {
			continue
		}
		if _, ok := english[whole]; !ok {
			t.Errorf("%s is a variant of no text", key)
		}
		if variant == "hasSite" || variant == "noPhone" {
			continue
		}
		for _, can := range []string{"can.read", "can.write", "can.money"} {
			if english[can+"@"+variant] == "" {
				t.Errorf("there is %s, but no %s@%s", key, can, variant)
			}
		}
	}
}

func TestTheLanguageIsTheCreators(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	plain, _ := s.open(link.Session{})
	spanish, _ := s.open(link.Session{Locale: "es"})
	for _, one := range []struct{ path, accepts, want string }{
		{s.enter(plain), "", "en"},
		{s.enter(plain), "es-MX,es;q=0.9,en;q=0.8", "es"},
		{s.enter(plain), "it-IT, en;q=0.3, es;q=0.7", "es"},
		{s.enter(plain), "de-AT, en;q=0.3", "de"},
		{s.enter(plain), "pt-BR", "pt"},
		{s.enter(plain), "fr, *;q=0.5", "fr"},
		{s.enter(plain), "it, *;q=0.5", "en"},
		{s.enter(plain), "es;q=0, en;q=0.1", "en"},
		{s.enter(plain), "es;q=x,;,;q=", "en"},
		{s.enter(spanish), "en", "es"},
		{s.enter(spanish) + "?lang=en", "es", "en"},
		{s.enter(spanish) + "?lang=xx", "en", "es"},
		{"/s/nothing", "es", "es"},
	} {
		page := s.get(one.path, "Accept-Language", one.accepts)
		if !strings.Contains(page.body, `<html lang="`+one.want+`"`) {
			t.Errorf("%s with %s is not %s", one.path, one.accepts, one.want)
		}
	}
	// The chosen language stays after a form, and the page links to the others.
	page := s.get(s.enter(plain) + "?lang=es")
	if !strings.Contains(page.body, `action="`+s.enter(plain)+`?lang=es"`) || !strings.Contains(page.body, `href="`+s.enter(plain)+`?lang=en" lang="en"`) || !strings.Contains(page.body, `<b lang="es" aria-current="true">Español</b>`) {
		t.Errorf("%s", page.body)
	}
	s.wantText(s.post(s.enter(plain)+"?lang=es", "do", "start", "email", "x", "password", "x"), 422, "Escribe tu correo")
	s.wantText(s.post(s.enter(plain)+"?lang=es", "do", "mobile"), 200, "Escanea para aprobar")
}
