package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A frame becomes the event that the manifest maps it to, with the platform's id and time.
func TestDecode(t *testing.T) {
	t.Parallel()
	c := small(t)
	at := time.UnixMilli(1700000000250).UTC()
	for name, f := range map[string]struct {
		frame string
		want  catalog.Event
	}{
		"a kind":           {`{"id":17,"type":"note.new","ts":1700000000.25,"body":{"note":` + theirNote + `}}`, catalog.Event{Kind: "noted", Class: "durable", UpstreamID: "17", At: at, Data: []byte(`{"note":` + ourNote + `,"noteId":"4242000000000000001"}`)}},
		"another frame":    {`{"id":"f-1","type":"note.imported","ts":1700000000.25,"body":{"note":` + theirNote + `}}`, catalog.Event{Kind: "noted", Class: "durable", UpstreamID: "f-1", At: at, Data: []byte(`{"note":` + ourNote + `,"noteId":"4242000000000000001"}`)}},
		"told apart":       {`{"id":1,"type":"note.gone","ts":1700000000.25,"body":{"note_id":3,"by":{"kind":"creator"}}}`, catalog.Event{Kind: "noteDeleted", Class: "durable", UpstreamID: "1", At: at, Data: []byte(`{"noteId":"3","by":"creator"}`)}},
		"the rest":         {`{"id":1,"type":"note.gone","ts":1700000000.25,"body":{"note_id":3,"by":{"kind":"fan"}}}`, catalog.Event{Kind: "noteLost", Class: "ephemeral", UpstreamID: "1", At: at, Data: []byte(`{"noteId":"3"}`)}},
		"a type":           {`{"type":"counts","body":{"by":{"user":{"name":"Ann"}}}}`, catalog.Event{Kind: "counted", Class: "ephemeral", Data: []byte(`{"ownerName":"Ann"}`)}},
		"without mapping":  {`{"id":1,"type":"no\u0074hing","ts":1700000000.25,"body":[1, {"a":1e400}]}`, catalog.Event{Kind: "unknown", Class: "durable", UpstreamID: "1", At: at, Data: []byte(`{"name":"nothing","raw":[1,{"a":1e400}]}`)}},
		"a time as a text": {`{"id":1,"type":"x","ts":"2023-11-14T23:13:20.250+01:00","body":null}`, catalog.Event{Kind: "unknown", Class: "durable", UpstreamID: "1", At: at, Data: []byte(`{"name":"x","raw":null}`)}},
	} {
		got, err := c.Decode([]byte(f.frame))
		if err != nil || got.Kind != f.want.Kind || got.Class != f.want.Class || got.UpstreamID != f.want.UpstreamID || !got.At.Equal(f.want.At) ||
			string(got.Data) != string(f.want.Data) {
			t.Errorf("%s: %v\n%+v %s\n%+v %s", name, err, got, got.Data, f.want, f.want.Data)
		}
	}
	for name, f := range map[string]struct {
		frame string
		want  error
	}{
		"no JSON": {`{`, catalog.ErrInvalid}, "large": {`{"type":"` + strings.Repeat("x", 1<<20) + `"}`, catalog.ErrInvalid},
		"no name": {`{"body":{}}`, catalog.ErrChanged}, "no body": {`{"type":"x"}`, catalog.ErrChanged}, "a list": {`[]`, catalog.ErrChanged},
		"no time": {`{"type":"x","ts":"soon","body":{}}`, catalog.ErrChanged},
		"changed": {`{"id":9,"type":"note.gone","body":{}}`, catalog.ErrChanged},
	} {
		e, err := c.Decode([]byte(f.frame))
		if !errors.Is(err, f.want) || e.Data != nil {
			t.Errorf("%s: %+v %v", name, e, err)
		}
		if name == "changed" && (e.Kind != "noteLost" || e.UpstreamID != "9") {
			t.Errorf("the event lacks its known fields: %+v", e)
		}
	}
	quiet, err := catalog.Load(withEdit(t, "upstream.yaml", "passUnknown: true", "passUnknown: false"))
	must.OK(t, err)
	if _, err := quiet.Decode([]byte(`{"type":"nothing","body":{}}`)); !errors.Is(err, catalog.ErrUnknownFrame) {
		t.Errorf("%v", err)
	}
}

// FrameFor finds a frame for each kind, and missed frames can be listed.
func TestFrames(t *testing.T) {
	t.Parallel()
	c := small(t)
	for kind, want := range map[string]string{"noted": "note.new", "counted": "counts", "unknown": "", "nothing": ""} {
		if got := c.FrameFor(kind); got != want {
			t.Errorf("%s: %q", kind, got)
		}
	}
	if kinds := c.Events(); len(kinds) != 5 || kinds[4].Kind != catalog.Unknown {
		t.Errorf("%v", kinds)
	}
	req, ok := c.Socket.Since("a b", 50)
	if !ok || req.Path != "/api/v2/live/frames" || req.Query != "after=a+b&limit=50" || c.Socket.Path != "/api/v2/live" || c.Socket.Ping != 20*time.Second {
		t.Errorf("%s %s %v", req.Path, req.Query, c.Socket)
	}
	missed, err := c.Socket.Missed([]byte(`{"frames":[{"type":"x"}, {"type":"y"}],"has_more":true,"last_id":77}`))
	if err != nil || !missed.More || !missed.Complete || len(missed.Frames) != 2 || string(missed.Frames[1]) != `{"type":"y"}` || missed.Newest != "77" {
		t.Errorf("%+v %v", missed, err)
	}
	if !c.Socket.Ended(4001) || c.Socket.Ended(4008) {
		t.Error("4001, and only 4001, must mean that the session has ended")
	}
	if _, err := c.Socket.Missed([]byte(`{}`)); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("%v", err)
	}
}
