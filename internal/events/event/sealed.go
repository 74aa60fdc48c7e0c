package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Sealer seals and opens content with the data key of its account; implemented by *seal.Sealer.
type Sealer interface {
	SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error)
	OpenBytes(ctx context.Context, at seal.Address, sealed []byte) ([]byte, error)
	Warm(ctx context.Context, org id.Org, holders []string) error
}

// The first byte of a body in the database. A body in the clear starts with the brace of its JSON: events of orgs, events
// that outlive their account, and those that were stored before bodies were sealed.
const (
	sealedBody = 1
	// sandboxBit is set for events of the sandbox, so that a purged event can still be shown as such.
	sandboxBit = 2
)

func isSealed(body []byte) bool { return len(body) > 0 && body[0]&^sandboxBit == sealedBody }

// IsAccount reports whether a source is an account, whose content is sealed.
func IsAccount(source string) bool { return strings.HasPrefix(source, "acct_") }

// bodyAddress binds a body to its event.
func (s *Stored) bodyAddress() seal.Address {
	return seal.Address{Org: s.Org, Holder: s.Source, Purpose: seal.PurposeEvent, Version: s.Seq}
}

// sealBodies returns the bodies of a batch as they are stored. An event of an account that was deleted in the meantime
// loses its data, also in the batch.
func (s *Store) sealBodies(ctx context.Context, events []NewEvent) ([][]byte, error) {
	bodies := make([][]byte, len(events))
	for i := range events {
		e := &events[i]
		// account.disconnected says how the account ended, and has no content.
		if bodies[i] = e.Body; !IsAccount(e.Source) || e.Kind == contract.KindAccountDisconnected || !s.deps.Seals() {
			continue
		}
		sealed, err := s.deps.Sealer.SealBytes(ctx, e.bodyAddress(), e.Body)
		switch {
		case errors.Is(err, seal.ErrShredded):
			e.Body = e.purgedBody(e.Sandbox)
			bodies[i] = e.Body
		case err != nil:
			return nil, fmt.Errorf("seal events of %s: %w", e.Source, err)
		default:
			marker := byte(sealedBody)
			if e.Sandbox {
				marker |= sandboxBit
			}
			bodies[i] = slices.Concat([]byte{marker}, sealed)
		}
	}
	return bodies, nil
}

// purgedBody returns the envelope of an event whose account was deleted.
func (s *Stored) purgedBody(sandbox bool) []byte {
	return AppendEnvelope(nil, &Envelope{ID: s.ID, Kind: s.Kind, Account: s.Source, At: s.At, Seq: s.Seq, Meta: Meta{Sandbox: sandbox, Purged: true}})
}

// openBodies opens the bodies of events that were read.
func (s *Store) openBodies(ctx context.Context, list []Stored) error {
	accounts := map[id.Org][]string{}
	for i := range list {
		if one := &list[i]; isSealed(one.Body) && !slices.Contains(accounts[one.Org], one.Source) {
			accounts[one.Org] = append(accounts[one.Org], one.Source)
		}
	}
	if err := s.warm(ctx, accounts); err != nil {
		return err
	}
	for i := range list {
		if err := s.openBody(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// openBody opens the body of an event. If its account was deleted, the event has no data. A body that was tampered with
// stops no reader: it has no data either, and is logged.
func (s *Store) openBody(ctx context.Context, e *Stored) error {
	if !isSealed(e.Body) {
		return nil
	}
	sandbox := e.Body[0]&sandboxBit != 0
	body, err := s.deps.Sealer.OpenBytes(ctx, e.bodyAddress(), e.Body[1:])
	switch {
	case errors.Is(err, seal.ErrShredded):
		body, err = e.purgedBody(sandbox), nil
	case errors.Is(err, seal.ErrCorrupt):
		s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot open an event", slog.String(logkey.Account, e.Source), slog.Int64(logkey.Position, e.Seq))
		body, err = AppendEnvelope(nil, &Envelope{
			ID: e.ID, Kind: e.Kind, Account: e.Source, At: e.At, Seq: e.Seq, Meta: Meta{Sandbox: sandbox, Unreadable: true},
		}), nil
	case err != nil:
		return fmt.Errorf("open an event of %s: %w", e.Source, err)
	}
	e.Body = body
	return err
}

// recordAddress binds the content of a record to its account.
func (r *Record) recordAddress() seal.Address {
	return seal.Address{Org: r.Org, Holder: r.Source, Purpose: seal.PurposeFrame}
}

// SealRecord appends a record, with its content sealed. It fails with seal.ErrShredded if the account was deleted.
func (s *Store) SealRecord(ctx context.Context, to []byte, r *Record) ([]byte, error) {
	if !IsAccount(r.Source) || !s.deps.Seals() {
		return r.Append(to), nil
	}
	sealed := r.sealed
	if sealed == nil {
		var err error
		if sealed, err = s.deps.Sealer.SealBytes(ctx, r.recordAddress(), r.content()); err != nil {
			return nil, fmt.Errorf("seal a record of %s: %w", r.Source, err)
		}
	}
	return r.appendSealed(to, sealed), nil
}

// OpenRecords opens the content of records that ReadRecord has read. It returns an error for each of them, nil for most:
// seal.ErrShredded if the account was deleted, another one if the content was changed. If the keys are unavailable, it
// fails as a whole.
func (s *Store) OpenRecords(ctx context.Context, records []*Record) (failed []error, err error) {
	accounts := map[id.Org][]string{}
	for _, r := range records {
		if r.sealed != nil && !slices.Contains(accounts[r.Org], r.Source) {
			accounts[r.Org] = append(accounts[r.Org], r.Source)
		}
	}
	if err := s.warm(ctx, accounts); err != nil {
		return nil, err
	}
	failed = make([]error, len(records))
	for i, r := range records {
		if r.sealed == nil {
			continue
		}
		content, err := s.deps.Sealer.OpenBytes(ctx, r.recordAddress(), r.sealed)
		if errors.Is(err, seal.ErrUnavailable) {
			return nil, fmt.Errorf("open a record of %s: %w", r.Source, err)
		}
		if err == nil && !r.readContent(content) {
			err = errRecord
		}
		failed[i] = err
	}
	return failed, nil
}

// warm reads the keys of accounts that are about to be used.
func (s *Store) warm(ctx context.Context, accounts map[id.Org][]string) error {
	for org, sources := range accounts {
		if err := s.deps.Sealer.Warm(ctx, org, sources); err != nil {
			return err
		}
	}
	return nil
}
