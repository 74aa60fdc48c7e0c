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

// maxParts bounds the parts of a file. No platform accepts more.
const maxParts = 100_000

// Upload sends the file in a request's body to the platform in parts and returns the platform's result. An error
// after the upload has begun is a problem with the upload's id (uploadId) and the first missing part (nextPart), so
// that the caller can continue with Part.
func (t *Transfers) Upload(w http.ResponseWriter, r *http.Request, c Caller, given Given) (result []byte, err error) {
	p, leave, err := t.admit(r.Context(), c, uploadMethods)
	if err != nil {
		return nil, err
	}
	defer leave()
	s := t.source(w, r)
	defer s.extendResponse()
	file, body, kept, err := t.readFile(r, s, given, c.MaxBytes)
	if err != nil {
		return nil, s.callerError(err)
	}
	if kept != nil { // the whole form was read, so nothing more is expected from the caller
		defer kept.close()
		s.pauseReading()
	}
	if c.MaxBytes >= 0 && file.Size > int64(c.MaxBytes) {
		return nil, tooLarge(c.MaxBytes)
	}
	if len(p.platform.Catalog.Files.Forms) > 0 {
		return p.sendForm(r.Context(), s, file, body)
	}
	// Announce the file, send its parts, finish. No method was called before this point.
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
		err = problem.UpstreamRejected.New("The platform requires more parts for this file than can be sent.")
	}
	if err != nil {
		return nil, changedProblem(err)
	}
	// The caller may have sent more bytes than it announced, so check the end of the body as well.
	parts, err := p.sendParts(r.Context(), s, body, upload, sizes{whole: file.Size, part: partSize})
	if err == nil {
		err = checkEnd(body)
	}
	if err != nil {
		return nil, resumable(s.callerError(err), upload, len(parts)+1)
	}
	s.pauseReading()
	result, err = p.finishUpload(r.Context(), upload, parts)
	return result, resumable(err, upload, len(parts)+1)
}

// uploadMethods returns the methods that a key must be allowed to call to upload a file.
func uploadMethods(f *catalog.Files) []*catalog.Method {
	if len(f.Forms) > 0 {
		return []*catalog.Method{} // The type of the file decides, which is not known yet. See sendForm.
	}
	if f.Upload == nil {
		return nil
	}
	return []*catalog.Method{f.Upload.Begin, f.Upload.Part, f.Upload.Finish}
}

// partMethod returns the method that a key must be allowed to call to upload a part.
func partMethod(f *catalog.Files) []*catalog.Method {
	if f.Upload == nil {
		return nil
	}
	return []*catalog.Method{f.Upload.Part}
}

// sendForm sends a file to a platform that takes it whole, in one request.
func (p *activeTransfer) sendForm(ctx context.Context, s *source, file catalog.FileDraft, body io.Reader) ([]byte, error) {
	form, ok := p.platform.Catalog.Files.FormFor(file.Type)
	if !ok {
		return nil, problem.UnsupportedMediaType.Newf("The platform takes no files of the type %s.", file.Type)
	}
	if err := p.transfers.checkMethods(p.caller, []*catalog.Method{form.Method}); err != nil {
		return nil, err
	}
	args, err := form.Args()
	if err != nil {
		return nil, err
	}
	whole := s.part(body, file.Size)
	answer, err := p.platform.Files.SendForm(ctx, p.via, p.session, driver.FormRequest{
		Form: form, Args: args, Name: file.Name, MediaType: file.Type, Body: whole, Size: file.Size,
	})
	left := whole.left.Load()
	p.transfers.deps.Meter.Carried(p.caller.Org, p.via.Region, file.Size-left, int64(answer.Received))
	if err == nil {
		err = checkEnd(body)
	}
	if err != nil { // the transport may still be reading the body
		s.stop()
		if refused, ok := errors.AsType[*driver.Refused](err); ok {
			err = refused.Problem(form.Method)
		}
		return nil, s.callerError(err)
	}
	return answer.Result, nil
}

func tooLarge(limit int) error {
	return problem.PayloadTooLarge.Newf("The file is larger than %d bytes.", limit).With("limit", limit)
}

// resumable adds the upload's id and the next part to a problem.
func resumable(err error, upload string, next int) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return problem.Of(err).With("uploadId", upload).With("nextPart", next)
}

// sizes are the sizes of a file and of its parts, in bytes. The last part may be smaller.
type sizes struct{ whole, part int64 }

// sendParts sends a file part by part and returns the parts that arrived.
func (p *activeTransfer) sendParts(ctx context.Context, s *source, body io.Reader, upload string, size sizes) (sent []catalog.FilePart, err error) {
	for left := size.whole; left > 0; left -= size.part {
		one := catalog.FilePart{Number: len(sent) + 1}
		if one.ETag, err = p.putPart(ctx, upload, one.Number, s.part(body, min(left, size.part))); err != nil {
			return sent, err
		}
		sent = append(sent, one)
	}
	return sent, nil
}

