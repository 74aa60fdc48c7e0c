package ingest_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// A platform may use any string as an id, and PostgreSQL refuses some of them as text. Such a frame must not keep a
// node from storing other events, and its repeats must still be recognised.
func TestIDsThatPostgresRefusesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]string{"NUL": "u\x00", "invalid UTF-8": "u\xff", "like an encoded one": "base64:dQ"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			a, b := string(id.New[id.Account]()), string(id.New[id.Account]())
			stop := r.node(1, event.Bucket(a), event.Bucket(b))
			defer func() { stop() }()
			one := r.record(a, 1)
			one.UpstreamID, one.Watermark = odd, odd+"1"
			r.publish("1", one)
			r.publish("2", r.record(b, 1))
			r.waitForEvents(b, 1)
			wantContiguous(t, r.waitForEvents(a, 1), numbers(1, 1))
			head, err := r.store.Head(t.Context(), r.org, a)
			r.must(err)
			if head.Watermark != odd+"1" {
				t.Fatalf("the watermark is %q", head.Watermark)
			}
			stop()
			stop = r.node(2, event.Bucket(a), event.Bucket(b))
			again := r.record(a, 1)
			again.UpstreamID = odd
			r.publish("3", again, r.record(a, 2))
			wantContiguous(t, r.waitForEvents(a, 2), numbers(1, 2))
		})
	}
}

func TestWatermarkThatPostgresRefusesCanBeSet(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := string(id.New[id.Account]())
	r.must(r.store.SetWatermark(t.Context(), r.org, a, "\x00"))
	head, err := r.store.Head(t.Context(), r.org, a)
	r.must(err)
	if head.Watermark != "\x00" || !head.Known {
		t.Fatalf("%+v", head)
	}
}
