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

// Verdict says why a signature does or does not match. The API returns it.
type Verdict string

// The verdicts. The first two mean that the signature is correct.
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

// Detail is one observation. It never contains a secret, a signature or a part of a body.
type Detail struct{ Code, Text string }

// Finding is a verdict with its explanation.
type Finding struct {
	Verdict Verdict
	Message string
	Details []Detail
	// Account or Endpoint is set for OtherAccount: what the secret belongs to.
	Account, Endpoint string
}

// Owned is the secret of an account's webhook or of an endpoint.
type Owned struct {
	Account, Endpoint string
	Secret            secret.String
}

// finding returns the finding for a secret that belongs to another webhook. subject begins its message.
func (o Owned) finding(subject string) Finding {
	f := Finding{Verdict: OtherAccount, Account: o.Account, Endpoint: o.Endpoint}
	if o.Endpoint != "" {
		f.Message = subject + " an endpoint of the organisation. Each endpoint has its own secret: use the one of the endpoint that " +
			"sends to your URL. Give endpointId to check a delivery against that endpoint."
		return f
	}
	f.Message = subject + " another account's webhook. Each account has its own secret: select it by the accountId in the body."
	return f
}

// Evidence is a request as its receiver got it, with what the service knows about it.
type Evidence struct {
	Body   []byte
	Header map[string]string
	// Given is the secret that the receiver uses; empty if unknown.
	Given secret.String
	// Current is the webhook's secret and Previous the one before; empty if unknown.
	Current, Previous secret.String
	// Others are secrets of other webhooks that may have been used.
	Others []Owned
	// Sent is the body that was sent; nil if unknown.
	Sent []byte
	// At is when the request was received.
	At time.Time
}

// The headers, in the form of NormalizeHeader.
const (
	headerBody      = "x-webhook-signature"
	headerPrevious  = "x-webhook-signature-previous"
	headerStandard  = "webhook-signature"
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
)

// NormalizeHeader returns a header name in a common form. Frameworks write names in different ways, such as
// HTTP_X_WEBHOOK_SIGNATURE.
func NormalizeHeader(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.TrimPrefix(strings.TrimSuffix(name, ":"), "http-")
}

// Check explains why the signature of a request does or does not match.
func Check(e Evidence) Finding {
	c := checker{Evidence: e, header: map[string]string{}}
	for name, value := range e.Header {
		c.header[NormalizeHeader(name)] = value
	}
	if f := c.readHeaders(); f != nil {
		return *f
	}
	f := c.classify()
	// The body may have been compared for several reasons.
	var details []Detail
	for _, d := range append(c.details, f.Details...) {
		if !slices.Contains(details, d) {
			details = append(details, d)
		}
	}
	f.Details = details
	return f
}

// checker holds the signatures of a request.
type checker struct {
	Evidence
	// header has normalised names.
	header map[string]string
	// bodySum is the signature in X-Webhook-Signature, standardSums are those in webhook-signature. Only one of them is
	// set; the first is preferred.
	bodySum      []byte
	standardSums [][]byte
	// stamped means that webhook-timestamp is valid; sentAt is its value in Unix seconds.
	stamped bool
	sentAt  int64
	details []Detail
}

func (c *checker) addDetail(code, text string) { c.details = append(c.details, Detail{code, text}) }

