package member

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// How long a browser stays signed in: unused, and at most.
const (
	idleFor = 8 * time.Hour
	lasts   = 24 * time.Hour
	// seenEvery is how exactly it is known when a browser was last used.
	seenEvery = time.Minute
	// keptFor is how long it is known of a browser that it was signed in once.
	keptFor = 30 * 24 * time.Hour
)

// Session is a signed-in browser.
type Session struct {
	ID id.BrowserSession
	// Person has no id if an operator is looking.
	Person Person
	// Org is the one that the browser shows; empty before there is one.
	Org id.Org
	// Support is the one org that an operator may read, and Reason why; empty for everybody else.
	Support id.Org
	Reason  string

	UserAgent             string
	CreatedAt, LastSeenAt time.Time
	// ExpiresAt is when it ends if it is not used again.
	ExpiresAt time.Time

	endsAt time.Time
	ended  bool
}

// over says whether the browser is no longer signed in.
func (b *Session) over(now time.Time) bool { return b.ended || !now.Before(b.ExpiresAt) }

// until is when a browser's keys end that is used now.
func (b *Session) until(now time.Time) time.Time { return earlier(b.endsAt, now.Add(idleFor)) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Claims are what an identity provider says of somebody; the address is verified.
type Claims struct{ Issuer, Subject, Email, Name string }

// Welcome says who may come in that is not known.
type Welcome struct {
	// Signup gives somebody who belongs to no org one of their own.
	Signup bool
	// TakeUp joins the orgs that operators have given to the address, without a link: for development.
	TakeUp bool
}

// Errors of SignIn.
var (
	// ErrNotInvited means that nobody expects whoever it is.
	ErrNotInvited = errors.New("not invited")
	// ErrEmail means that the identity provider gave no address that can be used.
	ErrEmail = errors.New("no usable e-mail address")
	errRaced = errors.New("signed in twice at once")
)

// SignIn signs a browser in, with a cookie that nobody has had before.
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
	for range 2 { // the first sign-in of somebody may come twice at once; the other one then is the first
		cookie = newToken()
		err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
			b = Session{UserAgent: cleanText(userAgent, maxUserAgent)}
			if err := s.recognise(ctx, tx, &b, by, c, w); err != nil {
				return err
			}
			return s.open(ctx, tx, by, cookie, &b, lasts)
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

// recognise finds or makes the person, and the org to begin with.
func (s *Members) recognise(ctx context.Context, tx postgres.Tx, b *Session, by audit.By, c Claims, w Welcome) error {
	who, err := personByIdentity(ctx, tx, c.Issuer, c.Subject)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		who, err = s.newPerson(ctx, tx, c, w)
	case err == nil && (who.Email != c.Email || who.Name != c.Name):
		who.Email, who.Name = c.Email, c.Name
		err = updatePerson(ctx, tx, who)
	}
	if err != nil {
		return err
	}
	b.Person = who
	by.Kind, by.ID, by.Label = audit.ActorMember, string(who.ID), who.Email
	if w.TakeUp {
		given, err := takeFromOperators(ctx, tx, who.Email, s.Now())
		if err != nil {
			return err
		}
		for _, one := range given {
			if err := s.join(ctx, tx, by, who, one); err != nil {
				return err
			}
		}
	}
	places, err := orgsOfPerson(ctx, tx, who.ID)
	if err != nil {
		return err
	}
	if len(places) > 0 {
		b.Org, err = s.first(ctx, tx, places)
		return err
	}
	// Whoever is invited somewhere goes there, and needs no org of their own.
	if invited, err := isInvited(ctx, tx, who.Email, s.Now()); err != nil || invited || !w.Signup {
		return err
	}
	b.Org, err = s.found(ctx, tx, by, who)
	return err
}

// first is the org to begin with: the one that the person was in last, or else one where nothing can go wrong.
func (s *Members) first(ctx context.Context, tx postgres.Tx, places []place) (id.Org, error) {
	if places[0].seen {
		return places[0].org, nil
	}
	for _, one := range places {
		o, err := s.Orgs.GetIn(ctx, tx, one.org)
		if err != nil {
			return "", err
		}
		if o.Environment == org.EnvSandbox {
			return one.org, nil
		}
	}
	return places[0].org, nil
}

// newPerson makes somebody known who signs in for the first time.
func (s *Members) newPerson(ctx context.Context, tx postgres.Tx, c Claims, w Welcome) (Person, error) {
	invited, err := isInvited(ctx, tx, c.Email, s.Now())
	if err != nil {
		return Person{}, err
	}
	if !invited && !w.Signup {
		return Person{}, ErrNotInvited
	}
	who := Person{ID: id.New[id.Person](), Email: c.Email, Name: c.Name}
	made, err := addPerson(ctx, tx, who, c.Issuer, c.Subject, s.Now())
	if err == nil && !made {
		err = errRaced
	}
	return who, err
}

// found makes an org for somebody who has none.
func (s *Members) found(ctx context.Context, tx postgres.Tx, by audit.By, who Person) (id.Org, error) {
	by.Action = "org.create"
	name := cleanText(who.Name, org.MaxName-len("'s organisation")) + "'s organisation"
	o, err := s.Orgs.Create(ctx, tx, by, org.Draft{Name: name, Plan: org.Sandbox, Environment: org.EnvSandbox, ContactEmail: who.Email})
	if err != nil {
		return "", err
	}
	if _, err := addMember(ctx, tx, o.ID, who.ID, Owner, s.Now()); err != nil {
		return "", err
	}
	by.Action = "member.join"
	return o.ID, s.Audit.Record(ctx, tx, o.ID, by, string(who.ID), audit.Changes{"email": {To: who.Email}, "role": {To: Owner}})
}

// open writes a new browser and lets it into its org.
func (s *Members) open(ctx context.Context, tx postgres.Tx, by audit.By, cookie secret.String, b *Session, atMost time.Duration) error {
	now := s.Now().Truncate(time.Microsecond)
	b.ID, b.CreatedAt, b.LastSeenAt, b.endsAt = id.New[id.BrowserSession](), now, now, now.Add(atMost)
	b.ExpiresAt = b.until(now)
	if err := addSession(ctx, tx, *b, hashOf(cookie)); err != nil {
		return err
	}
	if b.Org == "" {
		return nil
	}
	return s.enter(ctx, tx, by, cookie, *b, b.Org)
}

// enter gives a browser its key in an org. The rows that it depends on are held until the commit: a role that is changed or a browser
// that is ended meanwhile finds the key.
func (s *Members) enter(ctx context.Context, tx postgres.Tx, by audit.By, cookie secret.String, b Session, owner id.Org) error {
	key := apikey.SessionKey{Session: b.ID, Person: b.Person.ID, Label: b.Person.Email, ExpiresAt: b.until(s.Now())}
	by.Kind, by.ID, by.Label, by.Action = audit.ActorMember, string(b.Person.ID), b.Person.Email, "member.sign_in"
	switch {
	case b.Person.ID != "":
		role, err := roleOf(ctx, tx, owner, b.Person.ID)
		if err != nil {
			return err
		}
		key.Scopes = role.Scopes()
	case b.Support == owner:
		key.Scopes, key.Label = Support.Scopes(), operatorLabel
		by.Kind, by.ID, by.Label, by.Action = audit.ActorOperator, "admin", operatorLabel, "operator.sign_in"
	default:
		return notMember()
	}
	first, err := s.Keys.Enter(ctx, tx, cookie, owner, key)
	if err != nil || !first {
		return err
	}
	return s.Audit.Record(ctx, tx, owner, by, string(b.ID), audit.Changes{"userAgent": {To: b.UserAgent}})
}

// operatorLabel stands for whoever operates the service.
const operatorLabel = "operator"

func notMember() error {
	// The same for an org that does not exist.
	return problem.MembershipMissing.New("The person who is signed in does not belong to this organisation.")
}

// Find reads the browser of a cookie. The error is the problem signed-out if there is none.
func (s *Members) Find(ctx context.Context, cookie secret.String) (Session, error) {
	if !sound(cookie) {
		return Session{}, signedOut()
	}
	b, err := sessionByHash(ctx, s.DB.Pool(), hashOf(cookie))
	return b, s.judge(b, err)
}

// hold reads the browser of a cookie and keeps it from being ended until the transaction ends.
func (s *Members) hold(ctx context.Context, tx postgres.Tx, cookie secret.String) (Session, error) {
	b, err := holdSession(ctx, tx, hashOf(cookie))
	return b, s.judge(b, err)
}

// lock is hold for whoever changes the browser itself: two who hold it could not both go on to change it.
func (s *Members) lock(ctx context.Context, tx postgres.Tx, cookie secret.String) (Session, error) {
	b, err := lockSession(ctx, tx, hashOf(cookie))
	return b, s.judge(b, err)
}

// errNever means that there was never such a browser.
var errNever = errors.New("no such browser")

func (s *Members) judge(b Session, err error) error {
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return errors.Join(errNever, signedOut())
	case err != nil:
		return err
	case b.over(s.Now()):
		return signedOut()
	}
	return nil
}

