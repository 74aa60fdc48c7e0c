// Package h1 writes requests and reads answers of HTTP/1.1 on a connection that one caller owns.
//
// It does no I/O of its own: requests are appended to a buffer, answers are read from an io.Reader that keeps the time. It is strict:
// what RFC 9112 leaves to the recipient's mercy is refused, because a connection on which two sides disagree where an answer ends
// gives one call's answer to another. Start with AppendRequest and Answer.
package h1

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Field is one line of a header.
type Field struct{ Name, Value string }

// Request is a request whose body is in memory.
type Request struct {
	Method string
	// Host is what the platform is called.
	Host string
	// Path begins with a slash and is escaped, and so is Query, which has no question mark and may be empty.
	Path, Query string
	// Header is sent in its order. Host, lengths and the connection's own headers are not for the caller to say.
	Header []Field
	// Cookies make one line.
	Cookies []Field
	Body    []byte
}

// ErrRequest means that a request cannot be sent as it is. It does not say which part: it may hold arguments or cookies.
var ErrRequest = errors.New("the request is not valid HTTP")

// AppendRequest appends a whole request.
func AppendRequest(to []byte, r *Request) ([]byte, error) {
	if !token(r.Method) || !escaped(r.Path) || r.Path == "" || r.Path[0] != '/' || !escaped(r.Query) || !escaped(r.Host) || r.Host == "" {
		return to, ErrRequest
	}
	to = append(append(append(to, r.Method...), ' '), r.Path...)
	if r.Query != "" {
		to = append(append(to, '?'), r.Query...)
	}
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), r.Host...), "\r\n"...)
	for _, f := range r.Header {
		if !token(f.Name) || !printable(f.Value) || ours(f.Name) {
			return to, ErrRequest
		}
		to = append(append(append(append(to, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	for i, c := range r.Cookies {
		if !token(c.Name) || !printable(c.Value) || strings.IndexByte(c.Value, ';') >= 0 {
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

// ours says whether a header is about the connection, which is not the caller's.
func ours(name string) bool {
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

// tokens are the characters of a name.
var tokens = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return table
}()

func token[T string | []byte](name T) bool {
	for i := range len(name) {
		if !tokens[name[i]] {
			return false
		}
	}
	return len(name) > 0
}

// printable says whether a value has no control characters, so that it cannot end its line.
func printable[T string | []byte](value T) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// escaped says whether a part of an address can stand on the first line.
func escaped(part string) bool {
	for i := range len(part) {
		if c := part[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}
