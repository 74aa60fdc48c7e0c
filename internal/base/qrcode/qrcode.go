// Package qrcode draws QR codes as SVG, PNG and text. Errors never repeat what is drawn: a link may open something.
package qrcode

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strconv"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quiet is the border that a reader needs around a code, in modules.
const quiet = 4

// Code is a QR code.
type Code struct {
	// size is the width in modules, with the border.
	size  int
	black func(x, y int) bool
}

// New makes the code of a text.
func New(text string) (Code, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return Code{}, fmt.Errorf("a text of %d bytes has no QR code", len(text))
	}
	side := code.Bounds().Dx()
	return Code{side + 2*quiet, func(x, y int) bool {
		x, y = x-quiet, y-quiet
		return x >= 0 && y >= 0 && x < side && y < side && code.At(x, y) == color.Black
	}}, nil
}

// SVG draws it dark on white in every theme, because readers want that. Its width is at most the given number of pixels and a multiple of
// its modules, so that none is blurred. Rows become runs, so it is some kilobytes.
func (c Code) SVG(largest int) []byte {
	whole, pixels := strconv.Itoa(c.size), strconv.Itoa(c.size*max(1, largest/c.size))
	var out bytes.Buffer
	out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="` + pixels + `" height="` + pixels + `" viewBox="0 0 ` + whole + ` ` + whole +
		`" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h` + whole + `v` + whole + `H0z"/><path stroke="#111" d="`)
	for y := range c.size {
		for x := 0; x < c.size; {
			from := x
			for x < c.size && c.black(x, y) {
				x++
			}
			if x > from {
				// A stroke runs along the middle of its line.
				fmt.Fprintf(&out, "M%d %d.5h%d", from, y, x-from)
			} else {
				x++
			}
		}
	}
	out.WriteString(`"/></svg>`)
	return out.Bytes()
}

// scale is how many pixels a module of the PNG has.
const scale = 8

// PNG draws it as a picture of two colours.
func (c Code) PNG() ([]byte, error) {
	picture := image.NewPaletted(image.Rect(0, 0, c.size*scale, c.size*scale), color.Palette{color.White, color.Black})
	for y := range c.size * scale {
		for x := range c.size * scale {
			if c.black(x/scale, y/scale) {
				picture.SetColorIndex(x, y, 1)
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return nil, fmt.Errorf("draw a QR code: %w", err)
	}
	return out.Bytes(), nil
}

// Text draws it for a terminal with a dark ground: two rows in a line, white as full blocks.
func (c Code) Text() string {
	var out strings.Builder
	for y := 0; y < c.size; y += 2 {
		for x := range c.size {
			top, bottom := c.black(x, y), y+1 < c.size && c.black(x, y+1)
			switch {
			case top && bottom:
				out.WriteByte(' ')
			case top:
				out.WriteString("▄")
			case bottom:
				out.WriteString("▀")
			default:
				out.WriteString("█")
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}