func (p *activeTransfer) finishUpload(ctx context.Context, upload string, parts []catalog.FilePart) ([]byte, error) {
	up := p.platform.Catalog.Files.Upload
	args, err := up.FinishArgs(upload, parts)
	if err != nil {
		return nil, err
	}
	return p.call(ctx, up.Finish, args)
}

// Part sends one part of an upload that was begun before. A part may be sent again; the last one counts.
func (t *Transfers) Part(w http.ResponseWriter, r *http.Request, c Caller, upload string, number int) (etag string, err error) {
	p, leave, err := t.admit(r.Context(), c, partMethod)
	if err != nil {
		return "", err
	}
	defer leave()
	s := t.source(w, r)
	defer s.extendResponse()
	size, err := contentLength(r)
	if err != nil {
		return "", err
	}
	if c.MaxBytes >= 0 && size > int64(c.MaxBytes) {
		return "", tooLarge(c.MaxBytes)
	}
	etag, err = p.putPart(r.Context(), upload, number, s.part(s, size))
	return etag, s.callerError(err)
}

// putPart requests the URL of a part and sends the part there.
func (p *activeTransfer) putPart(ctx context.Context, upload string, number int, body *part) (etag string, err error) {
	up := p.platform.Catalog.Files.Upload
	args, err := up.PartArgs(upload, number)
	if err != nil {
		return "", pointToPath(err, map[string]string{up.PartID: "uploadId", up.PartNumber: "number"})
	}
	result, err := p.call(ctx, up.Part, args)
	if err != nil {
		return "", err
	}
	address, header, err := up.Target(result)
	if err != nil {
		return "", changedProblem(err)
	}
	etag, err = p.platform.Files.Put(ctx, p.via, p.session, driver.PartRequest{URL: address, Header: header, Body: body, Size: body.size})
	// On failure, the count may include bytes that were read but not sent.
	left := body.left.Load()
	p.transfers.deps.Meter.Carried(p.caller.Org, p.via.Region, body.size-left, 0)
	if err == nil && left > 0 {
		err = problem.UpstreamInvalidResponse.New("The platform accepted the part before it had received all of it.")
	}
	if err != nil { // the transport may still be reading the body
		body.source.stop()
	}
	return etag, changedProblem(err)
}

// source is the caller's body. The transport's goroutine reads it while a part is sent, possibly even after the send
// has failed. It must be stopped before the handler responds, because the server waits for a body that is being read.
type source struct {
	conn *callerConn
	body io.Reader

	mu      sync.Mutex // guards stopped and failed, and makes sure that no read deadline is set after a stop
	stopped bool
	failed  error
	reading sync.Mutex // held by a read
}

var (
	errStopped = errors.New("the transfer has ended")
	errShort   = errors.New("the file ended before its size")
)

func (t *Transfers) source(w http.ResponseWriter, r *http.Request) *source {
	return &source{conn: t.newCallerConn(w), body: r.Body}
}

// Read reads the next piece and gives the caller time to send it.
func (s *source) Read(b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return 0, errStopped
	}
	s.conn.extendRead()
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

// pauseReading removes the read deadline, because nothing is read for now.
func (s *source) pauseReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.conn.clearReadDeadline()
	}
}

// recordShort records that the caller's file ended too early.
func (s *source) recordShort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped && s.failed == nil {
		s.failed = errShort
	}
}

// stop ends a read in progress, waits for it and allows no other.
func (s *source) stop() {
	s.mu.Lock()
	s.stopped = true
	s.conn.interruptRead()
	s.mu.Unlock()
	s.reading.Lock() // wait until the read has returned
	defer s.reading.Unlock()
}

// extendResponse gives the caller time to read the response.
func (s *source) extendResponse() { s.conn.extendWrite() }

// callerError returns the problem for a failure of the caller's body. If the body is fine, it returns err, which is
// then the platform's failure.
func (s *source) callerError(err error) error {
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
		return problem.RequestTimeout.New("The body stopped arriving.").Because(failed)
	}
	return problem.InvalidRequest.New("The body could not be read to its end.").Because(failed)
}

// part is the section of a body that is sent as one part.
type part struct {
	source *source
	from   io.Reader
	size   int64
	left   atomic.Int64 // bytes not yet read; atomic because the transport's goroutine may still read after Put
}

func (s *source) part(from io.Reader, size int64) *part {
	p := &part{source: s, from: from, size: size}
	p.left.Store(size)
	return p
}

// Read reads up to the part's end. A body that ends before is an error, so that the platform does not take it for a
// complete part.
func (p *part) Read(b []byte) (int, error) {
	left := p.left.Load()
	if left == 0 {
		return 0, io.EOF
	}
	n, err := p.from.Read(b[:min(int64(len(b)), left)])
	left = p.left.Add(-int64(n))
	switch {
	case left == 0:
		p.source.pauseReading()
		return n, nil
	case errors.Is(err, io.EOF):
		p.source.recordShort()
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
