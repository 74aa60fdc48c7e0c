package member

import (
	"context"
	"errors"
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
	// offerTTL is how long an operator can use the link, supportTTL how long the dashboard then stays open at most.
	offerTTL   = 5 * time.Minute
	supportTTL = 30 * time.Minute
	maxReason  = 500 // in characters
	// requestTTL is how long an org can grant a request.
	requestTTL = 7 * 24 * time.Hour
	// maxAccessPerDay bounds the requests of all operators to an org.
	maxAccessPerDay = 50
)

// AccessState is the state of an Access.
type AccessState string

// The states of an Access.
const (
	AccessRequested AccessState = "requested"
	AccessGranted   AccessState = "granted"
	// AccessEnded means declined, revoked or replaced by another request.
	AccessEnded   AccessState = "ended"
	AccessExpired AccessState = "expired"
)

// Access is an operator's request to read what is inside an org. Once an owner has granted it, it is the operator's access
// until it expires or an owner revokes it.
type Access struct {
	ID    id.SupportAccess
	Org   id.Org
	State AccessState
	// OperatorID and Operator are the operator and their label.
	OperatorID, Operator, Reason string
	RequestedAt, ExpiresAt       time.Time
	GrantedAt, EndedAt           *time.Time
	// GrantedBy and EndedBy are labels.
	GrantedBy, EndedBy string
}

// Offer lets an operator open an org's dashboard once, with the link that contains Token.
type Offer struct {
	Org       org.Org
	Reason    string
	Token     secret.String
	ExpiresAt time.Time
	// access is the access that the offer uses, and operator the label of its operator.
	access   id.SupportAccess
	operator string
}

// RequestAccess asks an org for access. It replaces an open request of the same operator.
func (s *Members) RequestAccess(ctx context.Context, by audit.By, owner id.Org, reason string) (Access, error) {
	reason = cleanText(reason, maxReason+1)
	if n := utf8.RuneCountInString(reason); n < 3 || n > maxReason {
		return Access{}, problem.ValidationFailed.New("Support access needs a reason.").At("/reason", "length", "must have 3 to 500 characters")
	}
	var made Access
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if _, err := s.deps.Orgs.Lock(ctx, tx, owner); err != nil {
			return err
		}
		q := db.New(tx)
		n, err := q.CountAccess(ctx, owner)
		if err != nil {
			return err
		}
		if n >= maxAccessPerDay {
			return problem.QuotaExceeded.New("The organisation was asked for access too often today.").After(int(time.Hour/time.Second)).
				With("reason", "access_requests").With("limit", maxAccessPerDay).With("current", n)
		}
		if err := q.ReplaceAccess(ctx, db.ReplaceAccessParams{OrgID: owner, OperatorID: by.ID, Operator: by.Label}); err != nil {
			return err
		}
		row, err := q.AddAccess(ctx, db.AddAccessParams{
			OrgID: owner, ID: id.New[id.SupportAccess](), OperatorID: by.ID, Operator: by.Label, Reason: reason, Lasts: requestTTL,
		})
		if err != nil {
			return err
		}
		made = fromAccessRow(row, false)
		return s.deps.Audit.Record(ctx, tx, owner, by, string(made.ID), audit.Changes{"reason": {To: reason}})
	})
	return made, err
}

// ListAccess lists the requests of the last 90 days to an org, newest first.
func (s *Members) ListAccess(ctx context.Context, owner id.Org) ([]Access, error) {
	rows, err := db.New(s.deps.DB).Accesses(ctx, owner)
	return postgres.Convert(rows, func(r db.AccessesRow) Access { return fromAccessRow(r.SupportAccess, r.Expired) }), err
}

// The least and the longest time for which an org can grant access.
const (
	MinAccess = time.Hour
	MaxAccess = 7 * 24 * time.Hour
)

