package ingest_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// exec runs a statement.
func (r *fixture) exec(statement string) {
	r.t.Helper()
	_, err := r.db.Pool().Exec(r.t.Context(), statement)
	r.must(err)
}

// letters lists the dead letters, oldest first.
func (r *fixture) letters() []event.DeadLetter {
	r.t.Helper()
	list, err := r.store.DeadLetters(r.t.Context(), math.MaxInt64, 100)
	r.must(err)
	slices.Reverse(list)
	return list
}

func (r *fixture) requeue(letter int64) {
	r.t.Helper()
	r.must(r.db.Tx(r.t.Context(), func(tx postgres.Tx) error {
		l, err := r.store.RequeueLetter(r.t.Context(), tx, letter)
		if err == nil && (l.ID != letter || !l.Requeued) {
			err = fmt.Errorf("requeued %+v", l)
		}
		return err
	}))
}

// A record that cannot be stored or read becomes a dead letter, and all others are stored. When its cause is gone, it
// can be stored too.
func TestBadRecordsBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec("ALTER TABLE event ADD CONSTRAINT bad CHECK (kind NOT LIKE 'bad%')")
	a, b := string(id.New[id.Account]()), string(id.New[id.Account]())
	var (
		entry []*event.Record
		want  []int
	)
	// A kind with NUL makes a record unreadable.
	bad := map[int]string{3: "bad", 4: "bad", 20: "nul\x00", 37: "bad"}
	for n := 1; n <= 40; n++ {
		record := r.record(a, n)
		if kind := bad[n]; kind != "" {
			record.Kind = kind
		} else {
			want = append(want, n)
		}
		entry = append(entry, record)
	}
	r.publish("1", entry...)
	garbage := []byte("\x63unreadable")
	r.must(r.log.Publish(t.Context(), event.Bucket(b), "garbage", append(binary.AppendUvarint(nil, uint64(len(garbage))), garbage...)))
	r.publish("2", r.record(b, 1))
	stop := r.node(1, event.Bucket(a), event.Bucket(b))
	defer stop()
	wantContiguous(t, r.waitForEvents(a, len(want)), want)
	wantContiguous(t, r.waitForEvents(b, 1), numbers(1, 1))
	r.publish("3", r.record(a, 41)) // the loop is past the first ones when it is stored
	want = append(want, 41)
	wantContiguous(t, r.waitForEvents(a, len(want)), want)

	var kinds []string
	byKind := map[string]event.DeadLetter{}
	for _, l := range r.letters() {
		kinds = append(kinds, l.Kind)
		byKind[l.Kind] = l
		if l.Reason == "" || l.Size == 0 || l.Requeued || (l.Kind == "bad") != (l.Source == a && l.Org == r.org) {
			t.Errorf("%+v", l)
		}
	}
	slices.Sort(kinds)
	if fmt.Sprint(kinds) != "[  bad bad bad]" {
		t.Fatalf("dead letters of the kinds %q", kinds)
	}

	// One that is still refused stays, with its reason. The other is stored.
	r.requeue(byKind[""].ID)
	r.exec("ALTER TABLE event DROP CONSTRAINT bad")
	r.requeue(byKind["bad"].ID)
	wantContiguous(t, r.waitForEvents(a, len(want)+1), append(want, 37))
	for {
		list := r.letters()
		if !slices.ContainsFunc(list, func(l event.DeadLetter) bool { return l.Requeued }) {
			if len(list) != 4 {
				t.Fatalf("%+v", list)
			}
			break
		}
	}

	// Deleting the account deletes its letters.
	for done := false; !done; {
		var err error
		done, err = r.store.Purge(t.Context(), r.org, id.Account(a), true, 1000)
		r.must(err)
	}
	if list := r.letters(); len(list) != 2 || list[0].Source != "" || list[1].Source != "" {
		t.Fatalf("%+v", list)
	}
}
