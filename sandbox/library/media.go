package library

import (
	"bytes"
	"cmp"
	"container/list"
	"fmt"
	"image"
	"image/jpeg"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// sizes maps a quality to the length of a picture's longer side in pixels.
var sizes = map[string]int{"thumb": 160, "preview": 480, "full": 960, "source": 1440}

const (
	keptFiles = 300
	// keptBytes is the size of the largest file that is cached. Larger ones are uploads, which the store has.
	keptBytes = 1 << 20
	// maxPixels is the size of the largest uploaded picture that is scaled down. A larger one is served unchanged.
	maxPixels = 40_000_000
)

// Media serves the media files: /media/{id}/{quality}, /media/avatar/{id}.png and /media/gif/{id}.gif (or .png for its
// first frame). They need no session. Uploaded files are served unchanged or scaled down. All other files are generated
// from the id and never change: for a video only a poster, and for audio two seconds of one tone. The header
// X-Sandbox-Note names that limitation.
func Media(w *world.World) http.Handler {
	g := &gallery{world: w, recent: list.New(), files: map[string]*list.Element{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /media/{id}/{quality}", g.serveMedia)
	mux.HandleFunc("GET /media/avatar/{name}", g.serveAvatar)
	mux.HandleFunc("GET /media/gif/{name}", g.serveGif)
	mux.HandleFunc("/", func(out http.ResponseWriter, _ *http.Request) { refuse(out, wire.NotFound("media")) })
	return mux
}

// gallery caches the files that were requested most recently.
type gallery struct {
	world *world.World

	mu     sync.Mutex
	files  map[string]*list.Element // of *file
	recent *list.List
}

// file is a media file with its headers.
type file struct {
	key  string
	mime string
	tag  string
	note string
	data []byte
}

// keep returns a cached file, or builds and caches it. Concurrent callers may both build the file, which is harmless.
func (g *gallery) keep(key string, build func() (*file, error)) (*file, error) {
	g.mu.Lock()
	if e, ok := g.files[key]; ok {
		g.recent.MoveToFront(e)
		g.mu.Unlock()
		return e.Value.(*file), nil
	}
	g.mu.Unlock()
	f, err := build()
	if err != nil {
		return nil, err
	}
	f.key = key
	f.tag = cmp.Or(f.tag, key)
	if len(f.data) > keptBytes {
		return f, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.files[key]; !ok {
		g.files[key] = g.recent.PushFront(f)
	}
	for g.recent.Len() > keptFiles {
		last := g.recent.Back()
		delete(g.files, last.Value.(*file).key)
		g.recent.Remove(last)
	}
	return f, nil
}

// serve answers with a file, a range of it, or 304, or with the error.
func serve(w http.ResponseWriter, r *http.Request, f *file, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mime)
	h.Set("ETag", `"`+f.tag+`"`)
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("X-Content-Type-Options", "nosniff")
	if f.note != "" {
		h.Set("X-Sandbox-Note", f.note)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

func (g *gallery) serveAvatar(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, ".png")
	if err != nil {
		refuse(w, err)
		return
	}
	f, err := g.keep(fmt.Sprintf("avatar-%d", id), func() (*file, error) { return &file{mime: "image/png", data: paintAvatar(id)}, nil })
	serve(w, r, f, err)
}

func (g *gallery) serveGif(w http.ResponseWriter, r *http.Request) {
	still := strings.HasSuffix(r.PathValue("name"), ".png")
	extension := ".gif"
	if still {
		extension = ".png"
	}
	id, err := named(r, extension)
	if err == nil && !seed.IsGif(id) {
		err = wire.NotFound("GIF")
	}
	if err != nil {
		refuse(w, err)
		return
	}
	f, err := g.keep(fmt.Sprintf("gif-%d%s", id, extension), func() (*file, error) {
		if still {
			return &file{mime: "image/png", data: paintStill(id)}, nil
		}
		return &file{mime: "image/gif", data: paintGif(id)}, nil
	})
	serve(w, r, f, err)
}

// named parses the id in a file name.
func named(r *http.Request, extension string) (int64, error) {
	digits, ok := strings.CutSuffix(r.PathValue("name"), extension)
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id < 1 {
		return 0, wire.NotFound("media")
	}
	return id, nil
}

func (g *gallery) serveMedia(w http.ResponseWriter, r *http.Request) {
	quality := r.PathValue("quality")
	side := sizes[quality]
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || side == 0 {
		refuse(w, wire.NotFound("media"))
		return
	}
	m, err := g.find(r, id, quality)
	if err != nil {
		refuse(w, err)
		return
	}
	f, err := g.keep(fmt.Sprintf("%d-%s-%s", id, quality, m.SHA256), func() (*file, error) {
		if m.Upload != 0 {
			return g.uploaded(m, quality)
		}
		return painted(m, quality), nil
	})
	serve(w, r, f, err)
}

// find returns the medium with an id. If the URL has a signature, it must be valid; unsigned URLs are allowed.
func (g *gallery) find(r *http.Request, id int64, quality string) (row.Media, error) {
	var m row.Media
	err := g.world.DoID(row.Owner(id), func(c *world.Creator) error {
		if query := r.URL.Query(); query.Has("sig") || query.Has("exp") {
			if err := checkGrant(c, query, "media", id, quality); err != nil {
				return err
			}
		}
		if stored := c.Media().Get(id); stored != nil {
			m = *stored
			if m.State != "ready" {
				return wire.NotFound("media")
			}
			return nil
		}
		// Media of followed creators are not in the vault.
		if n, ok := row.Ordinal(c.Profile.ID, row.KindMedia, id); !ok || n < seed.ForeignMedia {
			return wire.NotFound("media")
		}
		m = row.Media{Type: "photo", Width: seed.ForeignWidth, Height: seed.ForeignHeight}
		m.ID = id
		return nil
	})
	return m, err
}

// painted generates a picture, a poster or a sound from the medium's id.
func painted(m row.Media, quality string) *file {
	width, height := fit(max(m.Width, 1), max(m.Height, 1), sizes[quality])
	if m.Width == 0 || m.Height == 0 {
		width, height = sizes[quality], sizes[quality]
	}
	small := quality == "thumb" || quality == "preview"
	switch {
	case m.Type == "audio" && !small:
		return &file{mime: "audio/wav", data: tone(m.ID), note: "two seconds of a single tone"}
	case m.Type == "gif" && !small:
		return &file{mime: "image/gif", data: paintGif(m.ID)}
	}
	f := &file{mime: "image/jpeg", data: paintPhoto(m.ID, width, height, m.Type == "video")}
	if m.Type == "video" && !small {
		f.note = "a poster image; the sandbox has no video files"
	}
	return f
}

// fit scales a size down so that its longer side has at most side pixels.
func fit(width, height, side int) (int, int) {
	if longer := max(width, height); longer > side {
		return max(1, width*side/longer), max(1, height*side/longer)
	}
	return width, height
}

// uploaded returns the file of an upload: the unchanged bytes, or a scaled-down picture.
func (g *gallery) uploaded(m row.Media, quality string) (*file, error) {
	var data []byte
	err := g.world.DoID(row.Owner(m.ID), func(c *world.Creator) (err error) {
		data, err = c.Blob(m.Upload)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the bytes of an upload: %w", err)
	}
	small := quality == "thumb" || quality == "preview"
	if m.Type == "video" || m.Type == "audio" {
		if small {
			m.Upload = 0
			return painted(m, quality), nil
		}
		return &file{mime: servedMIME(m.MIME), data: data, tag: m.SHA256}, nil
	}
	if quality != "source" && m.Type == "photo" && m.Width*m.Height <= maxPixels && max(m.Width, m.Height) > sizes[quality] {
		if picture, _, err := image.Decode(bytes.NewReader(data)); err == nil {
			var out bytes.Buffer
			if err := jpeg.Encode(&out, shrink(picture, sizes[quality]), &jpeg.Options{Quality: 82}); err != nil {
				return nil, fmt.Errorf("scale a picture down: %w", err)
			}
			return &file{mime: "image/jpeg", data: out.Bytes()}, nil
		}
	}
	return &file{mime: servedMIME(m.MIME), data: data, tag: m.SHA256}, nil
}

// servedMIME returns the content type for an upload. It never returns one that a browser would execute on our origin.
func servedMIME(text string) string {
	kind, _, _ := strings.Cut(text, "/")
	if (kind == "image" || kind == "video" || kind == "audio") && text != "image/svg+xml" {
		return text
	}
	return "application/octet-stream"
}
