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
}

// SameWatermark is the watermark of a record whose listener has published the same one with an earlier record, which
// the log has confirmed.
const SameWatermark = "="

// recordVersion is the first byte of every record, so that the format can change.
const recordVersion = 1

var errRecord = errors.New("invalid record in the event log")

func (r *Record) Append(to []byte) []byte {
	to = append(to, recordVersion)
	for _, text := range [...]string{string(r.Org), r.Source, r.Kind, r.UpstreamID, r.OfUserID, r.ReferenceID, r.Watermark, r.LogEpoch} {
		to = appendText(to, text)
	}
	at := int64(0)
	if !r.UpstreamAt.IsZero() {
		at = r.UpstreamAt.UnixMicro()
	}
	to = binary.AppendVarint(to, at)
	to = binary.AppendVarint(to, r.Epoch)
	return append(to, r.Data...)
}

// ReadRecord decodes a record. Its data aliases the argument.
func ReadRecord(data []byte) (Record, error) {
	if len(data) == 0 || data[0] != recordVersion {
		return Record{}, errRecord
	}
	var (
		r    Record
		org  string
		at   int64
		rest = data[1:]
		ok   = true
	)
	for _, into := range [...]*string{&org, &r.Source, &r.Kind, &r.UpstreamID, &r.OfUserID, &r.ReferenceID, &r.Watermark, &r.LogEpoch} {
		if ok {
			*into, rest, ok = readText(rest)
		}
	}
	for _, into := range [...]*int64{&at, &r.Epoch} {
		if ok {
			*into, rest, ok = readInt(rest)
		}
	}
	if !ok || !validText(org) || !validText(r.Source) || !validText(r.Kind) {
		return Record{}, errRecord
	}
	if r.Org = id.Org(org); at != 0 {
		r.UpstreamAt = time.UnixMicro(at).UTC()
	}
	r.Data = rest
	return r, nil
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
