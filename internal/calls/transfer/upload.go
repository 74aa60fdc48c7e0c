package transfer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// maxParts bounds a file; no platform takes more.
const maxParts = 100_000

// Upload gives the platform the file in a request's body, and returns what the platform says of it. An error in the middle is a problem
// that names the upload (uploadId) and the first part that is missing (nextPart): Part goes on from there.
func (t *Transfers) Upload(w http.ResponseWriter, r *http.Request, c Caller, given Given) (result []byte, err error) {
	p, leave, err := t.enter(r.Context(), c, uploads)
	if err != nil {
		return nil, err
	}
	defer leave()
	s := t.source(w, r)
	defer s.done()
	file, body, kept, err := t.read(r, s, given, c.MaxBytes)
	if err != nil {
		return nil, s.blame(err)
	}
	if kept != nil {
		defer kept.close()
		s.rest()
	}
	if c.MaxBytes >= 0 && file.Size > int64(c.MaxBytes) {
		return nil, tooLarge(c.MaxBytes)
	}
	up := p.platform.Catalog.Files.Upload
	args, err := up.BeginArgs(file)
	if err != nil {
		return nil, err
	}
	if result, err = p.call(r.Context(), up.Begin, args); err != nil {
		return nil, err
	}
	upload, partSize, err := up.Begun(result)
	if err == nil && file.Size/partSize >= maxParts {
		err = problem.UpstreamRejected.New("The platform wants the file in more parts than can be sent.")
	}
	if err != nil {
		return nil, changed(err)
	}
	parts, err := p.parts(r.Context(), s, body, upload, sizes{whole: file.Size, part: partSize})
	if err == nil {
		err = ended(body)
	}
	if err != nil {
		return nil, resumable(s.blame(err), upload, len(parts)+1)
	}
	s.rest()
	result, err = p.finish(r.Context(), upload, parts)
	return result, resumable(err, upload, len(parts)+1)
}

// uploads are the methods that a key must be allowed to call if it wants to give files.
func uploads(f *catalog.Files) []*catalog.Method {
	if f.Upload == nil {
		return nil
	}
	return []*catalog.Method{f.Upload.Begin, f.Upload.Part, f.Upload.Finish}
}

func partMethod(f *catalog.Files) []*catalog.Method {
	if f.Upload == nil {
		return nil
	}
	return []*catalog.Method{f.Upload.Part}
}

func tooLarge(limit int) error {
	return problem.PayloadTooLarge.Newf("The file is larger than %d bytes.", limit).With("limit", limit)
}

// resumable adds to a problem where to go on.
func resumable(err error, upload string, next int) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return problem.Of(err).With("uploadId", upload).With("nextPart", next)
}

// sizes are those of a file and of its parts; the last part has what is left.
type sizes struct{ whole, part int64 }

// parts sends a file part by part, and returns those that arrived.
func (p *passage) parts(ctx context.Context, s *source, body io.Reader, upload string, size sizes) (sent []catalog.FilePart, err error) {
	for left := size.whole; left > 0; left -= size.part {
		one := catalog.FilePart{Number: len(sent) + 1}
		if one.ETag, err = p.put(ctx, upload, one.Number, s.part(body, min(left, size.part))); err != nil {
			return sent, err
		}
		sent = append(sent, one)
	}
	return sent, nil
}

func (p *passage) finish(ctx context.Context, upload string, parts []catalog.FilePart) ([]byte, error) {
	up := p.platform.Catalog.Files.Upload
	args, err := up.FinishArgs(upload, parts)
	if err != nil {
		return nil, err
	}
	return p.call(ctx, up.Finish, args)
}

// Part gives the platform one part of an upload that was begun before. Parts may be sent again: the last one counts.
func (t *Transfers) Part(w http.ResponseWriter, r *http.Request, c Caller, upload string, number int) (etag string, err error) {
	p, leave, err := t.enter(r.Context(), c, partMethod)
	if err != nil {
		return "", err
	}
	defer leave()
	s := t.source(w, r)
	defer s.done()
	size, err := length(r)
	if err != nil {
		return "", err
	}
	if c.MaxBytes >= 0 && size > int64(c.MaxBytes) {
		return "", tooLarge(c.MaxBytes)
	}
	etag, err = p.put(r.Context(), upload, number, s.part(s, size))
	return etag, s.blame(err)
}

