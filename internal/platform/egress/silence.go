package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// activity is the result of checkActivity.
type activity int

const (
	connSilent activity = iota // nothing has arrived
	connSpoke                  // bytes have arrived that no call has asked for
	connEnded                  // the connection has ended
)

// checkActivity reports, without blocking, whether anything has arrived on a connection, in the socket or in a TLS
// layer above it. A request may be sent only on a silent connection: data that arrived before the request is not its
// response but would be read as such. No other goroutine may read from the connection at the same time, and its
// deadline must not have passed.
//
// It reads through TLS, so that messages of TLS itself, such as session tickets, do not count. It consumes a byte if
// there is one, so a connection that is not silent must be closed.
func checkActivity(conn net.Conn) activity {
	t := tunnelOf(conn)
	if t == nil {
		return connEnded // it was not opened by our dialer
	}
	t.polling = true
	defer func() { t.polling = false }()
	var one [1]byte
	n, err := conn.Read(one[:])
	switch {
	case n > 0:
		return connSpoke
	case !errors.Is(err, errNothingArrived):
		return connEnded
	case hasPartialRecord(conn):
		return connSpoke
	}
	return connSilent
}

// underlying returns the connection below a TLS layer, or nil if conn is not a layer.
func underlying(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *tls.Conn:
		return c.NetConn()
	case *recordTracker:
		return c.Conn
	}
	return nil
}

// tunnelOf returns the tunnel below a connection, or nil if there is none.
func tunnelOf(conn net.Conn) *tunnel {
	for ; conn != nil; conn = underlying(conn) {
		if t, ok := conn.(*tunnel); ok {
			return t
		}
	}
	return nil
}

// hasPartialRecord reports whether a TLS layer has received only a part of a record.
func hasPartialRecord(conn net.Conn) bool {
	for ; conn != nil; conn = underlying(conn) {
		if r, ok := conn.(*recordTracker); ok && (r.left > 0 || r.header > 0) {
			return true
		}
	}
	return false
}

// recordTracker sits below a TLS layer and tracks the boundaries of its records. crypto/tls buffers an incomplete
// record invisibly, so this is the only way to notice one.
type recordTracker struct {
	net.Conn
	header int // bytes of the current record's header that have arrived
	length int // length of the record, as far as its bytes have arrived
	left   int // bytes of the current record that have not arrived
}

// recordHeader is the size of a record's header: one byte of type, two of version, two of length.
const recordHeader = 5

func (r *recordTracker) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if r.left > 0 {
			passed := min(r.left, len(rest))
			r.left, rest = r.left-passed, rest[passed:]
			continue
		}
		if r.header++; r.header > 3 {
			r.length = r.length<<8 | int(rest[0])
		}
		if rest = rest[1:]; r.header == recordHeader {
			r.left, r.header, r.length = r.length, 0, 0
		}
	}
	return n, err
}

// errNothingArrived is the result of a non-blocking read that found nothing. crypto/tls treats it as a timeout and
// remains usable afterwards.
var errNothingArrived = &nothingArrived{}

type nothingArrived struct{}

func (*nothingArrived) Error() string   { return "nothing has arrived" }
func (*nothingArrived) Timeout() bool   { return true }
func (*nothingArrived) Temporary() bool { return true }

// poll reads from a socket without blocking. It is part of the tunnel and reuses its fields, so that checkActivity does
// not allocate.
type poll struct {
	socket   syscall.RawConn
	readFunc func(fd uintptr) bool
	into     []byte
	n        int
	err      error
}

func (p *poll) read(conn net.Conn, into []byte) (int, error) {
	if p.readFunc == nil {
		socket, ok := conn.(syscall.Conn)
		if !ok {
			return 0, errNothingArrived // a connection in memory (in tests), which has no buffer
		}
		var err error
		if p.socket, err = socket.SyscallConn(); err != nil {
			return 0, err
		}
		p.readFunc = p.readOnce
	}
	p.into = into
	err := p.socket.Read(p.readFunc)
	p.into = nil
	switch {
	case err != nil:
		return 0, net.ErrClosed // closed or past its deadline; unusable either way
	case errors.Is(p.err, syscall.EAGAIN):
		return 0, errNothingArrived
	case p.err != nil:
		return 0, p.err
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

// readOnce reads what has arrived. It always returns true, so that RawConn.Read does not wait for more.
func (p *poll) readOnce(fd uintptr) bool {
	for {
		p.n, p.err = syscall.Read(int(fd), p.into)
		if p.err != syscall.EINTR { //nolint:errorlint // syscall.Read does not wrap its errors
			return true
		}
	}
}
