package event

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Envelope is a complete event as callers receive it, by stream, page or webhook.
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

// Meta holds the fields of an envelope's meta object.
type Meta struct {
	OfUserID, ReferenceID string
	Sandbox               bool
	// UpstreamAt is when the event happened by the platform's clock; zero if unknown.
	UpstreamAt time.Time
	// Purged means that the account was deleted and the envelope has no data. Unreadable means that it has no data
	// because the stored event was changed by something else than this service.
	Purged, Unreadable bool
}

const (
	// MaxData bounds the data of an event, in bytes. A larger event only contains the size of its data.
	MaxData = 240 << 10
	// AroundData is the approximate size of an envelope without its data, in bytes.
	AroundData = 400
)

// AppendEnvelope appends the JSON of an envelope. It does not use encoding/json because it is on the path of every
// event, and because the exact bytes matter: the same bytes are stored, signed and sent.
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
	case e.Meta.Purged || e.Meta.Unreadable:
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
	if e.Meta.Unreadable {
		to = append(to, `,"unreadable":true`...)
	}
	return append(to, `}}`...)
}

func appendNullable(to []byte, text string) []byte {
	if text == "" {
		return append(to, `null`...)
	}
	return appendQuoted(to, text)
}

// appendQuoted appends a string as JSON. Nearly all strings are plain ASCII and need no escaping.
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
