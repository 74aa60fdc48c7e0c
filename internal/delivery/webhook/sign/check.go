package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Verdict is what is the matter with a signature.
type Verdict string

// The verdicts. The first two mean that the signature is right.
const (
	Match           Verdict = "match"
	TimestampOld    Verdict = "timestamp_old"
	WrongSecret     Verdict = "wrong_secret"
	OtherAccount    Verdict = "other_account"
	PreviousSecret  Verdict = "previous_secret"
	BodyChanged     Verdict = "body_changed"
	HeaderMissing   Verdict = "header_missing"
	HeaderMalformed Verdict = "header_malformed"
	Base64          Verdict = "base64"
)

// Detail is one thing that was noticed. It never holds a secret, a signature or a part of a body.
type Detail struct{ Code, Text string }

// Finding is the verdict and why.
type Finding struct {
	Verdict Verdict
	Message string
	Details []Detail
	// Account is whose secret it is, if that is another's than thought.
	Account string
}

// Owned is a secret and whose it is.
type Owned struct {
	Account string
	Secret  secret.String
}

// Evidence is a request as its receiver has it, and what we know of it.
type Evidence struct {
	Body   []byte
	Header map[string]string
	// Given is the secret that the receiver uses; empty if it is not told.
	Given secret.String
	// Current is the account's secret and Previous the one before; each is empty if it is not known.
	Current, Previous secret.String
	// Others are secrets of other accounts that may have been used.
	Others []Owned
	// Sent are the bytes that were sent; nil if they are not known.
	Sent []byte
	// At is when the request was received.
	At time.Time
}

// The headers, as Normal writes them.
const (
	headerWhole     = "x-webhook-signature"
	headerBefore    = "x-webhook-signature-previous"
	headerStandard  = "webhook-signature"
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
)

// Normal is a header's name as it is compared: frameworks write names in their own ways, such as HTTP_X_WEBHOOK_SIGNATURE.
func Normal(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.TrimPrefix(strings.TrimSuffix(name, ":"), "http-")
}

// Check says why a signature does or does not match.
func Check(e Evidence) Finding {
	c := checker{Evidence: e, header: map[string]string{}}
	for name, value := range e.Header {
		c.header[Normal(name)] = value
	}
	if f := c.read(); f != nil {
		return *f
	}
	f := c.judge()
	f.Details = append(c.noticed, f.Details...)
	return f
}

// checker has the signatures of a request.
type checker struct {
	Evidence
	header map[string]string
	// whole and standard are the signatures in the headers of the two kinds; only one kind is looked at.
	whole    []byte
	standard [][]byte
	stamped  bool
	sentAt   int64
	noticed  []Detail
}

func (c *checker) notice(code, text string) { c.noticed = append(c.noticed, Detail{code, text}) }

// read reads the headers, or says what is wrong with them.
func (c *checker) read() *Finding {
	whole, hasWhole := c.header[headerWhole]
	standard, hasStandard := c.header[headerStandard]
	if at, err := strconv.ParseInt(strings.TrimSpace(c.header[headerTimestamp]), 10, 64); err == nil {
		c.stamped, c.sentAt = true, at
	}
	switch {
	case hasWhole:
		return c.readWhole(strings.TrimSpace(whole))
	case hasStandard:
		return c.readStandard(strings.TrimSpace(standard))
	}
	f := &Finding{Verdict: HeaderMissing, Message: "There is no signature among the headers. Deliveries carry X-Webhook-Signature, and webhook-signature of Standard Webhooks."}
	if _, only := c.header[headerBefore]; only {
		f.Details = append(f.Details, Detail{"only_previous", "X-Webhook-Signature-Previous is there: it is made with the secret before, and comes only beside X-Webhook-Signature."})
	}
	for name := range c.header {
		if strings.Contains(name, "signature") && name != headerBefore {
			f.Details = append(f.Details, Detail{"other_header", "A header of another service has a signature; ours are named X-Webhook-Signature and webhook-signature."})
			break
		}
	}
	if len(c.header) == 0 {
		f.Details = append(f.Details, Detail{"no_headers", "No headers were given."})
	}
	return f
}

const sumDigits = 2 * sha256.Size

