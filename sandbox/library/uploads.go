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

	// processing is how long the platform takes to look at a file.
	processing = 300 * time.Millisecond
	// partLife is how long an address for a part works.
	partLife = time.Hour
	maxParts = 10_000
)

func uploadRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /uploads/known", Handle: checkUpload},
		{Pattern: "POST /uploads", Handle: initUpload},
		{Pattern: "POST /uploads/remote", Handle: remoteUpload},
		{Pattern: "GET /uploads/{upload_id}", Handle: getUpload},
		{Pattern: "DELETE /uploads/{upload_id}", Handle: abortUpload},
		{Pattern: "GET /uploads/{upload_id}/parts/{number}", Handle: partAddress},
		{Pattern: "POST /uploads/{upload_id}/complete", Handle: completeUpload},
	}
}

// checkUpload says whether the vault already has a file.
func checkUpload(c *wire.Call) (any, error) {
	hash, size := strings.ToLower(c.Query("sha256")), c.QueryID("size")
	for _, m := range c.Media().All() {
		if m.SHA256 != "" && m.SHA256 == hash && m.Bytes == size && m.State == "ready" {
			return map[string]any{"exists": true, "media_id": m.ID}, nil
		}
	}
	return map[string]any{"exists": false, "media_id": nil}, nil
}

func initUpload(c *wire.Call) (any, error) {
	var in struct {
		Name   string `json:"file_name"`
		Bytes  int64  `json:"size"`
		MIME   string `json:"mime_type"`
		SHA256 string `json:"sha256"`
	}
	if err := c.Body(&in); err != nil {
		return nil, err
	}
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

// remoteUpload takes a file from an address. The sandbox fetches nothing: the medium is named after the address and painted, and an
// address that ends in "fail" is one that does not answer.
func remoteUpload(c *wire.Call) (any, error) {
	var in struct {
		URL  string `json:"url"`
		Name string `json:"file_name"`
		MIME string `json:"mime_type"`
	}
	if err := c.Body(&in); err != nil {
		return nil, err
	}
	address, err := url.Parse(in.URL)
	if err != nil {
		return nil, wire.Invalid("url", "This is not an address.")
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

// guessedSize is the size of a file nobody fetched: the same for the same address.
func guessedSize(address string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	return 100_000 + int64(h.Sum32()%3_000_000)
}

func upload(c *wire.Call) (*row.Upload, error) {
	return wire.Found("upload", c.Uploads().Get(c.ID("upload_id")))
}

func getUpload(c *wire.Call) (any, error) {
	u, err := upload(c)
	if err != nil {
		return nil, err
	}
	return view.Upload(u), nil
}

// isOpen says whether parts may still come.
func isOpen(u *row.Upload) bool { return u.State == "open" || u.State == "uploading" }

func partAddress(c *wire.Call) (any, error) {
	u, err := upload(c)
	if err != nil {
		return nil, err
	}
	number := c.ID("number")
	if !isOpen(u) {
		return nil, wire.Conflict("This upload takes no more parts.")
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

// partCount is how many parts a file has, and partBytes how large one of them is.
func partCount(u *row.Upload) int64 { return (u.Bytes + u.PartSize - 1) / u.PartSize }

func partBytes(u *row.Upload, number int64) int64 {
	return min(u.PartSize, u.Bytes-(number-1)*u.PartSize)
}

func abortUpload(c *wire.Call) (any, error) {
	u, err := upload(c)
	if err != nil {
		return nil, err
	}
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

// forget removes the bytes of an upload from the store.
func forget(c *world.Creator, u *row.Upload) {
	for number := range u.Parts {
		c.SaveBlob(u.ID, number, nil)
	}
}

// completeUpload hands a file over to processing. What is missing is refused now; a file that turns out to be another one than was
// announced fails while it is processed, as does one whose parts are not those the caller lists.
func completeUpload(c *wire.Call) (any, error) {
	var in struct {
		Parts []struct {
			Number int    `json:"number"`
			ETag   string `json:"etag"`
		} `json:"parts"`
	}
	u, err := upload(c)
	if err := cmp.Or(err, c.Body(&in)); err != nil {
		return nil, err
	}
	switch {
	case u.State == "processing" || u.State == "ready":
		return view.Upload(u), nil
	case !isOpen(u):
		return nil, wire.Conflict("This upload has ended; begin another one.")
	}
	for number := range partCount(u) {
		if _, there := u.Parts[int(number)+1]; !there {
			return nil, wire.Conflict(fmt.Sprintf("Part %d is missing.", number+1))
		}
	}
	for _, p := range in.Parts {
		if there, ok := u.Parts[p.Number]; !ok || (p.ETag != "" && strings.Trim(p.ETag, `"`) != there.Tag) {
			u.Error = fmt.Sprintf("Part %d is not the one that arrived.", p.Number)
		}
	}
	process(c.Creator, u)
	return view.Upload(u), nil
}

// process makes the medium of an upload, and has it finished in a moment.
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

// plainMIME is a type without its parameters.
func plainMIME(text string) string {
	plain, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(plain))
}

// mediaType is what the vault calls a file: by its type, or by its name. One that is nothing the vault knows counts as a photo,
// until it is looked at.
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
	if m == nil { // deleted while it was processed
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

// examine looks at a file and says what is wrong with it; nothing if it is fine.
func examine(c *world.Creator, u *row.Upload, m *row.Media) string {
	kind, _, _ := strings.Cut(plainMIME(u.MIME), "/")
	switch {
	case strings.HasSuffix(strings.ToLower(u.Source), "fail"):
		return "The address did not answer."
	case kind != "image" && kind != "video" && kind != "audio":
		return "This type of file is not supported."
	case !u.Stored: // nobody has its bytes
		measure(m)
		return ""
	}
	data, err := c.Blob(u.ID)
	if err != nil || int64(len(data)) != u.Bytes {
		return "The file is not complete."
	}
	sum := sha256.Sum256(data)
	m.SHA256 = hex.EncodeToString(sum[:])
	if u.SHA256 != "" && u.SHA256 != m.SHA256 {
		return "The file is not the one that was announced: its SHA-256 differs."
	}
	if kind != "image" {
		measure(m)
		return ""
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	if want := formats[plainMIME(u.MIME)]; want != "" && (err != nil || format != want) {
		return "The file is not the picture it says it is."
	}
	m.Width, m.Height = cfg.Width, cfg.Height
	return ""
}

// formats are the pictures that are looked into; others are taken as they come.
var formats = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif"}

// measure gives a medium that cannot be looked into the usual measures.
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
