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

	"github.com/stagedoor/stagedoor/internal/id"
)

const (
	receiptFormat = 1
	// receiptLabel is signed before the receipt, so that the signature serves for nothing else.
	receiptLabel = "sd1receipt\n"
	// receiptPurpose is what the seed of the signing key is derived for.
	receiptPurpose = "receipt"
	keyPrefix      = "ed25519:"
	maxReceipt     = 64 << 10
)

// ErrReceipt means that a receipt was not signed by this key, or was changed since. Which of them is told to nobody.
var ErrReceipt = errors.New("the receipt is not valid for this key")

// Receipt says that an account's keys and data were deleted. It can be checked without us.
type Receipt struct {
	Account id.Account `json:"account_id"`
	Org     id.Org     `json:"org_id"`
	// DataKey is the id of the data key that was deleted; empty if there was none.
	DataKey     string `json:"data_key_id"`
	Generations int    `json:"generations"`
	// Blobs is how many sealed texts were deleted with it.
	Blobs    int       `json:"blobs"`
	PurgedAt time.Time `json:"purged_at"`
}

// signedReceipt is what is kept and handed out. Its members may be reordered and indented, as a database does: what is
// signed is the one canonical form of their values.
type signedReceipt struct {
	Format    int     `json:"format"`
	Receipt   Receipt `json:"receipt"`
	KeyID     string  `json:"key_id"`
	Signature string  `json:"signature"`
}

// SignReceipt gives the receipt with its signature, as JSON.
func (s *Sealer) SignReceipt(ctx context.Context, r Receipt) ([]byte, error) {
	if r.Account == "" || r.Org == "" || r.PurgedAt.IsZero() {
		return nil, errors.New("sign a receipt: it lacks the account, the org or the time")
	}
	key, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	r.PurgedAt = r.PurgedAt.UTC().Truncate(time.Microsecond)
	text, err := canonical(r)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	out, err := json.Marshal(signedReceipt{
		Format: receiptFormat, Receipt: r, KeyID: PublicKey(public).ID(),
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
	var r signedReceipt
	decoder := json.NewDecoder(bytes.NewReader(signed))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || r.Format != receiptFormat || r.KeyID != key.ID() {
		return Receipt{}, ErrReceipt
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Receipt{}, ErrReceipt
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(r.Signature)
	if err != nil {
		return Receipt{}, ErrReceipt
	}
	text, err := canonical(r.Receipt)
	if err != nil || !ed25519.Verify(ed25519.PublicKey(key), text, signature) {
		return Receipt{}, ErrReceipt
	}
	return r.Receipt, nil
}

// canonical is what is signed: the members in the order of their names, without spaces, the time in UTC.
func canonical(r Receipt) ([]byte, error) {
	text, err := json.Marshal(map[string]any{
		"account_id": r.Account, "org_id": r.Org, "data_key_id": r.DataKey, "generations": r.Generations, "blobs": r.Blobs,
		"purged_at": r.PurgedAt.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return append([]byte(receiptLabel), text...), nil
}
