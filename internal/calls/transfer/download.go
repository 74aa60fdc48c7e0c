package transfer

import (
	"errors"
	"io"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// asked are the headers of a caller that go to the platform, answered those of the platform that go to the caller.
var (
	asked    = [...]string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"}
	answered = [...]string{"Content-Type", "Content-Range", "Content-Encoding", "Accept-Ranges", "Etag", "Last-Modified"}
)

// Download answers a GET or HEAD with a file that is known by its id. An error after the answer has begun means that it must be cut off.
func (t *Transfers) Download(w http.ResponseWriter, r *http.Request, c Caller, mediaID, quality string) error {
	p, leave, err := t.enter(r.Context(), c, downloads)
	if err != nil {
		return err
	}
	defer leave()
	find := p.platform.Catalog.Files.Download
	args, err := find.Args(mediaID, quality)
	if err != nil {
		return inPath(err, map[string]string{find.ID: "mediaId"})
	}
	l := t.line(w)
	defer l.expectWrite()
	l.listen()
	result, err := p.call(r.Context(), find.Method, args)
	if err != nil {
		return err
	}
	address, err := find.URL(result)
	if err == nil {
		err = p.send(w, r, l, address)
	}
	return changed(err)
}

// Fetch answers a GET or HEAD with the file at an address that the platform gave out.
func (t *Transfers) Fetch(w http.ResponseWriter, r *http.Request, c Caller, address string) error {
	p, leave, err := t.enter(r.Context(), c, downloads)
	if err != nil {
		return err
	}
	defer leave()
	l := t.line(w)
	defer l.expectWrite()
	l.listen()
	if err := p.send(w, r, l, address); errors.Is(err, driver.ErrAddress) {
		const detail = "The platform keeps no files at this address. Use the URL of a field with x-role download, as it is."
		return problem.UnsafeURL.New(detail).At("query/url", "origin", "must be an address at which the platform keeps files")
	} else if err != nil {
		return err
	}
	return nil
}

// downloads are the methods that a key must be allowed to call if it wants files. Where addresses come from does not matter.
func downloads(f *catalog.Files) []*catalog.Method {
	if f.Download == nil {
		return nil
	}
	return []*catalog.Method{f.Download.Method}
}

// send passes a file on.
func (p *passage) send(w http.ResponseWriter, r *http.Request, l *line, address string) error {
	req := driver.FileRequest{Method: r.Method, URL: address, Header: http.Header{}}
	for _, name := range asked {
		if values := r.Header.Values(name); len(values) > 0 {
			req.Header[name] = values
		}
	}
	file, err := p.platform.Files.Fetch(r.Context(), p.via, p.session, req)
	if err != nil {
		return err
	}
	defer file.Body.Close()
	h := w.Header()
	for _, name := range answered {
		if values := file.Header.Values(name); len(values) > 0 {
			h[name] = values
		}
	}
	if length := file.Header.Get("Content-Length"); length != "" && file.Status != http.StatusNotModified {
		h.Set("Content-Length", length)
	}
	if h.Get("Content-Type") == "" && file.Status != http.StatusNotModified {
		h.Set("Content-Type", "application/octet-stream")
	}
	// It is somebody else's content on our host: never to be shown in its name.
	h.Set("Content-Disposition", "attachment")
	l.expectWrite()
	w.WriteHeader(file.Status)
	if r.Method == http.MethodHead || file.Status == http.StatusNotModified {
		return nil
	}
	return p.copy(w, l, file.Body)
}

// meterEvery is how often a transfer that is under way is counted.
const meterEvery = 1 << 20

// copy passes on what comes, and gives up when the caller does not take it.
func (p *passage) copy(w io.Writer, l *line, body io.Reader) error {
	buffer, _ := p.transfers.buffers.Get().(*[chunk]byte)
	defer p.transfers.buffers.Put(buffer)
	var received int64
	count := func() {
		p.transfers.Meter.Carried(p.caller.Org, p.via.Region, 0, received)
		received = 0
	}
	defer func() { count() }()
	for {
		n, err := body.Read(buffer[:])
		if received += int64(n); received >= meterEvery {
			count()
		}
		if n > 0 {
			l.expectWrite()
			if _, gone := w.Write(buffer[:n]); gone != nil {
				return nil // the caller has gone, or does not read: there is nobody to tell, and nothing of ours is wrong
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
