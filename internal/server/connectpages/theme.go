package connectpages

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
)

// rgb is an sRGB colour, each part from 0 to 1.
type rgb [3]float64

// parseColour parses #rrggbb. It rejects anything else, because a colour becomes part of a style sheet.
func parseColour(text string) (rgb, bool) {
	hex, ok := strings.CutPrefix(text, "#")
	n, err := strconv.ParseUint(hex, 16, 32)
	if !ok || len(hex) != 6 || err != nil {
		return rgb{}, false
	}
	return rgb{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}, true
}

func (c rgb) String() string {
	part := func(x float64) int { return int(math.Round(x * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}

// mix moves a colour towards another by a share from 0 to 1.
func (c rgb) mix(to rgb, share float64) rgb {
	for i := range c {
		c[i] += (to[i] - c[i]) * share
	}
	return c
}

// luminance is the relative luminance of WCAG.
func (c rgb) luminance() float64 {
	linear := func(x float64) float64 {
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is the contrast ratio of WCAG, from 1 to 21.
func contrast(a, b rgb) float64 {
	light, dark := a.luminance(), b.luminance()
	if light < dark {
		light, dark = dark, light
	}
	return (light + 0.05) / (dark + 0.05)
}

// minContrast is the WCAG level AA for text.
const minContrast = 4.5

// legible moves a colour towards another as little as needed to be readable on all given backgrounds.
func legible(c, towards rgb, grounds ...rgb) rgb {
	for step := 0; step <= 100; step++ {
		// Compare the colour that the browser gets, with 8 bits per part.
		moved, _ := parseColour(c.mix(towards, float64(step)/100).String())
		least := 21.0
		for _, ground := range grounds {
			least = min(least, contrast(moved, ground))
		}
		if least >= minContrast {
			return moved
		}
	}
	return towards
}

var (
	white = rgb{1, 1, 1}
	black = rgb{0, 0, 0}
)

// palette holds the colours of one scheme, except the org's.
type palette struct {
	card, on, towards rgb
	// tint is the share of the brand colour in tinted areas.
	tint float64
	rest string
}

func palettes() (light, dark palette) {
	darkCard, darkOn := rgb{0x1a / 255., 0x1a / 255., 0x1f / 255.}, rgb{0x10 / 255., 0x10 / 255., 0x14 / 255.}
	return palette{white, white, black, 0.09, "--page:#f3f3f6;--ink:#18181b;--soft:#52525b;--line:#dedee4;--edge:#71717a;--good:#15803d;--bad:#b42318;--wash:#fef1ef"},
		palette{darkCard, darkOn, white, 0.16, "--page:#0d0d10;--ink:#f4f4f5;--soft:#b7b7c0;--line:#33333b;--edge:#8b8b96;--good:#5bd68a;--bad:#ffa198;--wash:#33191a"}
}

// vars returns the custom properties of one scheme, with the brand colour made legible.
func (l palette) vars(scheme string, brand rgb) string {
	seen := legible(brand, l.towards, l.card, l.on)
	return fmt.Sprintf(":root{color-scheme:%s;%s;--card:%s;--brand:%s;--on:%s;--tint:%s}", scheme, l.rest, l.card, seen, l.on, l.card.mix(seen, l.tint))
}

// brandDefault is the brand colour of an org that has set none.
const brandDefault = "#4f46e5"

// style returns the style sheet of an org. Only the two parsed colours come from the org.
func style(p link.Page) template.CSS {
	light, ok := parseColour(p.BrandLight)
	if !ok {
		light, _ = parseColour(brandDefault)
	}
	dark, ok := parseColour(p.BrandDark)
	if !ok {
		dark = light
	}
	lightPalette, darkPalette := palettes()
	day, night := lightPalette.vars("light", light), darkPalette.vars("dark", dark)
	switch p.Scheme {
	case link.SchemeLight:
		return template.CSS(day)
	case link.SchemeDark:
		return template.CSS(night)
	}
	return template.CSS(day + "@media(prefers-color-scheme:dark){" + night + "}")
}
