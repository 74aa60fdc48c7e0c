package apikey_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A key has the form that the specification describes, with its environment in the prefix.
func TestNewTokenMatchesTheContract(t *testing.T) {
	t.Parallel()
	for env, form := range map[environment.Environment]string{
		environment.Live: `^sd_live_[0-9A-Za-z]{49}$`, environment.Sandbox: `^sd_sandbox_[0-9A-Za-z]{49}$`,
	} {
		key, _, hint, err := apikey.NewToken(env)
		must.OK(t, err)
		if text := key.Reveal(); !regexp.MustCompile(form).MatchString(text) || !strings.HasPrefix(text, hint) || len(hint) > len("sd_sandbox_")+4 {
			t.Errorf("%s key, hint %q, has the wrong form", env, hint)
		}
		if err := apikey.ParseToken(key.Reveal()); err != nil {
			t.Errorf("a new key does not parse: %v", err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", key, key, key, key), key.Reveal()) {
			t.Error("a key prints itself")
		}
	}
}

// The checksum detects a typo at every position of a key.
func TestParseTokenRejectsEveryTypo(t *testing.T) {
	t.Parallel()
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	key, _, _, err := apikey.NewToken(environment.Live)
	must.OK(t, err)
	text := key.Reveal()
	for i := len("sd_live_"); i < len(text); i++ {
		for _, c := range digits {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text && apikey.ParseToken(changed) == nil {
				t.Fatalf("a key with character %d changed to %c parses", i, c)
			}
		}
	}
	for _, bad := range []string{"", "nonsense", text[:len(text)-1], text + "0", " " + text, strings.ToLower(text), "sd_test_" + text[8:]} {
		if apikey.ParseToken(bad) == nil {
			t.Errorf("%q parses", bad)
		}
	}
}

// None of a million random texts of the right form parses, so garbage costs no look-up.
func TestParseTokenRejectsGarbage(t *testing.T) {
	t.Parallel()
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	accepted := 0
	text := []byte("sd_live_" + strings.Repeat("0", 49))
	for range 1_000_000 {
		for i := 8; i < len(text); i++ {
			text[i] = digits[rand.IntN(len(digits))]
		}
		if apikey.ParseToken(string(text)) == nil {
			accepted++
		}
	}
	if accepted > 0 {
		t.Errorf("%d of a million accepted", accepted)
	}
}

func FuzzParseToken(f *testing.F) {
	key, _, _, err := apikey.NewToken(environment.Sandbox)
	must.OK(f, err)
	f.Add(key.Reveal())
	f.Add("sd_live_")
	f.Fuzz(func(t *testing.T, text string) {
		if apikey.ParseToken(text) == nil && len(text) != len("sd_live_")+49 && len(text) != len("sd_sandbox_")+49 {
			t.Fatalf("%q parses", text)
		}
	})
}
