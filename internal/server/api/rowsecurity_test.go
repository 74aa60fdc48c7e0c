package api_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// forgetful forwards connections to PostgreSQL and removes the conditions on the organisation from all queries, as if
// they had been forgotten. It keeps them in transactions that may see all organisations.
type forgetful struct {
	mu      sync.Mutex
	changed map[string]bool // by the text of the query
}

// orgCondition is the condition as the queries have it.
var orgCondition = regexp.MustCompile(`\b((?:\w+\.)?org_id) = (\$\d+)`)

// listen returns the URL of the database through the proxy.
func (f *forgetful) listen(t *testing.T, database secret.String) secret.String {
	t.Helper()
	address, err := url.Parse(database.Reveal())
	must.OK(t, err)
	server := address.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go f.forward(client, server)
		}
	}()
	address.Host = l.Addr().String()
	return secret.New(address.String())
}

func (f *forgetful) forward(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	// The first message has no type.
	for typed := false; ; typed = true {
		head := make([]byte, 4)
		if typed {
			head = make([]byte, 5)
		}
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		if typed && head[0] == 'P' {
			body = f.parse(body)
			binary.BigEndian.PutUint32(head[1:], uint32(len(body)+4))
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// parse changes the query in a message Parse: a name, the query, and the types of its parameters.
func (f *forgetful) parse(message []byte) []byte {
	name, rest, _ := bytes.Cut(message, []byte{0})
	query, types, _ := bytes.Cut(rest, []byte{0})
	text := orgCondition.ReplaceAll(query, []byte("(${1} = ${2} OR current_setting('stagedoor.org', true) <> '*')"))
	if !bytes.Equal(text, query) {
		f.mu.Lock()
		f.changed[string(query)] = true
		f.mu.Unlock()
	}
	return slices.Concat(name, []byte{0}, text, []byte{0}, types)
}

// If every query forgets its condition on the organisation, row-level security still hides other organisations: the
// whole tenant matrix holds. Without row-level security it does not, which shows that the conditions are removed.
func TestRowSecurityHoldsIfQueriesForgetTheOrg(t *testing.T) {
	t.Parallel()
	for name, asOwner := range map[string]bool{"with row-level security": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup, f := withSandbox(t), &forgetful{changed: map[string]bool{}}
			direct := testenv.DatabaseURL(t)
			setup.Database, setup.AsOwner = f.listen(t, direct), asOwner
			node := testnode.Nodes(t, 1, setup)[0]
			operations := node.App.API().Operations()
			if asOwner { // a few are enough
				operations = slices.DeleteFunc(slices.Clone(operations), func(op endpoint.Operation) bool {
					return op.ID != "getAccount" && op.ID != "listAccounts" && op.ID != "getSession"
				})
			}
			leaks, cases := crossTenants(t, node, direct, operations)
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Logf("%d cases, %d queries without their condition, %d leaks", cases, len(f.changed), len(leaks))
			if asOwner {
				if len(leaks) == 0 {
					t.Error("nothing leaks without row-level security: the conditions are not removed")
				}
				return
			}
			if len(f.changed) < 30 {
				t.Errorf("only %d queries were changed", len(f.changed))
			}
			for _, leak := range leaks {
				t.Error(leak)
			}
		})
	}
}
