package notice

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/notice/internal/db"
)

// A link to unsubscribe has the organisation, a keyed hash of the address, and a keyed hash of both. So it needs no row,
// names no one, and works for as long as the mail is kept.

// UnsubscribePath is the path of the links, before the token.
const UnsubscribePath = "/unsubscribe/"

const (
	hashBytes = 16
	// idLength is the length of an id without its prefix.
	idLength = 26
)

// keyedHash returns a hash of texts with a key that all nodes have.
func (s *Notices) keyedHash(ctx context.Context, purpose string, texts ...string) ([]byte, error) {
	key, err := s.deps.Seal.Derive(ctx, purpose)
	if err != nil {
		return nil, fmt.Errorf("derive the key for %s: %w", purpose, err)
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(strings.Join(texts, "\n")))
	return sum.Sum(nil)[:hashBytes], nil
}

func (s *Notices) hashAddress(ctx context.Context, owner id.Org, email string) ([]byte, error) {
	return s.keyedHash(ctx, "notice address", string(owner), strings.ToLower(email))
}

// unsubscribeURL returns the link with which a recipient stops the notices of an organisation.
func (s *Notices) unsubscribeURL(ctx context.Context, owner id.Org, email string) (string, error) {
	address, err := s.hashAddress(ctx, owner, email)
	if err != nil {
		return "", err
	}
	sum, err := s.keyedHash(ctx, "notice unsubscribe", string(owner), string(address))
	if err != nil {
		return "", err
	}
	token := strings.TrimPrefix(string(owner), "org_") + base64.RawURLEncoding.EncodeToString(slices.Concat(address, sum))
	return s.deps.PublicURL + UnsubscribePath + token, nil
}

// Subscription is the organisation and the recipient of a link.
type Subscription struct {
	Org     id.Org
	OrgName string
	address []byte
}

// ReadSubscription returns the subscription of a token. A token that we did not make is not found.
func (s *Notices) ReadSubscription(ctx context.Context, token string) (Subscription, error) {
	unknown := problem.RouteNotFound.New("This link to unsubscribe is not valid. Copy the whole link from the mail.")
	if len(token) <= idLength {
		return Subscription{}, unknown
	}
	owner, err := id.Parse[id.Org]("org_" + token[:idLength])
	raw, bad := base64.RawURLEncoding.Strict().DecodeString(token[idLength:])
	if err != nil || bad != nil || len(raw) != 2*hashBytes {
		return Subscription{}, unknown
	}
	address, given := raw[:hashBytes], raw[hashBytes:]
	sum, err := s.keyedHash(ctx, "notice unsubscribe", string(owner), string(address))
	if err != nil {
		return Subscription{}, err
	}
	if !hmac.Equal(sum, given) {
		return Subscription{}, unknown
	}
	o, err := s.deps.Orgs.Get(ctx, owner)
	return Subscription{owner, o.Name, address}, err
}

// SetSubscribed starts or stops the notices to a recipient. Repeating it changes nothing.
func (s *Notices) SetSubscribed(ctx context.Context, to Subscription, subscribed bool) error {
	q := db.New(s.deps.DB)
	if subscribed {
		return q.Subscribe(ctx, db.SubscribeParams{OrgID: to.Org, Address: to.address})
	}
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	return q.Unsubscribe(ctx, db.UnsubscribeParams{OrgID: to.Org, Address: to.address, Now: now})
}
