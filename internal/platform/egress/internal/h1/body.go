package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
)

// Errors of ReadBody about a body beyond its limits.
var (
	ErrTooLarge = errors.New("the body is too large")
	ErrBomb     = errors.New("the body has an implausible compression ratio")
)

// A body of more than RatioFrom bytes may be at most MaxRatio times larger than its compressed form.
const (
	MaxRatio  = 100
	RatioFrom = 1 << 20
)

// Inflater decompresses a body. *gzip.Reader is one.
type Inflater interface {
	io.Reader
	Reset(from io.Reader) error
}

// ReadBody reads the body to its end, through the inflater unless it is nil. It rejects more than limit bytes; a
// negative limit means none. The body is valid until the Answer is reused. After ReadBody, Last is final.
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
		body, err = a.readWhole(from)
	default:
		body, err = a.readDecoded(from, inflater, limit)
	}
	// Bytes beyond the response were not asked for, so the connection must not be reused.
	if err != nil || len(a.buf) > a.at {
		a.Last = true
	}
	return body, err
}

// readWhole reads a body of known length in place, after the header in the buffer.
func (a *Answer) readWhole(from io.Reader) ([]byte, error) {
	for int64(len(a.buf)-a.at) < a.length {
		if err := a.readMore(from, a.length-int64(len(a.buf)-a.at)); err != nil {
			return nil, err
		}
	}
	body := a.buf[a.at : a.at+int(a.length)]
	a.at += int(a.length)
	return body, nil
}

// readDecoded reads a body that is chunked, compressed, or ends with the connection.
func (a *Answer) readDecoded(from io.Reader, inflater Inflater, limit int64) ([]byte, error) {
	// Stack the readers: what arrived with the header and then the connection, its framing, a counter, and the
	// inflater.
	raw := &countingReader{}
	switch {
	case a.chunked:
		raw.from = a.chunks.open(a, from)
	case a.length >= 0:
		raw.from = &io.LimitedReader{R: &bufferedReader{a, from}, N: a.length}
	default:
		raw.from = &bufferedReader{a, from}
	}
	var in io.Reader = raw
	if inflater != nil {
		err := inflater.Reset(raw)
		if errors.Is(err, io.EOF) && raw.bytes == 0 {
			return nil, a.checkEnd(raw) // an empty body that is declared as compressed
		} else if err != nil {
			return nil, a.unexpectedEOF(err)
		}
		in = inflater
	}
	for {
		if cap(a.body)-len(a.body) < bytes.MinRead {
			a.body = append(make([]byte, 0, 2*cap(a.body)+firstRead), a.body...)
		}
		n, err := in.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		// Check the limits before looking at err, so that a body cannot exceed them in its last read.
		switch size := int64(len(a.body)); {
		case limit >= 0 && size > limit:
			return nil, ErrTooLarge
		case inflater != nil && size > RatioFrom && size/MaxRatio > raw.bytes:
			return nil, ErrBomb
		case err == nil:
		case errors.Is(err, io.EOF):
			return a.body, a.checkEnd(raw)
		default:
			return nil, a.unexpectedEOF(err)
		}
	}
}

// unexpectedEOF replaces io.EOF by io.ErrUnexpectedEOF.
func (a *Answer) unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkEnd checks that the body had its declared length, and reads the trailer of a chunked body.
func (a *Answer) checkEnd(raw *countingReader) error {
	if a.chunked {
		return a.chunks.close()
	}
	if a.length >= 0 && raw.bytes < a.length {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// countingReader counts the bytes of the body on the wire.
type countingReader struct {
	from  io.Reader
	bytes int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}

// bufferedReader reads what arrived with the header, and then from the connection.
type bufferedReader struct {
	answer *Answer
	from   io.Reader
}

func (r *bufferedReader) Read(p []byte) (int, error) {
	if a := r.answer; len(a.buf) > a.at {
		n := copy(p, a.buf[a.at:])
		a.at += n
		return n, nil
	}
	return r.from.Read(p)
}

// chunks reads chunked bodies. It keeps its reader for the next one.
type chunks struct {
	reader *bufio.Reader
	source bufferedReader
}

// open returns a reader for a chunked body.
func (c *chunks) open(a *Answer, from io.Reader) io.Reader {
	c.source = bufferedReader{a, from}
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(&c.source, firstRead)
	} else {
		c.reader.Reset(&c.source)
	}
	return httputil.NewChunkedReader(c.reader)
}

// close reads and discards the trailer. Bytes after it make the connection unusable.
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
			c.source.answer.Last = c.source.answer.Last || c.reader.Buffered() > 0
			return nil
		}
		name, value, colon := bytes.Cut(line, []byte{':'})
		if !ended || !colon || !isToken(name) || !isPrintable(value) {
			return ErrSyntax
		}
	}
	return ErrSyntax
}