// GrantAccess grants a request for a time, if the person is an owner.
func (s *Members) GrantAccess(ctx context.Context, by audit.By, owner id.Org, person id.Person, access string, lasts time.Duration) (Access, error) {
	which, err := id.Parse[id.SupportAccess](access)
	if err != nil {
		return Access{}, accessNotFound()
	}
	if lasts < MinAccess || lasts > MaxAccess {
		return Access{}, problem.ValidationFailed.New("The time is not allowed.").At("/hours", "range", "must be 1 to 168")
	}
	var granted Access
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := s.RequireOwner(ctx, tx, owner, person); err != nil {
			return err
		}
		row, err := db.New(tx).GrantAccess(ctx, db.GrantAccessParams{OrgID: owner, ID: which, GrantedBy: by.Label, Lasts: lasts})
		if errors.Is(err, postgres.ErrNoRows) {
			return accessNotFound()
		}
		if err != nil {
			return err
		}
		granted = fromAccessRow(row, false)
		return s.deps.Audit.Record(ctx, tx, owner, by, access, audit.Changes{
			"operator": {To: granted.Operator}, "reason": {To: granted.Reason}, "until": {To: granted.ExpiresAt},
		})
	})
	return granted, err
}

// RevokeAccess declines a request, or ends a granted access, if the person is an owner. The operator's browsers are signed
// out: every node refuses their calls that start after it has returned.
func (s *Members) RevokeAccess(ctx context.Context, by audit.By, owner id.Org, person id.Person, access string) (Access, error) {
	which, err := id.Parse[id.SupportAccess](access)
	if err != nil {
		return Access{}, accessNotFound()
	}
	var ended Access
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := s.RequireOwner(ctx, tx, owner, person); err != nil {
			return err
		}
		row, err := db.New(tx).EndAccess(ctx, db.EndAccessParams{OrgID: owner, ID: which, EndedBy: by.Label})
		if errors.Is(err, postgres.ErrNoRows) {
			// A repeated call ends the browsers that an earlier one has left.
			var found db.GetAccessRow
			if found, err = db.New(tx).GetAccess(ctx, db.GetAccessParams{OrgID: owner, ID: which}); errors.Is(err, postgres.ErrNoRows) {
				return accessNotFound()
			}
			ended = fromAccessRow(found.SupportAccess, found.Expired)
			return err
		}
		if err != nil {
			return err
		}
		ended = fromAccessRow(row, false)
		return s.deps.Audit.Record(ctx, tx, owner, by, access, audit.Changes{"operator": {From: ended.Operator}, "granted": {From: ended.GrantedAt != nil, To: false}})
	})
	if err != nil {
		return Access{}, err
	}
	// No browser can be added: that needs the access.
	browsers, err := db.New(s.deps.DB).BrowsersOfAccess(ctx, which)
	if err != nil {
		return Access{}, err
	}
	for _, one := range browsers {
		if err := s.endEverywhere(ctx, one, func(id.Org) audit.By { return by }); err != nil {
			return Access{}, err
		}
	}
	return ended, nil
}

func accessNotFound() error {
	return problem.AccessNotFound.New("The organisation has no open request and no access with this id.")
}

func notGranted() error {
	return problem.ConsentRequired.New("The organisation has not granted you access. Request it, and wait until an owner grants it.")
}

// UseAccess records in an org's audit log that an operator reads what is inside it, and what. It returns the problem
// consent-required unless the org has granted that operator access.
func (s *Members) UseAccess(ctx context.Context, by audit.By, owner id.Org, what string) error {
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		row, err := db.New(tx).GrantedAccess(ctx, db.GrantedAccessParams{OrgID: owner, OperatorID: by.ID})
		if errors.Is(err, postgres.ErrNoRows) {
			return notGranted()
		}
		if err != nil {
			return err
		}
		by.Action = readAction
		return s.deps.Audit.Record(ctx, tx, owner, by, string(owner), audit.Changes{"operation": {To: what}, "access": {To: row.ID}})
	})
}

