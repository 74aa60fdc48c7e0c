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

// MaxHeader bounds the header of an answer, with all that comes before it.
const MaxHeader = 64 << 10

// ErrSyntax means that an answer is not HTTP as we take it. What was said is not in it.
var ErrSyntax = errors.New("the answer is not valid HTTP")

// firstRead is as much as most answers have.
const firstRead = 4 << 10

// unknown is the length of a body that ends with its connection.
const unknown = -1

// Answer reads one answer. It can be used again and again: its buffers stay.
type Answer struct {
	Status int
	// Last means that the connection cannot be used again.
	Last bool
	// KeepAlive is how long the platform says it keeps the connection; 0 if it does not say.
	KeepAlive time.Duration
	// Coding is the content's, as the platform wrote it.
	Coding string
	// SetsCookies says whether there is a Set-Cookie.
	SetsCookies bool
	// Heard says whether a byte came.
	Heard bool

	length  int64
	chunked bool
	sized   bool // a length was given

	buf        []byte // what came
	head, tail int    // the lines of the header are buf[head:tail]
	at         int    // what is not used yet begins here
	chunks     chunks
	body       []byte // what was decoded
}

// reset prepares for another answer.
func (a *Answer) reset() {
	a.Status, a.Last, a.KeepAlive, a.Coding, a.SetsCookies, a.Heard = 0, false, 0, "", false, false
	a.buf, a.head, a.tail, a.at, a.body = a.buf[:0], 0, 0, 0, a.body[:0]
	a.begin()
}

// Release lets go of everything but the buffers, and of those too if they have grown too large to wait for the next answer.
func (a *Answer) Release(largest int) {
	a.chunks.rest = rest{}
	if cap(a.buf) > largest {
		a.buf = nil
	}
	if cap(a.body) > largest {
		a.body = nil
	}
}

// begin prepares for a header: there may be several, of which the last counts.
func (a *Answer) begin() {
	a.length, a.chunked, a.sized, a.Coding, a.SetsCookies, a.KeepAlive = unknown, false, false, "", false, 0
}

// ReadHeader reads up to the end of the header. method is the request's. Errors are ErrSyntax, or the reader's.
func (a *Answer) ReadHeader(from io.Reader, method string) error {
	a.reset()
	for {
		line, err := a.line(from)
		if err != nil {
			return err
		}
		old, err := a.status(line)
		if err != nil {
			return err
		}
		a.head = a.at
		if err := a.fields(from, old); err != nil {
			return err
		}
		switch {
		case a.Status == http.StatusSwitchingProtocols:
			return ErrSyntax // nobody asked for it
		case a.Status >= http.StatusOK:
			a.frame(method)
			return nil
		}
		a.begin() // what came was a preamble
	}
}

// line gives the next line without its end. It is valid until the next read.
func (a *Answer) line(from io.Reader) ([]byte, error) {
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
		if err := a.more(from, firstRead); err != nil {
			return nil, err
		}
	}
}

var cr = []byte{'\r'}

// more reads once. wanted is how much is missing, as far as that is known: the buffer doubles until it is large enough, so that a
// platform that only promises a long answer gets no memory for it. An end in the middle is io.ErrUnexpectedEOF, none at all io.EOF.
func (a *Answer) more(from io.Reader, wanted int64) error {
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

// status reads the first line, such as HTTP/1.1 200 OK. old means HTTP/1.0.
func (a *Answer) status(line []byte) (old bool, err error) {
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

// fields reads the lines of a header.
func (a *Answer) fields(from io.Reader, old bool) error {
	for {
		line, err := a.line(from)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			a.tail = a.at
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || !token(line[:colon]) || !printable(line[colon+1:]) {
			return ErrSyntax
		}
		if err := a.field(line[:colon], bytes.Trim(line[colon+1:], " \t"), old); err != nil {
			return err
		}
	}
	if a.chunked && a.sized {
		a.Last = true // somebody between us and the platform may read its length otherwise
	}
	return nil
}

// field takes in one line.
func (a *Answer) field(name, value []byte, old bool) error {
	switch {
	case is(name, "Content-Length"):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || a.sized && int64(n) != a.length {
			return ErrSyntax
		}
		a.length, a.sized = int64(n), true
	case is(name, "Transfer-Encoding"):
		if a.chunked || old || !is(value, "chunked") {
			return ErrSyntax
		}
		a.chunked = true
	case is(name, "Connection"):
		for option := range bytes.SplitSeq(value, []byte{','}) {
			option = bytes.TrimSpace(option)
			if is(option, "close") {
				a.Last = true
			} else if is(option, "keep-alive") && old {
				a.Last = false
			}
		}
	case is(name, "Content-Encoding"):
		if a.Coding != "" {
			return ErrSyntax
		}
		a.Coding = coding(value)
	case is(name, "Set-Cookie"):
		a.SetsCookies = true
	case is(name, "Keep-Alive"):
		a.KeepAlive = keepAlive(value)
	}
	return nil
}

// is compares names without regard to case.
func is(name []byte, want string) bool {
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

// coding spares the usual ones an allocation.
func coding(value []byte) string {
	for _, known := range []string{"gzip", "identity"} {
		if is(value, known) {
			return known
		}
	}
	return string(bytes.ToLower(value))
}

// keepAlive reads timeout=5, max=100.
func keepAlive(value []byte) time.Duration {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, seconds, _ := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		if n, err := strconv.ParseUint(string(seconds), 10, 31); err == nil && is(name, "timeout") {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}

// frame decides where the body ends.
func (a *Answer) frame(method string) {
	switch {
	case method == http.MethodHead, a.Status == http.StatusNoContent, a.Status == http.StatusNotModified:
		a.length, a.chunked = 0, false
	case a.chunked:
		a.length = unknown
	case a.length == unknown:
		a.Last = true
	}
}

// Length is what the platform says the body has on the wire; negative if it does not say.
func (a *Answer) Length() int64 { return a.length }

// Header makes the header as net/http has it. It is made anew with every call.
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

// String hides what the answer holds.
func (a *Answer) String() string { return fmt.Sprintf("answer %d", a.Status) }
