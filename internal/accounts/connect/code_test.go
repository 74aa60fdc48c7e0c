package connect_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Spaces and dashes in a code are ignored; a text that cannot be a code is refused.
func TestCodesAreNormalised(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"123456": "123456", "123 456": "123456", " 12-34-56\n": "123456", "123\u2011456": "123456", "１２３４５６": "123456", "aB3\u200b-9": "aB39",
		strings.Repeat("1 ", 16): strings.Repeat("1", 16),
	} {
		if got, ok := connect.NormaliseCode(secret.New(given)); !ok || got.Reveal() != want {
			t.Errorf("%q: %q %v", given, got.Reveal(), ok)
		}
	}
	for _, given := range []string{"", " - ", strings.Repeat("1", 17), "12;34", "<b>", "12\x0034", "código", "\xff\xfe"} {
		if got, ok := connect.NormaliseCode(secret.New(given)); ok {
			t.Errorf("%q became %q", given, got.Reveal())
		}
	}
}

// A normalised code has 1 to 16 digits or letters, and normalising it again does not change it.
func FuzzNormaliseCode(f *testing.F) {
	for _, seed := range []string{"123456", "12 34-56", "１２", "\u200b", strings.Repeat("9", 17), "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		code, ok := connect.NormaliseCode(secret.New(given))
		if !ok {
			return
		}
		text := code.Reveal()
		if len(text) < 1 || len(text) > 16 || strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Fatalf("%q became %q", given, text)
		}
		if again, ok := connect.NormaliseCode(code); !ok || again.Reveal() != text {
			t.Fatalf("%q became %q", text, again.Reveal())
		}
	})
}