func signedOut() error {
	return problem.SignedOut.New("Nobody is signed in with this browser, or no longer.")
}

// cookieChars is how long a cookie is.
const cookieChars = 43

// sound says whether a cookie can be one of ours, so that nothing is looked up for garbage.
func sound(cookie secret.String) bool {
	text := cookie.Reveal()
	return len(text) == cookieChars && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Place is an org that a browser can show.
type Place struct {
	Org  org.Org
	Role Role
}

// Places lists the orgs that a browser can show, by name.
func (s *Members) Places(ctx context.Context, b Session) ([]Place, error) {
	roles := map[id.Org]Role{}
	if b.Support != "" {
		roles[b.Support] = Support
	}
	if b.Person.ID != "" {
		list, err := orgsOfPerson(ctx, s.DB.Pool(), b.Person.ID)
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			roles[one.org] = one.role
		}
	}
	ids := make([]id.Org, 0, len(roles))
	for one := range roles {
		ids = append(ids, one)
	}
	orgs, err := s.Orgs.Some(ctx, ids)
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

// Switch makes a browser show another org of the person's.
func (s *Members) Switch(ctx context.Context, cookie secret.String, wanted string) error {
	owner, err := id.Parse[id.Org](wanted)
	if err != nil {
		return notMember()
	}
	if !sound(cookie) {
		return signedOut()
	}
	return s.DB.Tx(ctx, func(tx postgres.Tx) error {
		b, err := s.lock(ctx, tx, cookie)
		if err != nil {
			return err
		}
		if b.Person.ID == "" {
			return notMember()
		}
		if _, err := roleOf(ctx, tx, owner, b.Person.ID); err != nil {
			return err
		}
		return setOrg(ctx, tx, b.ID, owner)
	})
}

// SignOut ends the browser of a cookie. One that is not signed in is left as it is.
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
		by.Kind, by.ID, by.Label = audit.ActorOperator, "admin", operatorLabel
	}
	return s.end(ctx, b.ID, func(id.Org) audit.By { return by })
}

