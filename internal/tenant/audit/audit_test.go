package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

func newLog(t *testing.T) (*audit.Log, *postgres.DB, id.Org) {
	t.Helper()
	db := testenv.Postgres(t)
	owner := testenv.AddOrg(t, db)
	return audit.New(db, sealtest.NewMemory(), func() time.Time { return time.Now().UTC() }), db, owner
}

func record(ctx context.Context, log *audit.Log, db *postgres.DB, owner id.Org, n int) error {
	return db.Tx(ctx, func(tx postgres.Tx) error {
		by := audit.By{Kind: audit.ActorKey, ID: "key_1", Label: "ci", Action: "key.mint", Request: "req_1", IPHash: "ab"}
		return log.Record(ctx, tx, owner, by, fmt.Sprint("target-", n), audit.Changes{"n": {To: n}, "when": {From: "<a>", To: "\u2028é"}})
	})
}

// API callers read the changes as they are stored, so times in them have the API's format.
func TestTimesInChangesHaveThreeDecimals(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 16, 19, 43, 15, 120_381_000, time.FixedZone("", 3600))
	text, err := json.Marshal(audit.Changes{"expiresAt": {From: &at, To: at}, "label": {To: "a"}})
	want := `{"expiresAt":{"from":"2026-11-16T18:43:15.120Z","to":"2026-11-16T18:43:15.120Z"},"label":{"to":"a"}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// Entries written concurrently form one chain without gaps. Choose returns them newest first.
func TestRecordKeepsOneChain(t *testing.T) {
	t.Parallel()
	log, db, owner := newLog(t)
	var wait sync.WaitGroup
	for i := range 24 {
		wait.Go(func() {
			if err := record(t.Context(), log, db, owner, i); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n, err := log.Verify(t.Context(), owner); err != nil || n != 24 {
		t.Fatalf("Verify = %d, %v", n, err)
	}
	page, err := log.Choose(t.Context(), owner, audit.Filter{}, 0, 10)
	if err != nil || len(page) != 10 || page[0].Seq != 24 || page[9].Seq != 15 {
		t.Fatalf("page: %v, %v", page, err)
	}
	if rest, err := log.Choose(t.Context(), owner, audit.Filter{}, page[9].Seq, 100); err != nil || len(rest) != 14 || rest[13].Seq != 1 {
		t.Fatalf("rest: %v, %v", rest, err)
	}
}

// A change that is rolled back leaves no entry.
func TestRecordIsRolledBackWithTheChange(t *testing.T) {
	t.Parallel()
	log, db, owner := newLog(t)
	broken := errors.New("broken")
	err := db.Tx(t.Context(), func(tx postgres.Tx) error {
		if err := log.Record(t.Context(), tx, owner, audit.By{Action: "x"}, "t", nil); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if page, err := log.Choose(t.Context(), owner, audit.Filter{}, 0, 10); err != nil || len(page) != 0 {
		t.Fatalf("%v %v", page, err)
	}
}

// Verify finds every change to a stored entry, and its position, unless the attacker rewrites the rest of the chain.
func TestVerifyFindsEveryKindOfTampering(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"action":      "UPDATE audit_entry SET action = 'key.list' WHERE seq = 3",
		"actor":       "UPDATE audit_entry SET actor_id = 'key_2' WHERE seq = 3",
		"label":       "UPDATE audit_entry SET actor_label = 'cj' WHERE seq = 3",
		"time":        "UPDATE audit_entry SET at = at + interval '1 microsecond' WHERE seq = 3",
		"changes":     `UPDATE audit_entry SET changes = '{"n":{"to":99}}' WHERE seq = 3`,
		"target":      "UPDATE audit_entry SET target = 'x' WHERE seq = 3",
		"source":      "UPDATE audit_entry SET ip_hash = '' WHERE seq = 3",
		"removed":     "DELETE FROM audit_entry WHERE seq = 3",
		"cut short":   "DELETE FROM audit_entry WHERE seq >= 3",
		"field moved": `UPDATE audit_entry SET actor_id = actor_id || actor_label, actor_label = '' WHERE seq = 3`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			log, db, owner := newLog(t)
			for i := range 5 {
				must.OK(t, record(t.Context(), log, db, owner, i))
			}
			if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			_, err := log.Verify(t.Context(), owner)
			broken, ok := errors.AsType[*audit.BrokenError](err)
			if !ok || broken.Seq != 3 {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}

// Choose returns exactly the entries that match the filter, for single and combined filters, over several pages, and
// none of another org.
func TestFiltersChooseEntries(t *testing.T) {
	t.Parallel()
	_, db, owner := newLog(t)
	testenv.InsertOrg(t, db, "org_other")
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	now := start
	log := audit.New(db, sealtest.NewMemory(), func() time.Time { return now })
	for i := range 60 {
		now = start.Add(time.Duration(i) * time.Hour)
		if i%7 == 3 {
			now = now.Add(-90 * time.Minute) // another node's clock
		}
		for _, org := range []id.Org{owner, "org_other"} {
			by := audit.By{Kind: audit.ActorKey, ID: fmt.Sprint("key_", i%3), Action: []string{"key.mint", "org.update"}[i%2]}
			err := db.Tx(t.Context(), func(tx postgres.Tx) error {
				return log.Record(t.Context(), tx, org, by, fmt.Sprint("target-", i%5), audit.Changes{})
			})
			must.OK(t, err)
		}
	}
	all, err := log.Choose(t.Context(), owner, audit.Filter{}, 0, 100)
	if err != nil || len(all) != 60 {
		t.Fatal(len(all), err)
	}
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	cases := 0
	for _, action := range []string{"", "key.mint", "none"} {
		for _, actor := range []string{"", "key_1"} {
			for _, target := range []string{"", "target-2"} {
				for _, span := range [][2]time.Time{{}, {day(1)}, {{}, day(1)}, {day(1), day(2)}, {day(9)}, {{}, day(-1)}} {
					cases++
					f := audit.Filter{Action: action, ActorID: actor, Target: target, Since: span[0], Until: span[1]}
					var want, got []int64
					for _, e := range all {
						if (action == "" || e.By.Action == action) && (actor == "" || e.By.ID == actor) && (target == "" || e.Target == target) &&
							!e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until)) {
							want = append(want, e.Seq)
						}
					}
					for before := int64(0); ; {
						page, err := log.Choose(t.Context(), owner, f, before, 4)
						must.OK(t, err)
						for _, e := range page {
							got = append(got, e.Seq)
							before = e.Seq
						}
						if len(page) < 4 {
							break
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%+v: %v, want %v", f, got, want)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}
