package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// link is the hash of an entry: over the hash before it and every field, each with its length in front so that
// no two entries can run together into the same bytes.
func link(previous []byte, org id.Org, e Entry) []byte {
	h := sha256.New()
	put := func(field []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		h.Write(size[:])
		h.Write(field)
	}
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(e.Seq))
	binary.BigEndian.PutUint64(numbers[8:], uint64(e.At.UnixMicro()))
	put(previous)
	put(numbers[:])
	for _, field := range []string{
		string(org), string(e.ID), string(e.By.Kind), e.By.ID, e.By.Label, e.By.Action, e.Target,
		string(e.By.Request), e.By.IPHash,
	} {
		put([]byte(field))
	}
	put(e.Changes)
	return h.Sum(nil)
}

// BrokenError says where a chain does not hold.
type BrokenError struct {
	Org id.Org
	Seq int64
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit chain of %s is broken at entry %d", e.Org, e.Seq)
}

// chainPage is how many entries Verify reads at a time.
const chainPage = 1000

// Verify walks an org's whole chain and returns the number of entries, or a *BrokenError.
func (l *Log) Verify(ctx context.Context, org id.Org) (int64, error) {
	var seq int64
	// In one state of the database: an entry written meanwhile is not a fault.
	err := l.db.Snapshot(ctx, func(tx postgres.Tx) (err error) {
		seq, err = verify(ctx, tx, org)
		return err
	})
	return seq, err
}

func verify(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	var (
		seq      int64
		previous []byte
	)
	for {
		entries, err := chain(ctx, tx, org, seq, chainPage)
		if err != nil {
			return seq, err
		}
		for _, e := range entries {
			seq++
			if e.Seq != seq || !bytes.Equal(e.hash, link(previous, org, e)) {
				return seq, &BrokenError{org, seq}
			}
			previous = e.hash
		}
		if len(entries) < chainPage {
			break
		}
	}
	headSeq, headHash, err := head(ctx, tx, org)
	if err != nil {
		return seq, err
	}
	if headSeq != seq || !bytes.Equal(headHash, previous) {
		return seq, &BrokenError{org, seq + 1} // the newest entries are gone
	}
	return seq, nil
}

// IsBroken says whether an error of Verify means that the chain does not hold.
func IsBroken(err error) bool {
	_, broken := errors.AsType[*BrokenError](err)
	return broken
}
