package member

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

const (
	// offeredFor is how long an operator has to open an org's dashboard, supportFor how long it stays open.
	offeredFor = 5 * time.Minute
	supportFor = 30 * time.Minute
	maxReason  = 500
)

// Offer lets an operator open an org's dashboard, once.
type Offer struct {
	Org       org.Org
	Reason    string
	Token     secret.String
	ExpiresAt time.Time
}

// OfferSupport lets an operator read an org's dashboard. The org sees in its audit log that somebody did, and why.
func (s *Members) OfferSupport(ctx context.Context, by audit.By, owner id.Org, reason string) (Offer, error) {
	reason = cleanText(reason, maxReason+1)
	if n := utf8.RuneCountInString(reason); n < 3 || n > maxReason {
		return Offer{}, problem.ValidationFailed.New("Support access needs a reason.").At("/reason", "length", "must have 3 to 500 characters")
	}
	made := Offer{Reason: reason, Token: newToken(), ExpiresAt: s.Now().Add(offeredFor)}
	err := s.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if made.Org, err = s.Orgs.GetIn(ctx, tx, owner); err != nil {
			return err
		}
		if err := addOffer(ctx, tx, owner, hashOf(made.Token), reason, made.ExpiresAt); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(owner), audit.Changes{"reason": {To: reason}})
	})
	if err != nil {
		return Offer{}, err
	}
	return made, nil
}

// SupportOffered reads what a link is for, for its page. Reading it uses nothing up.
func (s *Members) SupportOffered(ctx context.Context, token secret.String) (Offer, error) {
	found, err := offerByHash(ctx, s.DB.Pool(), hashOf(token), s.Now())
	if err != nil {
		return Offer{}, err
	}
	found.Org, err = s.Orgs.Get(ctx, found.Org.ID)
	return found, err
}

// SignInSupport signs an operator's browser in, to read one org for a while.
func (s *Members) SignInSupport(ctx context.Context, by audit.By, token secret.String, userAgent string) (Session, secret.String, error) {
	var b Session
	cookie := newToken()
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		offered, err := takeOffer(ctx, tx, hashOf(token), s.Now())
		if err != nil {
			return err
		}
		b = Session{Org: offered.Org.ID, Support: offered.Org.ID, Reason: offered.Reason, UserAgent: cleanText(userAgent, maxUserAgent)}
		return s.open(ctx, tx, by, cookie, &b, supportFor)
	})
	if err != nil {
		return Session{}, secret.String{}, err
	}
	return b, cookie, nil
}
