package link

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// A receipt tells a creator by mail what was connected with whom, and has the manage link, with which the connection is
// ended. It goes to the address to which the organisation mailed the link, or to the one with which the creator signed in.

// receiptLasts is how long a receipt is tried.
const receiptLasts = 3 * 24 * time.Hour

// sealer seals addresses; implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error)
	OpenBytes(ctx context.Context, at seal.Address, sealed []byte) ([]byte, error)
}

// sealRecipient seals the address to which the link of a session is mailed.
func (s *Sessions) sealRecipient(ctx context.Context, of Session, email string) ([]byte, error) {
	if err := s.deps.Seal.Prepare(ctx, of.Org, string(of.Org)); err != nil {
		return nil, fmt.Errorf("prepare the key of %s: %w", of.Org, err)
	}
	sealed, err := s.deps.Seal.SealBytes(ctx, recipientAddress(of), []byte(email))
	if err != nil {
		return nil, fmt.Errorf("seal the recipient of %s: %w", of.ID, err)
	}
	return sealed, nil
}

// recipientAddress is what a sealed recipient is bound to.
func recipientAddress(of Session) seal.Address {
	sum := sha256.Sum256([]byte(of.ID))
	return seal.Address{
		Org: of.Org, Holder: string(of.Org), Purpose: seal.PurposeRecipient, Version: int64(binary.BigEndian.Uint64(sum[:8]) >> 1),
	}
}

// Connection is what an attempt in a session connects.
type Connection struct {
	Org     org.Org
	Session id.Session
	Account id.Account
	// Name is the name of the account on the platform, PlatformName that of the platform.
	Name, PlatformName string
	// Login is the email address with which the creator signed in; empty if there was none.
	Login secret.String
	// Locale is the language of the page on which the creator agreed.
	Locale string
}

// Receipt is a receipt that is written, but not queued. The zero value is none.
type Receipt struct {
	account id.Account
	letter  mail.Draft
}

// ComposeReceipt writes the receipt for a connection; there is none if no address is known. Call it before the
// transaction in which AddReceipt queues it, because it uses the keyring.
func (s *Sessions) ComposeReceipt(ctx context.Context, c Connection) (Receipt, error) {
	of, err := getSession(ctx, s.deps.DB, c.Org.ID, c.Session)
	if err != nil {
		return Receipt{}, err
	}
	to, err := s.recipient(ctx, of, c)
	if err != nil || to == "" {
		return Receipt{}, err
	}
	token, err := NewLinks(s.deps.Keys).Make(ctx, c.Org.ID, c.Account)
	if err != nil {
		return Receipt{}, err
	}
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return Receipt{}, err
	}
	letter, err := s.deps.Mail.Compose(ctx, c.Org.ID, mail.Message{
		Kind: mail.Receipt, To: to, Locale: cmp.Or(of.Locale, c.Locale), About: string(c.Account), ExpiresAt: now.Add(receiptLasts),
		Link: s.deps.ConnectURL + "/manage/" + token.Reveal(), Org: c.Org.Name, Account: c.Name, Platform: c.PlatformName,
	})
	return Receipt{c.Account, letter}, err
}

// recipient returns the address for a receipt, or an empty one. The logins of test accounts are not real addresses.
func (s *Sessions) recipient(ctx context.Context, of Session, c Connection) (string, error) {
	if of.receiptTo != nil {
		text, err := s.deps.Seal.OpenBytes(ctx, recipientAddress(of), of.receiptTo)
		if err != nil {
			return "", fmt.Errorf("open the recipient of %s: %w", of.ID, err)
		}
		to, _ := member.CleanEmail(string(text))
		return to, nil
	}
	if c.Org.Environment.IsTest() || !s.deps.Mail.IsConfigured() {
		return "", nil
	}
	to, _ := member.CleanEmail(c.Login.Reveal()) // a login need not be an address
	return to, nil
}

// AddReceipt queues a receipt in the transaction that connects the account, and records it in the audit log.
func (s *Sessions) AddReceipt(ctx context.Context, tx postgres.Tx, org id.Org, by audit.By, r Receipt) error {
	if r.account == "" {
		return nil
	}
	sent, err := s.deps.Mail.Add(ctx, tx, r.letter)
	if err != nil {
		return err
	}
	return s.deps.Audit.Record(ctx, tx, org, by, string(r.account), audit.Changes{"mail": sent.Change()})
}
