// Package redis runs Lua scripts on a shared Valkey or Redis, the only shared state that every call uses.
//
// PostgreSQL remains the system of record. If the server or all of its data is lost, counts and limits are inexact
// for a moment, and nothing else is lost. The package knows nothing about the scripts; package admission has most of
// them. Start with Client.Run.
package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/rueidis"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// ErrUnavailable is returned as long as there has never been a connection, and after Close. The command was not sent,
// so it had no effect.
var ErrUnavailable = errors.New("redis is not connected")

// Config names the server.
type Config struct {
	URL secret.String
	// Name identifies the connections in CLIENT LIST.
	Name string
	// CAFile has the certificates of the authorities that sign the server's certificate. Default: those of the system.
	// CertFile and KeyFile are the node's own certificate; they are read for every connection. Any of them requires a URL
	// that begins with rediss://.
	CAFile, CertFile, KeyFile string
	// Registry gets the metrics; nil for none.
	Registry prometheus.Registerer
}

// Client is a pair of connections that all callers share. Commands of concurrent callers are pipelined. It is safe for
// concurrent use.
type Client struct {
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client]
	// connections counts the connections that were begun, and terms has the last known term by shard.
	connections atomic.Int64
	terms       sync.Map
	// took measures scripts, by outcome.
	took *prometheus.HistogramVec

	mu sync.Mutex
	// dialling is closed when the current dial has ended; nil if there is none.
	dialling chan struct{}
	// lastDial is when the last dial ended, and lastErr why it failed.
	lastDial time.Time
	lastErr  error
	closing  bool
}

const (
	// dialTimeout is short because calls wait for a dial that another call started.
	dialTimeout = 250 * time.Millisecond
	// writeTimeout bounds how long a connection may not respond before it is closed. Callers stop waiting much earlier.
	writeTimeout = 5 * time.Second
	// redialAfter is the pause after a failed dial. Calls within it fail immediately, so that they do not dial an
	// unavailable server one after the other.
	redialAfter = 200 * time.Millisecond
)

// Open prepares a client. It does not connect, so a node can start while Redis is down.
func Open(c Config) (*Client, error) {
	option, err := rueidis.ParseURL(c.URL.Reveal())
	if err != nil {
		// The parser's error contains the URL, including the password.
		return nil, errors.New("REDIS_URL is not a Redis URL; it looks like redis://:password@host:6379/0 or, with TLS, rediss://:password@host:6379/0")
	}
	if err := c.secure(&option); err != nil {
		return nil, err
	}
	option.ClientName = c.Name
	option.DisableCache = true
	option.DisableRetry = true // a script may have run although its response was lost: only the caller can decide
	option.PipelineMultiplex = 1
	option.ConnWriteTimeout = writeTimeout
	option.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}
	client := &Client{option: option, took: promauto.With(c.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "stagedoor_redis_script_seconds", Help: "Time that scripts on Redis took, with the wait for a connection, by outcome.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	}, []string{"outcome"})}
	client.countConnections()
	return client, nil
}

// secure adds the certificates to the options.
func (c Config) secure(option *rueidis.ClientOption) error {
	if option.TLSConfig == nil {
		if c.CAFile != "" || c.CertFile != "" {
			return errors.New("REDIS_URL does not use TLS, but there are certificates for it: begin it with rediss://")
		}
		return nil
	}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return fmt.Errorf("STAGEDOOR_REDIS_CA_FILE: %w", err)
		}
		option.TLSConfig.RootCAs = x509.NewCertPool()
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return errors.New("STAGEDOOR_REDIS_CA_FILE has no certificate in PEM form")
		}
	}
	if c.CertFile != "" {
		read := func() (*tls.Certificate, error) {
			own, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("STAGEDOOR_REDIS_CERT_FILE, STAGEDOOR_REDIS_KEY_FILE: %w", err)
			}
			return &own, nil
		}
		if _, err := read(); err != nil {
			return err
		}
		option.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	option.Sentinel.TLSConfig = option.TLSConfig
	return nil
}

// ClearText returns the hosts of the URL to which connections are not encrypted.
func ClearText(u secret.String) (hosts []string) {
	option, err := rueidis.ParseURL(u.Reveal())
	if err != nil || option.TLSConfig != nil {
		return nil // Open reports the error
	}
	for _, address := range option.InitAddress {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address // the path of a Unix socket
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// Close closes the connections. Later commands return ErrUnavailable.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if client := c.client.Swap(nil); client != nil {
		(*client).Close()
	}
}

// connected returns the client. The first caller starts the dial; the others wait for it until their contexts end.
// After the first success the client is never replaced: rueidis reconnects it.
func (c *Client) connected(ctx context.Context) (rueidis.Client, error) {
	for {
		if client := c.client.Load(); client != nil {
			return *client, nil
		}
		dialling, err := c.dial()
		if err != nil {
			return nil, err
		}
		select {
		case <-dialling:
		case <-ctx.Done():
			return nil, ErrUnavailable
		}
	}
}

// dial starts a dial unless there is one already, and returns a channel that is closed when it has ended.
func (c *Client) dial() (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialling != nil {
		return c.dialling, nil
	}
	done := make(chan struct{})
	if c.client.Load() != nil { // connected since the caller looked
		close(done)
		return done, nil
	}
	if c.closing {
		return nil, ErrUnavailable
	}
	if time.Since(c.lastDial) < redialAfter {
		return nil, errors.Join(ErrUnavailable, c.lastErr)
	}
	c.dialling = done
	go func() {
		client, err := rueidis.NewClient(c.option)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(done)
		c.dialling, c.lastDial, c.lastErr = nil, time.Now(), err
		switch {
		case err != nil:
		case c.closing:
			client.Close()
		default:
			c.client.Store(&client)
		}
	}()
	return done, nil
}

// Ping returns an error unless the server answers.
func (c *Client) Ping(ctx context.Context) error {
	client, err := c.connected(ctx)
	if err != nil {
		return err
	}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	return nil
}

// Script is a Lua script. The server runs it atomically.
type Script struct{ lua *rueidis.Lua }

// NewScript prepares a script. It is sent by its hash, and with its full text only if the server does not know it.
func NewScript(text string) *Script { return &Script{rueidis.NewLuaScript(text)} }

// Run runs a script that returns a string. All keys must have the same hash tag. The script sees only what scripts have
// written in the server's current term.
//
// After ErrUnavailable the script did not run. After any other error, it may have run.
func (c *Client) Run(ctx context.Context, s *Script, keys, args []string) (result string, err error) {
	began := time.Now()
	defer func() {
		outcome := "ok"
		if err != nil {
			outcome = "failed"
		}
		c.took.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
	}()
	client, err := c.connected(ctx)
	if err != nil {
		return "", err
	}
	name, err := c.term(ctx, client, keys[0])
	if err != nil {
		return "", err
	}
	inTerm := make([]string, len(keys))
	for i, key := range keys {
		inTerm[i] = key + "@" + name
	}
	if result, err = s.lua.Exec(ctx, client, inTerm, args).ToString(); err != nil {
		return "", fmt.Errorf("run script: %w", err)
	}
	// The script may have run on a server that has become the primary since its term was read.
	switch now, err := c.term(ctx, client, keys[0]); {
	case err != nil:
		return "", err
	case now != name:
		return "", errNewTerm
	}
	return result, nil
}
