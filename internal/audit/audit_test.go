package audit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/audit"
	"github.com/stagedoor/stagedoor/internal/id"
	"github.com/stagedoor/stagedoor/internal/postgres"
	"github.com/stagedoor/stagedoor/internal/testenv"
)

func newLog(t *testing.T) (*audit.Log, *postgres.DB, id.Org) {
	t.Helper()
	db := testenv.Postgres(t)
	owner := id.New[id.Org]()
	_, err := db.Pool().Exec(t.Context(), `INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at)
		VALUES ($1, 'T', 'starter', 'live', 'a@b.test', now(), now())`, owner)
	if err != nil {
		t.Fatal(err)
	}
	return audit.New(db, func() time.Time { return time.Now().UTC() }), db, owner
}

func record(ctx context.Context, log *audit.Log, db *postgres.DB, owner id.Org, n int) error {
	return db.Tx(ctx, func(tx postgres.Tx) error {
		by := audit.By{Kind: audit.ActorKey, ID: "key_1", Label: "ci", Action: "key.mint", Request: "req_1", IPHash: "ab"}
		return log.Record(ctx, tx, owner, by, fmt.Sprint("target-", n), audit.Changes{"n": {To: n}, "when": {From: "<a>", To: "\u2028é"}})
	})
}

// Entries written at the same time by many form one chain without a gap, newest first when read.
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
	page, err := log.Page(t.Context(), owner, 0, 10)
	if err != nil || len(page) != 10 || page[0].Seq != 24 || page[9].Seq != 15 {
		t.Fatalf("page: %v, %v", page, err)
	}
	if rest, err := log.Page(t.Context(), owner, page[9].Seq, 100); err != nil || len(rest) != 14 || rest[13].Seq != 1 {
		t.Fatalf("rest: %v, %v", rest, err)
	}
}

// A change that is rolled back leaves no entry.
func TestRecordIsPartOfTheChange(t *testing.T) {
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
	if page, err := log.Page(t.Context(), owner, 0, 10); err != nil || len(page) != 0 {
		t.Fatalf("%v %v", page, err)
	}
}

// What is done to a stored entry by somebody who does not make the chain anew is found, and where.
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
				if err := record(t.Context(), log, db, owner, i); err != nil {
					t.Fatal(err)
				}
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
