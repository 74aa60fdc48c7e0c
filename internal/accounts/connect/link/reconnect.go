package link

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// A reconnect link is part of every response that says that an account needs its creator, so making one costs only a
// hash. A session exists only after the creator submits the form on the link's page; an open session is used again.

const (
	reconnectPrefix  = "rcn_"
	reconnectPurpose = "reconnect link"
	sessionPurpose   = "reconnect session"
	// linkDays is how many days, in UTC, a link works, including the day on which it was made: for 24 to 48 hours. All
	// links of an account that are made on the same day are identical.
	linkDays = 2
	day      = 24 * time.Hour
	// ReconnectLife is how long a session of Reconnecting stays open.
	ReconnectLife = day
	// minReuse is the time that an open session must have left to be used again.
	minReuse = 10 * time.Minute
)

// MakeReconnect returns the token of a page on which an account is connected again.
func (l *Links) MakeReconnect(ctx context.Context, org id.Org, account id.Account, now time.Time) (secret.String, error) {
	end := binary.BigEndian.AppendUint32(nil, uint32(now.UTC().Unix()/int64(day.Seconds())+linkDays))
	sum, err := l.hash(ctx, reconnectPurpose, reconnectText(org, account, end))
	if err != nil {
		return secret.String{}, err
	}
	return secret.New(reconnectPrefix + tokenIDs(org,
		account) + base64.RawURLEncoding.EncodeToString(append(end, sum...))), nil
}

// ReadReconnect returns the org and account of a reconnect token. A token that has expired or that we did not make is
// not found.
func (l *Links) ReadReconnect(ctx context.Context, token string, now time.Time) (id.Org, id.Account, error) {
	org, account, given, err := parseToken(token, reconnectPrefix)
	if err != nil || len(given) < 4 {
		return "", "", noLink()
	}
	end := given[:4]
	sum, err := l.hash(ctx, reconnectPurpose, reconnectText(org, account, end))
	if err != nil {
		return "", "", err
	}
	if !hmac.Equal(sum, given[4:]) || now.UTC().Unix()/int64(day.Seconds()) >= int64(binary.BigEndian.Uint32(end)) {
		return "", "", noLink()
	}
	return org, account, nil
}

func reconnectText(org id.Org, account id.Account, end []byte) string {
	return string(org) + " " + string(account) + " " + string(end)
}

// Reconnecting returns a session in which a creator connects the account of a draft again, and its token: an open
// session that Reconnecting made earlier, or a new one.
func (s *Sessions) Reconnecting(ctx context.Context, by audit.By, o org.Org, d Draft) (Session, secret.String, error) {
	open, err := listOpenOfAccount(ctx, s.deps.DB, o.ID, d.Account, s.deps.Now().Add(minReuse))
	if err != nil {
		return Session{}, secret.String{}, err
	}
	for _, one := range open {
		// Only a session that Reconnecting made has a token that can be derived.
		token, err := s.reconnectToken(ctx, o.ID, one.ID)
		if err != nil {
			return Session{}, secret.String{}, err
		}
		if bytes.Equal(one.hash, hashToken(token.Reveal())) && len(one.Attempts) < maxAttempts &&
			one.Openings() < maxOpenings {
			return one, token, nil
		}
	}
	at := id.New[id.Session]()
	token, err := s.reconnectToken(ctx, o.ID, at)
	if err != nil {
		return Session{}, secret.String{}, err
	}
	made, err := s.createSession(ctx, by, o, at, token, d)
	return made, token, err
}

// ReconnectDraft returns the draft of a session that connects an account again. The caller adds the account's place.
func ReconnectDraft(account id.Account, by catalog.Credentials) Draft {
	return Draft{Account: account, ExpiresIn: ReconnectLife, Kinds: ReconnectKinds(by)}
}

// Kinds returns the connect methods that a page offers by default. has reports whether the platform has a method.
func Kinds(has func(kind string) bool) []string {
	return slices.DeleteFunc(Methods(), func(kind string) bool { return (kind == OAuth || kind == Token) && !has(kind) })
}

// ReconnectKinds returns the connect methods that give an account the credentials that it had. Others would belong to
// another identity: a key belongs to no person.
func ReconnectKinds(by catalog.Credentials) []string {
	switch by {
	case catalog.ByToken:
		return []string{Token}
	case catalog.ByOAuth:
		return []string{OAuth}
	case catalog.BySession:
	}
	return []string{Credentials, MobileApp}
}

// Preview returns a session that Reconnecting would create, without storing it.
func Preview(org id.Org, d Draft) Session {
	d = d.withDefaults()
	return Session{
		Org: org, Account: d.Account, Status: Open, Kinds: d.Kinds, Platform: d.Platform, Site: d.Site, Remember: d.Remember,
	}
}

func (s *Sessions) reconnectToken(ctx context.Context, org id.Org, at id.Session) (secret.String, error) {
	sum, err := keyedHash(ctx, s.deps.Keys, sessionPurpose, string(org)+" "+string(at))
	return secret.New(TokenPrefix + base64.RawURLEncoding.EncodeToString(sum)), err
}