func (c *checker) readWhole(value string) *Finding {
	malformed := func(code, text string) *Finding {
		return &Finding{Verdict: HeaderMalformed, Message: "X-Webhook-Signature is not as it was sent: " + text, Details: []Detail{{code, text}}}
	}
	bare := strings.Trim(value, `"'`)
	if bare != value {
		return malformed("quotes", "it has quotes around it; they are not part of the value.")
	}
	digits, prefixed := strings.CutPrefix(value, bodyPrefix)
	if raw, err := base64.StdEncoding.DecodeString(padded(digits)); err == nil && len(raw) == sha256.Size {
		return &Finding{Verdict: Base64, Message: "The hash is written in base64. X-Webhook-Signature has it in hex: sha256= and 64 digits from 0 to 9 and a to f."}
	}
	sum, err := hex.DecodeString(digits)
	switch {
	case value == "":
		return malformed("empty", "it is empty.")
	case strings.HasPrefix(value, standardPrefix):
		return malformed("other_kind", "its value is that of webhook-signature, which signs the id, the time and the body.")
	case !prefixed && err == nil && len(sum) == sha256.Size:
		return malformed("no_prefix", "it has no sha256= in front. Compare with the prefix, or take it off on both sides.")
	case !prefixed:
		return malformed("no_prefix", "it must be sha256= and 64 hexadecimal digits.")
	case err == nil && len(sum) != sha256.Size || len(digits) < sumDigits && hexadecimal(digits):
		return malformed("truncated", fmt.Sprintf("it has %d of 64 digits.", len(digits)))
	case err != nil:
		return malformed("not_hex", "what follows sha256= must be 64 hexadecimal digits.")
	case digits != strings.ToLower(digits):
		return malformed("upper_case", "its digits are upper case; they are sent lower case, and a comparison of texts tells them apart.")
	}
	c.whole = sum
	return nil
}

func hexadecimal(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }

// padded completes base64 that lost its padding.
func padded(text string) string {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return text + strings.Repeat("=", (4-len(text)%4)%4)
}

