// Package redis runs scripts on a shared Valkey or Redis: the only shared state that every call touches.
//
// Nothing in it is a truth of its own. Losing the server, or everything in it, costs exactness for a moment and no data.
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

// ErrUnavailable is returned while there has been no connection yet: what was asked for has surely not happened.
var ErrUnavailable = errors.New("redis is not connected")

// Config says where the server is.
type Config struct {
	URL secret.String
	// Name shows up in CLIENT LIST.
	Name string
}

// Client is a pair of connections that all callers share; commands of many callers travel together.
type Client struct {
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client]

	mu sync.Mutex
	// dialling is closed when the dial under way has ended; nil if none is.
	dialling chan struct{}
	tried    time.Time
	closing  bool
}

const (
	// dialTimeout is short: a call may have to wait for a dial that another one began.
	dialTimeout = 250 * time.Millisecond
	// writeTimeout is when a connection that does not answer is given up. Callers give up long before that.
	writeTimeout = 5 * time.Second
	// redialAfter keeps callers from dialling a server that is not there, one after the other.
	redialAfter = 200 * time.Millisecond
)

// Open prepares a client. It does not wait for the server: a node starts while it is away.
func Open(c Config) (*Client, error) {
	option, err := rueidis.ParseURL(c.URL.Reveal())
	if err != nil {
		// The parser's error quotes the URL, password and all.
		return nil, errors.New("REDIS_URL is not a Redis URL; it looks like redis://:password@host:6379/0")
	}
	option.ClientName = c.Name
	option.DisableCache = true
	option.DisableRetry = true // a script may have run although its answer was lost: only the caller knows what that means
	option.PipelineMultiplex = 1
	option.ConnWriteTimeout = writeTimeout
	option.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}
	return &Client{option: option}, nil
}

// Close ends the connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if client := c.client.Swap(nil); client != nil {
		(*client).Close()
	}
}

// connected returns the client. Whoever comes first dials; the others wait for that as long as they can.
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

// dial starts a dial unless one is under way, and returns what to wait for.
func (c *Client) dial() (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialling != nil {
		return c.dialling, nil
	}
	done := make(chan struct{})
	if c.client.Load() != nil {
		close(done)
		return done, nil
	}
	if c.closing || time.Since(c.tried) < redialAfter {
		return nil, ErrUnavailable
	}
	c.dialling = done
	go func() {
		client, err := rueidis.NewClient(c.option)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(done)
		c.dialling, c.tried = nil, time.Now()
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

// Ping says whether the server answers.
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

// Script is a Lua script that the server runs as one step.
type Script struct{ lua *rueidis.Lua }

// NewScript prepares a script; the server keeps its text under its hash.
func NewScript(text string) *Script { return &Script{rueidis.NewLuaScript(text)} }

// Run runs a script that answers with a string. All keys must carry the same hash tag.
//
// An error leaves open whether the script ran, except ErrUnavailable: then it did not.
func (c *Client) Run(ctx context.Context, s *Script, keys, args []string) (string, error) {
	client, err := c.connected(ctx)
	if err != nil {
		return "", err
	}
	answer, err := s.lua.Exec(ctx, client, keys, args).ToString()
	if err != nil {
		return "", fmt.Errorf("run script: %w", err)
	}
	return answer, nil
}
