package stagedoor_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

const message = `{"result":{"id":"1","chatId":"2","text":"Hi","createdAt":"2026-11-15T12:00:00Z"}}`

var hi = stagedoor.MessagesSendParams{ChatID: "2", Text: "Hi"}

func TestSendCarriesKeyAgentAndBody(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{UserAgent: "inbox/1"},
		func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, message) })
	sent, err := s.client.Account("acct_1").Messages.Send(t.Context(), hi)
	if err != nil || sent.ID != "1" || sent.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", sent, err)
	}
	r := s.requests()[0]
	if r.method != "POST" || r.path != "/v1/accounts/acct_1/messages/send" || r.body != `{"chatId":"2","text":"Hi"}` {
		t.Errorf("sent %+v", r)
	}
	if r.header.Get("Authorization") != "Bearer ck_test_x" || r.header.Get("User-Agent") != "inbox/1 stagedoor-go/"+stagedoor.Version {
		t.Errorf("headers %v", r.header)
	}
	if len(r.header.Get("Idempotency-Key")) != 36 {
		t.Errorf("key %q", r.header.Get("Idempotency-Key"))
	}
}

func TestRetryWaitsAsRequestedAndKeepsTheKey(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 0:
			respondProblem(w, 429, "quota-exceeded", `,"retryable":true,"retryAfterSec":7`)
		case 1:
			respondProblem(w, 503, "service-unavailable", `,"retryable":true`)
		default:
			respond(w, message)
		}
	})
	if _, err := s.client.Account("a").Messages.Send(t.Context(), hi); err != nil {
		t.Fatal(err)
	}
	all := s.requests()
	if len(all) != 3 || all[0].header.Get("Idempotency-Key") != all[2].header.Get("Idempotency-Key") {
		t.Errorf("%d requests: %v", len(all), all)
	}
	if waits := s.waits(); len(waits) != 2 || waits[0] != 7*time.Second || waits[1] != time.Second {
		t.Errorf("waited %v", waits)
	}
}

func TestDoesNotRetry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		code   string
		more   string
		option stagedoor.CallOption
		want   int
	}{
		"not retryable":             {422, "validation-failed", `,"retryable":false`, nil, 1},
		"disconnected account":      {410, "account-disconnected", `,"retryable":true`, nil, 1},
		"unknown outcome":           {504, "upstream/timeout", `,"retryable":true,"outcome":"unknown"`, nil, 1},
		"wait of over a minute":     {429, "quota-exceeded", `,"retryable":true,"retryAfterSec":61`, nil, 1},
		"more than twice":           {503, "service-unavailable", `,"retryable":true`, nil, 3},
		"WithMaxRetries(0)":         {503, "service-unavailable", `,"retryable":true`, stagedoor.WithMaxRetries(0), 1},
		"more than WithMaxRetries":  {503, "service-unavailable", `,"retryable":true`, stagedoor.WithMaxRetries(1), 2},
		"problem without retryable": {409, "idempotency-in-progress", ``, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, stagedoor.Options{},
				func(w http.ResponseWriter, _ *http.Request, _ int) { respondProblem(w, c.status, c.code, c.more) })
			var options []stagedoor.CallOption
			if c.option != nil {
				options = append(options, c.option)
			}
			_, err := s.client.Account("a").Messages.Send(t.Context(), hi, options...)
			if !stagedoor.IsProblem(err, stagedoor.ProblemCode(c.code)) || len(s.requests()) != c.want {
				t.Errorf("%d requests, %v", len(s.requests()), err)
			}
		})
	}
}

func TestBrokenConnectionIsRetriedOnlyIfSafe(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 0 {
			panic(http.ErrAbortHandler)
		}
		respond(w, message)
	}
	s := serve(t, stagedoor.Options{}, cut)
	if _, err := s.client.Account("a").Messages.Send(t.Context(), hi); err != nil {
		t.Errorf("write with a key: %v", err)
	}
	s = serve(t, stagedoor.Options{}, cut)
	_, err := s.client.Request(t.Context(), stagedoor.Request{Method: "POST", Path: "/v1/x", Body: []byte(`{}`)})
	var broken *stagedoor.ConnectionError
	if !errors.As(err, &broken) || len(s.requests()) != 1 {
		t.Errorf("write without a key: %d requests, %v", len(s.requests()), err)
	}
}

