package library

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"image"
	_ "image/gif"  // uploads may be GIFs
	_ "image/jpeg" // or JPEGs
	_ "image/png"  // or PNGs
	"mime"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	dueUpload   = "upload.finish"
	frameReady  = "media.ready"
	frameFailed = "media.failed"

	// processing is how long the platform takes to process a file.
	processing = 300 * time.Millisecond
	// partLife is how long the URL for a part is valid.
	partLife = time.Hour
	maxParts = 10_000
)

func uploadRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /uploads/known", Handle: checkUpload},
		{Pattern: "POST /uploads", Handle: wire.Read(initUpload)},
		{Pattern: "POST /uploads/remote", Handle: wire.Read(remoteUpload)},
		{Pattern: "GET /uploads/{upload_id}", Handle: wire.On(upload, getUpload)},
		{Pattern: "DELETE /uploads/{upload_id}", Handle: wire.On(upload, abortUpload)},
		{Pattern: "GET /uploads/{upload_id}/parts/{number}", Handle: wire.On(upload, partAddress)},
		{Pattern: "POST /uploads/{upload_id}/complete", Handle: wire.ReadOn(upload, completeUpload)},
	}
}

// checkUpload reports whether the vault already has a file.
func checkUpload(c *wire.Call) (any, error) {
	hash, size := strings.ToLower(c.Query("sha256")), c.QueryID("size")
	for _, m := range c.Media().All() {
		if m.SHA256 != "" && m.SHA256 == hash && m.Bytes == size && m.State == "ready" {
			return map[string]any{"exists": true, "media_id": m.ID}, nil
		}
	}
	return map[string]any{"exists": false, "media_id": nil}, nil
}

type initUploadInput struct {
	Name   string `json:"file_name"`
	Bytes  int64  `json:"size"`
	MIME   string `json:"mime_type"`
	SHA256 string `json:"sha256"`
}

func initUpload(c *wire.Call, in *initUploadInput) (any, error) {
	if in.Bytes < 1 || in.Bytes > maxParts*seed.PartSize {
		return nil, wire.Invalid("size", "A file has 1 byte to 48 GiB.")
	}
	u := &row.Upload{
		Rec: row.Rec{ID: c.Uploads().NextID()}, State: "open", Name: in.Name, MIME: in.MIME, Bytes: in.Bytes,
		SHA256: strings.ToLower(in.SHA256), PartSize: seed.PartSize, Stored: true, At: c.Now(),
	}
	c.Uploads().Put(u)
	return view.Upload(u), nil
}

type remoteUploadInput struct {
	URL  string `json:"url"`
	Name string `json:"file_name"`
	MIME string `json:"mime_type"`
}

// remoteUpload simulates an upload from a URL. The sandbox fetches nothing: it names the medium after the URL and
// generates its content. A URL that ends in "fail" does not answer.
func remoteUpload(c *wire.Call, in *remoteUploadInput) (any, error) {
	address, err := url.Parse(in.URL)
	if err != nil {
		return nil, wire.Invalid("url", "This is not a URL.")
	}
	if in.Name == "" {
		in.Name = path.Base("/" + address.Path)
	}
	if in.MIME == "" {
		in.MIME = cmp.Or(mime.TypeByExtension(path.Ext(in.Name)), "image/jpeg")
	}
	u := &row.Upload{
		Rec: row.Rec{ID: c.Uploads().NextID()}, Name: in.Name, MIME: in.MIME, PartSize: seed.PartSize, Source: in.URL, At: c.Now(),
		Bytes: guessedSize(in.URL),
	}
	process(c.Creator, u)
	return view.Upload(u), nil
}

// guessedSize returns a made-up file size that is always the same for the same URL.
func guessedSize(address string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	return 100_000 + int64(h.Sum32()%3_000_000)
}

func upload(c *wire.Call) (*row.Upload, error) {
	return wire.Found("upload", c.Uploads().Get(c.ID("upload_id")))
}

func getUpload(_ *wire.Call, u *row.Upload) (any, error) {
	return view.Upload(u), nil
}

// isOpen reports whether an upload still accepts parts.
func isOpen(u *row.Upload) bool { return u.State == "open" || u.State == "uploading" }

func partAddress(c *wire.Call, u *row.Upload) (any, error) {
	number := c.ID("number")
	if !isOpen(u) {
		return nil, wire.Conflict("This upload accepts no more parts.")
	}
	if number < 1 || number > maxParts {
		return nil, wire.Invalid("number", "Parts have numbers from 1 to 10000.")
	}
	until := c.Now().Add(partLife)
	part := strconv.FormatInt(number, 10)
	address := c.Origin() + "/upload/" + strconv.FormatInt(u.ID, 10) + "/" + part + "?" + grant(c.Creator, until, "part", u.ID, part)
	return map[string]any{
		"url": address, "headers": map[string]string{"Content-Type": "application/octet-stream"}, "expires_at": view.Stamp(until),
	}, nil
}

// partCount returns the number of parts of a file.
func partCount(u *row.Upload) int64 { return (u.Bytes + u.PartSize - 1) / u.PartSize }

// partBytes returns the size of one part. Only the last part is smaller than the part size.
func partBytes(u *row.Upload, number int64) int64 {
	return min(u.PartSize, u.Bytes-(number-1)*u.PartSize)
}

func abortUpload(c *wire.Call, u *row.Upload) (any, error) {
	switch {
	case u.State == "aborted":
		return wire.OK, nil
	case !isOpen(u):
		return nil, wire.Conflict("This upload has been completed.")
	}
	forget(c.Creator, u)
	u.State, u.Parts = "aborted", nil
	c.Uploads().Put(u)
	return wire.OK, nil
}

