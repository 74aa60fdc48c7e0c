package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// keyLogs gives all entries of earlier versions keyed hashes, and then says so in the keyring, so that it never happens
// again: an attacker could otherwise replace a log by one without keyed hashes and have it keyed. Each log is keyed in
// one transaction, and a log that is keyed already does not change, so the next round continues after a failure.
func (k *Keeper) keyLogs(ctx context.Context) error {
	var (
		failure error
		done    int64
	)
	for org := range k.log.logs(ctx, &failure) {
		entries, err := k.keyLog(ctx, org)
		if err != nil {
			return fmt.Errorf("key the audit log of %s: %w", org, err)
		}
		done += entries
	}
	// A node of an earlier version that has started in the meantime may have added entries.
	if failure != nil || !k.deps.CanKey() {
		return failure
	}
	if err := k.log.sealer.SetAuditKeyed(ctx); err != nil {
		return fmt.Errorf("record that the audit log is keyed: %w", err)
	}
	k.deps.Log.LogAttrs(ctx, slog.LevelInfo, "audit log keyed", slog.Int64(logkey.Entries, done))
	return nil
}

// keyLog gives the entries of one log keyed hashes and returns how many have changed.
func (k *Keeper) keyLog(ctx context.Context, org id.Org) (changed int64, err error) {
	key, err := k.log.chainKey(ctx)
	if err != nil {
		return 0, err
	}
	var w rekeying
	err = k.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		w = rekeying{log: k.log, key: key, old: chain{org: org, key: key}} // the transaction may be repeated
		return w.run(ctx, tx)
	})
	if err == nil && w.faults > 0 {
		k.deps.Log.LogAttrs(ctx, slog.LevelError, "audit log has faults; stagedoord admin verify-audit lists them",
			slog.String(logkey.OrgID, string(org)), slog.Int(logkey.Faults, w.faults))
	}
	return w.changed, err
}

// rekeying is the transaction that gives the entries of a log keyed hashes.
type rekeying struct {
	log *Log
	key *chainKey
	// old is the log as it was, and hash the new hash of its last entry.
	old     chain
	hash    []byte
	faults  int
	changed int64
}

// run locks the head only before the last entries, so that writers do not wait for all of them. Nothing else changes
// entries, and other readers see all new hashes at the same moment.
func (w *rekeying) run(ctx context.Context, tx postgres.Tx) error {
	q, org, locked := db.New(tx), w.old.org, false
	var head db.LockHeadRow
	for after := int64(math.MinInt64); ; {
		entries, err := readChain(ctx, tx, org, after, chainPage)
		if err != nil {
			return err
		}
		if len(entries) < chainPage && !locked {
			if head, err = q.LockHead(ctx, org); err != nil && !errors.Is(err, postgres.ErrNoRows) {
				return fmt.Errorf("lock the head: %w", err)
			}
			locked = true
			continue // there may be more by now
		}
		if err := w.rekeyPage(ctx, q, entries); err != nil {
			return err
		}
		if len(entries) < chainPage {
			break
		}
		after = entries[len(entries)-1].Seq
	}
	if head.Seq != w.old.seq || !bytes.Equal(head.Hash, w.old.hash) {
		w.faults++
		return nil // Check goes on to report it
	}
	return q.MoveHead(ctx, db.MoveHeadParams{OrgID: org, Seq: head.Seq, Hash: w.hash})
}

// rekeyPage gives entries keyed hashes. An entry that does not verify stays as it is, so that Check goes on to report it.
func (w *rekeying) rekeyPage(ctx context.Context, q *db.Queries, entries []Entry) error {
	p := db.RekeyParams{KeyID: w.key.id, OrgID: w.old.org}
	for _, e := range entries {
		missing, fault := w.old.next(e)
		if missing != 0 {
			w.faults++
		}
		if fault != "" {
			w.faults++
			if fault != faultPlace {
				w.hash = e.hash
			}
			continue
		}
		if err := w.log.hideClear(ctx, w.old.org, &e); err != nil {
			return err
		}
		sum := w.key.sumEntry(w.hash, w.old.org, e)
		if w.hash = sum; e.keyID == w.key.id && bytes.Equal(sum, e.hash) {
			continue
		}
		p.Seqs, p.Hashes, p.Changes = append(p.Seqs, e.Seq), append(p.Hashes, sum), append(p.Changes, string(e.Changes))
	}
	if len(p.Seqs) == 0 {
		return nil
	}
	w.changed += int64(len(p.Seqs))
	return q.Rekey(ctx, p)
}

// is reports whether a target is an id of this kind.
func is[K id.Kind](target string) bool {
	_, err := id.Parse[K](target)
	return err == nil
}

// hideClear seals personal changes that an earlier version stored in the clear. Those of an account that was deleted are
// removed, and so is the reference of a connect link, which belongs to no account yet.
func (l *Log) hideClear(ctx context.Context, org id.Org, e *Entry) error {
	isAccount := is[id.Account](e.Target)
	var names []string
	switch {
	case isAccount:
		names = []string{"label", "ofUserId", "referenceId", "metadata"}
	case is[id.Session](e.Target):
		names = []string{"referenceId"}
	default:
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(e.Changes, &all); err != nil {
		return fmt.Errorf("parse the changes of audit entry %s: %w", e.ID, err)
	}
	found := false
	for _, name := range names {
		text, ok := all[name]
		var stored hiddenChange
		if !ok || json.Unmarshal(text, &stored) == nil && (stored.Sealed != nil || stored.Purged) {
			continue
		}
		hidden := hiddenChange{Purged: true}
		if isAccount {
			var err error
			if hidden, err = l.sealChange(ctx, org, e.Target, text); errors.Is(err, seal.ErrCorrupt) {
				hidden = hiddenChange{Purged: true} // the key is damaged, and with it everything of the account
			} else if err != nil {
				return fmt.Errorf("seal a change of audit entry %s: %w", e.ID, err)
			}
		}
		sealed, err := json.Marshal(hidden)
		if err != nil {
			return fmt.Errorf("encode a change of audit entry %s: %w", e.ID, err)
		}
		all[name], found = sealed, true
	}
	if !found {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the changes of audit entry %s: %w", e.ID, err)
	}
	e.Changes = text
	return nil
}
