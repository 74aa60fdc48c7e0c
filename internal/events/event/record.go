package event

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Record is a frame of the platform as the event log carries it.
type Record struct {
	Org id.Org
	// Source is the account's id.
	Source string
	Kind   string
	// UpstreamID is the platform's id of the frame; empty if it has none.
	UpstreamID string
	// UpstreamAt is when it happened by the platform's clock; zero if unknown.
	UpstreamAt            time.Time
	OfUserID, ReferenceID string
	// Watermark is a frame of the platform up to which all had been confirmed when this record was published; empty if
	// the platform cannot list missed frames. The commit of the record writes it to the source's head. SameWatermark
	// stands for the one in the record before.
	Watermark string
	// LogEpoch identifies the log that the record was published for. If it is found in another log, its listener had not
	// yet noticed that the first log was lost. Empty for a log that cannot be lost.
	LogEpoch string
	// Epoch is the epoch of the listener's lease.
	Epoch int64
	Data  json.RawMessage
	// sealed is the content as it was in the log; nil if that was in the clear.
	sealed []byte
}

// SameWatermark is the watermark of a record whose listener has published the same one with an earlier record, which
// the log has confirmed.
const SameWatermark = "="

// The first byte of every record. A plain record is in the clear: one of the version before this, or one that all nodes
// must be able to read. The content of a sealed record is sealed with the account's data key.
const (
	plainRecord  = 1
	sealedRecord = 2
)

var errRecord = errors.New("invalid record in the event log")

// Append appends the record in the clear.
func (r *Record) Append(to []byte) []byte {
	to = append(to, plainRecord)
	for _, text := range [...]string{string(r.Org), r.Source, r.Kind, r.UpstreamID, r.OfUserID, r.ReferenceID, r.Watermark, r.LogEpoch} {
		to = appendText(to, text)
	}
	to = binary.AppendVarint(to, unixMicros(r.UpstreamAt))
	to = binary.AppendVarint(to, r.Epoch)
	return append(to, r.Data...)
}

// appendSealed appends the record with sealed content. Ingest needs the rest also of a record that it cannot open.
func (r *Record) appendSealed(to, content []byte) []byte {
	to = append(to, sealedRecord)
	for _, text := range [...]string{string(r.Org), r.Source, r.Watermark, r.LogEpoch} {
		to = appendText(to, text)
	}
	return append(binary.AppendVarint(to, r.Epoch), content...)
}

// content returns what is sealed of the record.
func (r *Record) content() []byte {
	to := make([]byte, 0, len(r.Data)+len(r.Kind)+len(r.UpstreamID)+len(r.OfUserID)+len(r.ReferenceID)+5*binary.MaxVarintLen64)
	for _, text := range [...]string{r.Kind, r.UpstreamID, r.OfUserID, r.ReferenceID} {
		to = appendText(to, text)
	}
	return append(binary.AppendVarint(to, unixMicros(r.UpstreamAt)), r.Data...)
}

func unixMicros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// ReadRecord decodes a record. What it returns aliases the argument. The content of a sealed record is missing until
// Store.OpenRecords has opened it.
func ReadRecord(data []byte) (Record, error) {
	var (
		r       Record
		org     string
		at      int64
		texts   []*string
		numbers []*int64
	)
	if len(data) == 0 {
		return Record{}, errRecord
	}
	switch data[0] {
	case plainRecord:
		texts = []*string{&org, &r.Source, &r.Kind, &r.UpstreamID, &r.OfUserID, &r.ReferenceID, &r.Watermark, &r.LogEpoch}
		numbers = []*int64{&at, &r.Epoch}
	case sealedRecord:
		texts, numbers = []*string{&org, &r.Source, &r.Watermark, &r.LogEpoch}, []*int64{&r.Epoch}
	default:
		return Record{}, errRecord
	}
	rest, ok := readFields(data[1:], texts, numbers)
	if !ok || !validText(org) || !validText(r.Source) || !validText(r.Kind) {
		return Record{}, errRecord
	}
	if r.Org = id.Org(org); data[0] == sealedRecord {
		r.sealed = rest
		return r, nil
	}
	r.setUpstreamAt(at)
	r.Data = rest
	return r, nil
}

// readContent decodes what content has encoded.
func (r *Record) readContent(from []byte) bool {
	var at int64
	rest, ok := readFields(from, []*string{&r.Kind, &r.UpstreamID, &r.OfUserID, &r.ReferenceID}, []*int64{&at})
	if !ok || !validText(r.Kind) {
		return false
	}
	r.setUpstreamAt(at)
	r.Data = rest
	return true
}

func (r *Record) setUpstreamAt(micros int64) {
	if micros != 0 {
		r.UpstreamAt = time.UnixMicro(micros).UTC()
	}
}

// readFields decodes texts, then numbers, and returns what follows.
func readFields(from []byte, texts []*string, numbers []*int64) (rest []byte, ok bool) {
	ok = true
	for _, into := range texts {
		if ok {
			*into, from, ok = readText(from)
		}
	}
	for _, into := range numbers {
		if ok {
			*into, from, ok = readInt(from)
		}
	}
	return from, ok
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func readText(from []byte) (text string, rest []byte, ok bool) {
	piece, rest, ok := readPiece(from)
	return string(piece), rest, ok
}

func readPiece(from []byte) (piece, rest []byte, ok bool) {
	n, used := binary.Uvarint(from)
	if used <= 0 || n > uint64(len(from)-used) {
		return nil, nil, false
	}
	return from[used : used+int(n)], from[used+int(n):], true
}

func readInt(from []byte) (n int64, rest []byte, ok bool) {
	n, used := binary.Varint(from)
	if used <= 0 {
		return 0, nil, false
	}
	return n, from[used:], true
}
