package stagedoor

import (
	"bytes"
	"encoding/json"
	"time"
)

// Event is something that happened. Data is a pointer to what its kind has, so that a type switch tells them apart:
//
//	switch data := event.Data.(type) {
//	case *stagedoor.MessageData:
//		fmt.Println(data.Message.Text)
//	case *stagedoor.TipsData:
//		fmt.Println(data.AmountCents)
//	}
//
// Of a kind that this library does not know, it is a json.RawMessage. Of one that was too large, it is a *TruncatedData.
type Event struct {
	// ID is the same wherever and however often the event is seen: keep it to recognise repeats.
	ID string
	// Kind is such as KindMessage. Ignore those that you do not know.
	Kind EventKind
	// AccountID is empty for an event of the organisation itself.
	AccountID string
	// Time is when it was stored.
	Time time.Time
	Data any
	Meta EventMeta
	// Cursor is where the event stands in its stream; StreamOptions.Since goes on behind it. It is empty for ephemeral
	// events, and for those that did not come by a stream.
	Cursor string
	// Raw is the event as it was sent.
	Raw json.RawMessage
}

// TruncatedData is the data of an event that was too large to be passed on.
type TruncatedData struct {
	SizeBytes int64 `json:"sizeBytes"`
}

// UnmarshalJSON reads an event as the service sends it.
func (e *Event) UnmarshalJSON(raw []byte) error {
	var wire struct {
		ID        string          `json:"id"`
		Event     EventKind       `json:"event"`
		AccountID *string         `json:"accountId"`
		TS        time.Time       `json:"ts"`
		Data      json.RawMessage `json:"data"`
		Meta      EventMeta       `json:"meta"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*e = Event{
		ID: wire.ID, Kind: wire.Event, AccountID: text(wire.AccountID), Time: wire.TS, Meta: wire.Meta,
		Data: eventData(wire.Event, wire.Data), Raw: bytes.Clone(raw),
	}
	return nil
}

// MarshalJSON is the event as it was sent.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Raw != nil {
		return e.Raw, nil
	}
	var account *string
	if e.AccountID != "" {
		account = &e.AccountID
	}
	return json.Marshal(struct {
		ID        string    `json:"id"`
		Event     EventKind `json:"event"`
		AccountID *string   `json:"accountId"`
		TS        time.Time `json:"ts"`
		Data      any       `json:"data"`
		Meta      EventMeta `json:"meta"`
	}{e.ID, e.Kind, account, e.Time, e.Data, e.Meta})
}

// eventData reads data into the type of its kind. What does not fit stays as it is: a stream must not end because the
// platform has changed a member.
func eventData(kind EventKind, raw json.RawMessage) any {
	if bytes.Contains(raw, []byte(`"truncated"`)) {
		var cut struct {
			Truncated bool `json:"truncated"`
			TruncatedData
		}
		if json.Unmarshal(raw, &cut) == nil && cut.Truncated && cut.SizeBytes > 0 {
			return &cut.TruncatedData
		}
	}
	data := newEventData(kind)
	if data == nil || json.Unmarshal(raw, data) != nil {
		return raw
	}
	return data
}
