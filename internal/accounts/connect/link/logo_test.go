package link_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// halves returns a picture that is red on the left and transparent on the right.
func halves(width, height int) image.Image {
	in := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width / 2 {
			in.SetNRGBA(x, y, color.NRGBA{R: 255, A: 255})
		}
	}
	return in
}

func asPNG(t *testing.T, in image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, png.Encode(&out, in))
	return out.Bytes()
}

func TestALogoIsDecodedScaledAndWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	look := link.Page{BrandLight: "#0f766e", Scheme: "dark"}
	_, err := r.SetPage(t.Context(), by("connect.page"), r.org, look)
	must.OK(t, err)
	var asGIF, asJPEG bytes.Buffer
	must.OK(t, gif.Encode(&asGIF, halves(300, 100), nil))
	must.OK(t, jpeg.Encode(&asJPEG, halves(90, 30), nil))
	tags := map[string]bool{}
	for _, one := range []struct {
		file          []byte
		width, height int
	}{
		// What follows the picture in the file is dropped with the rest of it.
		{append(asPNG(t, halves(1024, 512)), "<script>"...), 256, 128}, {asGIF.Bytes(), 256, 85}, {asJPEG.Bytes(), 90, 30}, {asPNG(t, halves(1, 2000)), 1, 256},
	} {
		page, err := r.SetLogo(t.Context(), by("connect.logo"), r.org.ID, one.file)
		must.OK(t, err)
		logo, tag, err := r.Logo(t.Context(), r.org.ID)
		must.OK(t, err)
		got, err := png.Decode(bytes.NewReader(logo))
		must.OK(t, err)
		if size := got.Bounds().Size(); size != image.Pt(one.width, one.height) || bytes.Contains(logo, []byte("<script>")) {
			t.Errorf("%v, want %d x %d", size, one.width, one.height)
		}
		if page.LogoTag != tag || tags[tag] || page.BrandLight != look.BrandLight || r.LogoURL(r.org.ID, page) != "https://connect.test/connect/logo/"+string(r.org.ID)+"?v="+tag {
			t.Errorf("%+v with the tag %q", page, tag)
		}
		tags[tag] = true
		if one.width == 256 && one.height == 128 {
			if left, right := color.NRGBAModel.Convert(got.At(10, 10)), color.NRGBAModel.Convert(got.At(200, 10)); left != (color.NRGBA{R: 255, A: 255}) || right != (color.NRGBA{}) {
				t.Errorf("%v and %v", left, right)
			}
		}
	}
	// Setting the look keeps the logo, and another org has none.
	page, err := r.SetPage(t.Context(), by("connect.page"), r.org, look)
	must.OK(t, err)
	if stored, err := r.Page(t.Context(), r.org.ID); err != nil || stored.LogoTag == "" || page.LogoTag != stored.LogoTag {
		t.Errorf("%+v, %v", stored, err)
	}
	other := r.addOrg("Southlight")
	if logo, tag, err := r.Logo(t.Context(), other.ID); err != nil || logo != nil || tag != "" {
		t.Errorf("%d bytes, %q, %v", len(logo), tag, err)
	}
	for range 2 {
		page, err := r.DeleteLogo(t.Context(), by("connect.logo"), r.org.ID)
		must.OK(t, err)
		if logo, _, err := r.Logo(t.Context(), r.org.ID); err != nil || logo != nil || r.LogoURL(r.org.ID, page) != "" {
			t.Errorf("%d bytes, %+v, %v", len(logo), page, err)
		}
	}
}

func TestALogoIsBoundedBeforeItIsDecoded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	whole := asPNG(t, halves(64, 64))
	// A header that claims a gigantic picture, with a correct checksum.
	huge := bytes.Clone(whole)
	binary.BigEndian.PutUint32(huge[16:], 60000)
	binary.BigEndian.PutUint32(huge[20:], 60000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	for code, file := range map[string][]byte{
		"format": []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), "length": make([]byte, link.MaxLogo+1), "size": huge,
	} {
		_, err := r.SetLogo(t.Context(), by("connect.logo"), r.org.ID, file)
		if p, ok := errors.AsType[*problem.Error](err); !ok || len(p.Fields) != 1 || p.Fields[0].Pointer != "/image" || p.Fields[0].Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, file := range [][]byte{nil, whole[:len(whole)/2]} {
		if _, err := r.SetLogo(t.Context(), by("connect.logo"), r.org.ID, file); !errors.Is(err, problem.ValidationFailed.New("")) {
			t.Errorf("%d bytes: %v", len(file), err)
		}
	}
	if logo, _, err := r.Logo(t.Context(), r.org.ID); err != nil || logo != nil {
		t.Errorf("%d bytes, %v", len(logo), err)
	}
}
