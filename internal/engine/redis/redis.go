// Package redis runs Lua scripts on a shared Valkey or Redis, the only shared state that every call uses.
//
// PostgreSQL remains the system of record. If the server or all of its data is lost, counts and limits are inexact
// for a moment, and nothing else is lost. The package knows nothing about the scripts; package admission has most of
// them. Start with Client.Run.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

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
}

// Client is a pair of connections that all callers share. Commands of concurrent callers are pipelined. It is safe for
// concurrent use.
type Client struct {
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client]

	mu sync.Mutex
	// dialling is closed when the current dial has ended; nil if there is none.
	dialling chan struct{}
	// lastDial is when the last dial ended.
	lastDial time.Time
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
		return nil, errors.New("REDIS_URL is not a Redis URL; it looks like redis://:password@host:6379/0")
	}
	option.ClientName = c.Name
	option.DisableCache = true
	option.DisableRetry = true // a script may have run although its response was lost: only the caller can decide
	option.PipelineMultiplex = 1
	option.ConnWriteTimeout = writeTimeout
	option.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}
	return &Client{option: option}, nil
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
	if c.closing || time.Since(c.lastDial) < redialAfter {
		return nil, ErrUnavailable
	}
	c.dialling = done
	go func() {
		client, err := rueidis.NewClient(c.option)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(done)
		c.dialling, c.lastDial = nil, time.Now()
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

// Run runs a script that returns a string. All keys must have the same hash tag.
//
// After ErrUnavailable the script did not run. After any other error, it may have run.
func (c *Client) Run(ctx context.Context, s *Script, keys, args []string) (string, error) {
	client, err := c.connected(ctx)
	if err != nil {
		return "", err
	}
	result, err := s.lua.Exec(ctx, client, keys, args).ToString()
	if err != nil {
		return "", fmt.Errorf("run script: %w", err)
	}
	return result, nil
}
