package app_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// exported is a span as a collector gets it.
type exported struct {
	*spans.Span
	// resource has the attributes of the node that exported it.
	resource map[string]string
}

func texts(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, one := range list {
		all[one.Key] = one.Value.GetStringValue()
	}
	return all
}

// collector receives traces over OTLP/HTTP, like the OpenTelemetry Collector.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	bytes []byte
	spans []exported
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collect.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bytes = append(c.bytes, body...)
		for _, from := range got.ResourceSpans {
			for _, scope := range from.ScopeSpans {
				for _, span := range scope.Spans {
					c.spans = append(c.spans, exported{span, texts(from.Resource.Attributes)})
				}
			}
		}
		answer, _ := proto.Marshal(&collect.ExportTraceServiceResponse{})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(c.Close)
	return c
}

// find returns the only span with a name and attributes, given as key, value, key, value. parent is its parent; nil means
// that it may have any.
func (c *collector) find(t *testing.T, node, name string, parent *exported, attributes ...string) *exported {
	t.Helper()
	var found []*exported
	for i := range c.spans {
		span := &c.spans[i]
		has := texts(span.Attributes)
		fits := span.Name == name && (parent == nil || bytes.Equal(span.ParentSpanId, parent.SpanId) && bytes.Equal(span.TraceId, parent.TraceId))
		for j := 0; j < len(attributes); j += 2 {
			fits = fits && has[attributes[j]] == attributes[j+1]
		}
		if fits {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		within := ""
		if parent != nil {
			within = " within " + parent.Name
		}
		t.Fatalf("there are %d spans %s %q%s; want 1. All spans:\n%s", len(found), name, attributes, within, c.list())
	}
	if at := found[0].resource["service.instance.id"]; at != node {
		t.Errorf("the span %s is of the node %s; want %s", name, at, node)
	}
	return found[0]
}

// list describes all spans, for failures.
func (c *collector) list() string {
	var out strings.Builder
	for _, s := range c.spans {
		out.WriteString(s.resource["service.instance.id"] + " " + hex.EncodeToString(s.TraceId[:4]) + " " + hex.EncodeToString(s.SpanId[:4]) +
			" in " + hex.EncodeToString(s.ParentSpanId[:min(4, len(s.ParentSpanId))]) + " " + s.Name + "\n")
	}
	return out.String()
}

// A collector shows the whole path, over nodes of three roles: a call with its admission and its request to the platform,
// a sign-in with its job, and events of the platform and of the service from their origin to their delivery. No content,
// cookie or key is exported, and neither platforms nor receivers get a context.
func TestATraceShowsTheWholePath(t *testing.T) {
	const content = "canary-in-a-message"
	c := newCollector(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	var (
		mu        sync.Mutex
		delivered = map[string]bool{}
		contexts  []string
	)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		delivered[r.Header.Get("X-Webhook-Event")] = true
		contexts = append(contexts, r.Header.Get("Traceparent"))
	}))
	defer receiver.Close()
	secrets := []string{testnode.AdminToken, content, receiver.URL}

	t.Run("use", func(t *testing.T) { // The nodes have stopped and flushed when this ends.
		_, setup := testnode.Sandbox(t, nil)
		setup.Database, setup.NATS, setup.EventLog = testenv.DatabaseURL(t), testenv.PrivateJetStream(t).URL, "jetstream"
		setup.Keyset, setup.OTLP = filepath.Join(t.TempDir(), "keyset.json"), c.URL
		start := func(role string) *testnode.Node {
			setup.Roles = []string{role}
			setup.Configure = func(settings *config.Config) { settings.Node = role }
			return testnode.Nodes(t, 1, setup)[0]
		}
		start("worker")
		start("listener")
		api := start("api")
		owner := api.NewOrg(t, nil)
		pasted := api.Call(t, http.MethodPost, "/v1/sandbox/session", owner.Key, map[string]any{"login": "ok+trace@sandbox.test"}).JSON()
		cookie, _ := pasted["cookie"].(string)
		for _, pair := range strings.Split(cookie, "; ") {
			if _, value, _ := strings.Cut(pair, "="); len(value) > 12 {
				secrets = append(secrets, value)
			}
		}
		secrets = append(secrets, owner.Key, cookie)
		account := api.Connect(t, owner.Key, "/v1/connect/cookie", map[string]any{
			"cookie": cookie, "user_agent": pasted["userAgent"], "headers": pasted["headers"], "proxy_country": "us",
		})
		path := "/v1/accounts/" + account
		secrets = append(secrets, account)
		for _, call := range []struct {
			method, path string
			body         map[string]any
			status       int
		}{
			{http.MethodPut, path + "/webhook", map[string]any{"url": receiver.URL + "/hook"}, http.StatusOK},
			{http.MethodPost, path + "/fans/list", map[string]any{"limit": 1}, http.StatusOK},
			{http.MethodPost, "/v1/sandbox/accounts/" + account + "/fire_event", map[string]any{"event": "message", "data": map[string]any{"text": content}}, http.StatusAccepted},
			{http.MethodPatch, path, map[string]any{"label": content}, http.StatusOK},
		} {
			if r := api.Call(t, call.method, call.path, owner.Key, call.body); r.Status != call.status {
				t.Fatalf("%s %s: %d %s", call.method, call.path, r.Status, r.Body)
			}
		}
		testenv.Await(t, "both events are delivered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return delivered["message"] && delivered["account.updated"]
		})
	})
	if t.Failed() {
		return
	}

	const (
		kind   = "stagedoor.event.kind"
		called = "stagedoor.operation"
	)
	request := c.find(t, "api", "POST /v1/accounts/{id}/{resource}/{method}", nil, called, "fans.list")
	if request.Kind != spans.Span_SPAN_KIND_SERVER || request.resource["service.name"] != "stagedoord" || request.resource["deployment.environment.name"] != "test" {
		t.Errorf("the request is a %s of %v", request.Kind, request.resource)
	}
	c.find(t, "api", "admission", request, "stagedoor.admission.outcome", "admitted")
	call := c.find(t, "api", "call", request, "stagedoor.method", "fans.list")
	c.find(t, "api", "session", call)
	if sent := c.find(t, "api", http.MethodGet, call, "stagedoor.region", "us"); sent.Kind != spans.Span_SPAN_KIND_CLIENT {
		t.Errorf("the request to the platform is a %s", sent.Kind)
	}

	connect := c.find(t, "api", "POST /v1/connect/cookie", nil)
	c.find(t, "worker", "process connect", connect)

	frame := c.find(t, "listener", "send evt", nil, kind, "message")
	if frame.Kind != spans.Span_SPAN_KIND_PRODUCER || len(frame.ParentSpanId) > 0 {
		t.Errorf("the frame is a %s with the parent %x", frame.Kind, frame.ParentSpanId)
	}
	stored := c.find(t, "worker", "process evt", frame, kind, "message")
	delivery := c.find(t, "worker", "deliver webhook", stored, kind, "message", "messaging.message.id", texts(stored.Attributes)["messaging.message.id"])
	c.find(t, "worker", http.MethodPost, delivery)

	patched := c.find(t, "api", "PATCH /v1/accounts/{id}", nil)
	stored = c.find(t, "worker", "process outbox", patched, kind, "account.updated")
	c.find(t, "worker", "deliver webhook", stored, kind, "account.updated")

	for _, text := range secrets {
		if text == "" || bytes.Contains(c.bytes, []byte(text)) || bytes.Contains(c.bytes, []byte(hex.EncodeToString([]byte(text)))) {
			t.Errorf("%.12s… is in a trace", text)
		}
	}
	if slices.ContainsFunc(contexts, func(text string) bool { return text != "" }) {
		t.Error("a receiver got the context of a trace")
	}
}
