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
	// receiptLabel is prepended to what was signed in the formats 1 and 2.
	receiptLabel = "sd1receipt\n"
	// receiptPurpose is the purpose of Derive for the seed of the signing key. The key signs nothing but receipts.
	receiptPurpose = "receipt"
	oldKeyPrefix   = "ed25519:"
	maxReceipt     = 64 << 10
	// receiptTime always has milliseconds.
	receiptTime = "2006-01-02T15:04:05.000Z"
)

// The values of Receipt.Keyring.
const (
	KeyringSeparate = "separate"
	KeyringShared   = "shared"
)

// ErrReceipt means that a receipt was not signed by this key or was changed afterwards.
var ErrReceipt = errors.New("the receipt is not valid for this key")

// Receipt states that the keys and the data of an account, or of a whole organisation, were deleted. VerifyReceipt checks
// a signed one without any service.
type Receipt struct {
	// Account is empty in the receipt of an organisation.
	Account id.Account
	Org     id.Org
	// DataKey is the id of the deleted data key; empty if there was none.
	DataKey string
	// Covers lists what was deleted, such as session or events. It is nil in receipts of format 1.
	Covers []string
	// Keyring says whether the data keys were in a database of their own, so that backups of the main database cannot
	// bring them back. SignReceipt sets it; it is empty in receipts of the formats 1 and 2.
	Keyring string
	// PurgedAt is signed with milliseconds; finer digits are cut off.
	PurgedAt time.Time
}

// signedReceipt is the JSON form of a receipt. What is signed is this object without its signature in canonical JSON
// (RFC 8785): members in alphabetical order, as they are here, without spaces. The stored form may be reordered and
// indented, for example by a jsonb column.
type signedReceipt struct {
	Account   id.Account `json:"accountId,omitempty"`
	Covers    []string   `json:"covers"`
	DataKey   string     `json:"dataKeyId,omitempty"`
	KeyID     string     `json:"keyId"`
	Keyring   string     `json:"keyring"`
	Org       id.Org     `json:"orgId"`
	PurgedAt  string     `json:"purgedAt"`
	Signature string     `json:"signature,omitempty"`
}

// The formats 1 and 2 are no longer signed. Such receipts stay valid.
type (
	receiptBody1 struct {
		Account     id.Account `json:"account_id"`
		Blobs       int        `json:"blobs"`
		DataKey     string     `json:"data_key_id"`
		Generations int        `json:"generations"`
		Org         id.Org     `json:"org_id"`
		PurgedAt    time.Time  `json:"purged_at"`
	}
	signedReceipt1 struct {
		Format    int          `json:"format"`
		Receipt   receiptBody1 `json:"receipt"`
		KeyID     string       `json:"key_id"`
		Signature string       `json:"signature"`
	}
	receiptBody2 struct {
		Account     id.Account `json:"accountId"`
		Blobs       int        `json:"blobs"`
		Covers      []string   `json:"covers"`
		DataKey     string     `json:"dataKeyId"`
		Generations int        `json:"generations"`
		Org         id.Org     `json:"orgId"`
		PurgedAt    string     `json:"purgedAt"`
	}
	signedReceipt2 struct {
		Format    int          `json:"format"`
		Receipt   receiptBody2 `json:"receipt"`
		KeyID     string       `json:"keyId"`
		Signature string       `json:"signature"`
	}
)

// SignReceipt returns the receipt with its signature, as JSON.
func (s *Sealer) SignReceipt(ctx context.Context, r Receipt) ([]byte, error) {
	if r.Org == "" || r.PurgedAt.IsZero() || len(r.Covers) == 0 {
		return nil, errors.New("sign a receipt: org, time or covers is missing")
	}
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	signed := signedReceipt{
		Account: r.Account, Covers: r.Covers, DataKey: r.DataKey, KeyID: PublicKey(key.Public().(ed25519.PublicKey)).ID(),
		Keyring: KeyringShared, Org: r.Org, PurgedAt: r.PurgedAt.UTC().Format(receiptTime),
	}
	if s.deps.Separate != nil {
		separate, err := s.deps.Separate(ctx)
		if err != nil {
			return nil, unavailable("find out where the keyring is", err)
		}
		if separate {
			signed.Keyring = KeyringSeparate
		}
	}
	text, err := canonical(signed)
	if err != nil {
		return nil, err
	}
	signed.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, text))
	return canonical(signed)
}

// PublicKey returns the key that verifies receipts of this installation.
func (s *Sealer) PublicKey(ctx context.Context) (PublicKey, error) {
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	return PublicKey(key.Public().(ed25519.PublicKey)), nil
}

