package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// chainPage is how many entries one query reads.
const chainPage = 1000

// What can be wrong with entries.
const (
	faultMissing  = "missing"
	faultAltered  = "altered, or not written by this service"
	faultUnkeyed  = "not written by this service: no keyed hash"
	faultOtherKey = "hashed with another key than that of this service"
	faultPlace    = "numbered lower than the first entry"
	faultHead     = "not what the head of the log refers to"
)

// Actions of entries about the deletion of an org. The operators' log has them all, because that of the org is destroyed.
const (
	ActionDelete  = "org.delete"
	ActionRestore = "org.restore"
	ActionPurge   = "org.purge"
)

// Finding is something that is wrong with a log.
type Finding struct {
	Org id.Org
	// First and Last are the numbers of the entries that it concerns.
	First, Last int64
	// Fault says what is wrong.
	Fault string
}

// String describes the finding in one line.
func (f Finding) String() string {
	if f.First == f.Last {
		return fmt.Sprintf("%s: entry %d is %s", f.Org, f.First, f.Fault)
	}
	return fmt.Sprintf("%s: entries %d to %d are %s", f.Org, f.First, f.Last, f.Fault)
}

// Checked counts what Check has read.
type Checked struct {
	Logs    int
	Entries int64
	// Keyed means that every entry must have a keyed hash. Until it is set, entries of earlier versions may have one
	// without a key, which proves little. Unkeyed counts them.
	Keyed   bool
	Unkeyed int64
	// Newest is the time of the newest entry.
	Newest time.Time
}

// BrokenError reports the first entry at which a chain does not verify.
type BrokenError struct {
	Org id.Org
	Seq int64
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit chain of %s is broken at entry %d", e.Org, e.Seq)
}

// IsBroken reports whether an error of Verify is a *BrokenError.
func IsBroken(err error) bool {
	_, broken := errors.AsType[*BrokenError](err)
	return broken
}

// Verify checks an org's whole chain and returns the number of entries, or a *BrokenError.
func (l *Log) Verify(ctx context.Context, org id.Org) (int64, error) {
	var broken error
	done, err := l.Check(ctx, org, nil, func(f Finding) {
		if broken == nil {
			broken = &BrokenError{org, f.First}
		}
	})
	return done.Entries, errors.Join(err, broken)
}

