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

// proxy is the egress proxy of a region. It forwards to the sandbox platform only and requires a password, as a proxy
// in production does. It connects from the loopback address source, by which the platform recognises the region.
type proxy struct {
	source, target, password string
}

// proxyUser is the user name that all proxies expect.
const proxyUser = "stagedoor"

// serve starts the proxy in the background. The caller closes it.
func (p *proxy) serve(ctx context.Context, address string) (io.Closer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // returns when the server is closed
	return server, nil
}

// ServeHTTP opens a tunnel for a CONNECT request to the target.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+p.password))
	switch {
	case subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1:
		w.Header().Set("Proxy-Authenticate", `Basic realm="stagedoor dev"`)
		http.Error(w, "the password is missing or wrong", http.StatusProxyAuthRequired)
		return
	case r.Method != http.MethodConnect || r.Host != p.target:
		http.Error(w, "this proxy forwards to the sandbox only", http.StatusForbidden)
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
		return // the client has disconnected
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

// pipe copies until from ends and then closes the writing side of to.
func pipe(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // an error ends the tunnel like EOF
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// canBind reports whether this machine can bind to an address. Only Linux has all of 127.0.0.0/8 by default.
func canBind(ip net.IP) bool {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
	if err != nil {
		return false
	}
	return l.Close() == nil
}
