package driver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// texts are encoded sessions, and texts that are similar but invalid.
var texts = []string{
	`{"cookies":[{"name":"auth_id","value":"1"},{"name":"sess","value":"abc","expires":"2026-12-01T10:00:00.5Z"}],"headers":{"x-device":"d"},"userAgent":"browser"}`,
	`{"cookies":[{"name":"sess","value":"","expires":"2026-12-01T10:00:00+02:00"}]}`,
	`{"headers":{"x-device":"d","x-client":"c"}}`,
	`{"userAgent":"b"}`,
	`{}`,
	`{"token":{"id":"k","secret":"00"}}`,
	`{"userAgent":"b","token":{"id":"k","secret":"00"}}`,
	`{"cookies":[{"name":"n","value":"v"}],"token":{"id":"k"}}`, `{"token":{}}`, `{"token":"k"}`, `{"token":null}`,
	`{"cookies":[{"name":"sess","value":"\"quoted\""}]}`,
	`{"cookies":[{"name":"sess","value":"a\u0026b"}],"userAgent":"\u00fc"}`,
	`{"cookies":[{"name":"sess","value":"ü"}]}`,
	` {"cookies" : [] , "userAgent":"b"}`,
	`{"userAgent":"b","cookies":[{"value":"v","name":"n"}]}`,
	`{"cookies":null,"later":{"a":1}}`,
	`{"cookies":[{"name":"n","value":"v"}],}`,
	`{"cookies":[{"name":"n","value":"v"},]}`,
	`{"cookies":[]}`, `{"headers":{}}`, `{"cookies":[{"name":"n","value":"v","expires":"tomorrow"}]}`,
	`{"cookies":[{"name":"n","value":"v"}]`, `{"cookies":[{"name":"n","value":"v`, ``, `{`, `null`, `[]`, `{"cookies":"x"}`, `{"userAgent":"b"}}`,
}

// DecodeSession agrees with encoding/json on every text.
func FuzzDecodeSession(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quick, err := driver.DecodeSession(secret.New(text))
		slow, failed := driver.DecodeSlowly(secret.New(text))
		if (err == nil) != (failed == nil) {
			t.Fatalf("%v, want %v", err, failed)
		}
		if err == nil && quick.Encode().Reveal() != slow.Encode().Reveal() {
			t.Errorf("%s\nwant %s", quick.Encode().Reveal(), slow.Encode().Reveal())
		}
	})
}

// decodePlain accepts what Encode writes unless a value needs escapes, and encoding/json accepts all of it.
func TestEncodedSessionsAreDecodedQuickly(t *testing.T) {
	t.Parallel()
	c, err := catalog.Sandbox()
	must.OK(t, err)
	for value, quick := range map[string]bool{"abc": true, "a%20b=+/": true, `"q"`: false, "a&b": false} {
		s, missing := driver.NewSession(c, map[string]secret.String{"auth_id": secret.New("1"), "sess": secret.New(value), "other": secret.New("x")},
			map[string]secret.String{"X-Device": secret.New("d")}, "browser")
		if missing != nil {
			t.Errorf("%s: missing %v", value, missing)
		}
		if got := driver.ReadsQuickly(s.Encode()); got != quick {
			t.Errorf("%s is read quickly: %v", value, got)
		}
		repeatStep, err := driver.DecodeSession(s.Encode())
		if err != nil || repeatStep.Encode().Reveal() != s.Encode().Reveal() || repeatStep.Cookie("sess").Reveal() != value || repeatStep.Owner(c) != "1" {
			t.Errorf("%s: %v", value, err)
		}
		var old map[string]any
		if err := json.Unmarshal([]byte(s.Encode().Reveal()), &old); err != nil {
			t.Error(err)
		}
	}
}

// A session of a key says so after it was stored, and all others do not.
func TestStoredSessionKeepsItsCredentials(t *testing.T) {
	t.Parallel()
	s, err := driver.DecodeSession(driver.NewTokenSession(catalog.Key{ID: "k", Secret: secret.New("00")}).Encode())
	if err != nil || s.Credentials() != catalog.ByToken {
		t.Errorf("a key is decoded as %q, %v", s.Credentials(), err)
	}
	if text := fmt.Sprintf("%+v %#v", s, s); strings.Contains(text, `"00"`) || strings.Contains(text, ":00") {
		t.Errorf("the session prints its key: %s", text)
	}
	s, err = driver.DecodeSession(secret.New(texts[0]))
	if err != nil || s.Credentials() != catalog.BySession {
		t.Errorf("cookies are decoded as %q, %v", s.Credentials(), err)
	}
}

// A decoded session does not print any of its values.
func TestSessionDoesNotPrintItsValues(t *testing.T) {
	t.Parallel()
	s, err := driver.DecodeSession(secret.New(strings.ReplaceAll(texts[0], "abc", "canary-value")))
	must.OK(t, err)
	if text := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(text, "canary") {
		t.Error(text)
	}
}

func BenchmarkDecodeSession(b *testing.B) {
	text := secret.New(texts[0])
	for name, decode := range map[string]func(secret.String) (driver.Session, error){"quick": driver.DecodeSession, "slow": driver.DecodeSlowly} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// If two responses changed the same cookie, the one that arrived later wins, in whichever order they are stored.
func TestMergeKeepsTheLaterCookie(t *testing.T) {
	t.Parallel()
	at := func(value, second string) driver.Session {
		s, err := driver.DecodeSession(secret.New(`{"cookies":[{"name":"auth_id","value":"1"},{"name":"sess","value":"` + value +
			`","setAt":"2026-11-15T12:00:0` + second + `Z"}],"headers":{"x-device":"d"}}`))
		must.OK(t, err)
		return s
	}
	first, second := at("first", "1"), at("second", "2")
	for name, got := range map[string]driver.Session{"in order": first.Merge(second, []string{"sess"}), "the other way": second.Merge(first, []string{"sess"})} {
		if sess, owner := got.Cookie("sess").Reveal(), got.Cookie("auth_id").Reveal(); sess != "second" || owner != "1" {
			t.Errorf("%s: %q of %q", name, sess, owner)
		}
		if repeatStep, err := driver.DecodeSession(got.Encode()); err != nil || repeatStep.Merge(first, []string{"sess"}).Cookie("sess").Reveal() != "second" {
			t.Errorf("%s: the arrival time is not kept: %v", name, err)
		}
	}
	noEvents, err := driver.DecodeSession(secret.New(`{"cookies":[{"name":"auth_id","value":"1"}]}`))
	must.OK(t, err)
	if got := second.Merge(noEvents, []string{"sess"}); !got.Cookie("sess").Empty() || got.Cookie("auth_id").Empty() {
		t.Error("a cookie that the platform removed is still there")
	}
}
