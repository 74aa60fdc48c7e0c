package transfer

import (
	"errors"
	"io"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// forwardedHeaders are passed from the caller to the platform, returnedHeaders from the platform to the caller.
var (
	forwardedHeaders = [...]string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"}
	returnedHeaders  = [...]string{"Content-Type", "Content-Range", "Content-Encoding", "Accept-Ranges", "Etag", "Last-Modified"}
)

// Download responds to a GET or HEAD with the file of an id. If it returns an error after the response has begun, the
// handler must abort the response, so that the caller does not take it for complete.
func (t *Transfers) Download(w http.ResponseWriter, r *http.Request, c Caller, mediaID, quality string) error {
	p, leave, err := t.admit(r.Context(), c, downloadMethods)
	if err != nil {
		return err
	}
	defer leave()
	find := p.platform.Catalog.Files.Download
	args, err := find.Args(mediaID, quality)
	if err != nil {
		return pointToPath(err, map[string]string{find.ID: "mediaId"})
	}
	l := t.newCallerConn(w)
	defer l.extendWrite()
	l.clearReadDeadline()
	result, err := p.call(r.Context(), find.Method, args)
	if err != nil {
		return err
	}
	address, err := find.URL(result)
	if err == nil {
		err = p.sendFile(w, r, l, address)
	}
	return changedProblem(err)
}

// Fetch responds to a GET or HEAD with the file at a URL that the platform returned. Errors are as in Download.
func (t *Transfers) Fetch(w http.ResponseWriter, r *http.Request, c Caller, address string) error {
	p, leave, err := t.admit(r.Context(), c, fetchMethods)
	if err != nil {
		return err
	}
	defer leave()
	l := t.newCallerConn(w)
	defer l.extendWrite()
	l.clearReadDeadline()
	if err := p.sendFile(w, r, l, address); errors.Is(err, driver.ErrAddress) {
		const detail = "The platform keeps no files at this address. Use the URL of a field with x-role download, unchanged."
		return problem.UnsafeURL.New(detail).At("query/url", "origin", "must be the URL of a file of the platform")
	} else if err != nil {
		return err
	}
	return nil
}

// fetchMethods returns the methods that a key must be allowed to call to download a file by its URL: those that return
// such URLs. A platform without such a method has files for everyone.
func fetchMethods(f *catalog.Files) []*catalog.Method {
	if f.Download == nil {
		return []*catalog.Method{}
	}
	return downloadMethods(f)
}

// downloadMethods returns the methods that a key must be allowed to call to download a file by its id.
func downloadMethods(f *catalog.Files) []*catalog.Method {
	if f.Download == nil {
		return nil
	}
	return []*catalog.Method{f.Download.Method}
}

func (p *activeTransfer) sendFile(w http.ResponseWriter, r *http.Request, l *callerConn, address string) error {
	req := driver.FileRequest{Method: r.Method, URL: address, Header: http.Header{}}
	for _, name := range forwardedHeaders {
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
	for _, name := range returnedHeaders {
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
	// This is foreign content on our host, so browsers must never render it under our origin.
	h.Set("Content-Disposition", "attachment")
	l.extendWrite()
	w.WriteHeader(file.Status)
	if r.Method == http.MethodHead || file.Status == http.StatusNotModified {
		return nil
	}
	return p.copyBody(w, l, file.Body)
}

// meterEvery is how many bytes of a transfer in progress are counted at a time.
const meterEvery = 1 << 20

// copyBody copies a body to the caller. It stops without an error if the caller has gone away or does not read.
func (p *activeTransfer) copyBody(w io.Writer, l *callerConn, body io.Reader) error {
	buffer, _ := p.transfers.buffers.Get().(*[chunk]byte)
	defer p.transfers.buffers.Put(buffer)
	var received int64
	count := func() {
		p.transfers.deps.Meter.Carried(p.caller.Org, p.via.Region, 0, received)
		received = 0
	}
	defer func() { count() }()
	for {
		n, err := body.Read(buffer[:])
		if received += int64(n); received >= meterEvery {
			count()
		}
		if n > 0 {
			l.extendWrite()
			if _, gone := w.Write(buffer[:n]); gone != nil {
				return nil // no one is left to report to, and it is not our failure
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
