package event

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// LiveSubject is where events of a source are told right after they were stored, and its ephemeral ones as they come.
func LiveSubject(org id.Org, source string) string { return "live." + string(org) + "." + source }

// LivePattern is where all events of an org are told.
func LivePattern(org id.Org) string { return "live." + string(org) + ".*" }

// EphemeralSubject is where ephemeral events of a source are told to whoever sends its webhooks.
func EphemeralSubject(source string) string {
	return "eph." + strconv.Itoa(Bucket(source)) + "." + source
}

// EphemeralPattern is where ephemeral events of a bucket's sources are told.
func EphemeralPattern(bucket int) string { return "eph." + strconv.Itoa(bucket) + ".*" }

var errLive = errors.New("a live message that cannot be read")

// aroundBody is about as much as a live message has of an event besides its body.
const aroundBody = 192

// AppendLive adds an event to a live message, which may hold several of one source.
func AppendLive(to []byte, s *Stored) []byte {
	to = slices.Grow(to, len(s.Body)+aroundBody)
	to = binary.AppendVarint(to, s.Seq)
	to = binary.AppendVarint(to, s.Tx)
	to = binary.AppendVarint(to, s.At.UnixMicro())
	for _, text := range [...]string{string(s.Org), s.Source, string(s.ID), s.Kind} {
		to = appendText(to, text)
	}
	to = binary.AppendUvarint(to, uint64(len(s.Body)))
	return append(to, s.Body...)
}

// ReadLive reads the events of a live message. Their bodies are part of it.
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
