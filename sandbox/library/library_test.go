package library_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/library"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

const login = "ok@sandbox.test"

// get requests a media URL. It uses only the path and the query.
func get(t *testing.T, p *sandboxtest.Platform, address string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, strings.TrimPrefix(address, p.URL), nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	library.Media(p.World).ServeHTTP(w, r)
	return w
}

// put uploads a part to its URL.
func put(t *testing.T, p *sandboxtest.Platform, address string, data []byte) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	library.Upload(p.World).ServeHTTP(w, httptest.NewRequest(http.MethodPut, strings.TrimPrefix(address, p.URL), bytes.NewReader(data)))
	return w
}

// picture returns an uncompressed PNG of the given size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = byte(i) | 128 // neighbouring columns differ, and alpha is at least 128
	}
	var out bytes.Buffer
	sandboxtest.OK(t, (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&out, img))
	return out.Bytes()
}

func begin(t *testing.T, c *sandboxtest.Client, name, mime string, data []byte) sandboxtest.Answer {
	t.Helper()
	sum := sha256.Sum256(data)
	return c.Must("POST", "/uploads", map[string]any{
		"file_name": name, "mime_type": mime, "size": len(data), "sha256": hex.EncodeToString(sum[:]),
	})
}

// A file is uploaded in parts, is checked, and can be downloaded unchanged or scaled down.
func TestAFileComesBackAsItWentUp(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	data := picture(t, 1500, 1300)
	if len(data) <= seed.PartSize {
		t.Fatalf("%d bytes fit in one part", len(data))
	}
	up := begin(t, c, "noise.png", "image/png", data)
	path := "/uploads/" + up.Text("id")
	second := c.Must("GET", path+"/parts/2", nil).Text("url")
	if w := put(t, p, second, data[seed.PartSize:]); w.Code != http.StatusOK || w.Header().Get("ETag") == "" {
		t.Fatalf("part 2: %d %s", w.Code, w.Body)
	}
	if got := c.Do("POST", path+"/complete", nil); got.Status != http.StatusConflict || !strings.Contains(got.Text("error", "message"), "Part 1") {
		t.Fatalf("completed without part 1: %d %v", got.Status, got.Body)
	}
	first := c.Must("GET", path+"/parts/1", nil).Text("url")
	if w := put(t, p, first, data[:1000]); w.Code != http.StatusUnprocessableEntity {
		t.Fatalf("a short part: %d %s", w.Code, w.Body)
	}
	tag := put(t, p, first, data[:seed.PartSize]).Header().Get("ETag")
	done := c.Must("POST", path+"/complete", map[string]any{"parts": []any{map[string]any{"number": 1, "etag": tag}}})
	if done.Text("status") != "converting" {
		t.Fatalf("completed: %v", done.Body)
	}
	ready := c.Frame("media.ready")
	media := ready["media"].(map[string]any)
	if fmt.Sprintf("%v %v %v", media["width"], media["height"], media["size"]) != fmt.Sprintf("1500 1300 %d", len(data)) || ready["upload_id"] != up.Get("id") {
		t.Fatalf("ready: %v", ready)
	}
	id := fmt.Sprint(media["id"])
	source := get(t, p, c.Must("GET", "/vault/media/"+id+"/download?quality=source", nil).Text("url"))
	if !bytes.Equal(source.Body.Bytes(), data) || source.Header().Get("Content-Type") != "image/png" {
		t.Fatalf("the source: %d, %d bytes", source.Code, source.Body.Len())
	}
	small, err := jpeg.DecodeConfig(get(t, p, media["thumb"].(string)).Body)
	if err != nil || small.Width != 160 || small.Height != 138 {
		t.Fatalf("the thumb: %v %v", small, err)
	}
	sum := sha256.Sum256(data)
	known := c.Must("GET", fmt.Sprintf("/uploads/known?sha256=%x&size=%d", sum, len(data)), nil)
	if known.Get("exists") != true || known.Text("media_id") != id {
		t.Fatalf("known: %v", known.Body)
	}
	c.Must("POST", "/vault/media/delete", map[string]any{"media_ids": []any{media["id"]}})
	if got := get(t, p, media["thumb"].(string)); got.Code != http.StatusNotFound {
		t.Fatalf("a deleted picture: %d", got.Code)
	}
}