// readHeaders parses the signatures. It returns a finding if they are missing or malformed, and nil otherwise.
func (c *checker) readHeaders() *Finding {
	whole, hasWhole := c.header[headerBody]
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
	f := &Finding{
		Verdict: HeaderMissing,
		Message: "The headers contain no signature. Deliveries have X-Webhook-Signature and the " +
			"webhook-signature of Standard Webhooks.",
	}
	if _, only := c.header[headerPrevious]; only {
		f.Details = append(f.Details, Detail{"only_previous", "X-Webhook-Signature-Previous is present. It is made with " +
			"the previous secret and is only sent together with X-Webhook-Signature."})
	}
	for name := range c.header {
		if strings.Contains(name, "signature") && name != headerPrevious {
			f.Details = append(f.Details, Detail{"other_header", "There is a signature header of another service. Ours " +
				"are X-Webhook-Signature and webhook-signature."})
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
		return &Finding{
			Verdict: HeaderMalformed,
			Message: "X-Webhook-Signature is not as it was sent: " + text,
			Details: []Detail{{code, text}},
		}
	}
	bare := strings.Trim(value, `"'`)
	if bare != value {
		return malformed("quotes", "it has quotes around it; they are not part of the value.")
	}
	digits, prefixed := strings.CutPrefix(value, bodyPrefix)
	if raw, err := base64.StdEncoding.DecodeString(padBase64(digits)); err == nil && len(raw) == sha256.Size {
		return &Finding{
			Verdict: Base64,
			Message: "The hash is in base64. X-Webhook-Signature has it in hex: sha256= and 64 digits, 0 to 9 " +
				"and a to f.",
		}
	}
	sum, err := hex.DecodeString(digits)
	switch {
	case value == "":
		return malformed("empty", "it is empty.")
	case strings.HasPrefix(value, standardPrefix):
		return malformed("other_kind", "its value is that of webhook-signature, which signs the id, the time and the body.")
	case !prefixed && err == nil && len(sum) == sha256.Size:
		return malformed("no_prefix", "sha256= is missing. Compare with this prefix, or remove it on both sides.")
	case !prefixed:
		return malformed("no_prefix", "it must be sha256= and 64 hexadecimal digits.")
	case err == nil && len(sum) != sha256.Size || len(digits) < sumDigits && isHex(digits):
		return malformed("truncated", fmt.Sprintf("it has %d of 64 digits.", len(digits)))
	case err != nil:
		return malformed("not_hex", "what follows sha256= must be 64 hexadecimal digits.")
	case digits != strings.ToLower(digits):
		return malformed("upper_case", "its digits are in upper case. They are sent in lower case, and a comparison of "+
			"strings distinguishes them.")
	}
	c.bodySum = sum
	return nil
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }

// padBase64 restores the padding of base64 text and converts the URL alphabet to the standard one.
func padBase64(text string) string {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return text + strings.Repeat("=", (4-len(text)%4)%4)
}

func (c *checker) readStandard(value string) *Finding {
	malformed := func(code, text string) *Finding {
		return &Finding{
			Verdict: HeaderMalformed,
			Message: "webhook-signature is not as it was sent: " + text,
			Details: []Detail{{code, text}},
		}
	}
	for _, name := range []string{headerID, headerTimestamp} {
		if strings.TrimSpace(c.header[name]) == "" {
			return &Finding{
				Verdict: HeaderMissing,
				Message: "webhook-signature signs the id, the time and the body, and the header " + name + " is missing.",
				Details: []Detail{{"no_" + name, "Give " + name + " as it was received."}},
			}
		}
	}
	if !c.stamped {
		return &Finding{
			Verdict: HeaderMalformed,
			Message: "webhook-timestamp must be a number of seconds since 1970.",
			Details: []Detail{{"timestamp", "It is not a whole number."}},
		}
	}
	for one := range strings.FieldsSeq(value) {
		encoded, ok := strings.CutPrefix(one, standardPrefix)
		if !ok {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(sum) == sha256.Size {
			c.standardSums = append(c.standardSums, sum)
		}
	}
	switch {
	case len(c.standardSums) > 0:
		return nil
	case strings.HasPrefix(value, bodyPrefix) || len(value) == sumDigits && isHex(value):
		return malformed("other_kind",
			"its value is in hex, like that of X-Webhook-Signature. It must be v1,<hash in base64>.")
	case strings.HasPrefix(value, standardPrefix):
		return malformed("truncated", "what follows v1, must be a hash of 32 bytes in base64.")
	}
	return malformed("no_prefix", "it must be v1,<hash in base64>. Several are separated by spaces.")
}

// signed reports whether one of the request's signatures is that of a body under a secret.
func (c *checker) signed(key secret.String, body []byte) bool {
	if key.Empty() {
		return false
	}
	text := key.Reveal()
	if c.bodySum != nil {
		h := hmac.New(sha256.New, []byte(text))
		h.Write(body)
		return hmac.Equal(h.Sum(nil), c.bodySum)
	}
	h := hmac.New(sha256.New, standardKey(text))
	h.Write([]byte(strings.TrimSpace(c.header[headerID]) + "." + strings.TrimSpace(c.header[headerTimestamp]) + "."))
	h.Write(body)
	return slices.ContainsFunc(c.standardSums, func(one []byte) bool { return hmac.Equal(h.Sum(nil), one) })
}

// classify finds the verdict of a request whose headers are well-formed.
func (c *checker) classify() Finding {
	if !c.Given.Empty() && !c.Given.Equal(c.Current) {
		return c.classifyGiven()
	}
	key := c.Current
	switch {
	case c.signed(key, c.Body):
		return c.checkAge()
	case c.signed(c.Previous, c.Body):
		return Finding{
			Verdict: PreviousSecret,
			Message: "The request was signed with the previous secret, and the body is intact. It was sent " +
				"before the secret was rotated. New deliveries are signed with the new secret.",
		}
	}
	for _, other := range c.Others {
		if c.signed(other.Secret, c.Body) || c.Sent != nil && c.signed(other.Secret, c.Sent) {
			return other.finding("The request was signed with the secret of")
		}
	}
	if f, changed := c.findChange(key); changed {
		return f
	}
	if f, changed := c.findChange(c.Previous); changed {
		return f
	}
	if c.Sent != nil && len(c.differences()) == 0 {
		return Finding{
			Verdict: HeaderMalformed,
			Message: "The body is what we sent, but the signature does not belong to it. The header was " +
				"changed, or is from another request.",
			Details: []Detail{{"other_request", "Give the headers and the body of the same request."}},
		}
	}
	if c.Sent != nil {
		return Finding{
			Verdict: BodyChanged,
			Message: "The body is not what we sent, and the signature matches neither version. " + bodyAdvice,
			Details: c.differences(),
		}
	}
	return Finding{
		Verdict: WrongSecret,
		Message: "The signature was not made with this secret, or the body is not what was signed. Give the " +
			"id of the event to have the body compared with what was sent.",
	}
}

// classifyGiven finds the verdict if the receiver's secret is not the webhook's.
func (c *checker) classifyGiven() Finding {
	intact := c.signed(c.Current, c.Body)
	if intact {
		c.addDetail("signature_intact", "With the webhook's own secret, the signature and the body are correct.")
	} else if c.Sent != nil {
		c.details = append(c.details, c.differences()...)
	}
	if !c.Previous.Empty() && c.Given.Equal(c.Previous) {
		return Finding{
			Verdict: PreviousSecret,
			Message: "This is the previous secret: the secret of the webhook was rotated. Use the new one. " +
				"The previous one only signs alongside it, for a limited time.",
		}
	}
	for _, other := range c.Others {
		if c.Given.Equal(other.Secret) {
			return other.finding("This is the secret of")
		}
	}
	if c.Current.Empty() {
		return c.classifyWithoutWebhook()
	}
	if c.signed(c.Given, c.Body) {
		return Finding{
			Verdict: PreviousSecret,
			Message: "The signature matches this secret, but the webhook has another secret now. New " +
				"deliveries are signed with that one.",
		}
	}
	f := Finding{Verdict: WrongSecret, Message: "This is not the webhook's secret."}
	if d, ok := nearMiss(c.Given.Reveal(), c.Current.Reveal()); ok {
		f.Message += " " + d.Text
		f.Details = append(f.Details, d)
	} else {
		f.Message += " It is shown once, when the webhook is created or its secret rotated; rotate it to get a new one. Secrets of the sandbox and of live organisations differ."
		f.Details = append(f.Details, malformedSecret(c.Given.Reveal())...)
	}
	return f
}

// classifyWithoutWebhook finds the verdict from the receiver's secret alone, when the webhook is unknown.
func (c *checker) classifyWithoutWebhook() Finding {
	if c.signed(c.Given, c.Body) {
		return c.checkAge()
	}
	if f, changed := c.findChange(c.Given); changed {
		return f
	}
	f := Finding{
		Verdict: WrongSecret,
		Message: "The signature was not made with this secret, or the body is not what was signed. To find out which, " +
			"give endpointId for a delivery to an endpoint, or accountId for one to an account's own webhook.",
		Details: malformedSecret(c.Given.Reveal()),
	}
	trimmed := strings.Trim(c.Given.Reveal(), around)
	if c.signed(secret.New(Prefix+trimmed), c.Body) {
		f.Details = []Detail{prefixMissing}
	}
	return f
}

// tolerance is how far the time of a Standard Webhooks signature may be from the time of its receipt.
const tolerance = 5 * time.Minute

// checkAge finds the verdict of a correct signature: whether its time is within the tolerance.
func (c *checker) checkAge() Finding {
	if age := c.At.Sub(time.Unix(c.sentAt, 0)); c.stamped && age.Abs() > tolerance {
		text := fmt.Sprintf("It was signed %s before it was received.", age.Round(time.Second))
		if age < 0 {
			text = fmt.Sprintf("It was signed %s after it was received: a clock is wrong.", (-age).Round(time.Second))
		}
		return Finding{
			Verdict: TimestampOld,
			Message: "The signature and the body are correct, but webhook-timestamp is more than five minutes " +
				"from the time of receipt. A receiver that checks it refuses the request.",
			Details: []Detail{{"age", text}},
		}
	}
	return Finding{
		Verdict: Match,
		Message: "The signature is right: the secret, the body and the headers fit together.",
	}
}

const bodyAdvice = "Verify the bytes as they came, before anything parses them."

// findChange reports whether a secret signed the body before something changed it, and explains the change.
func (c *checker) findChange(key secret.String) (Finding, bool) {
	if c.Sent != nil && c.signed(key, c.Sent) {
		return Finding{
			Verdict: BodyChanged,
			Message: "The secret is right, and the body is not what we sent. " + bodyAdvice,
			Details: c.differences(),
		}, true
	}
	for _, r := range repairs(c.Body) {
		if c.signed(key, r.body) {
			return Finding{
				Verdict: BodyChanged,
				Message: "The secret is right, and the body was changed on its way. " + bodyAdvice,
				Details: []Detail{r.Detail},
			}, true
		}
	}
	return Finding{}, false
}

func (c *checker) differences() []Detail { return Compare(c.Sent, c.Body) }

// A secret without its end is recognised only if at least minCutLength characters are present and at most maxCut are
// missing. Otherwise a caller could find out a secret piece by piece.
const minCutLength, maxCut = 12, 4

// around are characters that are added around a secret by mistake.
const around = " \t\r\n\"'"

var (
	spacesAround  = Detail{"secret_spaces", "It has spaces, a line break or quotes around it."}
	prefixMissing = Detail{"secret_prefix", "whsec_ is missing: it is part of the secret."}
)

// malformedSecret explains why a text cannot be a secret that the service has generated. A customer's own secret may have
// any form, so this is a hint for a secret that does not match.
func malformedSecret(given string) []Detail {
	trimmed := strings.Trim(given, around)
	rest, begins := strings.CutPrefix(trimmed, Prefix)
	_, err := base64.StdEncoding.DecodeString(rest)
	generated := len(Prefix) + base64.StdEncoding.EncodedLen(secretBytes)
	switch {
	case trimmed == "":
		return []Detail{{"secret_empty", "It is empty: the variable that should hold it is not set."}}
	case strings.HasPrefix(trimmed, "sd_"):
		return []Detail{{"api_key", "It is an API key. Deliveries are signed with the webhook's signing secret."}}
	case strings.ContainsAny(trimmed, "…•*") || strings.Contains(trimmed, "..."):
		return []Detail{{"secret_shortened", "It is shortened, as it is shown in lists and examples. Only the whole secret works."}}
	case strings.HasPrefix(rest, Prefix):
		return []Detail{{"secret_prefix_twice", "It begins with whsec_ twice. whsec_ is part of the secret and is there once."}}
	case !begins && strings.Contains(trimmed, Prefix):
		return []Detail{{"secret_text_before", "There is text before whsec_, such as the name of a variable. The secret begins with whsec_."}}
	case trimmed != given:
		return []Detail{spacesAround}
	case begins && len(trimmed) != generated:
		return []Detail{{"secret_length", fmt.Sprintf("It has %d characters; a secret that the service has generated has %d.", len(trimmed), generated)}}
	case begins && err != nil:
		return []Detail{{"secret_characters", "What follows whsec_ is not base64, as in every secret that the service has generated."}}
	}
	return nil
}

// nearMiss explains how a text differs from the secret, if it nearly is the secret.
func nearMiss(given, current string) (Detail, bool) {
	trimmed := strings.Trim(given, around)
	switch {
	case trimmed == current:
		return spacesAround, true
	case Prefix+trimmed == current:
		return prefixMissing, true
	case strings.EqualFold(trimmed, current):
		return Detail{"secret_case", "It differs from the secret in upper and lower case."}, true
	case len(trimmed) >= minCutLength && len(current)-len(trimmed) <= maxCut && strings.HasPrefix(current, trimmed):
		return Detail{"secret_cut", "Its end is missing."}, true
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(current, Prefix)); err == nil && trimmed == string(raw) {
		return Detail{"secret_decoded", "It was decoded from base64. The key of X-Webhook-Signature is the whole text, " +
			"including whsec_."}, true
	}
	return Detail{}, false
}
