package event

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// LiveSubject returns the subject on which events of a source are published: stored ones right after their commit, and
// ephemeral ones as they arrive.
func LiveSubject(org id.Org, source string) string { return "live." + string(org) + "." + source }

// LivePattern returns the pattern of the live subjects of all sources of an org.
func LivePattern(org id.Org) string { return "live." + string(org) + ".*" }

// EphemeralSubject returns the subject on which ephemeral events of a source are published for its webhooks.
func EphemeralSubject(source string) string {
	return "eph." + strconv.Itoa(Bucket(source)) + "." + source
}

// EphemeralPattern returns the pattern of the ephemeral subjects of a bucket's sources.
func EphemeralPattern(bucket int) string { return "eph." + strconv.Itoa(bucket) + ".*" }

var errLive = errors.New("invalid live message")

// liveOverhead is the approximate size of an event in a live message without its body, in bytes.
const liveOverhead = 192

// AppendLive appends an event to a live message, which may contain several events of one source.
func AppendLive(to []byte, s *Stored) []byte {
	to = slices.Grow(to, len(s.Body)+liveOverhead)
	to = binary.AppendVarint(to, s.Seq)
	to = binary.AppendVarint(to, s.Tx)
	to = binary.AppendVarint(to, s.At.UnixMicro())
	for _, text := range [...]string{string(s.Org), s.Source, string(s.ID), s.Kind} {
		to = appendText(to, text)
	}
	to = binary.AppendUvarint(to, uint64(len(s.Body)))
	return append(to, s.Body...)
}

// ReadLive returns the events of a live message. Their bodies alias data.
func ReadLive(data []byte) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for len(data) > 0 {
			s, rest, ok := readLive(data)
			if !ok {
				yield(Stored{}, errLive)
				return
			}
			if !yield(s, nil) {
				return
			}
			data = rest
		}
	}
}

func readLive(data []byte) (s Stored, rest []byte, ok bool) {
	var (
		at              int64
		org, event, src string
	)
	ok = true
	for _, into := range [...]*int64{&s.Seq, &s.Tx, &at} {
		if ok {
			*into, data, ok = readInt(data)
		}
	}
	for _, into := range [...]*string{&org, &src, &event, &s.Kind} {
		if ok {
			*into, data, ok = readText(data)
		}
	}
	if !ok {
		return Stored{}, nil, false
	}
	s.Org, s.Source, s.ID, s.At = id.Org(org), src, id.Event(event), unixMicro(at)
	s.Body, rest, ok = readPiece(data)
	return s, rest, ok
}
