package event_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// These bytes are stored, signed and sent, so they must not change.
func TestEnvelopeHasExactlyTheseBytes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 14, 22, 50, 0, 123_456_000, time.UTC)
	got := event.AppendEnvelope(nil, &event.Envelope{
		ID: "evt_01", Kind: "message", Account: "acct_01", At: at, Seq: 4711, Data: json.RawMessage(`{"chatId":"7"}`),
		Meta: event.Meta{OfUserID: "90210", ReferenceID: `a"b`, Sandbox: true, UpstreamAt: at.Add(-time.Second)},
	})
	equal(t, `{"id":"evt_01","event":"message","accountId":"acct_01","ts":"2026-11-14T22:50:00.123Z","data":{"chatId":"7"},`+
		`"meta":{"seq":4711,"class":"durable","ofUserId":"90210","referenceId":"a\"b","sandbox":true,"upstreamAt":"2026-11-14T22:49:59.123Z","schema":1}}`, string(got))

	got = event.AppendEnvelope(nil, &event.Envelope{ID: "evt_02", Kind: "key.created", At: at})
	equal(t, `{"id":"evt_02","event":"key.created","accountId":null,"ts":"2026-11-14T22:50:00.123Z","data":{},`+
		`"meta":{"seq":null,"class":"ephemeral","ofUserId":null,"referenceId":null,"sandbox":false,"upstreamAt":null,"schema":1}}`, string(got))

	got = event.AppendEnvelope(nil, &event.Envelope{ID: "evt_03", Kind: "message", At: at, Seq: 1, Data: json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 300<<10)) + `"`)})
	wantContains(t, string(got), `"data":{"truncated":true,"sizeBytes":307202}`, true)
	equal(t, true, json.Valid(got))
}

func FuzzEnvelope(f *testing.F) {
	f.Add("message", "acct_1", "a\u2028\"\\\x00", `{"a":1}`)
	f.Fuzz(func(t *testing.T, kind, account, reference, data string) {
		if !json.Valid([]byte(data)) {
			data = `{}`
		}
		got := event.AppendEnvelope(nil, &event.Envelope{ID: id.New[id.Event](), Kind: kind, Account: account, Seq: 1, Data: json.RawMessage(data), Meta: event.Meta{ReferenceID: reference}})
		var back struct {
			Event string `json:"event"`
			Meta  struct {
				ReferenceID *string `json:"referenceId"`
			} `json:"meta"`
		}
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("invalid JSON: %v: %q", err, got)
		}
		// JSON replaces invalid UTF-8; all our kinds are valid.
		if utf8.ValidString(kind) && back.Event != kind {
			t.Fatalf("kind %q became %q", kind, back.Event)
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for _, r := range []event.Record{
		{},
		{
			Org: "org_1", Source: "acct_1", Kind: "message", UpstreamID: "17", UpstreamAt: time.UnixMicro(1_700_000_000_123_456).UTC(),
			OfUserID: "9", ReferenceID: "ref", Watermark: "16", Epoch: 42, Data: json.RawMessage(`{"a":1}`),
		},
	} {
		back, err := event.ReadRecord(r.Append(nil))
		must.OK(t, err)
		r.Data = slices.Clip(append(json.RawMessage{}, r.Data...))
		back.Data = append(json.RawMessage{}, back.Data...)
		equal(t, r, back)
	}
}

func FuzzReadRecord(f *testing.F) {
	r := event.Record{Org: "org_1", Source: "acct_1", Kind: "message", Watermark: "16", Data: json.RawMessage(`{}`)}
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := event.ReadRecord(data)
		if err != nil {
			return
		}
		again, err := event.ReadRecord(got.Append(nil))
		if err != nil || again.Source != got.Source || !bytes.Equal(again.Data, got.Data) || again.Epoch != got.Epoch {
			t.Fatalf("%+v became %+v (%v)", got, again, err)
		}
	})
}

func FuzzReadLive(f *testing.F) {
	s := event.Stored{Org: "org_1", Source: "acct_1", Seq: 3, Tx: 9, At: time.UnixMicro(5).UTC(), ID: "evt_1", Kind: "tips", Body: []byte(`{}`)}
	f.Add(event.AppendLive(event.AppendLive(nil, &s), &s))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []event.Stored
		for one, err := range event.ReadLive(data) {
			if err != nil {
				return
			}
			list = append(list, one)
		}
		var text []byte
		for i := range list {
			text = event.AppendLive(text, &list[i])
		}
		i := 0
		for one, err := range event.ReadLive(text) {
			if err != nil || one.Seq != list[i].Seq || one.Kind != list[i].Kind || !bytes.Equal(one.Body, list[i].Body) {
				t.Fatalf("event %d changed: %v", i, err)
			}
			i++
		}
		if i != len(list) {
			t.Fatalf("read %d of %d events", i, len(list))
		}
	})
}

