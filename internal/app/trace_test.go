package app_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/must"
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

// delivered returns the storing of a message that was sent to a stream and to a webhook; nil if there is none yet.
func (c *collector) delivered() (stored *exported) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.spans {
		if c.spans[i].Name != "send stream" || texts(c.spans[i].Attributes)["stagedoor.event.kind"] != "message" {
			continue
		}
		of := c.spans[i].ParentSpanId
		for j := range c.spans {
			if c.spans[j].Name == "deliver webhook" && bytes.Equal(c.spans[j].ParentSpanId, of) {
				at := slices.IndexFunc(c.spans, func(s exported) bool { return bytes.Equal(s.SpanId, of) })
				if at >= 0 {
					return &exported{c.spans[at].Span, c.spans[at].resource}
				}
			}
		}
	}
	return nil
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
// cookie or key is exported, and receivers get no context. Histograms show the trace as an exemplar.
func TestATraceShowsTheWholePath(t *testing.T) {
	const content = "canary-in-a-message"
	c := newCollector(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds
	var (
		mu        sync.Mutex
		delivered = map[string]int{}
		contexts  []string
		stored    *exported // the storing of a message
	)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		delivered[r.Header.Get("X-Webhook-Event")]++
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
		stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+path+"/events", nil)
		must.OK(t, err)
		stream.Header.Set("Authorization", "Bearer "+owner.Key)
		stream.Header.Set("Accept", "text/event-stream")
		watched, err := http.DefaultTransport.RoundTrip(stream) //nolint:bodyclose // closed below
		must.OK(t, err)
		defer watched.Body.Close()
		go func() { _, _ = io.Copy(io.Discard, watched.Body) }()
		type request struct {
			method, path string
			body         map[string]any
			status       int
		}
		send := func(call request) {
			t.Helper()
			if r := api.Call(t, call.method, call.path, owner.Key, call.body); r.Status != call.status {
				t.Fatalf("%s %s: %d %s", call.method, call.path, r.Status, r.Body)
			}
		}
		for _, call := range []request{
			{http.MethodPut, path + "/webhook", map[string]any{"url": receiver.URL + "/hook"}, http.StatusOK},
			{http.MethodPost, path + "/fans/list", map[string]any{"limit": 1}, http.StatusOK},
			{http.MethodPatch, path, map[string]any{"label": content}, http.StatusOK},
		} {
			send(call)
		}
		fire := request{
			http.MethodPost, "/v1/sandbox/accounts/" + account + "/fire_event",
			map[string]any{"event": "message", "data": map[string]any{"text": content}}, http.StatusAccepted,
		}
		fired := 0
		// A stream that has just been opened may read its first events from the store, where they have no trace.
		testenv.Await(t, "the events are delivered, one of them on the stream as soon as it is stored", func() bool {
			mu.Lock()
			all, updated := delivered["message"] >= fired, delivered["account.updated"] > 0
			mu.Unlock()
			stored = c.delivered()
			if all && stored == nil {
				fired++
				send(fire)
			}
			return updated && stored != nil
		})
		scrape, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.Internal+"/metrics", nil)
		must.OK(t, err)
		scrape.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		metrics, err := testnode.Send(scrape)
		must.OK(t, err)
		for _, histogram := range []string{"stagedoor_http_request_duration_seconds", "stagedoor_call_duration_seconds", "stagedoor_platform_request_seconds"} {
			if !regexp.MustCompile(`(?m)^` + histogram + `_bucket\{.* # \{.*trace_id="[0-9a-f]{32}".*\} `).Match(metrics.Body) {
				t.Errorf("%s has no exemplar", histogram)
			}
		}
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

	message := texts(stored.Attributes)["messaging.message.id"]
	at := slices.IndexFunc(c.spans, func(s exported) bool { return bytes.Equal(s.SpanId, stored.ParentSpanId) })
	if at < 0 || message == "" {
		t.Fatalf("the frame of %q is missing. All spans:\n%s", message, c.list())
	}
	frame := &c.spans[at]
	if frame.Name != "send evt" || frame.resource["service.instance.id"] != "listener" || texts(frame.Attributes)[kind] != "message" {
		t.Errorf("the event was caused by %s of the node %s", frame.Name, frame.resource["service.instance.id"])
	}
	if frame.Kind != spans.Span_SPAN_KIND_PRODUCER || len(frame.ParentSpanId) > 0 {
		t.Errorf("the frame is a %s with the parent %x", frame.Kind, frame.ParentSpanId)
	}
	c.find(t, "worker", "process evt", frame, kind, "message", "messaging.message.id", message)
	c.find(t, "api", "send stream", stored, kind, "message")
	delivery := c.find(t, "worker", "deliver webhook", stored, kind, "message", "messaging.message.id", message)
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
