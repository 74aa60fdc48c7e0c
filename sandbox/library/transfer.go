package library

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Upload serves the URLs that take the parts of uploads: PUT /upload/{id}/{part}, with the query that partAddress adds.
func Upload(w *world.World) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /upload/{id}/{part}", func(out http.ResponseWriter, r *http.Request) {
		tag, err := takePart(w, out, r)
		if err != nil {
			refuse(out, err)
			return
		}
		out.Header().Set("ETag", `"`+tag+`"`)
		out.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("/", func(out http.ResponseWriter, _ *http.Request) { refuse(out, wire.NotFound("upload")) })
	return mux
}

func takePart(w *world.World, out http.ResponseWriter, r *http.Request) (string, error) {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	number, _ := strconv.ParseInt(r.PathValue("part"), 10, 64)
	// ready runs before and after reading the body, which must not happen with the creator locked or an invalid URL.
	ready := func(c *world.Creator) (*row.Upload, error) {
		if err := checkGrant(c, r.URL.Query(), "part", id, r.PathValue("part")); err != nil {
			return nil, err
		}
		u, err := wire.Found("upload", c.Uploads().Get(id))
		switch {
		case err != nil:
			return nil, err
		case !isOpen(u):
			return nil, wire.Conflict("This upload accepts no more parts.")
		case number < 1 || number > partCount(u):
			return nil, wire.Invalid("number", "The file does not have that many parts.")
		}
		return u, nil
	}
	err := w.DoID(row.Owner(id), func(c *world.Creator) error {
		_, err := ready(c)
		return err
	})
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(http.MaxBytesReader(out, r.Body, seed.PartSize))
	if err != nil {
		return "", &wire.Refusal{
			Status: http.StatusRequestEntityTooLarge, Code: 2006, Name: "too_large", Message: "A part has at most 5 MiB and must arrive completely.",
		}
	}
	sum := sha256.Sum256(data)
	tag := hex.EncodeToString(sum[:16])
	return tag, w.DoID(row.Owner(id), func(c *world.Creator) error {
		u, err := ready(c)
		if err != nil {
			return err
		}
		if int64(len(data)) != partBytes(u, number) {
			return wire.Invalid("size", "This part must have "+strconv.FormatInt(partBytes(u, number), 10)+" bytes.")
		}
		if u.Parts == nil {
			u.Parts = map[int]row.Part{}
		}
		c.SaveBlob(u.ID, int(number), data)
		u.Parts[int(number)] = row.Part{Bytes: len(data), Tag: tag}
		u.State = "uploading"
		c.Uploads().Put(u)
		return nil
	})
}