// Processing finds what is wrong with a file and reports it.
func TestABrokenFileFails(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	good := picture(t, 10, 10)
	for _, one := range []struct {
		why, mime string
		data      []byte
		change    map[string]any
		complete  map[string]any
	}{
		{"SHA-256", "image/png", good, map[string]any{"sha256": strings.Repeat("0", 64)}, nil},
		{"does not match its type", "image/png", []byte("GIF89a, or so, but no PNG"), nil, nil},
		{"not supported", "text/html", []byte("<p>"), nil, nil},
		{"Part 1", "image/png", good, nil, map[string]any{"parts": []any{map[string]any{"number": 1, "etag": "another"}}}},
	} {
		in := map[string]any{"file_name": "x.png", "mime_type": one.mime, "size": len(one.data)}
		maps.Copy(in, one.change)
		up := c.Must("POST", "/uploads", in)
		path := "/uploads/" + up.Text("id")
		if w := put(t, p, c.Must("GET", path+"/parts/1", nil).Text("url"), one.data); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", one.why, w.Code, w.Body)
		}
		c.Must("POST", path+"/complete", one.complete)
		failed := c.Frame("media.failed")
		if !strings.Contains(failed["error"].(string), one.why) {
			t.Errorf("failed because %v, want %s", failed["error"], one.why)
		}
		if got := c.Must("GET", path, nil); got.Text("status") != "error" || got.Get("error") != failed["error"] {
			t.Errorf("the upload: %v", got.Body)
		}
	}
}

func TestAnAddressOfAPartProvesItself(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	data := picture(t, 10, 10)
	up := begin(t, c, "x.png", "image/png", data)
	path := "/uploads/" + up.Text("id")
	address := c.Must("GET", path+"/parts/1", nil).Text("url")
	for what, changed := range map[string]string{
		"another part":  strings.Replace(address, "/1?", "/2?", 1),
		"another end":   strings.Replace(address, "exp=1", "exp=9", 1),
		"no signature":  address[:strings.Index(address, "?")],
		"another owner": strings.Replace(address, up.Text("id"), "12345", 1),
	} {
		if changed == address {
			t.Fatalf("%s: the URL did not change", what)
		}
		if w := put(t, p, changed, data); w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	p.Advance(61 * time.Minute)
	if w := put(t, p, address, data); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "expired") {
		t.Errorf("an expired URL: %d %s", w.Code, w.Body)
	}
	c.Must("DELETE", path, nil)
	c.Refuse(http.StatusConflict, "GET", path+"/parts/1", nil)
	if w := put(t, p, address, bytes.Repeat([]byte{1}, seed.PartSize+1)); w.Code != http.StatusForbidden {
		t.Errorf("the body was read before the URL was checked: %d", w.Code)
	}
}

func TestAFileFromABadAddressFails(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	bad := c.Must("POST", "/uploads/remote", map[string]any{"url": "https://files.example.com/will-fail"})
	if failed := c.Frame("media.failed"); failed["upload_id"] != bad.Get("id") {
		t.Fatalf("failed: %v", failed)
	}
}

