package testenv

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// SlowLink forwards TCP connections to another address, with a delay that can be changed at any time.
type SlowLink struct {
	Address string
	delay   atomic.Int64 // nanoseconds in each direction
}

// NewSlowLink starts a link to an address, without delay. It stops when the test ends.
func NewSlowLink(t testing.TB, to string) *SlowLink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	l := &SlowLink{Address: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go l.forward(near, far)
			go l.forward(far, near)
		}
	}()
	return l
}

// SetDelay delays what is sent from now on: d for a round trip, half of it in each direction.
func (l *SlowLink) SetDelay(d time.Duration) { l.delay.Store(int64(d / 2)) }

type chunk struct {
	due  time.Time
	data []byte
}

// forward copies one direction. Chunks wait concurrently, so a delay adds latency but does not reduce throughput.
func (l *SlowLink) forward(from, to net.Conn) {
	chunks := make(chan chunk, 1024)
	go func() {
		defer to.Close()
		for c := range chunks {
			if wait := time.Until(c.due); wait > 0 {
				<-time.After(wait)
			}
			if _, err := to.Write(c.data); err != nil {
				from.Close()
				for range chunks { // so that the reader does not block
				}
				return
			}
		}
	}()
	defer close(chunks)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			chunks <- chunk{time.Now().Add(time.Duration(l.delay.Load())), buf[:n]}
		}
		if err != nil {
			if err != io.EOF {
				to.Close()
			}
			return
		}
	}
}
