package main

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// relay stands between a client and a node, so that the connection can be cut as a network would: without a word.
type relay struct {
	listener net.Listener

	mu     sync.Mutex
	target string // empty while it is cut
	open   map[net.Conn]bool
}

func newRelay(node string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, open: map[net.Conn]bool{}}
	r.mend(node)
	go r.accept()
	return r, nil
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

// cut ends all connections, and every new one until mend.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = ""
	for c := range r.open {
		c.Close()
	}
	clear(r.open)
}

// mend lets connections through again, to another node if you like.
func (r *relay) mend(node string) {
	at, err := url.Parse(node)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = at.Host
}

func (r *relay) stop() {
	r.listener.Close()
	r.cut()
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.join(near)
	}
}

func (r *relay) join(near net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	if target == "" {
		near.Close()
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		near.Close()
		return
	}
	r.mu.Lock()
	if r.target != target { // cut meanwhile
		r.mu.Unlock()
		near.Close()
		far.Close()
		return
	}
	r.open[near], r.open[far] = true, true
	r.mu.Unlock()
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	go pass(near, far)
	pass(far, near)
}