// put asks for a part's address and sends the part there.
func (p *passage) put(ctx context.Context, upload string, number int, body *part) (etag string, err error) {
	up := p.platform.Catalog.Files.Upload
	args, err := up.PartArgs(upload, number)
	if err != nil {
		return "", inPath(err, map[string]string{up.PartID: "uploadId", up.PartNumber: "number"})
	}
	result, err := p.call(ctx, up.Part, args)
	if err != nil {
		return "", err
	}
	address, header, err := up.Target(result)
	if err != nil {
		return "", changed(err)
	}
	etag, err = p.platform.Files.Put(ctx, p.via, p.session, driver.PartRequest{URL: address, Header: header, Body: body, Size: body.size})
	left := body.left.Load()
	p.transfers.Meter.Carried(p.caller.Org, p.via.Region, body.size-left, 0)
	if err == nil && left > 0 {
		err = problem.UpstreamInvalidResponse.New("The platform took the part before it had all of it.")
	}
	if err != nil {
		body.source.stop()
	}
	return etag, changed(err)
}

// source is the caller's body. It is read by the goroutine that sends a part, and must be let go by it before the caller is answered:
// the server waits for a body that is being read.
type source struct {
	line *line
	body io.Reader

	mu      sync.Mutex // guards stopped and failed, and that nothing moves the limit of reading behind a stop
	stopped bool
	failed  error
	reading sync.Mutex // held by a read
}

var (
	errStopped = errors.New("the transfer has ended")
	errShort   = errors.New("the file ended before its size")
)

func (t *Transfers) source(w http.ResponseWriter, r *http.Request) *source {
	return &source{line: t.line(w), body: r.Body}
}

// Read gives the caller its time for the next piece.
func (s *source) Read(b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return 0, errStopped
	}
	s.line.expectRead()
	s.mu.Unlock()
	n, err := s.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		if !s.stopped {
			s.failed = err
		}
		s.mu.Unlock()
	}
	return n, err
}

// rest lifts the limit of reading, because for now nothing is read.
func (s *source) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.line.listen()
	}
}

// short notes that the caller's file ended too early.
func (s *source) short() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped && s.failed == nil {
		s.failed = errShort
	}
}

// stop ends a read that is under way and allows no other.
func (s *source) stop() {
	s.mu.Lock()
	s.stopped = true
	s.line.interrupt()
	s.mu.Unlock()
	s.reading.Lock() // until the read has returned
	defer s.reading.Unlock()
}

// done gives the caller its time to take the answer.
func (s *source) done() { s.line.expectWrite() }

// blame tells apart whose fault it is that a file did not arrive: if the caller's body broke, it is not the platform's.
func (s *source) blame(err error) error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if err == nil || failed == nil {
		return err
	}
	if errors.Is(failed, errShort) {
		return wrongSize("fewer")
	}
	if e, ok := errors.AsType[net.Error](failed); ok && e.Timeout() {
		return problem.RequestTimeout.New("The body stopped coming.").Because(failed)
	}
	return problem.InvalidRequest.New("The body could not be read to its end.").Because(failed)
}

// part is as much of a body as goes into one part.
type part struct {
	source *source
	from   io.Reader
	size   int64
	left   atomic.Int64
}

func (s *source) part(from io.Reader, size int64) *part {
	p := &part{source: s, from: from, size: size}
	p.left.Store(size)
	return p
}

// Read reads on to the part's end. A body that ends before is broken: the platform must not take it for a whole part.
func (p *part) Read(b []byte) (int, error) {
	left := p.left.Load()
	if left == 0 {
		return 0, io.EOF
	}
	n, err := p.from.Read(b[:min(int64(len(b)), left)])
	left = p.left.Add(-int64(n))
	switch {
	case left == 0:
		p.source.rest()
		return n, nil
	case errors.Is(err, io.EOF):
		p.source.short()
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
