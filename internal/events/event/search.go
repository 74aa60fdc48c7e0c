package event

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Text is what a search looks for: in lower case, as it is encoded in an envelope.
type Text string

// NewText returns the text of a search. The empty text is in every event.
func NewText(text string) Text {
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text can always be encoded
	quoted := strings.TrimSuffix(encoded.String(), "\n")
	return Text(strings.ToLower(quoted[1 : len(quoted)-1]))
}

// In reports whether an envelope contains the text, ignoring case.
func (t Text) In(envelope []byte) bool {
	return t == "" || bytes.Contains(bytes.ToLower(envelope), []byte(t))
}