// end signs a browser out everywhere. When it returns, no call that starts later succeeds with it, on any node.
func (s *Members) end(ctx context.Context, browser id.BrowserSession, by func(id.Org) audit.By) error {
	var committed []func(context.Context)
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil
		if ended, err := endSession(ctx, tx, browser, s.Now()); err != nil || !ended {
			return err
		}
		// From here on nobody gives the browser a key: that would need the row which is locked now.
		orgs, err := s.Keys.OrgsOf(ctx, tx, browser)
		if err != nil {
			return err
		}
		for _, one := range orgs {
			told, err := s.Orgs.AdvanceEpoch(ctx, tx, one)
			if err != nil {
				return err
			}
			committed = append(committed, told)
		}
		if err := s.Keys.RevokeSession(ctx, tx, browser); err != nil {
			return err
		}
		for _, one := range orgs {
			if err := s.Audit.Record(ctx, tx, one, by(one), string(browser), audit.Changes{"ended": {From: false, To: true}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, tell := range committed {
		tell(ctx)
	}
	return nil
}

// Browsers lists the signed-in browsers of an org, the newest first: those of a person, or all of them.
func (s *Members) Browsers(ctx context.Context, owner id.Org, of id.Person, all bool) ([]Session, error) {
	ids, err := s.Keys.Browsers(ctx, owner)
	if err != nil {
		return nil, err
	}
	list, err := sessionsByID(ctx, s.DB.Pool(), ids)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	return slices.DeleteFunc(list, func(b Session) bool {
		return b.over(now) || !all && (b.Person.ID == "" || b.Person.ID != of)
	}), nil
}

// End signs a browser out that Browsers lists. Orgs other than the caller's learn that it was ended, not by whom.
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
	return s.end(ctx, list[at].ID, func(one id.Org) audit.By {
		if one == owner || own {
			return by
		}
		return audit.By{Kind: audit.ActorSystem, ID: "session", Label: "ended in another organisation", Action: by.Action, Request: by.Request}
	})
}

// Trim forgets what has been over for long.
func (s *Members) Trim(ctx context.Context) error {
	before := s.Now().Add(-keptFor)
	return errors.Join(trim(ctx, s.DB.Pool(), before, s.Now()), s.Keys.TrimSessions(ctx, before))
}
