package connectpages_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

func TestContrastIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		a, b string
		want float64
	}{
		{"#000000", "#ffffff", 21}, {"#ffffff", "#ffffff", 1}, {"#777777", "#ffffff", 4.48}, {"#767676", "#ffffff", 4.54},
		{"#ff0000", "#ffffff", 4.00}, {"#0000ff", "#ffffff", 8.59}, {"#ffff00", "#ffffff", 1.07}, {"#4f46e5", "#ffffff", 6.29},
	} {
		if got := connectpages.Contrast(one.a, one.b); math.Abs(got-one.want) > 0.01 || got != connectpages.Contrast(one.b, one.a) {
			t.Errorf("%s on %s: %.2f, want %.2f", one.a, one.b, got, one.want)
		}
	}
}

var variable = regexp.MustCompile(`--(\w+):(#[0-9a-f]{6})`)

// schemes reads the variables of the light and the dark half of a style sheet.
func schemes(style string) (light, dark map[string]string) {
	day, night, _ := strings.Cut(style, "@media")
	read := func(text string) map[string]string {
		all := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			all[m[1]] = m[2]
		}
		return all
	}
	return read(day), read(night)
}

func TestEveryBrandColourCanBeRead(t *testing.T) {
	t.Parallel()
	colours := []string{"", "#000000", "#ffffff", "#ffff00", "#808080", "#ff0000", "#00ff00", "#0000ff", "#4f46e5", "#f5f5dc", "#7f7f00"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		colours = append(colours, fmt.Sprintf("#%06x", random.IntN(1<<24)))
	}
	for _, c := range colours {
		light, dark := schemes(connectpages.Style(link.Page{BrandLight: c, Scheme: link.SchemeSystem}))
		for name, v := range map[string]map[string]string{"light": light, "dark": dark} {
			for _, pair := range [][2]string{{"on", "brand"}, {"brand", "card"}, {"ink", "card"}, {"soft", "card"}, {"ink", "page"}, {"ink", "tint"}, {"soft", "page"}, {"bad", "card"}, {"bad", "wash"}, {"card", "bad"}} {
				if got := connectpages.Contrast(v[pair[0]], v[pair[1]]); got < 4.5 {
					t.Errorf("brand %s, %s: %s on %s is %.2f (%s on %s)", c, name, pair[0], pair[1], got, v[pair[0]], v[pair[1]])
				}
			}
			for _, mark := range []string{"edge", "good"} {
				if got := connectpages.Contrast(v[mark], v["card"]); got < 3 {
					t.Errorf("%s: %s is %.2f", name, mark, got)
				}
			}
		}
	}
}

func TestAColourThatCanBeReadIsKept(t *testing.T) {
	t.Parallel()
	light, dark := schemes(connectpages.Style(link.Page{BrandLight: "#0f766e", BrandDark: "#5eead4"}))
	if light["brand"] != "#0f766e" || dark["brand"] != "#5eead4" {
		t.Errorf("%v %v", light, dark)
	}
	light, _ = schemes(connectpages.Style(link.Page{BrandLight: "#ffd400"}))
	if light["brand"] == "#ffd400" || connectpages.Contrast(light["brand"], "#ffffff") > 4.8 {
		t.Errorf("the colour was moved more than needed: %v", light)
	}
}

func TestAStyleSheetTakesColoursOnly(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"red", "#12345", "#1234567", "#12345g", "#fff;}body{display:none", "</style><script>"} {
		if got, want := connectpages.Style(link.Page{BrandLight: bad, BrandDark: bad}), connectpages.Style(link.Page{}); got != want {
			t.Errorf("%s: %s", bad, got)
		}
	}
	if s := connectpages.Style(link.Page{Scheme: link.SchemeDark}); strings.Contains(s, "@media") || !strings.Contains(s, "color-scheme:dark") {
		t.Error(s)
	}
	if s := connectpages.Style(link.Page{Scheme: link.SchemeLight}); strings.Contains(s, "@media") || !strings.Contains(s, "color-scheme:light") {
		t.Error(s)
	}
}
