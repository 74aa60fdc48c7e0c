// Package member owns people: how they are known (identities of an identity provider), which orgs they belong to and with which role,
// who is invited, and which browsers are signed in.
//
// What a role may do is a table (roles.go). How a team changes is in team.go, how people come in and go out in session.go. A signed-in
// browser acts in an org by a key that nobody sees (package apikey), so what holds for keys holds for it: a role that is changed, a member
// who is removed and a browser that is signed out are noticed by the next call on every node.
//
// It does not know how somebody proved who they are: package dashboard does that.
package member

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/mail"
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
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Person is somebody who signs in.
type Person struct {
	ID id.Person
	// Email is in lower case, as the identity provider gave it last.
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

// Invitation is one that can still be taken up.
type Invitation struct {
	ID    id.Invitation
	Org   id.Org
	Email string
	Role  Role
	// InvitedBy is who did, for people.
	InvitedBy            string
	CreatedAt, ExpiresAt time.Time
}

// Deps is what the service needs.
type Deps struct {
	DB    *postgres.DB
	Orgs  *org.Orgs
	Keys  *apikey.Keys
	Audit *audit.Log
	Now   func() time.Time
}

// Members is the service.
type Members struct {
	Deps
	entering singleflight.Group
	// seen is when a browser was last noted as used in an org, by this node.
	seen cache.Cache[sighting, time.Time]
}

// knownSightings bounds what a node remembers of who was seen.
const knownSightings = 100_000

// New makes the service.
func New(d Deps) *Members {
	return &Members{Deps: d, seen: cache.NewFor[sighting, time.Time](knownSightings, seenEvery)}
}

// hash is how a token is known to the database.
type hash [sha256.Size]byte

func hashOf(token secret.String) hash { return sha256.Sum256([]byte(token.Reveal())) }

// newToken makes 256 random bits.
func newToken() secret.String {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return secret.New(base64.RawURLEncoding.EncodeToString(raw))
}

// Bounds of what is kept of people.
const (
	maxName      = 120
	maxEmail     = 254
	maxUserAgent = 256
)

// CleanEmail brings an address into the form in which it is kept and compared. Only ASCII letters are put into lower case: of others
// some become ASCII by it, and one person's address another's.
func CleanEmail(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if a, err := mail.ParseAddress(text); err != nil || a.Address != text || a.Name != "" || len(text) > maxEmail {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text), true
}

// cleanText makes a text that came from outside fit to be shown: one line of printable characters, cut to a length.
func cleanText(text string, most int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if utf8.RuneCountInString(text) > most {
		text = strings.TrimSpace(string([]rune(text)[:most]))
	}
	return text
}
