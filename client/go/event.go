package stagedoor

import (
	"bytes"
	"encoding/json"
	"time"
)

// Event is an event of an account or of the organisation. Data is a pointer to the data type of its kind;
// use a type switch:
//
//	switch data := event.Data.(type) {
//	case *stagedoor.MessageData:
//		fmt.Println(data.Message.Text)
//	case *stagedoor.TipsData:
//		fmt.Println(data.AmountCents)
//	}
//
// If this library does not know the kind, Data is a json.RawMessage. If the event was too large,
// it is a *TruncatedData.
type Event struct {
	// ID is the same in streams, webhooks and replays. Store it to recognise duplicates.
	ID string
	// Kind is the kind of event, such as KindMessage. Ignore unknown kinds.
	Kind EventKind
	// AccountID is empty for an event of the organisation itself.
	AccountID string
	// Time is when the event was stored.
	Time time.Time
	Data any
	Meta EventMeta
	// Cursor is the event's position in its stream. A stream with StreamOptions.Since set to it continues after this
	// event. It is empty for ephemeral events, and for events that were not received from a stream.
	Cursor string
	// Raw is the event as it was received.
	Raw json.RawMessage
}

// TruncatedData is the data of an event that was too large to send.
type TruncatedData struct {
	SizeBytes int64 `json:"sizeBytes"`
}

// UnmarshalJSON decodes an event as the service sends it.
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

// MarshalJSON returns Raw if it is set.
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

// eventData decodes data into the type of its kind. Data that does not fit stays JSON, because a stream must not fail
// when the platform changes a member.
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
