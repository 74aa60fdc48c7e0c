package testenv

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/elazarl/goproxy"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Proxy is a CONNECT proxy that dials from a given loopback address, and can be killed and started again.
type Proxy struct {
	t      testing.TB
	source string // IP address that it dials from

	mu       sync.Mutex
	address  string
	listener net.Listener
	conns    map[net.Conn]struct{} // of clients and to targets
}

// NewProxy starts a proxy that dials from the IP address source. It stops when the test ends.
func NewProxy(t testing.TB, source string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, source: source, address: "127.0.0.1:0"}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// URL returns the address of the proxy. It stays the same after Kill and Start.
func (p *Proxy) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "http://" + p.address
}

// Start starts the proxy again after Kill, at the same address. It does nothing if the proxy is running.
func (p *Proxy) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := net.Listen("tcp", p.address)
	must.OK(p.t, err)
	p.address, p.listener, p.conns = l.Addr().String(), l, map[net.Conn]struct{}{}
	proxy := goproxy.NewProxyHttpServer()
	proxy.Logger = log.New(io.Discard, "", 0)
	proxy.ConnectDial = p.dial
	server := &http.Server{Handler: proxy, ErrorLog: log.New(io.Discard, "", 0), ConnState: p.trackClient}
	go func() { _ = server.Serve(l) }()
}

// trackClient records the connections of clients, so that Kill can close them.
func (p *Proxy) trackClient(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == http.StateNew && p.listener != nil {
		p.conns[conn] = struct{}{}
	}
}

func (p *Proxy) dial(_, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(p.source)}}).Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	p.conns[conn] = struct{}{}
	return conn, nil
}

// Kill stops the proxy and closes all of its connections.
func (p *Proxy) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	_ = p.listener.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.listener = nil
}
