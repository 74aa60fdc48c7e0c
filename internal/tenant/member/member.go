// Package member owns people: their identities at identity providers, the orgs they belong to and their roles there,
// invitations, and signed-in browsers. It does not authenticate people; package dashboard does.
//
// roles.go says what a role may do, team.go changes teams, session.go signs browsers in and out, and identify.go finds
// out what a browser may do. A signed-in browser acts in an org through a hidden key (package apikey), so the
// guarantees for keys apply to it: every node notices a changed role, a removed member or a signed-out browser at the
// next call.
package member

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	netmail "net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Person is a user who signs in.
type Person struct {
	ID id.Person
	// Email is the address that the identity provider last reported, in the form of CleanEmail.
	Email string
	Name  string
}

// Member is a person in an org.
type Member struct {
	Person
	Role       Role
	JoinedAt   time.Time
	LastSeenAt *time.Time
}

// Invitation is an invitation that can still be accepted.
type Invitation struct {
	ID    id.Invitation
	Org   id.Org
	Email string
	Role  Role
	// InvitedBy names the inviter, for display.
	InvitedBy            string
	CreatedAt, ExpiresAt time.Time
	// Mail says what became of the mail with the link. Only Invite sets it.
	Mail mail.Report
}

// Deps are the dependencies of Members.
type Deps struct {
	DB    *postgres.DB
	Orgs  *org.Orgs
	Keys  *apikey.Keys
	Audit *audit.Log
	Mail  *mail.Outbox
	// PublicURL is the address of the dashboard, without a trailing slash.
	PublicURL string
	Now       func() time.Time
}

// Members manages people, teams and signed-in browsers. Its methods are safe for concurrent use.
type Members struct {
	deps     Deps
	granting singleflight.Group
	// lastSeen holds when this node last recorded that a browser was used in an org.
	lastSeen cache.Cache[browserInOrg, time.Time]
	// lastRead holds when this node last recorded what an operator's browser reads.
	lastRead cache.Cache[operatorRead, time.Time]
}

// maxLastSeen bounds the entries of Members.lastSeen, and of Members.lastRead.
const maxLastSeen = 100_000

// New returns a Members with the given dependencies.
func New(d Deps) *Members {
	return &Members{
		deps: d, lastSeen: cache.NewFor[browserInOrg, time.Time](maxLastSeen, seenInterval),
		lastRead: cache.NewFor[operatorRead, time.Time](maxLastSeen, readInterval),
	}
}

// hash is the SHA-256 of a cookie or token, under which the database stores it.
type hash [sha256.Size]byte

func hashToken(token secret.String) hash { return sha256.Sum256([]byte(token.Reveal())) }

// newToken returns 256 random bits in base64, for a cookie or a link.
func newToken() secret.String {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return secret.New(base64.RawURLEncoding.EncodeToString(raw))
}

// Maximum lengths: maxName and maxUserAgent in characters, maxEmail in bytes.
const (
	maxName      = 120
	maxEmail     = 254
	maxUserAgent = 256
)

// CleanEmail returns an address in the form in which it is stored and compared, and whether it is valid. It lowers only
// ASCII letters: some other letters turn into ASCII when lowered (such as the Kelvin sign), which would make one
// person's address equal to another's.
func CleanEmail(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if a, err := netmail.ParseAddress(text); err != nil || a.Address != text || a.Name != "" || len(text) > maxEmail {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text), true
}

// cleanText makes a text from outside safe to display: one line of printable characters, at most maxChars of them.
func cleanText(text string, maxChars int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if utf8.RuneCountInString(text) > maxChars {
		text = strings.TrimSpace(string([]rune(text)[:maxChars]))
	}
	return text
}
