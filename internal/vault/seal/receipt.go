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
	// receiptFormat is that of receipts with camelCase members, which say what they cover. oldReceiptFormat is the one before.
	receiptFormat, oldReceiptFormat = 2, 1
	// receiptLabel is signed before the receipt, so that the signature serves for nothing else.
	receiptLabel = "sd1receipt\n"
	// receiptPurpose is what the seed of the signing key is derived for.
	receiptPurpose = "receipt"
	keyPrefix      = "ed25519:"
	maxReceipt     = 64 << 10
	// receiptTime has milliseconds, always.
	receiptTime = "2006-01-02T15:04:05.000Z"
)

// ErrReceipt means that a receipt was not signed by this key, or was changed since. Which of them is told to nobody.
var ErrReceipt = errors.New("the receipt is not valid for this key")

// Receipt says that an account's keys and data were deleted. It can be checked without us.
type Receipt struct {
	Account id.Account
	Org     id.Org
	// DataKey is the id of the data key that was deleted; empty if there was none.
	DataKey     string
	Generations int
	// Blobs is how many sealed texts were deleted with it.
	Blobs int
	// Covers says what was deleted: session, credentials, events, deliveries. Receipts of the old format do not say it.
	Covers []string
	// PurgedAt has milliseconds.
	PurgedAt time.Time
}

// receiptBody is a receipt as it is written. Its members are in the order of their names: this is also what is signed.
type receiptBody struct {
	Account     id.Account `json:"accountId"`
	Blobs       int        `json:"blobs"`
	Covers      []string   `json:"covers"`
	DataKey     string     `json:"dataKeyId"`
	Generations int        `json:"generations"`
	Org         id.Org     `json:"orgId"`
	PurgedAt    string     `json:"purgedAt"`
}

// signedReceipt is what is kept and handed out. Its members may be reordered and indented, as a database does: what is
// signed is the one canonical form of their values.
type signedReceipt struct {
	Format    int         `json:"format"`
	Receipt   receiptBody `json:"receipt"`
	KeyID     string      `json:"keyId"`
	Signature string      `json:"signature"`
}

// oldReceiptBody and oldSignedReceipt are what was handed out before. Such receipts stay valid.
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

// SignReceipt gives the receipt with its signature, as JSON.
func (s *Sealer) SignReceipt(ctx context.Context, r Receipt) ([]byte, error) {
	if r.Account == "" || r.Org == "" || r.PurgedAt.IsZero() || len(r.Covers) == 0 {
		return nil, errors.New("sign a receipt: it lacks the account, the org, the time or what it covers")
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

// PublicKey is what receipts are checked with.
func (s *Sealer) PublicKey(ctx context.Context) (PublicKey, error) {
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	return PublicKey(key.Public().(ed25519.PublicKey)), nil
}

func (s *Sealer) signingKey(ctx context.Context) (ed25519.PrivateKey, error) {
	seed, err := s.derive(ctx, receiptPurpose)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey is an Ed25519 key that receipts are checked with. It is no secret.
type PublicKey ed25519.PublicKey

// ID is short, to tell keys apart; a receipt carries it.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k)
	return hex.EncodeToString(sum[:8])
}

// String is the form that ParsePublicKey reads: ed25519: and base64.
func (k PublicKey) String() string { return keyPrefix + base64.StdEncoding.EncodeToString(k) }

// ParsePublicKey reads what String wrote.
func ParsePublicKey(text string) (PublicKey, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("this is not a public key; it looks like ed25519: and 44 characters of base64")
	}
	return key, nil
}

// VerifyReceipt checks a receipt against a public key that is trusted already. It asks nobody.
func VerifyReceipt(signed []byte, key PublicKey) (Receipt, error) {
	if len(key) != ed25519.PublicKeySize || len(signed) > maxReceipt {
		return Receipt{}, ErrReceipt
	}
	var form struct{ Format int }
	if err := json.Unmarshal(signed, &form); err != nil {
		return Receipt{}, ErrReceipt
	}
	if form.Format == oldReceiptFormat {
		return verifyOldReceipt(signed, key)
	}
	var r signedReceipt
	if !decodeStrictly(signed, &r) || r.Format != receiptFormat || !verified(r.Receipt, r.KeyID, r.Signature, key) {
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
	if !verified(b, r.KeyID, r.Signature, key) {
		return Receipt{}, ErrReceipt
	}
	return Receipt{Account: b.Account, Org: b.Org, DataKey: b.DataKey, Generations: b.Generations, Blobs: b.Blobs, PurgedAt: b.PurgedAt}, nil
}

// decodeStrictly reads one JSON value without members that it does not know, and nothing behind it.
func decodeStrictly(text []byte, into any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil {
		return false
	}
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

// verified reports whether a signature is that of a receipt.
func verified(body any, keyID, signature string, key PublicKey) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil || keyID != key.ID() {
		return false
	}
	text, err := canonical(body)
	return err == nil && ed25519.Verify(ed25519.PublicKey(key), text, raw)
}

// canonical is what is signed: the members in the order of their names, without spaces, the time in UTC.
func canonical(body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return append([]byte(receiptLabel), text...), nil
}
