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

// hashEntry returns the hash of an entry: over the previous entry's hash and every field, each preceded by its length,
// so that moving bytes from one field to another changes the hash.
func hashEntry(previous []byte, org id.Org, e Entry) []byte {
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

// BrokenError reports the first entry at which a chain does not verify.
type BrokenError struct {
	Org id.Org
	Seq int64
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit chain of %s is broken at entry %d", e.Org, e.Seq)
}

// chainPage is how many entries Verify reads per query.
const chainPage = 1000

// Verify checks an org's whole chain and returns the number of entries, or a *BrokenError.
func (l *Log) Verify(ctx context.Context, org id.Org) (int64, error) {
	var seq int64
	// A snapshot, so that an entry written during the check does not make the chain look broken.
	err := l.db.Snapshot(ctx, func(tx postgres.Tx) (err error) {
		seq, err = verifyChain(ctx, tx, org)
		return err
	})
	return seq, err
}

func verifyChain(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	var (
		seq      int64
		previous []byte
	)
	for {
		entries, err := readChain(ctx, tx, org, seq, chainPage)
		if err != nil {
			return seq, err
		}
		for _, e := range entries {
			seq++
			if e.Seq != seq || !bytes.Equal(e.hash, hashEntry(previous, org, e)) {
				return seq, &BrokenError{org, seq}
			}
			previous = e.hash
		}
		if len(entries) < chainPage {
			break
		}
	}
	headSeq, headHash, err := readHead(ctx, tx, org)
	if err != nil {
		return seq, err
	}
	if headSeq != seq || !bytes.Equal(headHash, previous) {
		return seq, &BrokenError{org, seq + 1} // the newest entries are missing
	}
	return seq, nil
}

// IsBroken reports whether an error of Verify is a *BrokenError.
func IsBroken(err error) bool {
	_, broken := errors.AsType[*BrokenError](err)
	return broken
}
