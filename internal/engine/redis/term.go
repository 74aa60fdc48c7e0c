package redis

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base32"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A term is the time for which one server process is the primary. Every key ends with the name of the term in which it
// was written, so data of an earlier term is never read again, and expires. Such data is dangerous because it looks
// valid: a promoted replica lacks the last writes of its primary, and a restarted server may load an old snapshot. A new
// term begins like an empty server, which callers must expect anyway.
type term struct {
	name string
	// connections is Client.connections when the server was asked, and asked when that was.
	connections int64
	asked       time.Time
}

// termFor is how long a connection may stay without being asked for the term. A server can be demoted and promoted
// again while a connection stays open.
const termFor = 5 * time.Second

// errNewTerm means that the primary changed while a script ran.
var errNewTerm = errors.New("the primary has changed")

// readTerm identifies the process and how it became the primary: at which offset it ended the history of the one
// before it. KEYS[1] selects the shard.
var readTerm = rueidis.NewLuaScript(`local answer = ''
for _, section in ipairs({'server', 'replication'}) do answer = answer .. redis.call('INFO', section) end
return answer`)

// countConnections makes every new connection invalidate the known terms, because it may lead to another server.
func (c *Client) countConnections() {
	dial := c.option.DialCtxFn // for Unix sockets
	if dial == nil {
		dial = dialTCP
	}
	c.option.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		c.connections.Add(1)
		return dial(ctx, address, d, t)
	}
}

func dialTCP(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t == nil {
		return d.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
}

// term returns the name of the current term of the server that has a key. It asks the server if there has been a new
// connection since the last time.
func (c *Client) term(ctx context.Context, client rueidis.Client, key string) (string, error) {
	slot := shardOf(client, key)
	connections := c.connections.Load()
	if known, ok := c.terms.Load(slot); ok {
		if t := known.(term); t.connections == connections && time.Since(t.asked) < termFor {
			return t.name, nil
		}
	}
	asked := time.Now()
	answer, err := readTerm.Exec(ctx, client, []string{key}, nil).ToString()
	if err != nil {
		return "", fmt.Errorf("ask for the term of the server: %w", err)
	}
	t := term{name: termName(answer), connections: connections, asked: asked}
	c.terms.Store(slot, t)
	return t.name, nil
}

// shardOf returns the slot of a key in a cluster, and 0 if there is only one server.
func shardOf(client rueidis.Client, key string) uint16 {
	if client.Mode() != rueidis.ClientModeCluster {
		return 0
	}
	get := client.B().Get().Key(key).Build() // commands know the slot of their key
	return get.Slot()
}

// termName derives the name of a term from INFO.
func termName(info string) string {
	var process, history string
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			process = value
		case "second_repl_offset":
			history = value
		}
	}
	sum := sha256.Sum256([]byte(process + " " + history))
	return base32.StdEncoding.EncodeToString(sum[:5])
}
