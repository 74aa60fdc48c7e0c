package link

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Consent is what a creator agreed to. It is passed to the attempt and stored with the account that is connected.
type Consent struct {
	// Flow is FlowHosted for a consent given on our page, FlowAttested for one that the org attests.
	Flow string `json:"flow"`
	// Version identifies the wording, TextHash the exact text on the page, which contains the org's name.
	Version  string    `json:"version"`
	Locale   string    `json:"locale"`
	TextHash string    `json:"textHash"`
	At       time.Time `json:"at"`
	IPHash   string    `json:"ipHash,omitempty"`
	// AgentHash is a hash of the browser's User-Agent.
	AgentHash string `json:"agentHash,omitempty"`
}

// The flows of a consent.
const (
	FlowHosted   = "hosted"
	FlowAttested = "attested"
)

// HashText returns the hash of a text in the form that consents use.
func HashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}