func (c *checker) readStandard(value string) *Finding {
	malformed := func(code, text string) *Finding {
		return &Finding{Verdict: HeaderMalformed, Message: "webhook-signature is not as it was sent: " + text, Details: []Detail{{code, text}}}
	}
	for _, name := range []string{headerID, headerTimestamp} {
		if strings.TrimSpace(c.header[name]) == "" {
			return &Finding{Verdict: HeaderMissing, Message: "webhook-signature signs the id, the time and the body, and the header " + name + " is missing.", Details: []Detail{{"no_" + name, "Give " + name + " as it was received."}}}
		}
	}
	if !c.stamped {
		return &Finding{Verdict: HeaderMalformed, Message: "webhook-timestamp is not a time: it is the seconds since 1970 as a whole number.", Details: []Detail{{"timestamp", "It is not a whole number."}}}
	}
	for one := range strings.FieldsSeq(value) {
		encoded, ok := strings.CutPrefix(one, standardPrefix)
		if !ok {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(sum) == sha256.Size {
			c.standard = append(c.standard, sum)
		}
	}
	switch {
	case len(c.standard) > 0:
		return nil
	case strings.HasPrefix(value, bodyPrefix) || len(value) == sumDigits && hexadecimal(value):
		return malformed("other_kind", "its value is in hex, as that of X-Webhook-Signature. It must be v1, and the hash in base64.")
	case strings.HasPrefix(value, standardPrefix):
		return malformed("truncated", "what follows v1, must be a hash of 32 bytes in base64.")
	}
	return malformed("no_prefix", "it must be v1, and the hash in base64; several are separated by spaces.")
}

// signed says whether a secret made the signature of a body.
func (c *checker) signed(key secret.String, body []byte) bool {
	if key.Empty() {
		return false
	}
	text := key.Reveal()
	if c.whole != nil {
		h := hmac.New(sha256.New, []byte(text))
		h.Write(body)
		return hmac.Equal(h.Sum(nil), c.whole)
	}
	h := hmac.New(sha256.New, standardKey(text))
	h.Write([]byte(strings.TrimSpace(c.header[headerID]) + "." + strings.TrimSpace(c.header[headerTimestamp]) + "."))
	h.Write(body)
	return slices.ContainsFunc(c.standard, func(one []byte) bool { return hmac.Equal(h.Sum(nil), one) })
}

// judge decides what is the matter. Headers are in order by now.
func (c *checker) judge() Finding {
	if !c.Given.Empty() && !c.Given.Equal(c.Current) {
		return c.judgeGiven()
	}
	key := c.Current
	switch {
	case c.signed(key, c.Body):
		return c.fresh()
	case c.signed(c.Previous, c.Body):
		return Finding{Verdict: PreviousSecret, Message: "It was signed with the secret before, and the body is intact. It was sent before the secret was rotated: what is sent now is signed with the new one."}
	}
	for _, other := range c.Others {
		if c.signed(other.Secret, c.Body) || c.Sent != nil && c.signed(other.Secret, c.Sent) {
			return Finding{Verdict: OtherAccount, Account: other.Account, Message: "It was signed with the secret of another account's webhook. Each account has a secret of its own: choose it by accountId in the body."}
		}
	}
	if f, changed := c.changed(key); changed {
		return f
	}
	if f, changed := c.changed(c.Previous); changed {
		return f
	}
	if c.Sent != nil && len(c.differences()) == 0 {
		return Finding{Verdict: HeaderMalformed, Message: "The body is what we sent, and the signature is none that we made of it. The header was changed, or belongs to another request.", Details: []Detail{{"other_request", "Give the headers and the body of one and the same request."}}}
	}
	if c.Sent != nil {
		return Finding{Verdict: BodyChanged, Message: "The body is not what we sent, and the signature is of neither. " + bodyAdvice, Details: c.differences()}
	}
	return Finding{Verdict: WrongSecret, Message: "The signature was not made with this secret, or the body is not what was signed. Give the id of the event to have the body compared with what was sent."}
}

// judgeGiven decides about a secret that is not the account's.
func (c *checker) judgeGiven() Finding {
	intact := c.signed(c.Current, c.Body)
	if intact {
		c.notice("signature_intact", "With the account's own secret the signature and the body are right.")
	} else if c.Sent != nil {
		c.noticed = append(c.noticed, c.differences()...)
	}
	if !c.Previous.Empty() && c.Given.Equal(c.Previous) {
		return Finding{Verdict: PreviousSecret, Message: "This is the secret before: the webhook's was rotated. Use the new one; the old one signs only beside it, in X-Webhook-Signature-Previous, and only for a while."}
	}
	for _, other := range c.Others {
		if c.Given.Equal(other.Secret) {
			return Finding{Verdict: OtherAccount, Account: other.Account, Message: "This is the secret of another account's webhook. Each account has one of its own: choose it by accountId in the body."}
		}
	}
	if c.Current.Empty() {
		return c.judgeAlone()
	}
	if c.signed(c.Given, c.Body) {
		return Finding{Verdict: PreviousSecret, Message: "The signature is right with this secret, but it is none that the webhook has now. It was replaced since: what is sent now is signed with another."}
	}
	f := Finding{Verdict: WrongSecret, Message: "This is not the webhook's secret."}
	if d, ok := mistaken(c.Given.Reveal(), c.Current.Reveal()); ok {
		f.Message += " " + d.Text
		f.Details = append(f.Details, d)
	} else {
		f.Message += " It is shown once, when the webhook is set or its secret rotated; rotate it to get a new one. Secrets of the sandbox and of live organisations differ."
	}
	return f
}

// judgeAlone decides by the given secret only: nothing is known of the account.
func (c *checker) judgeAlone() Finding {
	if c.signed(c.Given, c.Body) {
		return c.fresh()
	}
	if f, changed := c.changed(c.Given); changed {
		return f
	}
	return Finding{Verdict: WrongSecret, Message: "The signature was not made with this secret, or the body is not what was signed. Give accountId or eventId to find out which."}
}

// fresh is for a signature that is right.
func (c *checker) fresh() Finding {
	if age := c.At.Sub(time.Unix(c.sentAt, 0)); c.stamped && age.Abs() > tolerance {
		text := fmt.Sprintf("It was signed %s before it was received.", age.Round(time.Second))
		if age < 0 {
			text = fmt.Sprintf("It was signed %s after it was received: a clock is wrong.", (-age).Round(time.Second))
		}
		return Finding{Verdict: TimestampOld, Message: "The signature and the body are right. The time in webhook-timestamp is more than five minutes from when it was received, so a receiver that checks it refuses it.", Details: []Detail{{"age", text}}}
	}
	return Finding{Verdict: Match, Message: "The signature is right: the secret, the body and the headers fit together."}
}

const bodyAdvice = "Verify the bytes as they came, before anything parses them."

// changed says whether a secret signed the body before something changed it, and what that was.
func (c *checker) changed(key secret.String) (Finding, bool) {
	if c.Sent != nil && c.signed(key, c.Sent) {
		return Finding{Verdict: BodyChanged, Message: "The secret is right, and the body is not what we sent. " + bodyAdvice, Details: c.differences()}, true
	}
	for _, r := range repairs(c.Body) {
		if c.signed(key, r.body) {
			return Finding{Verdict: BodyChanged, Message: "The secret is right, and the body was changed on its way. " + bodyAdvice, Details: []Detail{r.Detail}}, true
		}
	}
	return Finding{}, false
}

func (c *checker) differences() []Detail { return Compare(c.Sent, c.Body) }

// Of a secret whose end is missing all but a few characters must be right: who has less must not learn by asking how much of it is.
const leastCut, mostCut = 12, 4

// mistaken says in which way a text is nearly the secret.
func mistaken(given, current string) (Detail, bool) {
	trimmed := strings.Trim(given, " \t\r\n\"'")
	switch {
	case trimmed == current:
		return Detail{"secret_spaces", "It has spaces, a line break or quotes around it."}, true
	case Prefix+trimmed == current:
		return Detail{"secret_prefix", "whsec_ is missing: it is part of the secret."}, true
	case strings.EqualFold(trimmed, current):
		return Detail{"secret_case", "Its upper and lower case are not those of the secret."}, true
	case len(trimmed) >= leastCut && len(current)-len(trimmed) <= mostCut && strings.HasPrefix(current, trimmed):
		return Detail{"secret_cut", "Its end is missing."}, true
	case strings.HasPrefix(trimmed, "sd_"):
		return Detail{"api_key", "It is an API key. Deliveries are signed with the webhook's signing secret."}, true
	case trimmed == "":
		return Detail{"secret_empty", "It is empty: the variable that should hold it is not set."}, true
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(current, Prefix)); err == nil && trimmed == string(raw) {
		return Detail{"secret_decoded", "It was decoded. X-Webhook-Signature is keyed by the whole text, whsec_ included."}, true
	}
	return Detail{}, false
}
