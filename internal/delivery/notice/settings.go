package notice

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/notice/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Setting is how an organisation wants to be notified.
type Setting struct {
	// Kinds are the kinds of notices; nil for all of them.
	Kinds []mail.Kind
	// Locale is one of mail.Locales.
	Locale string
	// SlackHost is the host of the Slack-compatible URL, which is a secret; empty for none.
	SlackHost string

	slack        []byte
	slackVersion int64
}

// HasSlack reports whether there is a Slack-compatible URL.
func (s Setting) HasSlack() bool { return s.slack != nil }

func (s Setting) wants(kind mail.Kind) bool { return s.Kinds == nil || slices.Contains(s.Kinds, kind) }

// Change holds what to change; nil leaves a setting as it is.
type Change struct {
	// Slack is the Slack-compatible URL. Empty Kinds select all.
	Slack  *secret.String
	Kinds  *[]mail.Kind
	Locale *string
}

// Setting returns the settings of an organisation.
func (s *Notices) Setting(ctx context.Context, owner id.Org) (Setting, error) {
	return readSetting(ctx, s.deps.DB, owner)
}

func readSetting(ctx context.Context, q db.DBTX, owner id.Org) (Setting, error) {
	row, err := db.New(q).Setting(ctx, owner)
	if errors.Is(err, postgres.ErrNoRows) {
		return Setting{Locale: mail.Locales()[0]}, nil
	}
	out := Setting{Locale: row.Locale, SlackHost: row.SlackHost, slack: row.Slack, slackVersion: row.SlackVersion}
	for _, kind := range row.Kinds {
		out.Kinds = append(out.Kinds, mail.Kind(kind))
	}
	return out, err
}

// Set changes the settings of an organisation. It returns the problem unsafe-url if the URL is not a public https address.
func (s *Notices) Set(ctx context.Context, by audit.By, owner id.Org, c Change) (Setting, error) {
	var slack Setting
	if c.Slack != nil {
		var err error
		if slack, err = s.sealSlack(ctx, owner, *c.Slack); err != nil {
			return Setting{}, err
		}
	}
	var after Setting
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := readSetting(ctx, tx, owner)
		if err != nil {
			return err
		}
		after = before
		changes := audit.Changes{}
		if c.Slack != nil {
			after.slack, after.slackVersion, after.SlackHost = slack.slack, slack.slackVersion, slack.SlackHost
			changes["slackHost"] = audit.Change{From: before.SlackHost, To: after.SlackHost}
		}
		if c.Locale != nil {
			after.Locale = *c.Locale
			changes.Note("locale", before.Locale, after.Locale)
		}
		if c.Kinds != nil {
			after.Kinds = nil
			if len(*c.Kinds) > 0 {
				after.Kinds = *c.Kinds
			}
			changes.Note("kinds", strings.Join(id.Texts(before.Kinds), " "), strings.Join(id.Texts(after.Kinds), " "))
		}
		if err := db.New(tx).PutSetting(ctx, db.PutSettingParams{
			OrgID: owner, Slack: after.slack, SlackVersion: after.slackVersion, SlackHost: after.SlackHost, Kinds: id.Texts(after.Kinds), Locale: after.Locale,
		}); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(owner), changes)
	})
	return after, err
}

// sealSlack checks and seals a Slack-compatible URL.
func (s *Notices) sealSlack(ctx context.Context, owner id.Org, text secret.String) (Setting, error) {
	if err := s.deps.Public.CheckURL(ctx, text.Reveal()); err != nil {
		if refused, ok := errors.AsType[*problem.Error](err); ok {
			for i := range refused.Fields {
				refused.Fields[i].Pointer = "/slackUrl" // CheckURL does not know the name of the member
			}
		}
		return Setting{}, err
	}
	u, err := url.Parse(text.Reveal())
	if err != nil {
		return Setting{}, errors.New("a URL that was checked cannot be parsed")
	}
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return Setting{}, err
	}
	if err := s.deps.Seal.Prepare(ctx, owner, string(owner)); err != nil {
		return Setting{}, fmt.Errorf("prepare the key of %s: %w", owner, err)
	}
	out := Setting{SlackHost: u.Host, slackVersion: now.UnixMicro()}
	if out.slack, err = s.deps.Seal.Seal(ctx, slackAddress(owner, out.slackVersion), text); err != nil {
		return Setting{}, fmt.Errorf("seal the URL of notices: %w", err)
	}
	return out, nil
}

// Reset deletes the settings of an organisation, with its URL: it gets all notices, by mail only.
func (s *Notices) Reset(ctx context.Context, by audit.By, owner id.Org) (Setting, error) {
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := readSetting(ctx, tx, owner)
		if err != nil {
			return err
		}
		if err := db.New(tx).DeleteSetting(ctx, owner); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(owner), audit.Changes{"slackHost": {From: before.SlackHost}})
	})
	return Setting{Locale: mail.Locales()[0]}, err
}

func slackAddress(owner id.Org, version int64) seal.Address {
	return seal.Address{Org: owner, Holder: string(owner), Purpose: seal.PurposeNotice, Version: version}
}

// Recipient is who gets notices by mail, unless they have unsubscribed.
type Recipient struct {
	Email      string
	Subscribed bool
}

// Recipients lists who gets notices: the owners and admins, or the contact of an organisation that has none.
func (s *Notices) Recipients(ctx context.Context, owner id.Org) ([]Recipient, error) {
	o, err := s.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	members, _, err := s.deps.Members.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	gone, err := db.New(s.deps.DB).Unsubscribed(ctx, owner)
	if err != nil {
		return nil, err
	}
	var emails []string
	for _, m := range members {
		if m.Role == member.Owner || m.Role == member.Admin {
			emails = append(emails, m.Email)
		}
	}
	if contact, ok := member.CleanEmail(o.ContactEmail); ok && len(emails) == 0 {
		emails = append(emails, contact)
	}
	list := make([]Recipient, len(emails))
	for i, email := range emails {
		hash, err := s.hashAddress(ctx, owner, email)
		if err != nil {
			return nil, err
		}
		list[i] = Recipient{email, !slices.ContainsFunc(gone, func(one []byte) bool { return hmac.Equal(one, hash) })}
	}
	return list, nil
}

// MailIsConfigured reports whether the service can send mails.
func (s *Notices) MailIsConfigured() bool { return s.deps.Mail.IsConfigured() }
