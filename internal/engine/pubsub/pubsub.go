// Package pubsub sends messages between nodes over core NATS, which delivers each one at most once and stores none.
//
// A message wakes its subscribers or saves them a query; the state itself is in PostgreSQL or Redis. Nothing may
// depend on an arrival: a subscriber that misses a message notices the change later. Only ephemeral events, such as
// typing, have no other copy; they may be lost. OnConnect and OnLoss report when messages may have been missed.
// Durable frames go through package eventlog instead. Start with Publish and Subscribe.
package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/natslink"
)

// Config names the NATS servers.
type Config struct {
	// URL may hold credentials and may list several servers, separated by commas.
	URL secret.String
	// Name identifies this connection in the server's list of connections.
	Name   string
	Access natslink.Access
	// Log may be nil.
	Log *slog.Logger
}

// Bus is a connection to NATS that reconnects for as long as it is open. It is safe for concurrent use.
type Bus struct {
	conn *nats.Conn

	mu               sync.Mutex
	connected, lossy []func()
}

// Open prepares the connection. It does not wait for the server, so a node can start while NATS is down.
// It fails only if the URL or a file cannot be used.
func Open(c Config) (*Bus, error) {
	b := &Bus{}
	conn, err := natslink.Connect(c.URL, c.Name, c.Access, c.Log,
		nats.ConnectHandler(func(*nats.Conn) { b.runHandlers(&b.connected) }),
		nats.ReconnectHandler(func(*nats.Conn) { b.runHandlers(&b.connected) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			natslink.LogRefusal(c.Log, err)
			// The client reports ErrSlowConsumer when it drops messages because a subscription's buffer is full.
			if errors.Is(err, nats.ErrSlowConsumer) {
				b.runHandlers(&b.lossy)
			}
		}),
	)
	if err != nil {
		return nil, err
	}
	b.conn = conn
	return b, nil
}

// OnConnect registers a function that runs after every connect, including the first one: messages may have been missed
// before it. The function must not block, because it holds up the client's other callbacks.
func (b *Bus) OnConnect(do func()) { b.addHandler(&b.connected, do) }

// OnLoss registers a function that runs when messages were dropped because a subscriber was too slow.
// The function must not block.
func (b *Bus) OnLoss(do func()) { b.addHandler(&b.lossy, do) }

func (b *Bus) addHandler(to *[]func(), do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, do)
}

// runHandlers runs the functions outside the lock, so that they may register others.
func (b *Bus) runHandlers(list *[]func()) {
	b.mu.Lock()
	all := slices.Clone(*list)
	b.mu.Unlock()
	for _, do := range all {
		do()
	}
}

// Connected reports whether the connection is up. A connection that broke silently still counts as up until pings have
// gone unanswered for 15 seconds.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// Close closes the connection and ends its subscriptions.
func (b *Bus) Close() { b.conn.Close() }

// Ping returns an error unless the server answers before ctx ends. The context must have a deadline.
func (b *Bus) Ping(ctx context.Context) error {
	if !b.conn.IsConnected() {
		return errors.New("nats is not connected")
	}
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("ping nats: %w", err)
	}
	return nil
}

// Subject joins tokens into a subject. It rejects a token that is empty, contains a separator or a wildcard, and so
// could match or form another subject.
func Subject(tokens ...string) (string, error) {
	for _, token := range tokens {
		if token == "" || strings.ContainsAny(token, ".*> \t\r\n\x00") {
			return "", errors.New("a token of the subject is empty or contains a character that is not allowed")
		}
	}
	return strings.Join(tokens, "."), nil
}

// Publish sends a message to the current subscribers of a subject. It does not wait for the server: nil means that the
// message is in the connection's buffer. It fails while the connection is down.
func (b *Bus) Publish(subject string, payload []byte) error {
	if err := b.conn.Publish(subject, payload); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// parentHeader is the header with the contexts of traces.
const parentHeader = "traceparent"

// PublishTraced is Publish with the contexts of the traces that the parts of the payload belong to, in their order, as
// W3C Trace Context defines them. A part without one has an empty text. parents is nil if no part has one.
func (b *Bus) PublishTraced(subject string, payload []byte, parents []string) error {
	if len(parents) == 0 {
		return b.Publish(subject, payload)
	}
	if err := b.conn.PublishMsg(&nats.Msg{Subject: subject, Data: payload, Header: nats.Header{parentHeader: parents}}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// Subscribe calls handle with the last token of each subject that matches the pattern, and with the payload, until
// ctx ends. It blocks until then and calls handle for one message at a time, in the order of each publisher. The
// subscription survives reconnects. A subscriber that falls too far behind loses messages; see OnLoss.
func (b *Bus) Subscribe(ctx context.Context, pattern string, handle func(last string, payload []byte)) error {
	return b.subscribe(ctx, pattern, func(m *nats.Msg) {
		handle(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], m.Data)
	})
}

// SubscribeTraced is Subscribe with the contexts that PublishTraced has sent instead of the last token.
func (b *Bus) SubscribeTraced(ctx context.Context, pattern string, handle func(payload []byte, parents []string)) error {
	return b.subscribe(ctx, pattern, func(m *nats.Msg) { handle(m.Data, m.Header[parentHeader]) })
}

func (b *Bus) subscribe(ctx context.Context, pattern string, handle nats.MsgHandler) error {
	sub, err := b.conn.Subscribe(pattern, handle)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", pattern, err)
	}
	<-ctx.Done()
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("unsubscribe from %s: %w", pattern, err)
	}
	return nil
}
