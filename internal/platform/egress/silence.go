package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// heard is what a look at a connection finds.
type heard int

const (
	silent heard = iota // nothing has arrived
	spoke               // bytes have arrived that no call has asked for
	over                // the connection has ended
)

// look says whether anything has arrived on a connection, in the socket or in a layer of TLS above it, without waiting. A request
// may be sent only on a connection that is silent: what has arrived before the request was sent is not its answer, but would be read
// as such. No other goroutine may read from the connection meanwhile, and its deadline must not have passed.
//
// The look goes through TLS, so that messages of TLS itself, such as session tickets, do not count.
func look(conn net.Conn) heard {
	t := tunnelOf(conn)
	if t == nil {
		return over // it did not come from the dialer
	}
	t.polling = true
	defer func() { t.polling = false }()
	var one [1]byte
	n, err := conn.Read(one[:])
	switch {
	case n > 0:
		return spoke
	case !errors.Is(err, errNothingArrived):
		return over
	case partial(conn):
		return spoke
	}
	return silent
}

// below gives what a layer runs over; nil if it is no layer.
func below(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *tls.Conn:
		return c.NetConn()
	case *records:
		return c.Conn
	}
	return nil
}

// tunnelOf finds the tunnel that a connection runs over.
func tunnelOf(conn net.Conn) *tunnel {
	for ; conn != nil; conn = below(conn) {
		if t, ok := conn.(*tunnel); ok {
			return t
		}
	}
	return nil
}

// partial says whether a layer of TLS waits for the rest of a record.
func partial(conn net.Conn) bool {
	for ; conn != nil; conn = below(conn) {
		if r, ok := conn.(*records); ok && (r.left > 0 || r.header > 0) {
			return true
		}
	}
	return false
}

// records lies below a layer of TLS and follows where its records begin and end: TLS keeps the beginning of a record to itself until
// the rest has come.
type records struct {
	net.Conn
	header int // how many bytes of a record's header have come
	length int // as far as they say
	left   int // bytes of the record that have not come
}

// recordHeader is the size of a header: a type, two bytes of version, two bytes of length.
const recordHeader = 5

func (r *records) Read(p []byte) (int, error) {
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

// errNothingArrived ends a read that must not wait. TLS takes it for a time-out, after which it can go on.
var errNothingArrived = &nothingArrived{}

type nothingArrived struct{}

func (*nothingArrived) Error() string   { return "nothing has arrived" }
func (*nothingArrived) Timeout() bool   { return true }
func (*nothingArrived) Temporary() bool { return true }

// poll reads from a socket without waiting. Its memory is part of the tunnel, so that a look allocates nothing.
type poll struct {
	socket syscall.RawConn
	try    func(fd uintptr) bool
	into   []byte
	n      int
	err    error
}

func (p *poll) read(conn net.Conn, into []byte) (int, error) {
	if p.try == nil {
		socket, ok := conn.(syscall.Conn)
		if !ok {
			return 0, errNothingArrived // a connection in memory, which has no buffer
		}
		var err error
		if p.socket, err = socket.SyscallConn(); err != nil {
			return 0, err
		}
		p.try = p.once
	}
	p.into = into
	err := p.socket.Read(p.try)
	p.into = nil
	switch {
	case err != nil:
		return 0, net.ErrClosed // closed, or past its deadline: of no use either way
	case errors.Is(p.err, syscall.EAGAIN):
		return 0, errNothingArrived
	case p.err != nil:
		return 0, p.err
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

// once reads what is there. It never asks to be called again.
func (p *poll) once(fd uintptr) bool {
	for {
		p.n, p.err = syscall.Read(int(fd), p.into)
		if p.err != syscall.EINTR { //nolint:errorlint // an error number of the system is never wrapped
			return true
		}
	}
}
