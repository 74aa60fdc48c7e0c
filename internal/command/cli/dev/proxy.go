package dev

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// proxy is the way out of a region: a forward proxy that leads to the sandbox platform and nowhere else. It leaves from a loopback
// address of its own, by which the platform tells regions apart, and asks for a password, so that the server does here what it does in
// production.
type proxy struct {
	source, target, password string
}

// proxyUser is whom the proxies know.
const proxyUser = "stagedoor"

// serve starts it on an address.
func (p *proxy) serve(ctx context.Context, address string) (io.Closer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends when it is closed
	return server, nil
}

// ServeHTTP opens a tunnel.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+p.password))
	switch {
	case subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1:
		w.Header().Set("Proxy-Authenticate", `Basic realm="stagedoor dev"`)
		http.Error(w, "the password is missing or wrong", http.StatusProxyAuthRequired)
		return
	case r.Method != http.MethodConnect || r.Host != p.target:
		http.Error(w, "this proxy leads to the sandbox only", http.StatusForbidden)
		return
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if source := net.ParseIP(p.source); canBind(source) {
		dialer.LocalAddr = &net.TCPAddr{IP: source}
	}
	out, err := dialer.DialContext(r.Context(), "tcp", p.target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the caller has gone
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(out, buffered) })
	both.Go(func() { pipe(in, out) })
	both.Wait()
}

// pipe copies until one side ends, and then tells the other.
func pipe(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // a broken connection is an ended one
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// canBind says whether this machine has an address; only Linux has all of 127.0.0.0/8 by itself.
func canBind(ip net.IP) bool {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
	if err != nil {
		return false
	}
	return l.Close() == nil
}
