package curlimport_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

var (
	caret   = regexp.MustCompile("[^a-zA-Z0-9\\s_\\-:=+~'/.,?;()*`]")
	percent = regexp.MustCompile(`%([a-zA-Z0-9_])`)
)

// shells returns the quoting styles of browsers, each as a whole command that sends the header x-a with a value.
func shells() map[string]func(value string) string {
	return map[string]func(string) string{
		"bash, plain": func(v string) string {
			return "curl 'https://stage.example/' \\\n  -H 'x-a: " + strings.ReplaceAll(v, "'", `'\''`) + "'"
		},
		"bash, $'..' as Chrome writes it": func(v string) string {
			return "curl 'https://stage.example/' \\\n  -H $'x-a: " + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "!", `\u0021`).Replace(v) + "'"
		},
		"bash, $'..' as Firefox writes it": func(v string) string {
			var out strings.Builder
			for _, unit := range utf16.Encode([]rune(v)) {
				switch {
				case unit == '\\' || unit == '\'':
					out.WriteString(`\` + string(rune(unit)))
				case unit >= ' ' && unit < 0x7f && unit != '!':
					out.WriteByte(byte(unit))
				default:
					fmt.Fprintf(&out, `\u%04x`, unit)
				}
			}
			return "curl 'https://stage.example/' --compressed -H $'x-a: " + out.String() + "'"
		},
		"cmd, carets": func(v string) string {
			v = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v)
			v = percent.ReplaceAllString(caret.ReplaceAllString(v, "^$0"), "%^$1")
			return "curl ^\"https://stage.example/^\" ^\n  -H ^\"x-a: " + v + "^\""
		},
		"cmd, doubled quotes": func(v string) string {
			v = strings.NewReplacer(`\`, `\\`, `"`, `""`, `%`, `"%"`).Replace(v)
			return "curl \"https://stage.example/\" ^\n  -H \"x-a: " + v + "\""
		},
		"PowerShell, Chrome": func(v string) string {
			var out strings.Builder
			for _, unit := range utf16.Encode([]rune(v)) {
				switch {
				case unit == '`' || unit == '$' || unit == '"':
					out.WriteString("`" + string(rune(unit)))
				case unit >= ' ' && unit < 0x7f:
					out.WriteByte(byte(unit))
				default:
					fmt.Fprintf(&out, "$([char]%d)", unit)
				}
			}
			return "Invoke-WebRequest -UseBasicParsing -Uri \"https://stage.example/\" `\n-Headers @{\n\"x-a\"=\"" + out.String() + "\"\n}"
		},
		"PowerShell, single quotes": func(v string) string {
			return "curl.exe 'https://stage.example/' `\n -H 'x-a: " + strings.ReplaceAll(v, "'", "''") + "'"
		},
	}
}

// randomValue returns a random value with many characters that are special in shells.
func randomValue(r *rand.Rand) string {
	const special = "\\\\\\\"\"\"''`$%%^^&|<>(){}[]!;:=,#@~*? \t"
	runes := []rune(special + "abcXYZ019é€😀")
	out := make([]rune, r.IntN(40))
	for i := range out {
		out[i] = runes[r.IntN(len(runes))]
	}
	return strings.Trim(string(out), " \t")
}

func TestValueQuotedForAnyShellIsReadBack(t *testing.T) {
	t.Parallel()
	for name, quote := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			for range 3000 {
				want := randomValue(r)
				got, err := curlimport.Curl(secret.New(quote(want)), hosts())
				if err != nil || got.Headers["x-a"].Reveal() != want {
					t.Fatalf("%q was read as %q, %v, from\n%s", want, got.Headers["x-a"].Reveal(), err, quote(want))
				}
			}
		})
	}
}