func TestProblemIsDecoded(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		respondProblem(w, 422, "validation-failed",
			`,"retryable":false,"errors":[{"pointer":"/text","code":"too_long","detail":"too long"}],"uploadId":"9"`)
	})
	_, err := s.client.Me.Get(t.Context())
	var p *stagedoor.Problem
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	var upload string
	if p.Status != 422 || p.Code != stagedoor.CodeValidationFailed || p.RequestID != "req_1" || len(p.Errors) != 1 || p.Errors[0].Pointer != "/text" ||
		p.DocURL != "https://x/problems/validation-failed" || !p.Member("uploadId", &upload) || upload != "9" || p.Member("no", &upload) {
		t.Errorf("%+v", p)
	}
	if text := p.Error(); !strings.Contains(text, "422 validation-failed: D; /text: too long (req_1)") {
		t.Error(text)
	}
	if stagedoor.IsProblem(err, stagedoor.CodeQuotaExceeded) || !stagedoor.IsProblem(err) || stagedoor.IsProblem(errors.New("x")) {
		t.Error("IsProblem is wrong")
	}
}

func TestResponseOfProxyIsAProblemWithoutCode(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 0 {
			http.Error(w, "<html>bad gateway</html>", 502)
			return
		}
		http.Error(w, "nope", 404)
	})
	_, err := s.client.Me.Get(t.Context())
	var p *stagedoor.Problem
	if !errors.As(err, &p) || p.Status != 404 || p.Code != "" || p.Title != "Not Found" || len(s.requests()) != 2 {
		t.Errorf("%d requests, %v", len(s.requests()), err)
	}
}

func TestCallOptions(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{},
		func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, `{"result":null,"dryRun":true}`) })
	sent, err := s.client.Account("a").Messages.Send(t.Context(), hi, stagedoor.WithDryRun(), stagedoor.WithIdempotencyKey("mine"), stagedoor.WithLenient())
	if err != nil || sent.ID != "" {
		t.Fatalf("%+v, %v", sent, err)
	}
	h := s.requests()[0].header
	if h.Get("X-Dry-Run") != "true" || h.Get("Idempotency-Key") != "mine" || h.Get("Prefer") != "handling=lenient" {
		t.Errorf("%v", h)
	}
}

func TestReadsUseGetAndListsOfIDsUsePost(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{},
		func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, `{"result":{"items":[]}}`) })
	a := s.client.Account("a/b")
	if _, err := a.Messages.List(t.Context(), stagedoor.MessagesListParams{ChatID: "2", Limit: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Users.List(t.Context(), stagedoor.UsersListParams{UserIDs: []string{"1", "2"}}); err != nil {
		t.Fatal(err)
	}
	all := s.requests()
	if all[0].method != "GET" || all[0].query != "chatId=2&limit=5" || all[0].header.Get("Idempotency-Key") != "" || all[0].path != "/v1/accounts/a/b/messages/list" {
		t.Errorf("%+v", all[0])
	}
	if all[1].method != "POST" || all[1].body != `{"userIds":["1","2"]}` {
		t.Errorf("%+v", all[1])
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, r *http.Request, _ int) {
		if strings.HasSuffix(r.URL.Path, "/webhook") {
			respond(w, `{"webhook":{"url":"https://x","health":{"state":"healthy"}}}`)
			return
		}
		respond(w,
			`{"events":[{"id":"evt_1","event":"message","accountId":null,"ts":"2026-11-15T12:00:00Z","data":{},"meta":{}}],"nextCursor":null,"gap":false}`)
	})
	hook, err := s.client.Webhooks.Set(t.Context(), "acct_1", stagedoor.WebhooksSetParams{URL: "https://x", Events: []string{"message"}})
	if err != nil || hook.URL != "https://x" {
		t.Fatalf("%+v, %v", hook, err)
	}
	page, err := s.client.Events.List(t.Context(), stagedoor.EventsListParams{Events: []string{"message", "tips"}, Latest: 1})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != stagedoor.KindMessage {
		t.Fatalf("%+v, %v", page, err)
	}
	all := s.requests()
	if all[0].method != "PUT" || all[0].path != "/v1/accounts/acct_1/webhook" || all[0].body != `{"events":["message"],"url":"https://x"}` {
		t.Errorf("%+v", all[0])
	}
	if all[1].query != "events=message%2Ctips&latest=1" || all[1].header.Get("Accept") != "application/json" {
		t.Errorf("%+v", all[1])
	}
}

