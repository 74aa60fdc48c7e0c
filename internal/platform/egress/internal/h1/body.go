package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
)

// What a body may not do.
var (
	ErrTooLarge = errors.New("the body is too large")
	ErrBomb     = errors.New("the body inflates beyond reason")
)

// A body may inflate a hundredfold; the first MiB in any way it likes.
const (
	MaxRatio  = 100
	RatioFrom = 1 << 20
)

// Inflater is what reads gzip; *gzip.Reader is one.
type Inflater interface {
	io.Reader
	Reset(from io.Reader) error
}

// ReadBody reads the body to its end, through an inflater if it is not nil, and refuses more than limit bytes; negative is no limit.
// The body is valid until the answer is used again. Afterwards Last is final.
func (a *Answer) ReadBody(from io.Reader, inflater Inflater, limit int64) ([]byte, error) {
	if inflater == nil && limit >= 0 && a.length > limit {
		a.Last = true
		return nil, ErrTooLarge
	}
	var body []byte
	var err error
	switch {
	case a.length == 0:
		body = a.buf[a.at:a.at]
	case inflater == nil && a.length > 0:
		body, err = a.whole(from)
	default:
		body, err = a.decoded(from, inflater, limit)
	}
	// What came beyond the answer was not asked for.
	if err != nil || len(a.buf) > a.at {
		a.Last = true
	}
	return body, err
}

// whole reads a body of known length where it is, behind the header.
func (a *Answer) whole(from io.Reader) ([]byte, error) {
	for int64(len(a.buf)-a.at) < a.length {
		if err := a.more(from, a.length-int64(len(a.buf)-a.at)); err != nil {
			return nil, err
		}
	}
	body := a.buf[a.at : a.at+int(a.length)]
	a.at += int(a.length)
	return body, nil
}

// decoded reads a body in chunks, compressed, or up to the connection's end.
func (a *Answer) decoded(from io.Reader, inflater Inflater, limit int64) ([]byte, error) {
	raw := &counted{}
	switch {
	case a.chunked:
		raw.from = a.chunks.open(a, from)
	case a.length >= 0:
		raw.from = &io.LimitedReader{R: &rest{a, from}, N: a.length}
	default:
		raw.from = &rest{a, from}
	}
	var in io.Reader = raw
	if inflater != nil {
		err := inflater.Reset(raw)
		if errors.Is(err, io.EOF) && raw.bytes == 0 {
			return nil, a.ended(raw) // empty, though compressed
		} else if err != nil {
			return nil, a.short(err)
		}
		in = inflater
	}
	for {
		if cap(a.body)-len(a.body) < bytes.MinRead {
			a.body = append(make([]byte, 0, 2*cap(a.body)+firstRead), a.body...)
		}
		n, err := in.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		switch size := int64(len(a.body)); {
		case limit >= 0 && size > limit:
			return nil, ErrTooLarge
		case inflater != nil && size > RatioFrom && size/MaxRatio > raw.bytes:
			return nil, ErrBomb
		case err == nil:
		case errors.Is(err, io.EOF):
			return a.body, a.ended(raw)
		default:
			return nil, a.short(err)
		}
	}
}

// short tells an end in the middle from the end.
func (a *Answer) short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ended checks that the body was as long as it was said to be, and reads what follows it.
func (a *Answer) ended(raw *counted) error {
	if a.chunked {
		return a.chunks.close()
	}
	if a.length >= 0 && raw.bytes < a.length {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// counted counts what comes over the wire.
type counted struct {
	from  io.Reader
	bytes int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}

// rest reads what came with the header, and then from the connection.
type rest struct {
	answer *Answer
	from   io.Reader
}

func (r *rest) Read(p []byte) (int, error) {
	if a := r.answer; len(a.buf) > a.at {
		n := copy(p, a.buf[a.at:])
		a.at += n
		return n, nil
	}
	return r.from.Read(p)
}

// chunks reads a body in chunks.
type chunks struct {
	reader *bufio.Reader
	rest   rest
}

// open prepares for a body. The reader stays for the next one.
func (c *chunks) open(a *Answer, from io.Reader) io.Reader {
	c.rest = rest{a, from}
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(&c.rest, firstRead)
	} else {
		c.reader.Reset(&c.rest)
	}
	return httputil.NewChunkedReader(c.reader)
}

// close reads the trailer, which nobody needs.
func (c *chunks) close() error {
	for total := 0; total < MaxHeader; {
		line, err := c.reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return ErrSyntax
		} else if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		total += len(line)
		line, ended := bytes.CutSuffix(line, []byte("\r\n"))
		if ended && len(line) == 0 {
			c.rest.answer.Last = c.rest.answer.Last || c.reader.Buffered() > 0
			return nil
		}
		name, value, colon := bytes.Cut(line, []byte{':'})
		if !ended || !colon || !token(name) || !printable(value) {
			return ErrSyntax
		}
	}
	return ErrSyntax
}
