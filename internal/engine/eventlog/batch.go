package eventlog

import (
	"encoding/binary"
	"iter"
)

// A batch is a sequence of records, each preceded by its length as an unsigned varint.

// maxLengthPrefix is the maximum size of that length, in bytes.
const maxLengthPrefix = binary.MaxVarintLen32

// MaxRecord is the maximum length of a record.
const MaxRecord = MaxData - maxLengthPrefix

func appendRecord(batch, record []byte) []byte {
	batch = binary.AppendUvarint(batch, uint64(len(record)))
	return append(batch, record...)
}

// SplitBatch yields the records of an entry that a Batcher has published, in order. They are slices of data, not
// copies. If data is malformed, it stops before the first invalid record.
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
