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
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

const (
	// offerTTL is how long an operator can use the link, supportTTL how long the dashboard then stays open.
	offerTTL   = 5 * time.Minute
	supportTTL = 30 * time.Minute
	maxReason  = 500 // in characters
)

// Offer lets an operator open an org's dashboard once, with the link that contains Token.
type Offer struct {
	Org       org.Org
	Reason    string
	Token     secret.String
	ExpiresAt time.Time
}

// OfferSupport creates an Offer for an operator. The org's audit log shows it with the reason.
func (s *Members) OfferSupport(ctx context.Context, by audit.By, owner id.Org, reason string) (Offer, error) {
	reason = cleanText(reason, maxReason+1)
	if n := utf8.RuneCountInString(reason); n < 3 || n > maxReason {
		return Offer{}, problem.ValidationFailed.New("Support access needs a reason.").At("/reason", "length", "must have 3 to 500 characters")
	}
	made := Offer{Reason: reason, Token: newToken(), ExpiresAt: s.deps.Now().Add(offerTTL)}
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if made.Org, err = s.deps.Orgs.GetIn(ctx, tx, owner); err != nil {
			return err
		}
		h := hashToken(made.Token)
		err = db.New(tx).AddOffer(ctx, db.AddOfferParams{OrgID: owner, Hash: h[:], Reason: reason, ExpiresAt: made.ExpiresAt})
		if err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(owner), audit.Changes{"reason": {To: reason}})
	})
	if err != nil {
		return Offer{}, err
	}
	return made, nil
}

// SupportOffered reads the offer of a link, for its page, without using it.
func (s *Members) SupportOffered(ctx context.Context, token secret.String) (Offer, error) {
	h := hashToken(token)
	found, err := wrapOffer(db.New(s.deps.DB).OfferByHash(ctx, db.OfferByHashParams{Hash: h[:], Now: s.deps.Now()}))
	if err != nil {
		return Offer{}, err
	}
	found.Org, err = s.deps.Orgs.Get(ctx, found.Org.ID)
	return found, err
}

// SignInSupport uses an offer: it signs in an operator's browser, read-only and for one org, and returns its cookie.
func (s *Members) SignInSupport(ctx context.Context, by audit.By, token secret.String, userAgent string) (Session, secret.String, error) {
	var b Session
	cookie := newToken()
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		// The offer is deleted: of concurrent callers only one gets it.
		h := hashToken(token)
		offered, err := wrapOffer(db.New(tx).TakeOffer(ctx, db.TakeOfferParams{Hash: h[:], Now: s.deps.Now()}))
		if err != nil {
			return err
		}
		b = Session{Org: offered.Org.ID, Support: offered.Org.ID, Reason: offered.Reason, UserAgent: cleanText(userAgent, maxUserAgent)}
		return s.openSession(ctx, tx, by, cookie, &b, supportTTL)
	})
	if err != nil {
		return Session{}, secret.String{}, err
	}
	return b, cookie, nil
}
