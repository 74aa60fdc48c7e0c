package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

const (
	// receiptFormat is the format of new receipts: camelCase members, and a list of what they cover. Receipts of
	// oldReceiptFormat can only be verified.
	receiptFormat, oldReceiptFormat = 2, 1
	// receiptLabel is prepended to what is signed, so that the signature is valid for nothing else.
	receiptLabel = "sd1receipt\n"
	// receiptPurpose is the purpose of Derive for the seed of the signing key.
	receiptPurpose = "receipt"
	keyPrefix      = "ed25519:"
	maxReceipt     = 64 << 10
	// receiptTime always has milliseconds.
	receiptTime = "2006-01-02T15:04:05.000Z"
)

// ErrReceipt means that a receipt was not signed by this key or was changed afterwards.
var ErrReceipt = errors.New("the receipt is not valid for this key")

// Receipt states that an account's keys and data were deleted. VerifyReceipt checks a signed one without any service.
type Receipt struct {
	Account id.Account
	Org     id.Org
	// DataKey is the id of the deleted data key; empty if there was none.
	DataKey     string
	Generations int
	// Blobs is the number of sealed texts that were deleted.
	Blobs int
	// Covers lists what was deleted: session, credentials, events, deliveries. It is nil in receipts of the old format.
	Covers []string
	// PurgedAt is signed with milliseconds; finer digits are cut off.
	PurgedAt time.Time
}

// receiptBody is the JSON form of a receipt. Its members are in alphabetical order, because its encoding is what is
// signed.
type receiptBody struct {
	Account     id.Account `json:"accountId"`
	Blobs       int        `json:"blobs"`
	Covers      []string   `json:"covers"`
	DataKey     string     `json:"dataKeyId"`
	Generations int        `json:"generations"`
	Org         id.Org     `json:"orgId"`
	PurgedAt    string     `json:"purgedAt"`
}

// signedReceipt is the stored form. Its members may be reordered and indented, for example by a jsonb column: the
// signature is over the canonical form of their values.
type signedReceipt struct {
	Format    int         `json:"format"`
	Receipt   receiptBody `json:"receipt"`
	KeyID     string      `json:"keyId"`
	Signature string      `json:"signature"`
}

// oldReceiptBody and oldSignedReceipt are the old format. Such receipts stay valid.
type oldReceiptBody struct {
	Account     id.Account `json:"account_id"`
	Blobs       int        `json:"blobs"`
	DataKey     string     `json:"data_key_id"`
	Generations int        `json:"generations"`
	Org         id.Org     `json:"org_id"`
	PurgedAt    time.Time  `json:"purged_at"`
}

type oldSignedReceipt struct {
	Format    int            `json:"format"`
	Receipt   oldReceiptBody `json:"receipt"`
	KeyID     string         `json:"key_id"`
	Signature string         `json:"signature"`
}

// SignReceipt returns the receipt with its signature, as JSON.
func (s *Sealer) SignReceipt(ctx context.Context, r Receipt) ([]byte, error) {
	if r.Account == "" || r.Org == "" || r.PurgedAt.IsZero() || len(r.Covers) == 0 {
		return nil, errors.New("sign a receipt: account, org, time or covers is missing")
	}
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	body := receiptBody{r.Account, r.Blobs, r.Covers, r.DataKey, r.Generations, r.Org, r.PurgedAt.UTC().Format(receiptTime)}
	text, err := canonical(body)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	out, err := json.Marshal(signedReceipt{
		Format: receiptFormat, Receipt: body, KeyID: PublicKey(public).ID(),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, text)),
	})
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return out, nil
}

// PublicKey returns the key that verifies receipts of this installation.
func (s *Sealer) PublicKey(ctx context.Context) (PublicKey, error) {
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	return PublicKey(key.Public().(ed25519.PublicKey)), nil
}

// signingKey derives the signing key of receipts from the root. It changes only if the root does.
func (s *Sealer) signingKey(ctx context.Context) (ed25519.PrivateKey, error) {
	seed, err := s.derive(ctx, receiptPurpose)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey is an Ed25519 key that verifies receipts. It is not secret.
type PublicKey ed25519.PublicKey

// ID returns a short hash that distinguishes keys. Receipts contain it.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k)
	return hex.EncodeToString(sum[:8])
}

// String returns the form that ParsePublicKey reads: ed25519: followed by base64.
func (k PublicKey) String() string { return keyPrefix + base64.StdEncoding.EncodeToString(k) }

// ParsePublicKey parses the form that String returns.
func ParsePublicKey(text string) (PublicKey, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("not a public key; one looks like ed25519: followed by 44 characters of base64")
	}
	return key, nil
}

// VerifyReceipt checks a signed receipt with a public key that the caller already trusts. It works offline.
func VerifyReceipt(signed []byte, key PublicKey) (Receipt, error) {
	if len(key) != ed25519.PublicKeySize || len(signed) > maxReceipt {
		return Receipt{}, ErrReceipt
	}
	// Decode the format first: each format has its own type, and unknown members are errors.
	var form struct{ Format int }
	if err := json.Unmarshal(signed, &form); err != nil {
		return Receipt{}, ErrReceipt
	}
	if form.Format == oldReceiptFormat {
		return verifyOldReceipt(signed, key)
	}
	var r signedReceipt
	if !decodeStrictly(signed, &r) || r.Format != receiptFormat || !isSigned(r.Receipt, r.KeyID, r.Signature, key) {
		return Receipt{}, ErrReceipt
	}
	at, err := time.Parse(receiptTime, r.Receipt.PurgedAt)
	if err != nil {
		return Receipt{}, ErrReceipt
	}
	b := r.Receipt
	return Receipt{b.Account, b.Org, b.DataKey, b.Generations, b.Blobs, b.Covers, at}, nil
}

func verifyOldReceipt(signed []byte, key PublicKey) (Receipt, error) {
	var r oldSignedReceipt
	if !decodeStrictly(signed, &r) {
		return Receipt{}, ErrReceipt
	}
	b := r.Receipt
	b.PurgedAt = b.PurgedAt.UTC()
	if !isSigned(b, r.KeyID, r.Signature, key) {
		return Receipt{}, ErrReceipt
	}
	return Receipt{Account: b.Account, Org: b.Org, DataKey: b.DataKey, Generations: b.Generations, Blobs: b.Blobs, PurgedAt: b.PurgedAt}, nil
}

// decodeStrictly decodes one JSON value. It fails for unknown members and for text after the value.
func decodeStrictly(text []byte, into any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil {
		return false
	}
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

// isSigned reports whether the signature is of this body and key.
func isSigned(body any, keyID, signature string, key PublicKey) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil || keyID != key.ID() {
		return false
	}
	text, err := canonical(body)
	return err == nil && ed25519.Verify(ed25519.PublicKey(key), text, raw)
}

// canonical returns what is signed: the label, and the members in alphabetical order, without spaces, with the time in
// UTC.
func canonical(body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return append([]byte(receiptLabel), text...), nil
}
