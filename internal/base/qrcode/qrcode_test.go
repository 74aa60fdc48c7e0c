package qrcode_test

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/qrcode"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// All three forms have the same size, and the image has the border and the three corners that scanners look for.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	code, err := qrcode.New("https://connect.test/a/at_" + strings.Repeat("x", 70) + "/phone")
	must.OK(t, err)
	raw, err := code.PNG()
	must.OK(t, err)
	picture, err := png.Decode(bytes.NewReader(raw))
	must.OK(t, err)
	modules := picture.Bounds().Dx() / 8
	lines := strings.Split(strings.TrimSuffix(code.Text(), "\n"), "\n")
	if len(lines) != (modules+1)/2 || len([]rune(lines[0])) != modules {
		t.Errorf("the text has %d lines of %d characters, the image %d modules", len(lines), len([]rune(lines[0])), modules)
	}
	dark := func(x, y int) bool { r, _, _, _ := picture.At(x*8+4, y*8+4).RGBA(); return r == 0 }
	for _, corner := range [][2]int{{4, 4}, {modules - 11, 4}, {4, modules - 11}} {
		for i := range 7 {
			if !dark(corner[0]+i, corner[1]) || !dark(corner[0], corner[1]+i) {
				t.Errorf("no finder pattern at %v", corner)
			}
		}
	}
	if dark(0, 0) || dark(3, 3) {
		t.Error("no quiet zone")
	}
	svg := code.SVG(240)
	if err := xml.Unmarshal(svg, new(any)); err != nil || len(svg) > 20<<10 {
		t.Errorf("SVG of %d bytes: %v", len(svg), err)
	}
}

// The error for a text that is too long does not contain the text.
func TestErrorsDoNotRepeatTheText(t *testing.T) {
	t.Parallel()
	_, err := qrcode.New(strings.Repeat("secret", 2000))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
