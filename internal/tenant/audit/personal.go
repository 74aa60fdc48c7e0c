package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Sealer seals and opens personal values with the key of their account, and keeps the key of the chains; *seal.Sealer
// implements it.
type Sealer interface {
	SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error)
	OpenBytes(ctx context.Context, at seal.Address, sealed []byte) ([]byte, error)
	Warm(ctx context.Context, org id.Org, holders []string) error
	Derive(ctx context.Context, purpose string) ([]byte, error)
	// AuditKeyed reports whether SetAuditKeyed was ever called.
	AuditKeyed(ctx context.Context) (bool, error)
	SetAuditKeyed(ctx context.Context) error
}

// hiddenChange is the stored form of a personal change. Customers get the opened change instead, or {"purged": true} if
// the account was deleted; operators get {"hidden": true}.
type hiddenChange struct {
	Sealed []byte `json:"sealed,omitempty"`
	Purged bool   `json:"purged,omitempty"`
}

// personalAddress binds a personal value to its account. Moving it to another entry breaks the chain.
func personalAddress(org id.Org, account string) seal.Address {
	return seal.Address{Org: org, Holder: account, Purpose: seal.PurposeAudit}
}

// sealPersonal returns the changes as they are stored.
func (l *Log) sealPersonal(ctx context.Context, org id.Org, target string, changes Changes) (map[string]any, error) {
	out := make(map[string]any, len(changes))
	for name, change := range changes {
		if !change.personal {
			out[name] = change
			continue
		}
		text, err := json.Marshal(change)
		if err != nil {
			return nil, fmt.Errorf("encode the audit change of %s: %w", name, err)
		}
		if out[name], err = l.sealChange(ctx, org, target, text); err != nil {
			return nil, fmt.Errorf("seal the audit change of %s: %w", name, err)
		}
	}
	return out, nil
}

// sealChange returns the stored form of a personal change of an account.
func (l *Log) sealChange(ctx context.Context, org id.Org, account string, text []byte) (hiddenChange, error) {
	sealed, err := l.sealer.SealBytes(ctx, personalAddress(org, account), text)
	if errors.Is(err, seal.ErrShredded) {
		return hiddenChange{Purged: true}, nil
	}
	return hiddenChange{Sealed: sealed}, err
}

// openPersonal replaces the sealed changes of entries by their values.
func (l *Log) openPersonal(ctx context.Context, org id.Org, entries []Entry) error {
	var accounts []string
	for i := range entries {
		if e := &entries[i]; hasSealed(e.Changes) && !slices.Contains(accounts, e.Target) {
			accounts = append(accounts, e.Target)
		}
	}
	if len(accounts) == 0 {
		return nil
	}
	if err := l.sealer.Warm(ctx, org, accounts); err != nil {
		return fmt.Errorf("read the keys of audit entries: %w", err)
	}
	for i := range entries {
		at := personalAddress(org, entries[i].Target)
		err := entries[i].replaceSealed(func(sealed []byte) ([]byte, error) {
			text, err := l.sealer.OpenBytes(ctx, at, sealed)
			if err != nil && !errors.Is(err, seal.ErrUnavailable) {
				// The account was deleted, or the entry was changed, which Verify reports.
				return []byte(`{"purged":true}`), nil
			}
			return text, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// OpenChanges returns the changes of a stored entry of an organisation about target, with the sealed ones opened.
func (l *Log) OpenChanges(ctx context.Context, org id.Org, target string, changes json.RawMessage) (json.RawMessage, error) {
	one := []Entry{{Target: target, Changes: changes}}
	err := l.openPersonal(ctx, org, one)
	return one[0].Changes, err
}

// hidePersonal removes the sealed changes of an entry for readers who may not open them.
func (e *Entry) hidePersonal() error {
	return e.replaceSealed(func([]byte) ([]byte, error) { return []byte(`{"hidden":true}`), nil })
}

// hasSealed reports whether there may be a sealed change. It is cheap, and never wrong if it returns false.
func hasSealed(changes json.RawMessage) bool { return bytes.Contains(changes, []byte(`"sealed"`)) }

// replaceSealed calls with for each sealed change of an entry, and replaces the change by what it returns.
func (e *Entry) replaceSealed(with func(sealed []byte) ([]byte, error)) error {
	if !hasSealed(e.Changes) {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(e.Changes, &all); err != nil {
		return fmt.Errorf("parse the changes of audit entry %s: %w", e.ID, err)
	}
	for name, text := range all {
		var one hiddenChange
		if json.Unmarshal(text, &one) != nil || one.Sealed == nil {
			continue
		}
		opened, err := with(one.Sealed)
		if err != nil {
			return fmt.Errorf("open audit entry %s: %w", e.ID, err)
		}
		all[name] = opened
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the changes of audit entry %s: %w", e.ID, err)
	}
	e.Changes = text
	return nil
}