// forget deletes the bytes of an upload from the store.
func forget(c *world.Creator, u *row.Upload) {
	for number := range u.Parts {
		c.SaveBlob(u.ID, number, nil)
	}
}

type completeUploadInput struct {
	Parts []struct {
		Number int    `json:"number"`
		ETag   string `json:"etag"`
	} `json:"parts"`
}

// completeUpload starts processing a file. Missing parts are refused immediately. Processing fails if the file differs
// from what was announced, or its parts from those that the caller lists.
func completeUpload(c *wire.Call, u *row.Upload, in *completeUploadInput) (any, error) {
	switch {
	case u.State == "processing" || u.State == "ready":
		return view.Upload(u), nil
	case !isOpen(u):
		return nil, wire.Conflict("This upload has ended. Start a new one.")
	}
	for number := range partCount(u) {
		if _, there := u.Parts[int(number)+1]; !there {
			return nil, wire.Conflict(fmt.Sprintf("Part %d is missing.", number+1))
		}
	}
	for _, p := range in.Parts {
		if there, ok := u.Parts[p.Number]; !ok || (p.ETag != "" && strings.Trim(p.ETag, `"`) != there.Tag) {
			u.Error = fmt.Sprintf("Part %d does not match the part that was uploaded.", p.Number)
		}
	}
	process(c.Creator, u)
	return view.Upload(u), nil
}

// process creates the medium of an upload and sets a timer to finish it.
func process(c *world.Creator, u *row.Upload) {
	m := &row.Media{
		Rec: row.Rec{ID: c.Media().NextID()}, Type: mediaType(u.MIME, u.Name), State: "processing", Name: u.Name, MIME: plainMIME(u.MIME),
		Bytes: u.Bytes, At: c.Now(),
	}
	if u.Stored {
		m.Upload = u.ID
	}
	c.Media().Put(m)
	u.State, u.Media = "processing", m.ID
	c.Uploads().Put(u)
	c.At(c.Now().Add(processing), dueUpload, u.ID)
}

// plainMIME returns a MIME type in lower case, without its parameters.
func plainMIME(text string) string {
	plain, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(plain))
}

// mediaType returns the vault's type of a file, from its MIME type or its name. A file of an unknown type counts as a
// photo until it is processed.
func mediaType(kind, name string) string {
	for _, one := range []string{plainMIME(kind), mime.TypeByExtension(strings.ToLower(path.Ext(name)))} {
		switch first, _, _ := strings.Cut(one, "/"); {
		case one == "image/gif":
			return "gif"
		case first == "image":
			return "photo"
		case first == "video", first == "audio":
			return first
		}
	}
	return "photo"
}

func finishUpload(c *world.Creator, id int64) {
	u := c.Uploads().Get(id)
	if u == nil || u.State != "processing" {
		return
	}
	m := c.Media().Get(u.Media)
	if m == nil { // deleted during processing
		forget(c, u)
		u.State, u.Error = "failed", "The media was deleted."
		c.Uploads().Put(u)
		return
	}
	if problem := cmp.Or(u.Error, examine(c, u, m)); problem != "" {
		fail(c, u, m, problem)
		return
	}
	u.State, m.State = "ready", "ready"
	c.Uploads().Put(u)
	c.Media().Put(m)
	c.Emit(frameReady, map[string]any{"media": view.Media(c, m), "upload_id": u.ID})
}

func fail(c *world.Creator, u *row.Upload, m *row.Media, problem string) {
	forget(c, u)
	u.State, u.Error, m.State, m.Error = "failed", problem, "failed", problem
	c.Uploads().Put(u)
	c.Media().Put(m)
	c.Emit(frameFailed, map[string]any{"media": view.Media(c, m), "upload_id": u.ID, "error": problem})
}

// examine checks a file and returns what is wrong with it, or "". It also sets the measurements of the medium.
func examine(c *world.Creator, u *row.Upload, m *row.Media) string {
	kind, _, _ := strings.Cut(plainMIME(u.MIME), "/")
	switch {
	case strings.HasSuffix(strings.ToLower(u.Source), "fail"):
		return "The URL did not answer."
	case kind != "image" && kind != "video" && kind != "audio":
		return "This type of file is not supported."
	case !u.Stored: // the sandbox has no bytes of it
		measure(m)
		return ""
	}
	data, err := c.Blob(u.ID)
	if err != nil || int64(len(data)) != u.Bytes {
		return "The file is incomplete."
	}
	sum := sha256.Sum256(data)
	m.SHA256 = hex.EncodeToString(sum[:])
	if u.SHA256 != "" && u.SHA256 != m.SHA256 {
		return "The file does not match its announced SHA-256."
	}
	if kind != "image" {
		measure(m)
		return ""
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	if want := formats[plainMIME(u.MIME)]; want != "" && (err != nil || format != want) {
		return "The content of the file does not match its type."
	}
	m.Width, m.Height = cfg.Width, cfg.Height
	return ""
}

// formats maps the MIME types of pictures that are decoded to their formats. Others are accepted unchecked.
var formats = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif"}

// measure sets default dimensions and duration for a medium that cannot be decoded.
func measure(m *row.Media) {
	switch m.Type {
	case "photo", "gif":
		m.Width, m.Height = 1080, 1350
	case "video":
		m.Width, m.Height, m.Seconds = 1920, 1080, 30
	case "audio":
		m.Seconds = 30
	}
}
