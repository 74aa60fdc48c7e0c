package main

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// relay forwards connections to a node. It can cut them abruptly, like a failing network.
type relay struct {
	listener net.Listener

	mu     sync.Mutex
	target string // empty while connections are cut
	open   map[net.Conn]bool
}

func newRelay(node string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, open: map[net.Conn]bool{}}
	r.restore(node)
	go r.accept()
	return r, nil
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

// cut closes all connections, and new ones until restore.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = ""
	for c := range r.open {
		c.Close()
	}
	clear(r.open)
}

// restore forwards new connections to a node.
func (r *relay) restore(node string) {
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
	if r.target != target { // cut while dialling
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
