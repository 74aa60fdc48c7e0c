package member

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

const (
	// idleTimeout signs out a browser that is not used, maxLifetime every browser.
	idleTimeout = 8 * time.Hour
	maxLifetime = 24 * time.Hour
	// seenInterval is the least time between two records of a browser's use.
	seenInterval = time.Minute
	// retention is how long ended sessions stay in the database. Until then their cookies do not count as guesses.
	retention = 30 * 24 * time.Hour
)

// Recent is how long a person who has proved who they are may do what RequireRecent protects.
const Recent = 5 * time.Minute

// Session is a signed-in browser.
type Session struct {
	ID id.BrowserSession
	// Person has no id for an operator's browser.
	Person Person
	// Org is the org that the browser shows; empty if there is none yet.
	Org id.Org
	// Support is the only org that an operator's browser may read, Reason the operator's reason, Access what the org has
	// granted, and Operator the operator's label. All are empty for members' browsers.
	Support  id.Org
	Reason   string
	Access   id.SupportAccess
	Operator string

	UserAgent             string
	CreatedAt, LastSeenAt time.Time
	// ExpiresAt is when the session ends if the browser is not used again.
	ExpiresAt time.Time

	endsAt          time.Time // the latest end, however much the browser is used
	authenticatedAt time.Time // when the person last proved who they are; set for a new session only
	ended           bool      // signed out
}

// hasEnded reports whether the browser is no longer signed in.
func (b *Session) hasEnded(now time.Time) bool { return b.ended || !now.Before(b.ExpiresAt) }

// keyExpiry returns when the keys of a browser that is used now expire.
func (b *Session) keyExpiry(now time.Time) time.Time { return earlier(b.endsAt, now.Add(idleTimeout)) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Claims are an identity provider's statements about a person. The caller has checked that Email is verified.
type Claims struct {
	Issuer, Subject, Email, Name string
	// AuthenticatedAt is when the person last proved to the provider who they are, which may be long before the sign-in
	// here. Zero means at the sign-in.
	AuthenticatedAt time.Time
}

// Welcome decides who may sign in without being a member.
type Welcome struct {
	// Signup creates a sandbox org for a person who belongs to no org and is not invited.
	Signup bool
	// TakeUp accepts all invitations by operators to the person's address, without their links. It is for development.
	TakeUp bool
}

// Errors of SignIn.
var (
	// ErrNotInvited means that the person is unknown and not invited, and Signup is off.
	ErrNotInvited = errors.New("not invited")
	// ErrEmail means that the claims have no valid address, issuer or subject.
	ErrEmail = errors.New("no usable e-mail address")
	errRaced = errors.New("concurrent first sign-in")
)

// SignIn signs a browser in and returns its session and a new cookie.
func (s *Members) SignIn(ctx context.Context, by audit.By, c Claims, w Welcome, userAgent string) (Session, secret.String, error) {
	email, ok := CleanEmail(c.Email)
	if !ok || c.Issuer == "" || c.Subject == "" {
		return Session{}, secret.String{}, ErrEmail
	}
	c.Email = email
	if c.Name = cleanText(c.Name, maxName); c.Name == "" {
		c.Name, _, _ = strings.Cut(email, "@")
	}
	var (
		b      Session
		cookie secret.String
		err    error
	)
	// A person's first sign-in can happen twice concurrently. The loser repeats its transaction and finds the person.
	for range 2 {
		cookie = newToken()
		err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
			b = Session{UserAgent: cleanText(userAgent, maxUserAgent), authenticatedAt: c.AuthenticatedAt}
			if err := s.resolvePerson(ctx, tx, &b, by, c, w); err != nil {
				return err
			}
			return s.openSession(ctx, tx, by, cookie, &b, maxLifetime)
		})
		if !errors.Is(err, errRaced) {
			break
		}
	}
	if err != nil {
		return Session{}, secret.String{}, err
	}
	return b, cookie, nil
}