// Check verifies one log, or all if only is empty, and calls found for everything that is wrong. Without anchors it does
// not notice that the newest entries of a log, or a whole log, were removed together with the head.
func (l *Log) Check(ctx context.Context, only id.Org, anchors Anchors, found func(Finding)) (Checked, error) {
	c, err := l.newChecker(ctx, found)
	if err != nil {
		return Checked{}, err
	}
	done := Checked{Keyed: c.keyed}
	check := func(org id.Org) error {
		entries, err := c.checkLog(ctx, org, anchors[org])
		if entries > 0 {
			done.Logs++
		}
		done.Entries, done.Unkeyed, done.Newest = done.Entries+entries, c.unkeyed, c.newest
		return err
	}
	if only != "" {
		return done, check(only)
	}
	seen := map[id.Org]bool{}
	for org := range l.logs(ctx, &err) {
		seen[org] = true
		if err := check(org); err != nil {
			return done, err
		}
	}
	if err != nil {
		return done, err
	}
	for org := range anchors {
		if !seen[org] {
			if err := check(org); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// logs yields the orgs that have a log. It sets failure if it cannot read them.
func (l *Log) logs(ctx context.Context, failure *error) func(yield func(id.Org) bool) {
	return func(yield func(id.Org) bool) {
		for org := id.Org(""); ; {
			next, err := db.New(l.db).NextChain(ctx, org)
			if errors.Is(err, postgres.ErrNoRows) {
				return
			}
			if err != nil {
				*failure = err
				return
			}
			if org = next; !yield(org) {
				return
			}
		}
	}
}

// checker verifies logs.
type checker struct {
	log     *Log
	key     *chainKey
	keyed   bool
	unkeyed int64
	newest  time.Time
	found   func(Finding)
	// purged are the orgs that were destroyed; nil until they are needed.
	purged map[string]bool
}

func (l *Log) newChecker(ctx context.Context, found func(Finding)) (*checker, error) {
	key, err := l.chainKey(ctx)
	if err != nil {
		return nil, err
	}
	keyed, err := l.isKeyed(ctx)
	return &checker{log: l, key: key, keyed: keyed, found: found}, err
}

// checkLog verifies one log and returns the number of its entries.
func (c *checker) checkLog(ctx context.Context, org id.Org, anchors []Anchor) (int64, error) {
	var (
		faults  = faultList{org: org, found: c.found}
		unlike  = faultList{org: org, found: c.found} // entries that are unlike their anchors
		entries int64
		log     = &chain{org: org, key: c.key, keyed: c.keyed}
		bySeq   = map[int64][]Anchor{}
		newest  Anchor
	)
	for _, a := range anchors {
		bySeq[a.Seq] = append(bySeq[a.Seq], a)
		if a.Seq > newest.Seq {
			newest = a
		}
	}
	// A snapshot, so that an entry written during the check does not make the chain look broken.
	err := c.log.db.Snapshot(ctx, func(tx postgres.Tx) error {
		err := walkChain(ctx, tx, org, func(e Entry) {
			entries++
			c.count(e)
			first, fault := log.next(e)
			if first != 0 {
				faults.add(first, e.Seq-1, faultMissing)
			}
			faults.add(e.Seq, e.Seq, fault)
			for _, a := range bySeq[e.Seq] {
				if a.Hash != encodeHash(e.hash) {
					unlike.add(e.Seq, e.Seq, "not the one that was anchored at "+a.At)
				}
			}
		})
		if err != nil {
			return err
		}
		return checkHead(ctx, tx, log, &faults)
	})
	if err != nil {
		return entries, err
	}
	if newest.Seq > log.seq {
		if err := c.checkTail(ctx, &faults, log.seq, newest); err != nil {
			return entries, err
		}
	}
	faults.flush()
	unlike.flush()
	return entries, nil
}

// count notes an entry in what Check returns.
func (c *checker) count(e Entry) {
	if e.At.After(c.newest) {
		c.newest = e.At
	}
	if e.keyID == "" && !c.keyed {
		c.unkeyed++
	}
}

// checkHead reports a head that is not that of the last entry which was read.
func checkHead(ctx context.Context, tx postgres.Tx, log *chain, faults *faultList) error {
	head, err := readHead(ctx, tx, log.org)
	if err != nil {
		return err
	}
	switch {
	case head.Seq > log.seq:
		faults.add(log.seq+1, head.Seq, faultMissing)
	case head.Seq != log.seq || !bytes.Equal(head.Hash, log.hash):
		faults.add(log.seq, log.seq, faultHead)
	}
	return nil
}

// checkTail reports that a log ends before its newest anchor, unless the org was destroyed.
func (c *checker) checkTail(ctx context.Context, faults *faultList, last int64, newest Anchor) error {
	if last == 0 && c.purged == nil {
		purged, err := c.readPurged(ctx)
		if err != nil {
			return err
		}
		c.purged = purged
	}
	if last > 0 || !c.purged[string(newest.Org)] {
		faults.add(last+1, newest.Seq, faultMissing+", although entry "+strconv.FormatInt(newest.Seq, 10)+" was anchored at "+newest.At)
	}
	return nil
}

// readPurged returns the orgs that were destroyed, from the entries of the operators' log that verify.
func (c *checker) readPurged(ctx context.Context) (map[string]bool, error) {
	purged, log := map[string]bool{}, &chain{org: Operators, key: c.key, keyed: c.keyed}
	err := walkChain(ctx, c.log.db, Operators, func(e Entry) {
		if first, fault := log.next(e); first == 0 && fault == "" && e.By.Action == ActionPurge {
			purged[e.Target] = true
		}
	})
	return purged, err
}

// Newest returns the newest entry of a log about a target with one of the actions, as evidence that this service has
// written it, and no later one. So it finds nothing before an entry that is missing or does not verify. It does not
// notice that the newest entries were removed together with the head.
func (l *Log) Newest(ctx context.Context, org id.Org, target string, actions ...string) (newest Entry, ok bool, err error) {
	c, err := l.newChecker(ctx, nil)
	if err != nil {
		return Entry{}, false, err
	}
	log := &chain{org: org, key: c.key, keyed: c.keyed}
	err = l.db.Snapshot(ctx, func(tx postgres.Tx) error {
		return walkChain(ctx, tx, org, func(e Entry) {
			if first, fault := log.next(e); first != 0 || fault != "" {
				ok = false
			} else if e.Target == target && slices.Contains(actions, e.By.Action) {
				newest, ok = e, true
			}
		})
	})
	return newest, ok, err
}

// walkChain calls do for the entries of a log in their order.
func walkChain(ctx context.Context, q db.DBTX, org id.Org, do func(Entry)) error {
	for after := int64(math.MinInt64); ; {
		entries, err := readChain(ctx, q, org, after, chainPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			do(e)
			after = e.Seq
		}
		if len(entries) < chainPage {
			return nil
		}
	}
}

// faultList joins faults of consecutive entries to one finding.
type faultList struct {
	org   id.Org
	last  Finding
	found func(Finding)
}

// add adds a fault; an empty one is ignored.
func (l *faultList) add(first, last int64, fault string) {
	if fault == "" {
		return
	}
	if l.last.Fault == fault && l.last.Last+1 == first {
		l.last.Last = last
		return
	}
	l.flush()
	l.last = Finding{l.org, first, last, fault}
}

func (l *faultList) flush() {
	if l.last.Fault != "" {
		l.found(l.last)
	}
	l.last = Finding{}
}
