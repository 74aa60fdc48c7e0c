// Package qrcode renders QR codes as SVG, PNG and text. The encoded text may be a link that grants access, so errors
// never repeat it.
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

// quietZone is the width of the empty border that scanners need, in modules.
const quietZone = 4

// Code is a QR code. Modules are its squares.
type Code struct {
	// size is the width in modules, including the border.
	size int
	// isBlack has the same origin as size: (0, 0) is in the border.
	isBlack func(x, y int) bool
}

// New encodes a text with medium error correction. It fails if the text is too long for a QR code.
func New(text string) (Code, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return Code{}, fmt.Errorf("a text of %d bytes does not fit into a QR code", len(text))
	}
	side := code.Bounds().Dx()
	return Code{side + 2*quietZone, func(x, y int) bool {
		x, y = x-quietZone, y-quietZone
		return x >= 0 && y >= 0 && x < side && y < side && code.At(x, y) == color.Black
	}}, nil
}

// SVG renders the code dark on white, whatever the theme of the page: scanners expect that. Each module is a whole
// number of pixels wide, so that none is blurred; the width is the largest that fits into maxWidth pixels, but at
// least one pixel per module. Adjacent modules of a row share one stroke, which keeps the SVG at a few kilobytes.
func (c Code) SVG(maxWidth int) []byte {
	whole, pixels := strconv.Itoa(c.size), strconv.Itoa(c.size*max(1, maxWidth/c.size))
	var out bytes.Buffer
	out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="` + pixels + `" height="` + pixels + `" viewBox="0 0 ` + whole + ` ` + whole +
		`" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h` + whole + `v` + whole + `H0z"/><path stroke="#111" d="`)
	for y := range c.size {
		for x := 0; x < c.size; {
			from := x
			for x < c.size && c.isBlack(x, y) {
				x++
			}
			if x > from {
				// A stroke is centred on its path, so the path runs through the middle of the row.
				fmt.Fprintf(&out, "M%d %d.5h%d", from, y, x-from)
			} else {
				x++
			}
		}
	}
	out.WriteString(`"/></svg>`)
	return out.Bytes()
}

// scale is the width of a module in the PNG, in pixels.
const scale = 8

// PNG renders the code as an image of two colours, 8 pixels per module.
func (c Code) PNG() ([]byte, error) {
	picture := image.NewPaletted(image.Rect(0, 0, c.size*scale, c.size*scale), color.Palette{color.White, color.Black})
	for y := range c.size * scale {
		for x := range c.size * scale {
			if c.isBlack(x/scale, y/scale) {
				picture.SetColorIndex(x, y, 1)
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return nil, fmt.Errorf("encode the PNG of a QR code: %w", err)
	}
	return out.Bytes(), nil
}

// Text renders the code for a terminal with a dark background. A line holds two rows of modules, and white is drawn as
// blocks.
func (c Code) Text() string {
	var out strings.Builder
	for y := 0; y < c.size; y += 2 {
		for x := range c.size {
			top, bottom := c.isBlack(x, y), y+1 < c.size && c.isBlack(x, y+1)
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