// resolvePerson finds or creates the person of the claims and sets b's Person and Org.
func (s *Members) resolvePerson(ctx context.Context, tx postgres.Tx, b *Session, by audit.By, c Claims, w Welcome) error {
	q := db.New(tx)
	row, err := q.PersonByIdentity(ctx, db.PersonByIdentityParams{Issuer: c.Issuer, Subject: c.Subject})
	who := Person(row)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		who, err = s.createPerson(ctx, tx, c, w)
	case err == nil && (who.Email != c.Email || who.Name != c.Name):
		who.Email, who.Name = c.Email, c.Name
		err = q.UpdatePerson(ctx, db.UpdatePersonParams{ID: who.ID, Email: who.Email, Name: who.Name})
	}
	if err != nil {
		return err
	}
	b.Person = who
	by.Kind, by.ID, by.Label = audit.ActorMember, string(who.ID), who.Email
	if w.TakeUp {
		given, err := q.TakeFromOperators(ctx, db.TakeFromOperatorsParams{Email: who.Email, Now: s.deps.Now()})
		if err != nil {
			return err
		}
		for _, one := range given {
			if err := s.addInvited(ctx, tx, by, who, fromInvitationRow(one)); err != nil {
				return err
			}
		}
	}
	memberships, err := q.OrgsOfPerson(ctx, who.ID)
	if err != nil {
		return err
	}
	if len(memberships) > 0 {
		b.Org, err = s.startOrg(ctx, tx, memberships)
		return err
	}
	// A person with an open invitation will join that org and needs none of their own.
	invited, err := q.IsInvited(ctx, db.IsInvitedParams{Email: who.Email, Now: s.deps.Now()})
	if err != nil || invited || !w.Signup {
		return err
	}
	b.Org, err = s.createOrg(ctx, tx, by, who)
	return err
}

// startOrg returns the org that a new session shows: the one the person used last, else a test org, where a mistake
// does no harm, else any.
func (s *Members) startOrg(ctx context.Context, tx postgres.Tx, memberships []db.OrgsOfPersonRow) (id.Org, error) {
	if memberships[0].LastSeenAt != nil {
		return memberships[0].OrgID, nil
	}
	for _, one := range memberships {
		o, err := s.deps.Orgs.GetIn(ctx, tx, one.OrgID)
		if err != nil {
			return "", err
		}
		if o.Environment.IsTest() {
			return one.OrgID, nil
		}
	}
	return memberships[0].OrgID, nil
}

// createPerson creates a person at their first sign-in.
func (s *Members) createPerson(ctx context.Context, tx postgres.Tx, c Claims, w Welcome) (Person, error) {
	invited, err := db.New(tx).IsInvited(ctx, db.IsInvitedParams{Email: c.Email, Now: s.deps.Now()})
	if err != nil {
		return Person{}, err
	}
	if !invited && !w.Signup {
		return Person{}, ErrNotInvited
	}
	who := Person{ID: id.New[id.Person](), Email: c.Email, Name: c.Name}
	made, err := addPerson(ctx, tx, who, c.Issuer, c.Subject, s.deps.Now())
	if err == nil && !made {
		err = errRaced
	}
	return who, err
}

// createOrg creates a sandbox org with the person as its owner.
func (s *Members) createOrg(ctx context.Context, tx postgres.Tx, by audit.By, who Person) (id.Org, error) {
	by.Action = "org.create"
	name := cleanText(who.Name, org.MaxName-len("'s organisation")) + "'s organisation"
	o, err := s.deps.Orgs.Create(ctx, tx, by, org.Draft{Name: name, Plan: org.Sandbox, Environment: environment.ForSignups, ContactEmail: who.Email})
	if err != nil {
		return "", err
	}
	if _, err := addMember(ctx, tx, o.ID, who.ID, Owner, s.deps.Now()); err != nil {
		return "", err
	}
	by.Action = "member.join"
	return o.ID, s.deps.Audit.Record(ctx, tx, o.ID, by, string(who.ID), audit.Changes{"email": {To: who.Email}, "role": {To: Owner}})
}

// openSession fills in and writes a new session, and gives the browser its key in the org that it shows.
func (s *Members) openSession(ctx context.Context, tx postgres.Tx, by audit.By, cookie secret.String, b *Session, atMost time.Duration) error {
	now := s.deps.Now().Truncate(time.Microsecond)
	b.ID, b.CreatedAt, b.LastSeenAt, b.endsAt = id.New[id.BrowserSession](), now, now, now.Add(atMost)
	b.ExpiresAt = b.keyExpiry(now)
	if b.authenticatedAt.IsZero() || b.authenticatedAt.After(now) {
		b.authenticatedAt = now
	}
	if err := addSession(ctx, tx, *b, hashToken(cookie)); err != nil {
		return err
	}
	if b.Org == "" {
		return nil
	}
	return s.grantKey(ctx, tx, by, cookie, *b, b.Org)
}

