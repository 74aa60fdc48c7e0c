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

// A link's token is "at_", the attempt's id, and 256 bits that only we can make: a keyed hash over org, attempt and, for the phone's
// link, the QR it belongs to. Nothing of it is stored, so nothing that is read from the database opens a page.
const tokenPrefix = "at_"

// linkLife is how long a link still shows how an attempt ended.
const linkLife = time.Hour

// linkKey derives the key of the links.
func (c *Connects) linkKey(ctx context.Context) ([]byte, error) {
	key, err := c.Seal.Derive(ctx, "connect.link")
	return key, sealing(err)
}

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

const (
	forPage  = "page"
	forPhone = "phone"
)

// token makes the token of a link; turn is 0 for the page.
func token(key []byte, r record, use string, turn int64) secret.String {
	name, _ := strings.CutPrefix(string(r.ID), "att_")
	sum := base64.RawURLEncoding.EncodeToString(mac(key, r, use, turn))
	return secret.New(tokenPrefix + name + sum)
}

// turn is which QR is shown now; a phone's link ends with its QR.
func turn(r record) int64 {
	if r.QRExpiresAt.IsZero() {
		return 0
	}
	return r.QRExpiresAt.Unix()
}

// nameLength is the length of an id without its prefix.
const nameLength = 26

var errLink = problem.SessionNotFound.New("This link has expired or was never made.")

// byToken finds the attempt that a link opens: its page's, or the one of the QR that its phone's link belongs to.
func (c *Connects) byToken(ctx context.Context, link secret.String) (record, error) {
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
	r, err := found(db.New(c.DB.Pool()).Find(ctx, at))
	if err != nil {
		if errors.Is(err, problem.AttemptNotFound.New("")) {
			return record{}, errLink
		}
		return record{}, err
	}
	page, onPhone := hmac.Equal(given, mac(key, r, forPage, 0)), hmac.Equal(given, mac(key, r, forPhone, turn(r)))
	if !page && !onPhone || !r.FinishedAt.IsZero() && c.Now().Sub(r.FinishedAt) > linkLife {
		return record{}, errLink
	}
	return r, nil
}

// loginHash names a login without showing it, the same for all orgs.
func (c *Connects) loginHash(ctx context.Context, kind, login string) ([]byte, error) {
	key, err := c.Seal.Derive(ctx, "connect.login")
	if err != nil {
		return nil, sealing(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(kind + "\x00" + strings.ToLower(strings.TrimSpace(login))))
	return h.Sum(nil), nil
}
