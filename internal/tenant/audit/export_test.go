package audit

import (
	"crypto/sha256"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// OldHash returns the hash of an entry as earlier versions made it: without a key.
func OldHash(previous []byte, org id.Org, e Entry) []byte {
	return hashEntry(sha256.New(), previous, org, e)
}

// RoundLock is the key of the advisory lock of a Keeper.
const RoundLock = roundLock