// grantKey gives a browser its key in an org. The rows that it depends on, membership and session, stay locked until
// the commit, so a concurrent change of the role or sign-out waits and then finds the key.
func (s *Members) grantKey(ctx context.Context, tx postgres.Tx, by audit.By, cookie secret.String, b Session, owner id.Org) error {
	key := apikey.SessionKey{Session: b.ID, Person: b.Person.ID, Label: b.Person.Email, ExpiresAt: b.keyExpiry(s.deps.Now())}
	by.Kind, by.ID, by.Label, by.Action = audit.ActorMember, string(b.Person.ID), b.Person.Email, "member.sign_in"
	switch {
	case b.Person.ID != "":
		role, err := roleOf(ctx, tx, owner, b.Person.ID)
		if err != nil {
			return err
		}
		key.Scopes = role.Scopes()
	case b.Support == owner:
		key.Scopes, key.Label = Support.Scopes(), b.OperatorLabel()
		by.Kind, by.ID, by.Label, by.Action = audit.ActorOperator, operatorID, b.OperatorLabel(), "operator.sign_in"
	default:
		return notMember()
	}
	first, err := s.deps.Keys.GrantSession(ctx, tx, cookie, owner, key)
	if err != nil || !first {
		return err
	}
	return s.deps.Audit.Record(ctx, tx, owner, by, string(b.ID), audit.Changes{"userAgent": {To: b.UserAgent}})
}

// operatorID identifies an operator's browser in logs.
const operatorID = "operator"

// OperatorLabel names the operator of a browser in logs. Sessions of the previous version have no name.
func (b *Session) OperatorLabel() string { return cmp.Or(b.Operator, operatorID) }

func notMember() error {
	// The same problem as for an org that does not exist, so that it does not reveal which ids exist.
	return problem.MembershipMissing.New("The person who is signed in does not belong to this organisation.")
}

// Find reads the session of a cookie. It returns the problem signed-out if there is none or it has ended.
func (s *Members) Find(ctx context.Context, cookie secret.String) (Session, error) {
	if !isWellFormed(cookie) {
		return Session{}, signedOut()
	}
	b, err := sessionByHash(ctx, s.deps.DB, hashToken(cookie))
	return b, s.checkSession(b, err)
}

// RequireRecent returns the problem reauthentication-required unless the person of a browser has proved who they are
// within the last five minutes. It protects what would outlast a browser that someone else got hold of.
func (s *Members) RequireRecent(ctx context.Context, browser id.BrowserSession) error {
	at, err := db.New(s.deps.DB).AuthenticatedAt(ctx, browser)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return signedOut()
	case err != nil:
		return err
	case s.deps.Now().Sub(at) > Recent:
		return problem.ReauthenticationRequired.New("The sign-in of this browser is older than five minutes. Sign in again, then repeat the request.")
	}
	return nil
}

// holdBrowser reads the session of a cookie under a shared lock: it cannot be ended before the transaction ends.
func (s *Members) holdBrowser(ctx context.Context, tx postgres.Tx, cookie secret.String) (Session, error) {
	b, err := holdSession(ctx, tx, hashToken(cookie))
	return b, s.checkSession(b, err)
}

// lockBrowser reads the session of a cookie under an exclusive lock, for callers that change its row. With holdBrowser
// two such callers would deadlock.
func (s *Members) lockBrowser(ctx context.Context, tx postgres.Tx, cookie secret.String) (Session, error) {
	b, err := lockSession(ctx, tx, hashToken(cookie))
	return b, s.checkSession(b, err)
}

// errUnknownCookie means that the cookie never belonged to a session, or to one that has been deleted.
var errUnknownCookie = errors.New("no such browser")

// checkSession turns a missing row and an ended session into the problem signed-out.
func (s *Members) checkSession(b Session, err error) error {
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return errors.Join(errUnknownCookie, signedOut())
	case err != nil:
		return err
	case b.hasEnded(s.deps.Now()):
		return signedOut()
	}
	return nil
}

func signedOut() error {
	return problem.SignedOut.New("This browser is not signed in, or its session has ended.")
}

// cookieChars is the length of a cookie: 256 bits in base64.
const cookieChars = 43

// isWellFormed reports whether a cookie can be one of ours, so that garbage is never looked up.
func isWellFormed(cookie secret.String) bool {
	text := cookie.Reveal()
	return len(text) == cookieChars && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Place is an org that a browser can show, and the user's role there.
type Place struct {
	Org  org.Org
	Role Role
}

// Places returns the orgs that a browser can show, sorted by name.
func (s *Members) Places(ctx context.Context, b Session) ([]Place, error) {
	roles := map[id.Org]Role{}
	if b.Support != "" {
		roles[b.Support] = Support
	}
	if b.Person.ID != "" {
		list, err := db.New(s.deps.DB).OrgsOfPerson(ctx, b.Person.ID)
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			roles[one.OrgID] = Role(one.Role)
		}
	}
	ids := make([]id.Org, 0, len(roles))
	for one := range roles {
		ids = append(ids, one)
	}
	orgs, err := s.deps.Orgs.Some(ctx, ids)
	if err != nil {
		return nil, err
	}
	places := make([]Place, len(orgs))
	for i, o := range orgs {
		places[i] = Place{o, roles[o.ID]}
	}
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(strings.Compare(a.Org.Name, b.Org.Name), strings.Compare(string(a.Org.ID), string(b.Org.ID)))
	})
	return places, nil
}