func TestCursors(t *testing.T) {
	t.Parallel()
	equal(t, "00000000004711", event.FormatCursor(4711))
	for text, want := range map[string]int64{"0": 0, "00000000004711": 4711, "7": 7} {
		got, err := event.ParseCursor(text)
		must.OK(t, err)
		equal(t, want, got)
	}
	for _, text := range []string{"", "-1", "1 ", "a", "000000000047110", "１"} {
		_, err := event.ParseCursor(text)
		wantError(t, err, event.ErrCursor)
	}
	generations := event.Generations{0, 0xabc, 0x123456}
	const second, third = 1 << 48, 2 << 48
	for text, want := range map[string]event.Position{
		"0":                    {},
		"000000012342.":        {Tx: 74_562},
		"000abc-000000012342.": {Tx: second + 74_562},
		"123456-000000012342.evt_01h2xcejqtf2nbrexx3vqjhp41": {Tx: third + 74_562, ID: "evt_01h2xcejqtf2nbrexx3vqjhp41"},
	} {
		got, known, err := generations.Position(text, true)
		must.OK(t, err)
		equal(t, want, got)
		equal(t, true, known)
		if text != "0" {
			equal(t, text, generations.Cursor(got, true))
		}
	}
	got, known, err := generations.Position("123456-00000000004711", false)
	must.OK(t, err)
	equal(t, event.Position{Tx: third + 4711}, got)
	equal(t, true, known)
	equal(t, "123456-00000000004711", generations.Cursor(got, false))
	if _, known, err = generations.Position("654321-00000000004711", false); known || err != nil {
		t.Errorf("the cursor of another history: %v %v", known, err)
	}
	for _, text := range []string{
		"", "1", "00000000004711", "zzzzzzzzzzzz.", "000000000001.evt_x", "000000000001.acct_01h2xcejqtf2nbrexx3vqjhp41", "-000000000001.",
		"000000-000000000001.", "1-000000000001.", "00000g-000000000001.", "1234567-000000000001.", "000abc-000abc-000000000001.",
	} {
		_, _, err := generations.Position(text, true)
		wantError(t, err, event.ErrCursor)
	}
}

func FuzzCursors(f *testing.F) {
	f.Add("00000000004711")
	f.Add("0000000123ab.evt_01h2xcejqtf2nbrexx3vqjhp41")
	f.Add("000abc-0000000123ab.evt_01h2xcejqtf2nbrexx3vqjhp41")
	f.Add("000abc-00000000004711")
	f.Fuzz(func(t *testing.T, text string) {
		if seq, err := event.ParseCursor(text); err == nil && seq < 0 {
			t.Fatalf("%q is %d", text, seq)
		}
		generations := event.Generations{0, 0xabc}
		if p, known, err := generations.Position(text, true); err == nil && known && text != "0" && generations.Cursor(p, true) != text {
			t.Fatalf("%q is %q", text, generations.Cursor(p, true))
		}
	})
}

func kinds(t testing.TB) *event.Kinds {
	t.Helper()
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	return event.NewKinds(sandbox)
}

func TestKindsIncludeTheWholeCatalogue(t *testing.T) {
	t.Parallel()
	k := kinds(t)
	list := k.List(environment.Sandbox)
	equal(t, 80, len(list))
	equal(t, catalog.Ephemeral, k.Class(environment.Sandbox, "typing"))
	equal(t, catalog.Durable, k.Class(environment.Sandbox, "message"))
}

func TestFilters(t *testing.T) {
	t.Parallel()
	k := kinds(t)
	for _, c := range []struct {
		names   []string
		in, out []string
	}{
		{nil, []string{"message", "account.connected", "typing"}, nil},
		{[]string{"message", "tips"}, []string{"message", "tips"}, []string{"messageSent", "account.paused"}},
		{[]string{"message*"}, []string{"message", "messageSent"}, []string{"tips"}},
		{[]string{"account.*", "!account.updated"}, []string{"account.paused"}, []string{"account.updated", "message"}},
		{[]string{"!typing"}, []string{"message", "key.created"}, []string{"typing"}},
		{[]string{"*"}, []string{"message"}, nil},
	} {
		f, err := k.Filter(environment.Sandbox, c.names)
		must.OK(t, err)
		equal(t, c.names, f.Names())
		for _, kind := range c.in {
			if !f.Match(kind) {
				t.Errorf("%v should match %s", c.names, kind)
			}
		}
		for _, kind := range c.out {
			if f.Match(kind) {
				t.Errorf("%v should not match %s", c.names, kind)
			}
		}
	}
	_, err := k.Filter(environment.Sandbox, []string{"message", "mesage", "cows"})
	wantError(t, err, problem.UnknownEvent.New(""))
	text, err := problem.Of(err).Document(problem.Place{})
	must.OK(t, err)
	wantContains(t, string(text), "message", true)
	wantContains(t, string(text), "cows", false) // what the caller sent is not repeated
	_, err = k.Filter(environment.Sandbox, slices.Repeat([]string{"message"}, 65))
	wantError(t, err, problem.ValidationFailed.New(""))
	for _, name := range []string{"", "!", "messages*", "**"} {
		_, err := k.Filter(environment.Sandbox, []string{name})
		wantError(t, err, problem.UnknownEvent.New(""))
	}
}

func FuzzFilter(f *testing.F) {
	k := kinds(f)
	f.Add("message*")
	f.Add("!typing")
	f.Fuzz(func(t *testing.T, name string) {
		filter, err := k.Filter(environment.Sandbox, []string{name})
		if err != nil {
			return
		}
		chosen := 0
		for _, kind := range k.List(environment.Sandbox) {
			if filter.Match(kind.Name) {
				chosen++
			}
		}
		// Every accepted filter matches at least one kind, except for !*.
		if chosen == 0 && name != "!*" {
			t.Fatalf("%q matches nothing", name)
		}
	})
}

// Buckets are stored in rows and are part of subjects, so they must never change.
func TestBucketsNeverChange(t *testing.T) {
	t.Parallel()
	equal(t, 197, event.Bucket(""))
	equal(t, 0xe40c292c%256, event.Bucket("a"))
}
