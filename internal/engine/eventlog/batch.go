package eventlog

import (
	"encoding/binary"
	"iter"
)

// A batch is records one behind the other, each with its length before it.

// maxHead is the longest that the length before a record can be.
const maxHead = binary.MaxVarintLen32

// MaxRecord is the longest that a record can be.
const MaxRecord = MaxData - maxHead

// appendRecord adds a record to a batch.
func appendRecord(batch, record []byte) []byte {
	batch = binary.AppendUvarint(batch, uint64(len(record)))
	return append(batch, record...)
}

// SplitBatch gives the records of an entry that a Batcher has published, in order. They are parts of data, not copies. It ends before
// what is no record.
func SplitBatch(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return
			}
			end := n + int(length)
			if !yield(data[n:end:end]) {
				return
			}
			data = data[end:]
		}
	}
}
