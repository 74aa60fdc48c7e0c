package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // for logos that are GIF files
	_ "image/jpeg" // for logos that are JPEG files
	"image/png"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Limits of a logo. Its size is checked before it is decoded, so that a small file cannot claim much memory.
const (
	// MaxLogo bounds the file that is uploaded, in bytes.
	MaxLogo = 512 << 10
	// maxLogoSide bounds the sides of the uploaded picture, and logoSide those of the stored one, in pixels.
	maxLogoSide = 2048
	logoSide    = 256
)

// SetLogo stores the logo of an org's pages. The picture is decoded, scaled and written again as PNG: what browsers get
// contains nothing of the file but its pixels.
func (s *Sessions) SetLogo(ctx context.Context, by audit.By, org id.Org, file []byte) (Page, error) {
	logo, err := cleanLogo(file)
	if err != nil {
		return Page{}, err
	}
	sum := sha256.Sum256(logo)
	return s.putLogo(ctx, by, org, logo, hex.EncodeToString(sum[:8]))
}

// DeleteLogo removes the logo. The pages show the first letter of the org's name instead.
func (s *Sessions) DeleteLogo(ctx context.Context, by audit.By, org id.Org) (Page, error) {
	return s.putLogo(ctx, by, org, nil, "")
}

func (s *Sessions) putLogo(ctx context.Context, by audit.By, org id.Org, logo []byte, tag string) (page Page, err error) {
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := getPage(ctx, tx, org)
		if err != nil {
			return err
		}
		page = before
		page.LogoTag = tag
		err = db.New(tx).PutLogo(ctx, db.PutLogoParams{
			OrgID: org, Scheme: page.Scheme, Logo: logo, LogoTag: tag, Now: s.deps.Now().Truncate(time.Microsecond),
		})
		if err != nil {
			return err
		}
		changes := audit.Changes{}
		changes.Note("logo", before.LogoTag, tag)
		return s.deps.Audit.Record(ctx, tx, org, by, string(org), changes)
	})
	return page, err
}

// Logo returns the logo of an org as PNG, and its tag; nil if there is none.
func (s *Sessions) Logo(ctx context.Context, org id.Org) (logo []byte, tag string, err error) {
	row, err := db.New(s.deps.DB).GetLogo(ctx, org)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil, "", nil
	}
	return row.Logo, row.LogoTag, err
}

// LogoURL returns the address of the logo; empty if the page has none.
func (s *Sessions) LogoURL(org id.Org, p Page) string {
	if p.LogoTag == "" {
		return ""
	}
	return s.deps.ConnectURL + LogoPath(org, p.LogoTag)
}

// LogoPath returns the path of a logo. It contains the tag, so that browsers may keep the picture forever.
func LogoPath(org id.Org, tag string) string { return "/connect/logo/" + string(org) + "?v=" + tag }

// cleanLogo turns an uploaded file into the PNG that is stored.
func cleanLogo(file []byte) ([]byte, error) {
	refuse := func(code, reason string) error {
		return problem.ValidationFailed.New("The logo cannot be used.").At("/image", code, reason)
	}
	if len(file) > MaxLogo {
		return nil, refuse("length", fmt.Sprintf("must have at most %d bytes", MaxLogo))
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, refuse("format", "must be a PNG, JPEG or GIF file in base64")
	}
	if size.Width < 1 || size.Height < 1 || size.Width > maxLogoSide || size.Height > maxLogoSide {
		return nil, refuse("size", fmt.Sprintf("must be at most %d pixels wide and high", maxLogoSide))
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, refuse("format", "must be a whole PNG, JPEG or GIF file in base64")
	}
	var out bytes.Buffer
	if err := png.Encode(&out, shrink(picture, logoSide)); err != nil {
		return nil, fmt.Errorf("write the logo: %w", err)
	}
	return out.Bytes(), nil
}

// shrink returns the picture with sides of at most the given length. Each pixel is the average of those that it covers;
// a picture that is small enough keeps its size.
func shrink(in image.Image, side int) image.Image {
	from := in.Bounds()
	longest := max(from.Dx(), from.Dy())
	width, height := from.Dx(), from.Dy()
	if longest > side {
		width, height = max(1, width*side/longest), max(1, height*side/longest)
	}
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		top, bottom := from.Min.Y+y*from.Dy()/height, from.Min.Y+(y+1)*from.Dy()/height
		for x := range width {
			left, right := from.Min.X+x*from.Dx()/width, from.Min.X+(x+1)*from.Dx()/width
			out.Set(x, y, average(in, image.Rect(left, top, right, bottom)))
		}
	}
	return out
}

// average returns the average of an area, in colours that are multiplied by their opacity: what is transparent does not
// shine through.
func average(in image.Image, area image.Rectangle) color.RGBA64 {
	var red, green, blue, opacity, count uint64
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, a := in.At(x, y).RGBA()
			red, green, blue, opacity, count = red+uint64(r), green+uint64(g), blue+uint64(b), opacity+uint64(a), count+1
		}
	}
	part := func(sum uint64) uint16 { return uint16(sum / max(1, count)) } //nolint:gosec // an average of 16-bit values
	return color.RGBA64{R: part(red), G: part(green), B: part(blue), A: part(opacity)}
}
