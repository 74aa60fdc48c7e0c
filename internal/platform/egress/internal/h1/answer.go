package h1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"time"
)

// MaxHeader bounds the header of a response, including informational (1xx) responses before it, in bytes.
const MaxHeader = 64 << 10

// ErrSyntax means that a response is not HTTP that we accept. It does not contain any part of the response.
var ErrSyntax = errors.New("the response is not valid HTTP")

// firstRead is the initial size of the buffer, in bytes. Most responses fit.
const firstRead = 4 << 10

// unknown is the length of a body that is chunked or ends with its connection.
const unknown = -1

// Answer parses one response. It can be reused for another one and keeps its buffers. Call ReadHeader, then ReadBody.
type Answer struct {
	Status int
	// Last means that the connection cannot be used again.
	Last bool
	// KeepAlive is the timeout of the Keep-Alive header, or 0 if there is none.
	KeepAlive time.Duration
	// Coding is the Content-Encoding in lower case.
	Coding string
	// SetsCookies reports whether there is a Set-Cookie header.
	SetsCookies bool
	// Heard reports whether any byte has arrived.
	Heard bool

	length  int64
	chunked bool
	digits  int // of the Content-Length; 0 if there was none

	buf        []byte // bytes from the connection
	head, tail int    // the header fields are buf[head:tail]
	at         int    // start of the bytes in buf that are not consumed
	chunks     chunks
	body       []byte // the decoded body, if it is chunked or compressed
}

// reset prepares for another response.
func (a *Answer) reset() {
	a.Status, a.Last, a.KeepAlive, a.Coding, a.SetsCookies, a.Heard = 0, false, 0, "", false, false
	a.buf, a.head, a.tail, a.at, a.body = a.buf[:0], 0, 0, 0, a.body[:0]
	a.resetHeader()
}

// Release drops references to the connection, and buffers that are larger than the given size.
func (a *Answer) Release(largest int) {
	a.chunks.source = bufferedReader{}
	if cap(a.buf) > largest {
		a.buf = nil
	}
	if cap(a.body) > largest {
		a.body = nil
	}
}

// resetHeader prepares for a header. Informational responses have headers of their own, which do not count.
func (a *Answer) resetHeader() {
	a.length, a.chunked, a.digits, a.Coding, a.SetsCookies, a.KeepAlive = unknown, false, 0, "", false, 0
}

// ReadHeader reads to the end of the header and skips informational responses. method is the method of the request.
// Errors are ErrSyntax, or the reader's.
func (a *Answer) ReadHeader(from io.Reader, method string) error {
	a.reset()
	for {
		line, err := a.readLine(from)
		if err != nil {
			return err
		}
		old, err := a.parseStatus(line)
		if err != nil {
			return err
		}
		a.head = a.at
		if err := a.readFields(from, old); err != nil {
			return err
		}
		switch {
		case a.Status == http.StatusSwitchingProtocols:
			return ErrSyntax // we never ask for an upgrade
		case a.Status >= http.StatusOK:
			a.setFraming(method)
			return nil
		}
		a.resetHeader() // that was an informational response
	}
}

// readLine returns the next line without its line break. It is valid until the next read.
func (a *Answer) readLine(from io.Reader) ([]byte, error) {
	seen := a.at
	for {
		if end := bytes.IndexByte(a.buf[seen:], '\n'); end >= 0 {
			line := a.buf[a.at : seen+end]
			a.at = seen + end + 1
			if a.at > MaxHeader {
				return nil, ErrSyntax
			}
			return bytes.TrimSuffix(line, cr), nil
		}
		seen = len(a.buf)
		if seen >= MaxHeader {
			return nil, ErrSyntax
		}
		if err := a.readMore(from, firstRead); err != nil {
			return nil, err
		}
	}
}

var cr = []byte{'\r'}

