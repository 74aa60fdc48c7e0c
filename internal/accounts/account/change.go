package account

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Limits of what callers can set: MaxMetadata in entries, the others in characters.
const (
	MaxLabel         = 120
	MaxMetadata      = 16
	MaxMetadataKey   = 40
	MaxMetadataValue = 500
)

// Change is a partial update; nil leaves a field as it is.
type Change struct {
	Label  *string
	Region *string
	// Metadata replaces all of the account's metadata.
	Metadata *map[string]string
	// ForgetCredentials deletes the sealed credentials.
	ForgetCredentials bool
}

// Update applies a change, writes account.updated and an audit entry, and makes a probe due now if the region changed.
// A change that sets every field to its present value writes nothing.
func (s *Accounts) Update(ctx context.Context, by audit.By, owner id.Org, account id.Account, c Change) (Account, error) {
	if err := s.validate(c); err != nil {
		return Account{}, err
	}
	// The audit entry is sealed with the account's key. Read it now: a transaction must not wait for another connection.
	if err := s.deps.Seal.Warm(ctx, owner, []string{string(account)}); err != nil {
		return Account{}, fmt.Errorf("read the key of %s: %w", account, err)
	}
	var (
		a       Account
		changed bool
	)
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := s.lockAccount(ctx, tx, Ref{owner, account})
		if err != nil {
			return err
		}
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		var changes audit.Changes
		a, changes = applyChange(before, c, now)
		if changed = len(changes) > 0; !changed {
			return nil
		}
		if before.RememberCredentials && !a.RememberCredentials {
			if err := dropSecret(ctx, tx, a, seal.PurposeCredentials); err != nil {
				return err
			}
		}
		if err := saveAccount(ctx, tx, a); err != nil {
			return err
		}
		if err := s.deps.Outbox.Add(ctx, tx, a.event(contract.AccountUpdated{
			Transition: a.transitionFrom(a.State), Changes: slices.Sorted(maps.Keys(changes)),
		})); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(account), changes)
	})
	if err != nil {
		return Account{}, err
	}
	if changed {
		s.publishVersion(ctx, a)
	}
	return a, nil
}

// applyChange returns the changed account and the differences. It writes nothing.
func applyChange(a Account, c Change, now time.Time) (Account, audit.Changes) {
	before := a
	if c.Label != nil {
		a.Label = *c.Label
	}
	if c.Region != nil {
		a.Region = *c.Region
	}
	if c.ForgetCredentials {
		a.RememberCredentials = false
	}
	changes := changesOf(before, a)
	if c.Metadata != nil && !maps.Equal(a.Metadata, *c.Metadata) {
		changes["metadata"] = audit.Personal(a.Metadata, *c.Metadata)
		a.Metadata = *c.Metadata
	}
	if len(changes) > 0 {
		a.SessionVersion++
	}
	if before.Region != a.Region && a.Health.ProbeAt != nil {
		// Only a probe can tell whether the platform accepts the session from the new region.
		a.Health.ProbeAt = &now
	}
	return a, changes
}

func (s *Accounts) validate(c Change) error {
	bad := problem.ValidationFailed.New("The account cannot have these values.")
	if c.Label == nil && c.Region == nil && c.Metadata == nil && !c.ForgetCredentials {
		bad.At("", "required", "must have at least one field")
	}
	if c.Label != nil {
		checkText(bad, "/label", *c.Label, MaxLabel)
	}
	if c.Region != nil && !slices.Contains(s.deps.Config.Regions(), *c.Region) {
		bad.At("/proxyCountry", "enum", "must be one of "+strings.Join(s.deps.Config.Regions(), ", "))
	}
	if c.Metadata != nil {
		CheckMetadata(bad, "/metadata", *c.Metadata)
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

func checkText(bad *problem.Error, pointer, text string, most int) {
	if utf8.RuneCountInString(text) > most {
		bad.At(pointer, "length", "is too long")
	} else if strings.ContainsFunc(text, unicode.IsControl) {
		bad.At(pointer, "character", "must not contain control characters")
	}
}

// CheckMetadata adds a field error to bad, at pointer, for everything that is wrong with metadata.
func CheckMetadata(bad *problem.Error, pointer string, metadata map[string]string) {
	if len(metadata) > MaxMetadata {
		bad.At(pointer, "maxProperties", "must have at most 16 keys")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch n := utf8.RuneCountInString(key); {
		case n == 0 || n > MaxMetadataKey:
			bad.At(pointer, "key", "must have keys of 1 to 40 characters")
		case utf8.RuneCountInString(metadata[key]) > MaxMetadataValue:
			bad.At(pointer, "length", "must have values of at most 500 characters")
		case strings.ContainsRune(key, 0) || strings.ContainsRune(metadata[key], 0):
			bad.At(pointer, "character", "must not contain null characters")
		}
	}
}

// Pause stops calls, probes and the listener of an account. Pausing it again changes nothing.
func (s *Accounts) Pause(ctx context.Context, by audit.By, owner id.Org, account id.Account, reason string) (Account, error) {
	return s.Trigger(ctx, by, owner, account, Cause{On: Pause, Reason: reason})
}

// Resume starts a paused account again. On an account that is not paused it changes nothing.
func (s *Accounts) Resume(ctx context.Context, by audit.By, owner id.Org, account id.Account) (Account, error) {
	return s.Trigger(ctx, by, owner, account, Cause{On: Resume})
}