func TestCallByName(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, message) })
	result, err := s.client.Account("a").Call(t.Context(), "messages.send", map[string]any{"chatId": "2"})
	if r := s.requests()[0]; err != nil || !strings.Contains(string(result), `"text":"Hi"`) || r.path != "/v1/accounts/a/messages/send" || r.body != `{"chatId":"2"}` {
		t.Errorf("%s, %v, %+v", result, err, r)
	}
	if _, err := s.client.Account("a").Call(t.Context(), "send", nil); err == nil {
		t.Error("a name without a resource was accepted")
	}
}

func TestListAllIteratesOverPages(t *testing.T) {
	t.Parallel()
	pages := []string{
		`{"result":{"items":[{"id":"1"},{"id":"2"}],"nextCursor":"b","hasMore":true}}`,
		`{"result":{"items":[],"nextCursor":"c","hasMore":true}}`,
		`{"result":{"items":[{"id":"3"}],"nextCursor":null,"hasMore":false}}`,
	}
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) { respond(w, pages[n%3]) })
	var ids []string
	for m, err := range s.client.Account("a").Messages.ListAll(t.Context(), stagedoor.MessagesListParams{ChatID: "2"}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	all := s.requests()
	if strings.Join(ids, "") != "123" || all[1].query != "chatId=2&cursor=b" || all[2].query != "chatId=2&cursor=c" {
		t.Errorf("%v, %v", ids, all)
	}
	for range s.client.Account("a").Messages.ListAll(t.Context(), stagedoor.MessagesListParams{ChatID: "2"}) {
		break
	}
	if len(s.requests()) != 4 {
		t.Errorf("%d requests after leaving the loop", len(s.requests()))
	}
}

func TestListEndsWhenCursorStopsChanging(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		respond(w, `{"events":[],"nextCursor":"5","gap":false}`)
	})
	for _, err := range s.client.Events.ListOfAccountAll(t.Context(), "a", stagedoor.EventsListOfAccountParams{}) {
		t.Fatal(err)
	}
	if len(s.requests()) != 2 {
		t.Errorf("%d requests, want 2", len(s.requests()))
	}
}

func TestListAllYieldsError(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{},
		func(w http.ResponseWriter, _ *http.Request, _ int) { respondProblem(w, 404, "account-not-found", "") })
	for _, err := range s.client.Accounts.ListAll(t.Context(), stagedoor.AccountsListParams{}) {
		if !stagedoor.IsProblem(err, stagedoor.CodeAccountNotFound) {
			t.Error(err)
		}
	}
}

func TestCancelledContextStopsRetries(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		cancel()
		respondProblem(w, 503, "service-unavailable", `,"retryable":true`)
	})
	if _, err := s.client.Me.Get(ctx); !errors.Is(err, context.Canceled) || len(s.requests()) != 1 {
		t.Errorf("%d requests, %v", len(s.requests()), err)
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []stagedoor.Options{{BaseURL: "api.example.com"}, {BaseURL: "ftp://x"}, {BaseURL: "http://%"}, {BaseURL: "http://x", APIKey: "a\n"}} {
		if _, err := stagedoor.New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestNewUsesEnvironment(t *testing.T) {
	t.Setenv("STAGEDOOR_URL", "http://127.0.0.1:1/")
	t.Setenv("STAGEDOOR_API_KEY", "ck_test_env")
	c, err := stagedoor.New(stagedoor.Options{})
	if err != nil || c.BaseURL() != "http://127.0.0.1:1" {
		t.Errorf("%v", err)
	}
}

func TestWithResponseStoresTheResponse(t *testing.T) {
	t.Parallel()
	const body = `{"attempt_id":"att_1","state":"pending","extracted":{"cookies":["sess"]}}`
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("ETag", "1")
		respond(w, body)
	})
	var res stagedoor.Response
	params := stagedoor.ConnectCurlParams{Curl: "curl x"}
	got, err := s.client.Connect.Curl(t.Context(), params, stagedoor.WithResponse(&res))
	if err != nil || got.Attempt.AttemptID != "att_1" || len(got.Extracted.Cookies) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if res.Status != http.StatusOK || res.Header.Get("ETag") != "1" || string(res.Body) != body {
		t.Errorf("%+v", res)
	}
}

func TestSecretIsRotatedWithoutOverlap(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		respond(w, `{"webhook":{}}`)
	})
	params := stagedoor.WebhooksRotateSecretParams{OverlapSec: stagedoor.Ptr[int64](0)}
	if _, err := s.client.Webhooks.RotateSecret(t.Context(), "acct_1", params); err != nil {
		t.Fatal(err)
	}
	if sent := s.requests()[0].body; sent != `{"overlapSec":0}` {
		t.Errorf("sent %s", sent)
	}
}