// readMore reads once from the connection. wanted is the number of bytes that are still missing, as far as it is known.
// The buffer only doubles, so that a platform cannot make us allocate memory by announcing a long body. An end in the
// middle of a response is io.ErrUnexpectedEOF; an end before any byte is io.EOF.
func (a *Answer) readMore(from io.Reader, wanted int64) error {
	if free := cap(a.buf) - len(a.buf); int64(free) < min(wanted, bytes.MinRead) {
		a.buf = append(make([]byte, 0, max(2*cap(a.buf), firstRead)), a.buf...)
	}
	n, err := from.Read(a.buf[len(a.buf):cap(a.buf)])
	a.buf = a.buf[:len(a.buf)+n]
	a.Heard = a.Heard || n > 0
	switch {
	case n > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.EOF) && a.Heard:
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseStatus parses the status line, such as HTTP/1.1 200 OK. old means HTTP/1.0.
func (a *Answer) parseStatus(line []byte) (old bool, err error) {
	// The reason phrase is optional, but a space must separate it.
	const form = "HTTP/1.1 200"
	if len(line) < len(form) || string(line[:7]) != "HTTP/1." || line[7] != '1' && line[7] != '0' || line[8] != ' ' || len(line) > len(form) && line[12] != ' ' {
		return false, ErrSyntax
	}
	a.Status = 0
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false, ErrSyntax
		}
		a.Status = a.Status*10 + int(c-'0')
	}
	if a.Status < http.StatusContinue {
		return false, ErrSyntax
	}
	old = line[7] == '0'
	a.Last = old
	return old, nil
}

// readFields reads the header fields and the empty line after them.
func (a *Answer) readFields(from io.Reader, old bool) error {
	for {
		line, err := a.readLine(from)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			a.tail = a.at
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || !isToken(line[:colon]) || !isPrintable(line[colon+1:]) {
			return ErrSyntax
		}
		if err := a.parseField(line[:colon], bytes.Trim(line[colon+1:], " \t"), old); err != nil {
			return err
		}
	}
	if a.chunked && a.digits > 0 {
		a.Last = true // an intermediary may have used the other length, so the end is ambiguous
	}
	return nil
}

// parseField interprets a header field that concerns the framing, the connection or the coding.
func (a *Answer) parseField(name, value []byte, old bool) error {
	switch {
	case equalFold(name, "Content-Length"): // may be repeated with the same digits
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || a.digits > 0 && (int64(n) != a.length || len(value) != a.digits) {
			return ErrSyntax
		}
		a.length, a.digits = int64(n), len(value)
	case equalFold(name, "Transfer-Encoding"): // only a single chunked, and not in HTTP/1.0
		if a.chunked || old || !equalFold(value, "chunked") {
			return ErrSyntax
		}
		a.chunked = true
	case equalFold(name, "Connection"):
		for option := range bytes.SplitSeq(value, []byte{','}) {
			option = bytes.TrimSpace(option)
			if equalFold(option, "close") {
				a.Last = true
			} else if equalFold(option, "keep-alive") && old {
				a.Last = false
			}
		}
	case equalFold(name, "Content-Encoding"):
		if a.Coding != "" {
			return ErrSyntax
		}
		a.Coding = codingName(value)
	case equalFold(name, "Set-Cookie"):
		a.SetsCookies = true
	case equalFold(name, "Keep-Alive"):
		a.KeepAlive = keepAlive(value)
	}
	return nil
}

// equalFold compares names without regard to ASCII case. It does not allocate.
func equalFold(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if c != want[i] && c|0x20 != want[i]|0x20 {
			return false
		}
	}
	return true
}

// codingName returns a coding in lower case. The usual ones cost no allocation.
func codingName(value []byte) string {
	for _, known := range []string{"gzip", "identity"} {
		if equalFold(value, known) {
			return known
		}
	}
	return string(bytes.ToLower(value))
}

// keepAlive returns the timeout of a Keep-Alive header, such as "timeout=5, max=100".
func keepAlive(value []byte) time.Duration {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, seconds, _ := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		if n, err := strconv.ParseUint(string(seconds), 10, 31); err == nil && equalFold(name, "timeout") {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}

// setFraming determines where the body ends.
func (a *Answer) setFraming(method string) {
	switch {
	case method == http.MethodHead, a.Status == http.StatusNoContent, a.Status == http.StatusNotModified:
		a.length, a.chunked = 0, false
	case a.chunked:
		a.length = unknown
	case a.length == unknown: // the body ends with the connection
		a.Last = true
	}
}

// Length returns the length of the body on the wire, or a negative number if it is not known.
func (a *Answer) Length() int64 { return a.length }

// Header returns a new http.Header with the header fields.
func (a *Answer) Header() http.Header {
	h := http.Header{}
	for line := range bytes.Lines(a.buf[a.head:a.tail]) {
		name, value, ok := bytes.Cut(line, []byte{':'})
		if ok {
			key := textproto.CanonicalMIMEHeaderKey(string(name))
			h[key] = append(h[key], string(bytes.TrimSpace(value)))
		}
	}
	return h
}

// String returns the status only and hides the rest of the response.
func (a *Answer) String() string { return fmt.Sprintf("response %d", a.Status) }
