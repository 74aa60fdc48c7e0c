package api_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

func random(t *testing.T) string {
	t.Helper()
	return strings.ToLower(rand.Text())
}

func withHeader(t *testing.T, method, url, key string, body any, name, value string) *http.Request {
	t.Helper()
	text, err := json.Marshal(body)
	must.OK(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(name, value)
	return req
}

// Of fifty equal requests with one Idempotency-Key on two nodes, one runs, and all of them get its response.
func TestEqualRequestsOnTwoNodesAreCarriedOutOnce(t *testing.T) {
	t.Parallel()
	nodes := testnode.Nodes(t, 2, testnode.Setup{})
	owner := nodes[0].NewOrg(t, unlimited)
	var first sync.Map
	var replayed, inProgress atomic.Int64
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			for {
				reply, err := testnode.Send(withHeader(t, http.MethodPost, nodes[i%2].URL+"/v1/me/keys", owner.Key, map[string]any{"label": "once"}, "Idempotency-Key", "k"))
				if err != nil {
					t.Error(err)
					return
				}
				if reply.Code() == "idempotency-in-progress" && reply.Header.Get("Retry-After") == "1" {
					inProgress.Add(1)
					<-time.After(10 * time.Millisecond)
					continue
				}
				if reply.Status != http.StatusCreated {
					t.Errorf("%d %s", reply.Status, reply.Body)
				}
				first.Store(string(reply.Body), true)
				if reply.Header.Get("Idempotency-Replayed") == "true" {
					replayed.Add(1)
				}
				return
			}
		})
	}
	wait.Wait()
	responses := 0
	first.Range(func(any, any) bool { responses++; return true })
	keys, _ := nodes[0].Call(t, http.MethodGet, "/v1/me/keys", owner.Key, nil).JSON()["keys"].([]any)
	if responses != 1 || replayed.Load() != 49 || len(keys) != 2 {
		t.Errorf("%d different responses, %d replayed, %d keys", responses, replayed.Load(), len(keys))
	}
	t.Logf("%d requests got idempotency-in-progress", inProgress.Load())
}

// If a node dies before it stores the response of a request, a retry on any node runs nothing and says that the outcome is
// unknown.
func TestARetryAfterItsNodeDiedIsNotRun(t *testing.T) {
	t.Parallel()
	database := testenv.DatabaseURL(t)
	nodes := testnode.Nodes(t, 2, testnode.Setup{Database: database})
	owner := nodes[0].NewOrg(t, unlimited)
	send := func(n *testnode.Node) testnode.Reply {
		reply, err := testnode.Send(withHeader(t, http.MethodPost, n.URL+"/v1/me/keys", owner.Key, map[string]any{"label": "once"}, "Idempotency-Key", "k"))
		must.OK(t, err)
		return reply
	}
	if reply := send(nodes[0]); reply.Status != http.StatusCreated {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	for _, c := range []struct{ lease, want string }{
		{"now() + interval '30 seconds'", `"code":"idempotency-in-progress"`}, {"now() - interval '1 second'", `"outcome":"unknown"`},
	} {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("UPDATE idempotency_key SET state = 'running', body = '', lease_until = %s WHERE org_id = $1", c.lease), owner.ID); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if reply := send(n); !strings.Contains(string(reply.Body), c.want) || reply.JSON()["retryable"] != strings.Contains(c.want, "in-progress") {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
		}
	}
	keys, _ := nodes[0].Call(t, http.MethodGet, "/v1/me/keys", owner.Key, nil).JSON()["keys"].([]any)
	if len(keys) != 2 {
		t.Errorf("%d keys", len(keys))
	}
}

// A response with a new key is stored encrypted: no table contains the key in the clear.
func TestStoredResponsesAreSealed(t *testing.T) {
	t.Parallel()
	database := testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, testnode.Setup{Database: database})[0]
	owner := node.NewOrg(t, unlimited)
	reply, err := testnode.Send(withHeader(t, http.MethodPost, node.URL+"/v1/me/keys", owner.Key, map[string]any{"label": "once"}, "Idempotency-Key", "k"))
	if err != nil || reply.Status != http.StatusCreated {
		t.Fatalf("%v %d %s", err, reply.Status, reply.Body)
	}
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	var body []byte
	must.OK(t, conn.QueryRow(t.Context(), "SELECT body FROM idempotency_key WHERE org_id = $1", owner.ID).Scan(&body))
	if key := reply.JSON()["key"].(string); len(body) < len(reply.Body) || bytes.Contains(body, []byte(key)) || bytes.Contains(body, []byte("once")) {
		t.Errorf("the stored response is readable: %q", body)
	}
}
