package stagedoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func eventText(id, kind, data string) string {
	return fmt.Sprintf(`{"id":%q,"event":%q,"accountId":"a","ts":"2026-11-15T12:00:00Z","data":%s,"meta":{"seq":1,"class":"durable","sandbox":true,"schema":1}}`, id, kind, data)
}

// push writes to a stream and flushes it.
func push(w http.ResponseWriter, text string) {
	fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

func frame(cursor, id, kind, data string) string {
	head := ""
	if cursor != "" {
		head = "id: " + cursor + "\n"
	}
	return head + "event: " + kind + "\ndata: " + eventText(id, kind, data) + "\n\n"
}

const ready = "retry: 1500\n\nevent: ready\ndata: {\"accountId\":\"a\",\"cursor\":\"5\",\"resumed\":false,\"gap\":false,\"oldest\":\"1\"}\n\n"

func TestStreamResumesAfterDropInMidLine(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 0:
			push(w, ready+frame("6", "evt_6", "message", `{"chatId":"9"}`)+"event: heartbeat\ndata: {}\n\n")
			push(w, "id: 7\nevent: tips\ndata: "+eventText("evt_7", "tips", `{}`)[:40])
			panic(http.ErrAbortHandler)
		case 1:
			respondProblem(w, 503, "service-unavailable", `,"retryable":true,"retryAfterSec":3`)
		case 2:
			// The previous event is sent again, as after a crash of the service. The client must not yield it twice.
			push(w, strings.Replace(ready, `"resumed":false`, `"resumed":true`, 1)+frame("6", "evt_6", "message", `{}`)+frame("7", "evt_7", "tips", `{"amountCents":500}`))
		default:
			respondProblem(w, 404, "account-not-found", `,"retryable":false`)
		}
	})
	var drops, readies int
	stream := s.client.Account("a").Stream(t.Context(), stagedoor.StreamOptions{
		Events:  []string{"message", "tips"},
		OnReady: func(stagedoor.StreamReady) { readies++ },
		OnDrop:  func(error, time.Duration) { drops++ },
	})
	var got []string
	var last error
	for e, err := range stream.All() {
		if err != nil {
			last = err
			break
		}
		got = append(got, e.ID)
		if stream.Cursor() != e.Cursor {
			t.Errorf("cursor %s at event %s", stream.Cursor(), e.Cursor)
		}
	}
	if strings.Join(got, " ") != "evt_6 evt_7" || !stagedoor.IsProblem(last, stagedoor.CodeAccountNotFound) || stream.Cursor() != "7" {
		t.Errorf("%v, %v, cursor %s", got, last, stream.Cursor())
	}
	all := s.requests()
	for i, want := range []string{"", "6", "6", "7"} {
		if all[i].header.Get("Last-Event-ID") != want {
			t.Errorf("connection %d resumed after %q, want %q", i, all[i].header.Get("Last-Event-ID"), want)
		}
	}
	if all[0].query != "events=message%2Ctips" || all[0].header.Get("Accept") != "text/event-stream" || drops != 3 || readies != 2 {
		t.Errorf("%+v, %d drops, %d readies", all[0], drops, readies)
	}
	if waits := s.waits(); waits[1] != 3*time.Second || waits[2] != 1500*time.Millisecond {
		t.Errorf("waited %v", waits)
	}
}

func TestStreamWithoutEventsResumesAtItsStart(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 0 {
			push(w, ready)
			return
		}
		respondProblem(w, 401, "key-revoked", "")
	})
	for _, err := range s.client.Stream(t.Context(), stagedoor.StreamOptions{AccountID: "a"}).All() {
		if !stagedoor.IsProblem(err, stagedoor.CodeKeyRevoked) {
			t.Error(err)
		}
	}
	if all := s.requests(); all[1].header.Get("Last-Event-ID") != "5" || all[0].query != "accountId=a" {
		t.Errorf("%+v", all)
	}
}

func TestStreamEndsWithPermanentProblem(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		code, again := "server-draining", true
		if n == 1 {
			code, again = "key-revoked", false
		}
		push(w, ready+fmt.Sprintf("event: problem\ndata: {\"code\":%q,\"status\":503,\"retryable\":%t}\n\n", code, again))
	})
	var errs []error
	for _, err := range s.client.Stream(t.Context(), stagedoor.StreamOptions{Since: "0"}).All() {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !stagedoor.IsProblem(errs[0], stagedoor.CodeKeyRevoked) || s.requests()[0].header.Get("Last-Event-ID") != "0" {
		t.Errorf("%v", errs)
	}
}

func TestStreamEndsWithContextOrLoop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, r *http.Request, _ int) {
		push(w, ready+frame("6", "evt_6", "message", `{}`))
		<-r.Context().Done()
	})
	var last error
	for _, err := range s.client.Stream(ctx, stagedoor.StreamOptions{}).All() {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
	for range s.client.Stream(t.Context(), stagedoor.StreamOptions{}).All() {
		break
	}
	if len(s.requests()) != 2 {
		t.Errorf("%d connections", len(s.requests()))
	}
}

func TestSilentStreamReconnects(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, r *http.Request, n int) {
		push(w, ready)
		if n == 0 {
			<-r.Context().Done() // a dead connection that was never closed
			return
		}
		push(w, frame("6", "evt_6", "message", `{}`))
	})
	stagedoor.SetSilence(s.client, 50*time.Millisecond)
	for e, err := range s.client.Stream(t.Context(), stagedoor.StreamOptions{}).All() {
		if err != nil || e.ID != "evt_6" {
			t.Errorf("%v, %v", e, err)
		}
		break
	}
	if all := s.requests(); len(all) != 2 || all[1].header.Get("Last-Event-ID") != "5" {
		t.Errorf("%+v", all)
	}
}

func TestEventDataHasTheTypeOfItsKind(t *testing.T) {
	t.Parallel()
	var e stagedoor.Event
	text := eventText("evt_1", "message", `{"chatId":"9","message":{"text":"Hi"},"fromUser":{"name":"Jo"}}`)
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	if data, ok := e.Data.(*stagedoor.MessageData); !ok || data.Message.Text != "Hi" || e.Kind != stagedoor.KindMessage || e.AccountID != "a" || *e.Meta.Seq != 1 {
		t.Errorf("%+v", e)
	}
	if raw, err := json.Marshal(e); err != nil || string(raw) != text {
		t.Errorf("%s, %v", raw, err)
	}
	for data, want := range map[string]string{
		`{"x":1}`:                           "json.RawMessage",
		`{"truncated":true,"sizeBytes":12}`: "*stagedoor.TruncatedData",
	} {
		if err := json.Unmarshal([]byte(eventText("evt_1", "neverHeardOf", data)), &e); err != nil || fmt.Sprintf("%T", e.Data) != want {
			t.Errorf("%s: %T, %v", data, e.Data, err)
		}
	}
	if err := json.Unmarshal([]byte(eventText("evt_1", "message", `{"chatId":9}`)), &e); err != nil || fmt.Sprintf("%T", e.Data) != "json.RawMessage" {
		t.Errorf("data of another shape: %T, %v", e.Data, err)
	}
}