// Every seeded medium has a real file in every quality, and the file never changes.
func TestMediaAreReal(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	for kind, mime := range map[string]string{"image": "image/jpeg", "video": "image/jpeg", "audio": "audio/wav", "gif": "image/gif"} {
		media := c.Must("GET", "/vault/media?type="+kind, nil)
		id := media.Text("list", 0, "id")
		full := get(t, p, "/media/"+id+"/full")
		if full.Code != http.StatusOK || full.Header().Get("Content-Type") != mime || full.Body.Len() < 1000 {
			t.Fatalf("%s: %d %v", kind, full.Code, full.Header())
		}
		if again := get(t, p, "/media/"+id+"/full"); !bytes.Equal(again.Body.Bytes(), full.Body.Bytes()) {
			t.Errorf("%s: the second response differs from the first", kind)
		}
		tag := full.Header().Get("ETag")
		if same := get(t, p, "/media/"+id+"/full", "If-None-Match", tag); same.Code != http.StatusNotModified {
			t.Errorf("%s: %d with a matching If-None-Match", kind, same.Code)
		}
		part := get(t, p, "/media/"+id+"/full", "Range", "bytes=10-19")
		if part.Code != http.StatusPartialContent || !bytes.Equal(part.Body.Bytes(), full.Body.Bytes()[10:20]) {
			t.Errorf("%s: a range request answers %d %q", kind, part.Code, part.Body)
		}
		for quality, side := range map[string]int{"thumb": 160, "preview": 480} {
			cfg, _, err := image.DecodeConfig(get(t, p, "/media/"+id+"/"+quality).Body)
			if err != nil || max(cfg.Width, cfg.Height) != side {
				t.Errorf("%s %s: %dx%d %v", kind, quality, cfg.Width, cfg.Height, err)
			}
		}
	}
	gifs := c.Must("GET", "/gifs/search?q=dancing+robot", nil)
	film, err := gif.DecodeAll(get(t, p, gifs.Text("list", 0, "url")).Body)
	if err != nil || len(film.Image) < 2 {
		t.Errorf("a GIF: %v", err)
	}
	face, err := png.Decode(get(t, p, "/media/avatar/"+strconv.FormatInt(c.Session.Owner, 10)+".png").Body)
	if err != nil || face.Bounds().Dx() != 160 {
		t.Errorf("an avatar: %v", err)
	}
	for _, path := range []string{"/media/1/full", "/media/" + strconv.FormatInt(c.Session.Owner, 10) + "1299999999/full", "/media/avatar/x.png", "/media/gif/1.gif", "/media"} {
		if got := get(t, p, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

func TestADownloadAddressEnds(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	id := c.Must("GET", "/vault/media", nil).Text("list", 0, "id")
	address := c.Must("GET", "/vault/media/"+id+"/download?quality=preview", nil).Text("url")
	if got := get(t, p, address); got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	if got := get(t, p, strings.Replace(address, "/preview?", "/full?", 1)); got.Code != http.StatusForbidden {
		t.Fatalf("another quality: %d", got.Code)
	}
	p.Advance(2 * time.Hour)
	if got := get(t, p, address); got.Code != http.StatusForbidden {
		t.Fatalf("after two hours: %d", got.Code)
	}
}

func TestASystemFolderCannotBeDeletedAndAMediumIsAddedOnce(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	system := c.Must("GET", "/vault/folders", nil).Text("list", 0, "id")
	c.Refuse(http.StatusForbidden, "DELETE", "/vault/folders/"+system, nil)
	path := "/vault/folders/" + c.Must("POST", "/vault/folders", map[string]any{"name": "Picks"}).Text("id")
	medium := c.Must("GET", "/vault/media", nil).Get("list", 0, "id")
	got := c.Must("POST", path+"/media", map[string]any{"media_ids": []any{medium, medium}})
	if got.Text("added") != "1" {
		t.Fatalf("added: %v", got.Body)
	}
}

func TestUsageNamesEveryPlace(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	media := c.Must("GET", "/vault/media", nil).Get("list", 0, "id")
	path := fmt.Sprintf("/vault/media/%v/usage?limit=100", media)
	before := len(c.Must("GET", path, nil).Get("list").([]any))
	c.Must("POST", "/posts", map[string]any{"attachments": []any{media}})
	c.Must("POST", "/posts", map[string]any{"attachments": []any{media}, "save_for_later": true})
	c.Must("POST", "/stories", map[string]any{"attachment": media})
	got := c.Must("GET", path, nil)
	kinds := map[string]int{}
	for i := range got.Get("list").([]any) {
		kinds[got.Text("list", i, "entity")]++
	}
	if len(got.Get("list").([]any)) != before+3 || kinds["draft"] == 0 || kinds["story"] == 0 || kinds["post"] == 0 {
		t.Fatalf("%d places before, now %v", before, kinds)
	}
}

func TestAnInvitationToAReleaseFormEnds(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	c.Must("POST", "/release-forms/invites", map[string]any{"full_name": "Robin Hale", "email": "robin@example.com"})
	media := c.Must("GET", "/vault/media", nil).Text("list", 0, "id")
	c.Refuse(http.StatusNotFound, "PUT", "/vault/media/"+media+"/release-forms", map[string]any{"form_ids": []any{1}})
	p.Advance(15 * 24 * time.Hour)
	if got := p.SignIn(login).All("/release-forms?status=pending"); len(got) != 0 {
		t.Fatalf("pending after two weeks: %v", got)
	}
}
