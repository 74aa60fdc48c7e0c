package connect

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// tokenPrefix starts the token of a link. The attempt's id and 256 bits follow: a keyed hash of the org, the attempt
// and, for the phone's link, the QR code that it belongs to. Tokens are not stored, so nobody who reads the database
// can open a page.
const tokenPrefix = "at_"

// linkLife is how long a link works after the end of the attempt, to show its result.
const linkLife = time.Hour

// linkKey returns the key of the hash in links. It is derived, not stored.
func (c *Connects) linkKey(ctx context.Context) ([]byte, error) {
	key, err := c.deps.Seal.Derive(ctx, "connect.link")
	return key, sealProblem(err)
}

// mac hashes the parts with their lengths, so that no two different lists of parts have the same input.
func mac(key []byte, r record, use string, turn int64) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{use, string(r.Org), string(r.ID)} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(turn))
	h.Write(number[:])
	return h.Sum(nil)
}

// The uses of a link: forPage opens the attempt's page, forPhone the page for the phone.
const (
	forPage  = "page"
	forPhone = "phone"
)

// token returns the token of a link; turn is 0 for the page.
func token(key []byte, r record, use string, turn int64) secret.String {
	name, _ := strings.CutPrefix(string(r.ID), "att_")
	sum := base64.RawURLEncoding.EncodeToString(mac(key, r, use, turn))
	return secret.New(tokenPrefix + name + sum)
}

// qrTurn identifies the current QR code, so that a phone's link expires with its QR code.
func qrTurn(r record) int64 {
	if r.QRExpiresAt.IsZero() {
		return 0
	}
	return r.QRExpiresAt.Unix()
}

// nameLength is the length of an id without its prefix, in bytes.
const nameLength = 26

var errLink = problem.SessionNotFound.New("This link has expired or does not exist.")

// findByToken returns the attempt that a link opens: by its page, or by the phone's link of the current QR code. The
// query does not filter by org; the hash in the token proves that we issued it for this attempt.
func (c *Connects) findByToken(ctx context.Context, link secret.String) (record, error) {
	text, ok := strings.CutPrefix(link.Reveal(), tokenPrefix)
	if !ok || len(text) <= nameLength {
		return record{}, errLink
	}
	at, err := id.Parse[id.Attempt]("att_" + text[:nameLength])
	if err != nil {
		return record{}, errLink
	}
	given, err := base64.RawURLEncoding.DecodeString(text[nameLength:])
	if err != nil {
		return record{}, errLink
	}
	key, err := c.linkKey(ctx)
	if err != nil {
		return record{}, err
	}
	r, err := fromRow(db.New(c.deps.DB).Find(ctx, at))
	if err != nil {
		if errors.Is(err, problem.AttemptNotFound.New("")) {
			return record{}, errLink
		}
		return record{}, err
	}
	page, onPhone := hmac.Equal(given, mac(key, r, forPage, 0)), hmac.Equal(given, mac(key, r, forPhone, qrTurn(r)))
	if !page && !onPhone || !r.FinishedAt.IsZero() && c.deps.Now().Sub(r.FinishedAt) > linkLife {
		return record{}, errLink
	}
	return r, nil
}

// loginHash returns a keyed hash of a login, the same for all orgs, ignoring case and surrounding spaces.
func (c *Connects) loginHash(ctx context.Context, kind, login string) ([]byte, error) {
	key, err := c.deps.Seal.Derive(ctx, "connect.login")
	if err != nil {
		return nil, sealProblem(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(kind + "\x00" + strings.ToLower(strings.TrimSpace(login))))
	return h.Sum(nil), nil
}
