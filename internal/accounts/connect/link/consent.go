package link

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Consent is what a creator agreed to. It goes with the start of an attempt, into the account that comes of it and into the audit log.
type Consent struct {
	// Flow is where it was given: "hosted" on our page, "attested" by the org that sent what signs in.
	Flow string `json:"flow"`
	// Version names the wording, TextHash the very text, with the org's name in it, that was on the page.
	Version  string    `json:"version"`
	Locale   string    `json:"locale"`
	TextHash string    `json:"textHash"`
	At       time.Time `json:"at"`
	IPHash   string    `json:"ipHash,omitempty"`
	// AgentHash is a hash of the browser's name.
	AgentHash string `json:"agentHash,omitempty"`
}

// The flows of a consent.
const (
	FlowHosted   = "hosted"
	FlowAttested = "attested"
)

// HashText is the hash of a text as consents have it.
func HashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}