// readAction is the action of an entry about an operator who reads.
const readAction = "operator.read"

// RequireConsent returns the problem consent-required if an org has an owner who could grant access, but the operator has
// none. It protects what would let an operator in: keys and invitations.
func (s *Members) RequireConsent(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org) error {
	q := db.New(tx)
	has, err := q.HasOwner(ctx, owner)
	if err != nil || !has {
		return err
	}
	_, err = q.GrantedAccess(ctx, db.GrantedAccessParams{OrgID: owner, OperatorID: by.ID})
	if errors.Is(err, postgres.ErrNoRows) {
		return notGranted()
	}
	return err
}

// OfferSupport creates an Offer for an operator to whom the org has granted access. The org's audit log shows it.
func (s *Members) OfferSupport(ctx context.Context, by audit.By, owner id.Org) (Offer, error) {
	made := Offer{Token: newToken(), ExpiresAt: s.deps.Now().Add(offerTTL)}
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if made.Org, err = s.deps.Orgs.GetIn(ctx, tx, owner); err != nil {
			return err
		}
		row, err := db.New(tx).GrantedAccess(ctx, db.GrantedAccessParams{OrgID: owner, OperatorID: by.ID})
		if errors.Is(err, postgres.ErrNoRows) {
			return notGranted()
		}
		if err != nil {
			return err
		}
		h := hashToken(made.Token)
		made.Reason, made.access, made.operator = row.Reason, row.ID, row.Operator
		err = db.New(tx).AddOffer(ctx, db.AddOfferParams{
			OrgID: owner, Hash: h[:], Reason: row.Reason, ExpiresAt: made.ExpiresAt, AccessID: row.ID, Operator: row.Operator,
		})
		if err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(row.ID), audit.Changes{"reason": {To: row.Reason}})
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

// SignInSupport uses an offer: it signs in an operator's browser, read-only and for one org, and returns its cookie. The
// access must still be granted, and the browser is signed out no later than it ends.
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
		access, err := db.New(tx).HoldAccess(ctx, db.HoldAccessParams{OrgID: offered.Org.ID, ID: offered.access})
		if errors.Is(err, postgres.ErrNoRows) {
			return invitationNotFound()
		}
		if err != nil {
			return err
		}
		b = Session{
			Org: offered.Org.ID, Support: offered.Org.ID, Reason: offered.Reason, Access: offered.access, Operator: offered.operator,
			UserAgent: cleanText(userAgent, maxUserAgent),
		}
		return s.openSession(ctx, tx, by, cookie, &b, min(supportTTL, access.ExpiresAt.Sub(s.deps.Now())))
	})
	if err != nil {
		return Session{}, secret.String{}, err
	}
	return b, cookie, nil
}

// operatorRead identifies what an operator's browser reads. It is recorded once per readInterval.
type operatorRead struct {
	browser            id.BrowserSession
	operation, account string
}

// readInterval is the least time between two entries about the same browser, operation and account: pages poll.
const readInterval = 10 * time.Minute

// RecordRead records in an org's audit log what an operator's browser reads. A read that cannot be recorded must be
// refused.
func (s *Members) RecordRead(ctx context.Context, by audit.By, owner id.Org, browser id.BrowserSession, operation string, account id.Account) error {
	at, now := operatorRead{browser, operation, string(account)}, s.deps.Now()
	if last, ok := s.lastRead.Get(at); ok && now.Sub(last) < readInterval {
		return nil
	}
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		access, err := db.New(tx).AccessOf(ctx, browser)
		if err != nil {
			return err
		}
		by.Kind, by.Action = audit.ActorOperator, readAction
		target := string(owner)
		if account != "" {
			target = string(account)
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, target, audit.Changes{"operation": {To: operation}, "access": {To: access}})
	})
	if err == nil {
		s.lastRead.Put(at, now)
	}
	return err
}
