// Package pubsub carries pokes between nodes over core NATS: at most once, in milliseconds, to whoever listens.
//
// A poke only makes something happen sooner that would happen anyway. Nothing may depend on its arrival.
package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Config says where the servers are.
type Config struct {
	URL secret.String
	// Name shows up in the server's list of connections.
	Name string
}

// Bus is a connection that repairs itself.
type Bus struct {
	conn *nats.Conn

	mu               sync.Mutex
	connected, lossy []func()
}

// Open prepares the connection. It does not wait for the server: a node starts while it is away.
func Open(c Config) (*Bus, error) {
	b := &Bus{}
	conn, err := nats.Connect(c.URL.Reveal(),
		nats.Name(c.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond),
		nats.ReconnectBufSize(-1), // a poke that is late is worth nothing
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(*nats.Conn) { b.call(&b.connected) }),
		nats.ReconnectHandler(func(*nats.Conn) { b.call(&b.connected) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				b.call(&b.lossy)
			}
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("NATS_URL cannot be used; it looks like nats://host:4222: %w", err)
	}
	b.conn = conn
	return b, nil
}

// OnConnect adds what is called whenever the connection is there again, or for the first time: pokes may have been missed.
func (b *Bus) OnConnect(do func()) { b.add(&b.connected, do) }

// OnLoss adds what is called when whoever listens was too slow, and pokes were dropped.
func (b *Bus) OnLoss(do func()) { b.add(&b.lossy, do) }

func (b *Bus) add(to *[]func(), do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, do)
}

func (b *Bus) call(list *[]func()) {
	b.mu.Lock()
	all := slices.Clone(*list)
	b.mu.Unlock()
	for _, do := range all {
		do()
	}
}

// Connected says whether pokes go out and come in now, as far as is known.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// Close ends the connection and its subscriptions.
func (b *Bus) Close() { b.conn.Close() }

// Ping says whether the server answers.
func (b *Bus) Ping(ctx context.Context) error {
	if !b.conn.IsConnected() {
		return errors.New("nats is not connected")
	}
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("ping nats: %w", err)
	}
	return nil
}

// Subject joins tokens into a subject. A token that could reach into another subject is an error.
func Subject(tokens ...string) (string, error) {
	for _, token := range tokens {
		if token == "" || strings.ContainsAny(token, ".*> \t\r\n\x00") {
			return "", errors.New("a subject's token is empty or has a character that is not allowed")
		}
	}
	return strings.Join(tokens, "."), nil
}

// Poke tells whoever listens on a subject.
func (b *Bus) Poke(subject string, payload []byte) error {
	if err := b.conn.Publish(subject, payload); err != nil {
		return fmt.Errorf("poke: %w", err)
	}
	return nil
}

// Listen calls heard, one poke after the other, with the last token of the subject and the payload, until the context ends.
func (b *Bus) Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error {
	sub, err := b.conn.Subscribe(pattern, func(m *nats.Msg) {
		heard(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], m.Data)
	})
	if err != nil {
		return fmt.Errorf("listen on the bus: %w", err)
	}
	<-ctx.Done()
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("stop listening on the bus: %w", err)
	}
	return nil
}