// Switch makes a browser show another org that its user belongs to.
func (s *Members) Switch(ctx context.Context, cookie secret.String, wanted string) error {
	owner, err := id.Parse[id.Org](wanted)
	if err != nil {
		return notMember()
	}
	if !isWellFormed(cookie) {
		return signedOut()
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		b, err := s.lockBrowser(ctx, tx, cookie)
		if err != nil {
			return err
		}
		if b.Person.ID == "" {
			return notMember()
		}
		if _, err := roleOf(ctx, tx, owner, b.Person.ID); err != nil {
			return err
		}
		return db.New(tx).SetOrg(ctx, db.SetOrgParams{ID: b.ID, CurrentOrg: owner})
	})
}

// SignOut ends the session of a cookie, in all orgs. It returns nil if the browser is not signed in.
func (s *Members) SignOut(ctx context.Context, by audit.By, cookie secret.String) error {
	b, err := s.Find(ctx, cookie)
	if errors.Is(err, signedOut()) {
		return nil
	}
	if err != nil {
		return err
	}
	by.Kind, by.ID, by.Label, by.Action = audit.ActorMember, string(b.Person.ID), b.Person.Email, "session.end"
	if b.Person.ID == "" {
		by.Kind, by.ID, by.Label = audit.ActorOperator, operatorID, b.OperatorLabel()
	}
	return s.endEverywhere(ctx, b.ID, func(id.Org) audit.By { return by })
}

// endEverywhere signs a browser out of all orgs and records that in each org's audit log. Every node rejects the
// browser's calls that start after it has returned.
func (s *Members) endEverywhere(ctx context.Context, browser id.BrowserSession, by func(id.Org) audit.By) error {
	var committed []func(context.Context)
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		if ended, err := endSession(ctx, tx, browser, s.deps.Now()); err != nil || !ended {
			return err
		}
		// From here on no request can give the browser a key: that needs a lock on the session, which is exclusive now.
		orgs, err := s.deps.Keys.SessionOrgs(ctx, tx, browser)
		if err != nil {
			return err
		}
		for _, one := range orgs {
			announce, err := s.deps.Orgs.AdvanceEpoch(ctx, tx, one)
			if err != nil {
				return err
			}
			committed = append(committed, announce)
		}
		if err := s.deps.Keys.RevokeSession(ctx, tx, browser); err != nil {
			return err
		}
		for _, one := range orgs {
			if err := s.deps.Audit.Record(ctx, tx, one, by(one), string(browser), audit.Changes{"ended": {From: false, To: true}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, announce := range committed {
		announce(ctx)
	}
	return nil
}

// Browsers returns the browsers that are signed in to an org, newest first: those of one person, or all.
func (s *Members) Browsers(ctx context.Context, owner id.Org, of id.Person, all bool) ([]Session, error) {
	ids, err := s.deps.Keys.Sessions(ctx, owner)
	if err != nil {
		return nil, err
	}
	list, err := sessionsByID(ctx, s.deps.DB, ids)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	return slices.DeleteFunc(list, func(b Session) bool {
		return b.hasEnded(now) || !all && (b.Person.ID == "" || b.Person.ID != of)
	}), nil
}

// End signs out a browser that Browsers would return for the same arguments, or returns the problem
// browser-session-not-found. If the browser is not the caller's own, only the audit log of the caller's org names the
// caller; the logs of other orgs say that the session was ended elsewhere.
func (s *Members) End(ctx context.Context, by audit.By, owner id.Org, of id.Person, all bool, browser string) error {
	list, err := s.Browsers(ctx, owner, of, all)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(b Session) bool { return string(b.ID) == browser })
	if at < 0 {
		return problem.BrowserNotFound.New("The organisation has no signed-in browser with this id.")
	}
	own := of != "" && list[at].Person.ID == of
	return s.endEverywhere(ctx, list[at].ID, func(one id.Org) audit.By {
		if one == owner || own {
			return by
		}
		return audit.By{Kind: audit.ActorSystem, ID: "session", Label: "ended in another organisation", Action: by.Action, Request: by.Request}
	})
}

// Trim deletes expired invitations, offers and codes of tools, requests for access that ended 90 days ago, and sessions whose latest end is
// more than the retention period ago.
func (s *Members) Trim(ctx context.Context) error {
	q, now := db.New(s.deps.DB), s.deps.Now()
	before := now.Add(-retention)
	return errors.Join(
		q.TrimSessions(ctx, before), q.TrimInvitations(ctx, now), q.TrimOffers(ctx, now), q.TrimAccess(ctx), q.TrimDevices(ctx),
		s.deps.Keys.TrimSessions(ctx, before),
	)
}
