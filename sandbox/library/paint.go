package library

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
)

const (
	avatarSide = 160
	gifWidth   = 240
	gifHeight  = 180
	gifFrames  = 6
)

// brush returns the random source for one picture, seeded with its id.
func brush(id int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(id), 0x70616e74)) }

// hue returns a colour of the colour wheel. One turn is h from 0 to 1.
func hue(h, light float64, alpha uint8) color.NRGBA {
	channel := func(shift float64) uint8 {
		return uint8(255 * light * (0.55 + 0.45*math.Cos(2*math.Pi*(h+shift))))
	}
	return color.NRGBA{channel(0), channel(1.0 / 3), channel(2.0 / 3), alpha}
}

// paintPhoto paints a gradient with some discs on it. The same id gives the same picture in every size.
func paintPhoto(id int64, width, height int, film bool) []byte {
	r := brush(id)
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	base := r.Float64()
	top, bottom := hue(base, 0.95, 255), hue(base+0.12, 0.45, 255)
	for y := range height {
		fill(picture, image.Rect(0, y, width, y+1), blend(top, bottom, float64(y)/float64(height)))
	}
	side := float64(max(width, height))
	for range 5 + r.IntN(4) {
		x, y, radius := r.Float64()*float64(width), r.Float64()*float64(height), (0.06+0.2*r.Float64())*side
		disc(picture, x, y, radius, hue(base+0.3+0.4*r.Float64(), 0.9, uint8(90+r.IntN(120))))
	}
	if film {
		playMark(picture)
	}
	var out bytes.Buffer
	_ = jpeg.Encode(&out, picture, &jpeg.Options{Quality: 82}) // cannot fail: it writes to a buffer
	return out.Bytes()
}

func blend(a, b color.NRGBA, share float64) color.NRGBA {
	mix := func(x, y uint8) uint8 { return uint8(float64(x) + (float64(y)-float64(x))*share) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

func fill(on draw.Image, where image.Rectangle, with color.Color) {
	draw.Draw(on, where, image.NewUniform(with), image.Point{}, draw.Over)
}

// disc fills a circle line by line, which is much faster than drawing through a mask.
func disc(on draw.Image, x, y, radius float64, with color.Color) {
	for line := int(y - radius); line <= int(y+radius); line++ {
		off := float64(line) - y
		if half := math.Sqrt(max(radius*radius-off*off, 0)); half >= 0.5 {
			fill(on, image.Rect(int(x-half), line, int(x+half), line+1), with)
		}
	}
}

// playMark draws the play triangle on a video's poster.
func playMark(on draw.Image) {
	b := on.Bounds()
	size := min(b.Dx(), b.Dy()) / 6
	x, y := b.Dx()/2-size/2, b.Dy()/2
	for i := -size; i <= size; i++ {
		reach := (size - max(i, -i)) * 3 / 2
		fill(on, image.Rect(x, y+i, x+reach, y+i+1), color.NRGBA{255, 255, 255, 220})
	}
}

// paintAvatar paints a symmetric pattern of squares.
func paintAvatar(id int64) []byte {
	const cells = 7
	const cell = avatarSide / cells
	const edge = (avatarSide - cells*cell) / 2
	r := brush(id)
	base := r.Float64()
	picture := image.NewPaletted(image.Rect(0, 0, avatarSide, avatarSide), color.Palette{hue(base, 0.95, 255), hue(base+0.5, 0.5, 255)})
	for y := range cells {
		for x := range (cells + 1) / 2 {
			if r.IntN(2) == 0 {
				continue
			}
			for _, column := range []int{x, cells - 1 - x} {
				fill(picture, image.Rect(0, 0, cell, cell).Add(image.Pt(edge+column*cell, edge+y*cell)), picture.Palette[1])
			}
		}
	}
	return encodePNG(picture)
}

func encodePNG(picture image.Image) []byte {
	var out bytes.Buffer
	_ = png.Encode(&out, picture) // cannot fail: it writes to a buffer
	return out.Bytes()
}

// gifFrame paints one frame of an animation of a bouncing ball.
func gifFrame(id int64, n int) *image.Paletted {
	base := brush(id).Float64()
	colours := color.Palette{hue(base, 0.9, 255), hue(base+0.5, 0.6, 255), hue(base+0.25, 0.4, 255)}
	picture := image.NewPaletted(image.Rect(0, 0, gifWidth, gifHeight), colours)
	fill(picture, image.Rect(0, gifHeight*5/6, gifWidth, gifHeight), colours[2])
	turn := 2 * math.Pi * float64(n) / gifFrames
	disc(picture, gifWidth/2+40*math.Sin(turn), gifHeight*0.62-50*math.Abs(math.Cos(turn)), 24, colours[1])
	return picture
}

func paintStill(id int64) []byte { return encodePNG(gifFrame(id, 0)) }

func paintGif(id int64) []byte {
	film := &gif.GIF{}
	for n := range gifFrames {
		film.Image = append(film.Image, gifFrame(id, n))
		film.Delay = append(film.Delay, 12)
	}
	var out bytes.Buffer
	_ = gif.EncodeAll(&out, film) // cannot fail: it writes to a buffer
	return out.Bytes()
}

// tone returns two seconds of a tone as a WAV file: 8 bits, 8 kHz, mono.
func tone(id int64) []byte {
	const rate, seconds = 8000, 2
	pitch := 220 * math.Pow(2, float64(brush(id).IntN(24))/12)
	header := struct {
		Riff          [4]byte
		Size          uint32
		Wave, Format  [4]byte
		FormatSize    uint32
		Coding, Chans uint16
		Rate, PerSec  uint32
		Align, Bits   uint16
		Data          [4]byte
		DataSize      uint32
	}{
		[4]byte{'R', 'I', 'F', 'F'}, 36 + rate*seconds,
		[4]byte{'W', 'A', 'V', 'E'},
		[4]byte{'f', 'm', 't', ' '}, 16, 1, 1, rate, rate, 1, 8,
		[4]byte{'d', 'a', 't', 'a'}, rate * seconds,
	}
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, header) // cannot fail: it writes to a buffer
	for n := range rate * seconds {
		out.WriteByte(uint8(128 + 60*math.Sin(2*math.Pi*pitch*float64(n)/rate)))
	}
	return out.Bytes()
}

// shrink scales a picture down. Each new pixel is the mean of the pixels it replaces.
func shrink(picture image.Image, side int) image.Image {
	from := picture.Bounds()
	width, height := fit(from.Dx(), from.Dy(), side)
	flat := image.NewRGBA(image.Rect(0, 0, from.Dx(), from.Dy()))
	draw.Draw(flat, flat.Bounds(), picture, from.Min, draw.Src)
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		top, bottom := y*from.Dy()/height, max((y+1)*from.Dy()/height, y*from.Dy()/height+1)
		for x := range width {
			left, right := x*from.Dx()/width, max((x+1)*from.Dx()/width, x*from.Dx()/width+1)
			to.SetRGBA(x, y, mean(flat, image.Rect(left, top, right, bottom)))
		}
	}
	return to
}

func mean(of *image.RGBA, where image.Rectangle) color.RGBA {
	var sum [4]int
	for y := where.Min.Y; y < where.Max.Y; y++ {
		at := of.PixOffset(where.Min.X, y)
		for i, channel := range of.Pix[at : at+4*where.Dx()] {
			sum[i%4] += int(channel)
		}
	}
	n := where.Dx() * where.Dy()
	return color.RGBA{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n), uint8(sum[3] / n)}
}
