package api_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/testenv"
)

// What a caller makes happen right after connecting is heard: the call waits until somebody listens to the account.
func TestNothingHappensUnheard(t *testing.T) {
	t.Parallel()
	node := testenv.Nodes(t, 1, withSandbox(t))[0]
	o := node.NewOrg(t, nil)
	for _, c := range []struct {
		path string
		body map[string]any
	}{
		{"/fire_event", map[string]any{"event": "message", "data": map[string]any{"text": "unheard?"}}},
		{"/act", map[string]any{"do": "message", "text": "unheard?"}},
	} {
		acc := connected(t, node, o)
		reply := node.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+acc+c.path, o.Key, c.body)
		if reply.Status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", c.path, reply.Status, reply.Body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL+"/v1/accounts/"+acc+"/events?last_event_id=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+o.Key)
		req.Header.Set("Accept", "text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		heard := false
		for lines := bufio.NewScanner(resp.Body); !heard && lines.Scan(); {
			heard = strings.Contains(lines.Text(), "unheard?")
		}
		if !heard {
			t.Errorf("%s: nothing of it in 20 s (%d)", c.path, resp.StatusCode)
		}
	}
}
