package testenv

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// SlowLink passes TCP on to another address, later by a delay that can be changed at any time.
type SlowLink struct {
	// Address is where to connect.
	Address string
	delay   atomic.Int64
}

// NewSlowLink starts a link without delay.
func NewSlowLink(t testing.TB, to string) *SlowLink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
			go l.pass(near, far)
			go l.pass(far, near)
		}
	}()
	return l
}

// SetDelay makes what is sent from now on arrive later, in each direction by half.
func (l *SlowLink) SetDelay(d time.Duration) { l.delay.Store(int64(d / 2)) }

type chunk struct {
	due  time.Time
	data []byte
}

// pass copies one direction. Chunks wait side by side, so that a delay costs time and not throughput.
func (l *SlowLink) pass(from, to net.Conn) {
	chunks := make(chan chunk, 1024)
	go func() {
		defer to.Close()
		for c := range chunks {
			if wait := time.Until(c.due); wait > 0 {
				<-time.After(wait)
			}
			if _, err := to.Write(c.data); err != nil {
				from.Close()
				for range chunks { // lets the reader end
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
