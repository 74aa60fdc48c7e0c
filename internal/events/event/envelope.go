package event

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Envelope is an event in full: what callers receive, over whichever way.
type Envelope struct {
	ID   id.Event
	Kind string
	// Account is empty for an event of the org itself.
	Account string
	At      time.Time
	// Seq is 0 for an ephemeral event.
	Seq  int64
	Data json.RawMessage
	Meta Meta
}

// Meta is what an envelope tells besides.
type Meta struct {
	OfUserID, ReferenceID string
	Sandbox               bool
	// UpstreamAt is when it happened by the platform's clock, zero if unknown.
	UpstreamAt time.Time
	// Purged means that the account was deleted: the envelope has no data.
	Purged bool
}

const (
	// MaxData bounds what an event tells, in bytes. Of a larger one only its size is told; the platform still has the rest.
	MaxData = 240 << 10
	// AroundData is about as much as an envelope has besides.
	AroundData = 400
)

// AppendEnvelope writes an envelope. It is written by hand because every event goes through here, and its bytes are a promise: the same
// bytes are stored, signed and sent.
func AppendEnvelope(to []byte, e *Envelope) []byte {
	to = append(to, `{"id":"`...)
	to = append(to, e.ID...)
	to = append(to, `","event":`...)
	to = appendQuoted(to, e.Kind)
	to = append(to, `,"accountId":`...)
	to = appendNullable(to, e.Account)
	to = append(to, `,"ts":"`...)
	to = stamp.Append(to, e.At)
	to = append(to, `","data":`...)
	switch {
	case e.Meta.Purged:
		to = append(to, `null`...)
	case len(e.Data) > MaxData:
		to = append(to, `{"truncated":true,"sizeBytes":`...)
		to = append(strconv.AppendInt(to, int64(len(e.Data)), 10), '}')
	case len(e.Data) == 0:
		to = append(to, `{}`...)
	default:
		to = append(to, e.Data...)
	}
	to = append(to, `,"meta":{"seq":`...)
	class := catalog.Durable
	if e.Seq == 0 {
		class = catalog.Ephemeral
		to = append(to, `null`...)
	} else {
		to = strconv.AppendInt(to, e.Seq, 10)
	}
	to = append(to, `,"class":"`...)
	to = append(to, class...)
	to = append(to, `","ofUserId":`...)
	to = appendNullable(to, e.Meta.OfUserID)
	to = append(to, `,"referenceId":`...)
	to = appendNullable(to, e.Meta.ReferenceID)
	to = append(to, `,"sandbox":`...)
	to = strconv.AppendBool(to, e.Meta.Sandbox)
	to = append(to, `,"upstreamAt":`...)
	if e.Meta.UpstreamAt.IsZero() {
		to = append(to, `null`...)
	} else {
		to = append(to, '"')
		to = append(stamp.Append(to, e.Meta.UpstreamAt), '"')
	}
	to = append(to, `,"schema":1`...)
	if e.Meta.Purged {
		to = append(to, `,"purged":true`...)
	}
	return append(to, `}}`...)
}

func appendNullable(to []byte, text string) []byte {
	if text == "" {
		return append(to, `null`...)
	}
	return appendQuoted(to, text)
}

// appendQuoted writes a text as JSON; nearly all are plain.
func appendQuoted(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(text)
			if err != nil { // a string is always JSON
				return append(to, `""`...)
			}
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	return append(append(to, text...), '"')
}
