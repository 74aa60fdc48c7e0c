// Package h1 encodes HTTP/1.1 requests and parses responses, for a connection that one caller owns.
//
// It appends requests to a buffer and reads responses from an io.Reader; the caller owns the connection and its
// deadlines. It is strict: where RFC 9112 lets the recipient be tolerant, it rejects the response. If two sides
// disagree about where a response ends, the rest of it would become the response to the next call. Start with
// AppendRequest and Answer.
package h1

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Field is one header field.
type Field struct{ Name, Value string }

// Request is a request whose body is in memory.
type Request struct {
	Method string
	// Host is the value of the Host header.
	Host string
	// Path is escaped and starts with a slash. Query is escaped, has no question mark and may be empty.
	Path, Query string
	// Header is sent in this order. It must not contain Host, Content-Length or headers of the connection.
	Header []Field
	// Cookies become one Cookie header.
	Cookies []Field
	Body    []byte
}

// ErrRequest means that a request is not valid HTTP. It does not name the part, which may contain arguments or cookies.
var ErrRequest = errors.New("the request is not valid HTTP")

// AppendRequest appends an encoded request to a buffer. It rejects values that could start another line or header.
func AppendRequest(to []byte, r *Request) ([]byte, error) {
	if !isToken(r.Method) || !isEscaped(r.Path) || r.Path == "" || r.Path[0] != '/' || !isEscaped(r.Query) || !isEscaped(r.Host) || r.Host == "" {
		return to, ErrRequest
	}
	to = append(append(append(to, r.Method...), ' '), r.Path...)
	if r.Query != "" {
		to = append(append(to, '?'), r.Query...)
	}
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), r.Host...), "\r\n"...)
	for _, f := range r.Header {
		if !isToken(f.Name) || !isPrintable(f.Value) || isReserved(f.Name) {
			return to, ErrRequest
		}
		to = append(append(append(append(to, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	for i, c := range r.Cookies {
		if !isToken(c.Name) || !isPrintable(c.Value) || strings.IndexByte(c.Value, ';') >= 0 {
			return to, ErrRequest
		}
		before := "; "
		if i == 0 {
			before = "Cookie: "
		}
		to = append(append(append(append(to, before...), c.Name...), '='), c.Value...)
	}
	if len(r.Cookies) > 0 {
		to = append(to, "\r\n"...)
	}
	if len(r.Body) > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		to = append(strconv.AppendInt(append(to, "Content-Length: "...), int64(len(r.Body)), 10), "\r\n"...)
	}
	return append(append(to, "\r\n"...), r.Body...), nil
}

// isReserved reports whether a header concerns the connection or the framing, which callers must not set.
func isReserved(name string) bool {
	switch len(name) {
	case len("Host"):
		return strings.EqualFold(name, "Host")
	case len("Te"):
		return strings.EqualFold(name, "Te")
	case len("Expect"): // Cookie has the same length
		return strings.EqualFold(name, "Expect")
	case len("Upgrade"): // and Trailer
		return strings.EqualFold(name, "Upgrade") || strings.EqualFold(name, "Trailer")
	case len("Connection"): // and Keep-Alive
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case len("Content-Length"):
		return strings.EqualFold(name, "Content-Length")
	case len("Transfer-Encoding"):
		return strings.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

// tokens marks the characters of a token (RFC 9110), such as a header name.
var tokens = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return table
}()

func isToken[T string | []byte](name T) bool {
	for i := range len(name) {
		if !tokens[name[i]] {
			return false
		}
	}
	return len(name) > 0
}

// isPrintable reports whether a value has no control characters except tabs, so that it cannot end its line.
func isPrintable[T string | []byte](value T) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isEscaped reports whether a part of a URL is safe on the request line.
func isEscaped(part string) bool {
	for i := range len(part) {
		if c := part[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}
