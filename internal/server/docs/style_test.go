package docs_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

var token = regexp.MustCompile(`(--[a-z-]+):\s*([^;]+);`)

// tokens returns the variables of a block of a style sheet.
func tokens(t *testing.T, css, selector string) map[string]string {
	t.Helper()
	_, rest, ok := strings.Cut(css, selector+" {")
	if !ok {
		t.Fatalf("no %s", selector)
	}
	block, _, _ := strings.Cut(rest, "}")
	all := map[string]string{}
	for _, m := range token.FindAllStringSubmatch(block, -1) {
		all[m[1]] = m[2]
	}
	return all
}

func style(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("static/docs.css")
	must.OK(t, err)
	return string(text)
}

// The documentation has the colours of the dashboard, and dark mode is the same however it was chosen.
func TestTokensAreTheDashboards(t *testing.T) {
	t.Parallel()
	dashboard, err := os.ReadFile("../../../web/src/styles.css")
	must.OK(t, err)
	ours := style(t)
	for _, theme := range []string{":root", ":root[data-theme='dark']"} {
		theirs := tokens(t, string(dashboard), theme)
		for name, value := range tokens(t, ours, theme) {
			if known, ok := theirs[name]; ok && known != value {
				t.Errorf("%s: %s is %s, and %s in the dashboard", theme, name, value, known)
			}
		}
	}
	chosen, system := tokens(t, ours, ":root[data-theme='dark']"), tokens(t, ours, ":root:not([data-theme='light'])")
	for name, value := range chosen {
		if system[name] != value {
			t.Errorf("%s is %s when dark was chosen, and %s when the system is dark", name, value, system[name])
		}
	}
}

// Every text colour has a contrast of at least 4.5:1 on every background that it is used on, in both themes.
func TestContrast(t *testing.T) {
	t.Parallel()
	pairs := map[string][]string{
		"--fg": {"--bg", "--panel", "--subtle", "--info-soft", "--warn-soft", "--ok-soft"}, "--soft": {"--bg", "--panel", "--subtle"},
		"--mute": {"--bg", "--panel", "--subtle"}, "--accent-text": {"--bg", "--panel", "--accent-soft", "--info-soft", "--warn-soft", "--ok-soft"},
		"--accent-fg": {"--accent"}, "--info-text": {"--info-soft"}, "--warn-text": {"--warn-soft", "--bg"}, "--ok-text": {"--ok-soft", "--bg"},
		"--code-keyword": {"--panel"}, "--code-string": {"--panel"}, "--code-number": {"--panel"}, "--code-comment": {"--panel"},
		"--code-name": {"--panel"}, "--code-attribute": {"--panel"}, "--code-deleted": {"--panel"},
	}
	for _, theme := range []string{":root", ":root[data-theme='dark']"} {
		all := tokens(t, style(t), theme)
		for text, grounds := range pairs {
			for _, ground := range grounds {
				if ratio := contrast(t, all[text], all[ground]); ratio < 4.5 {
					t.Errorf("%s: %s on %s has %.2f:1", theme, text, ground, ratio)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light, dark := luminance(t, a), luminance(t, b)
	return (max(light, dark) + 0.05) / (min(light, dark) + 0.05)
}

// luminance is as defined by WCAG 2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil {
		t.Fatalf("%q is not a colour", colour)
	}
	part := func(shift int) float64 {
		v := float64(n>>shift&255) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
}