// ReceiptKey is a key that verifies receipts.
type ReceiptKey struct {
	Public    PublicKey
	CreatedAt time.Time
}

// ReceiptKeys returns the keys that verify the receipts of this installation. There is one, because it changes only if
// the root does.
func (s *Sealer) ReceiptKeys(ctx context.Context) ([]ReceiptKey, error) {
	if known := s.receiptKey.Load(); known != nil {
		return []ReceiptKey{*known}, nil
	}
	public, err := s.PublicKey(ctx)
	if err != nil {
		return nil, err
	}
	at, err := s.queries().RootKeyMadeAt(ctx)
	if err != nil {
		return nil, unavailable("read the age of the root", err)
	}
	key := ReceiptKey{public, at.UTC()}
	s.receiptKey.Store(&key)
	return []ReceiptKey{key}, nil
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

// String returns the key in base64url.
func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k) }

// ParsePublicKey parses the form that String returns, and the form of earlier versions: ed25519: followed by base64.
func ParsePublicKey(text string) (PublicKey, error) {
	text = strings.TrimSpace(text)
	encoding := base64.RawURLEncoding
	if old, ok := strings.CutPrefix(text, oldKeyPrefix); ok {
		text, encoding = old, base64.StdEncoding
	}
	key, err := encoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("not a public key; one has 43 characters of base64url, as GET /v1/receipt-keys returns it")
	}
	return key, nil
}

// VerifyReceipt checks a signed receipt with a public key that the caller already trusts. It works offline.
func VerifyReceipt(signed []byte, key PublicKey) (Receipt, error) {
	if len(key) != ed25519.PublicKeySize || len(signed) > maxReceipt {
		return Receipt{}, ErrReceipt
	}
	// Decode the format first: each format has its own type, and unknown members are errors. Newer receipts have none.
	var form struct{ Format int }
	if err := json.Unmarshal(signed, &form); err != nil {
		return Receipt{}, ErrReceipt
	}
	switch form.Format {
	case 0:
		return verifyReceipt(signed, key)
	case 1:
		return verifyReceipt1(signed, key)
	case 2:
		return verifyReceipt2(signed, key)
	}
	return Receipt{}, ErrReceipt
}

func verifyReceipt(text []byte, key PublicKey) (Receipt, error) {
	var r signedReceipt
	if !decodeStrictly(text, &r) || r.KeyID != key.ID() {
		return Receipt{}, ErrReceipt
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(r.Signature)
	if err != nil {
		return Receipt{}, ErrReceipt
	}
	r.Signature = ""
	content, err := canonical(r)
	if err != nil || !ed25519.Verify(ed25519.PublicKey(key), content, signature) {
		return Receipt{}, ErrReceipt
	}
	at, err := time.Parse(receiptTime, r.PurgedAt)
	if err != nil {
		return Receipt{}, ErrReceipt
	}
	return Receipt{Account: r.Account, Org: r.Org, DataKey: r.DataKey, Covers: r.Covers, Keyring: r.Keyring, PurgedAt: at}, nil
}

func verifyReceipt1(text []byte, key PublicKey) (Receipt, error) {
	var r signedReceipt1
	if !decodeStrictly(text, &r) {
		return Receipt{}, ErrReceipt
	}
	b := r.Receipt
	b.PurgedAt = b.PurgedAt.UTC()
	if !isSigned(b, r.KeyID, r.Signature, key) {
		return Receipt{}, ErrReceipt
	}
	return Receipt{Account: b.Account, Org: b.Org, DataKey: b.DataKey, PurgedAt: b.PurgedAt}, nil
}

func verifyReceipt2(text []byte, key PublicKey) (Receipt, error) {
	var r signedReceipt2
	if !decodeStrictly(text, &r) || !isSigned(r.Receipt, r.KeyID, r.Signature, key) {
		return Receipt{}, ErrReceipt
	}
	b := r.Receipt
	at, err := time.Parse(receiptTime, b.PurgedAt)
	if err != nil {
		return Receipt{}, ErrReceipt
	}
	return Receipt{Account: b.Account, Org: b.Org, DataKey: b.DataKey, Covers: b.Covers, PurgedAt: at}, nil
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

// isSigned reports whether the signature is of this body and key, in the formats 1 and 2.
func isSigned(body any, keyID, signature string, key PublicKey) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil || keyID != key.ID() {
		return false
	}
	text, err := canonical(body)
	return err == nil && ed25519.Verify(ed25519.PublicKey(key), append([]byte(receiptLabel), text...), raw)
}

// canonical encodes a receipt without spaces. Its types have their members in alphabetical order, and the texts of a
// valid receipt are ASCII without characters that JSON escapes, so that this is the form of RFC 8785.
func canonical(body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return text, nil
}
