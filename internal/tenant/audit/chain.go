package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// The labels of what is hashed with the key, so that none can be mistaken for another.
const (
	entryLabel  = "sd1audit"
	anchorLabel = "sd1anchor"
	// markLabel is that of the mark in a head that was anchored.
	markLabel = "sd1anchored"
	keyLabel  = "sd1key"
)

// keyPurpose is the purpose of Sealer.Derive. The key belongs to the installation, so that the entries and anchors of an
// org can be verified although its keys are destroyed, and it survives every rotation.
const keyPurpose = "audit"

// chainKey is the key of all chains.
type chainKey struct {
	secret []byte
	// id distinguishes keys without revealing them.
	id string
}

func newChainKey(secret []byte) *chainKey {
	k := &chainKey{secret: secret}
	k.id = hex.EncodeToString(k.sum(keyLabel)[:8])
	return k
}

// start begins a keyed hash.
func (k *chainKey) start(label string) hash.Hash {
	h := hmac.New(sha256.New, k.secret)
	putField(h, []byte(label))
	return h
}

// sum returns the keyed hash of fields.
func (k *chainKey) sum(label string, fields ...[]byte) []byte {
	h := k.start(label)
	for _, field := range fields {
		putField(h, field)
	}
	return h.Sum(nil)
}

// sumEntry returns the keyed hash of an entry.
func (k *chainKey) sumEntry(previous []byte, org id.Org, e Entry) []byte {
	return hashEntry(k.start(entryLabel), previous, org, e)
}

// putField writes a field after its length, so that moving bytes from one field to another changes the hash.
func putField(h hash.Hash, field []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(field)))
	h.Write(size[:])
	h.Write(field)
}

// hashEntry returns the hash of an entry: over the previous entry's hash and every field.
func hashEntry(h hash.Hash, previous []byte, org id.Org, e Entry) []byte {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(e.Seq))
	binary.BigEndian.PutUint64(numbers[8:], uint64(e.At.UnixMicro()))
	putField(h, previous)
	putField(h, numbers[:])
	for _, field := range []string{
		string(org), string(e.ID), string(e.By.Kind), e.By.ID, e.By.Label, e.By.Action, e.Target,
		string(e.By.Request), e.By.IPHash,
	} {
		putField(h, []byte(field))
	}
	putField(h, e.Changes)
	return h.Sum(nil)
}

// chainKey returns the key of all chains. It never changes, so it is read once.
func (l *Log) chainKey(ctx context.Context) (*chainKey, error) {
	if known := l.key.Load(); known != nil {
		return known, nil
	}
	secret, err := l.sealer.Derive(ctx, keyPurpose)
	if err != nil {
		return nil, fmt.Errorf("read the key of the audit log: %w", err)
	}
	key := newChainKey(secret)
	l.key.Store(key)
	return key, nil
}

// LoadKey reads the key of all chains, so that no transaction has to wait for it. It retries until ctx ends, and logs the
// first failure.
func (l *Log) LoadKey(ctx context.Context, log *slog.Logger) error {
	logged := false
	for range clock.Every(ctx, loadRetry) {
		_, err := l.chainKey(ctx)
		if err == nil {
			break
		}
		if !logged && ctx.Err() == nil {
			logged = true
			log.LogAttrs(ctx, slog.LevelWarn, "cannot read the key of the audit log", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// isKeyed reports whether every entry must have a keyed hash: the entries of earlier versions have got theirs.
func (l *Log) isKeyed(ctx context.Context) (bool, error) {
	if l.keyed.Load() {
		return true, nil
	}
	keyed, err := l.sealer.AuditKeyed(ctx)
	if err != nil {
		return false, fmt.Errorf("find out whether the audit log is keyed: %w", err)
	}
	if keyed {
		l.keyed.Store(true)
	}
	return keyed, nil
}

// chain is a log that is read from its first entry on, to check every entry.
type chain struct {
	org id.Org
	key *chainKey
	// keyed means that entries without a keyed hash are faults.
	keyed bool
	// seq and hash are those of the last entry that was read.
	seq  int64
	hash []byte
}

// next checks the next entry by its number. It returns the numbers that are missing before it, first to e.Seq-1 unless
// first is 0, and what is wrong with the entry itself; empty for nothing.
func (c *chain) next(e Entry) (first int64, fault string) {
	expected, previous := c.seq+1, c.hash
	if e.Seq < expected {
		return 0, faultPlace
	}
	c.seq, c.hash = e.Seq, e.hash
	linked := e.Seq == expected
	if !linked {
		first = expected
	}
	switch {
	case e.keyID == "" && c.keyed:
		fault = faultUnkeyed
	case e.keyID != "" && e.keyID != c.key.id:
		fault = faultOtherKey
	case !linked:
		// The hash covers the entry before, which is missing.
	case e.keyID == "" && !hmac.Equal(e.hash, hashEntry(sha256.New(), previous, c.org, e)),
		e.keyID != "" && !hmac.Equal(e.hash, c.key.sumEntry(previous, c.org, e)):
		fault = faultAltered
	}
	return first, fault
}
