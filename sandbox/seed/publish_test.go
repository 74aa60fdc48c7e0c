package seed_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

// Every payment for a post or stream refers to one that exists, has that price, and is older than the payment.
func TestWhatWasPaidForExists(t *testing.T) {
	t.Parallel()
	o := row.Origin{ID: 343826782, Login: "ok@sandbox.test", Anchor: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	posts, streams := map[int64]*row.Post{}, map[int64]*row.Stream{}
	for _, p := range seed.PostList(o) {
		posts[p.ID] = p
	}
	for _, s := range seed.StreamList(o) {
		streams[s.ID] = s
	}
	counted := map[row.Kind]int{}
	for _, tx := range seed.Transactions(o, seed.People(o)) {
		counted[tx.RefKind]++
		switch tx.RefKind { //nolint:exhaustive // other kinds are not tested here
		case row.KindPost:
			p := posts[tx.Ref]
			if p == nil || p.Published.IsZero() || (tx.Type == "post" && (p.Price != tx.Gross || p.Published.After(tx.At))) {
				t.Fatalf("%+v was paid for %+v", tx, p)
			}
		case row.KindStream:
			if s := streams[tx.Ref]; s == nil || s.State != "ended" || s.Started.After(tx.At) || s.Ended.Before(tx.At) {
				t.Fatalf("%+v was paid at %+v", tx, s)
			}
		}
	}
	if counted[row.KindPost] == 0 || counted[row.KindStream] == 0 {
		t.Fatalf("paid for: %v", counted)
	}
}

// Posts, stories and drafts show only media of the vault, and the seed is always the same.
func TestWhatIsShownIsInTheVault(t *testing.T) {
	t.Parallel()
	o := row.Origin{ID: 5, Login: "x@sandbox.test", Anchor: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	vault := map[int64]*row.Media{}
	for _, m := range seed.MediaList(o) {
		vault[m.ID] = m
	}
	shows := func(what string, id int64, media []int64) {
		for _, m := range media {
			if vault[m] == nil {
				t.Errorf("%s %d shows %d, which is not in the vault", what, id, m)
			}
		}
	}
	for _, p := range seed.PostList(o) {
		if p.Author == o.ID {
			shows("post", p.ID, p.Media)
		}
	}
	for _, s := range seed.Stories(o) {
		shows("story", s.ID, []int64{s.Media})
	}
	for _, d := range seed.Drafts(o) {
		shows("draft", d.ID, d.Media)
	}
	if !reflect.DeepEqual(seed.PostList(o), seed.PostList(o)) || !reflect.DeepEqual(seed.MediaList(o), seed.MediaList(o)) {
		t.Error("the second seed differs from the first")
	}
}

// A creator may be used for the first time at any hour. On the first day nothing that was seeded happens by itself, or
// its frames would come between those that a test counts.
func TestNothingSeededHappensOnTheFirstDay(t *testing.T) {
	t.Parallel()
	o := row.Origin{ID: 343826782, Login: "ok@sandbox.test", Anchor: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	first := o.Anchor.Add(24 * time.Hour)
	waiting := 0
	later := func(what string, id int64, at time.Time) {
		waiting++
		if at.Before(first) {
			t.Errorf("%s %d is due at %s", what, id, at)
		}
	}
	for _, p := range seed.PostList(o) {
		if !p.Scheduled.IsZero() && p.Published.IsZero() {
			later("scheduled post", p.ID, p.Scheduled)
		}
		if !p.Expires.IsZero() && !p.Expired {
			later("expiring post", p.ID, p.Expires)
		}
	}
	for _, s := range seed.Stories(o) {
		if !s.Expired {
			later("story", s.ID, s.Expires)
		}
	}
	for _, s := range seed.StreamList(o) {
		if s.State == "scheduled" {
			later("stream", s.ID, s.Starts)
		}
	}
	for _, m := range seed.MassList(o) {
		if m.State == "scheduled" {
			later("mass message", m.ID, m.Scheduled)
		}
	}
	if waiting < 8 {
		t.Errorf("only %d rows wait for a time", waiting)
	}
}
