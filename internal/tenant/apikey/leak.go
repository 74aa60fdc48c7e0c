package apikey

import (
	"context"
	"errors"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Leak is where a key was published.
type Leak struct {
	// URL may be empty. Source is the kind of the place, such as content or pull_request_comment.
	URL, Source string
}

const (
	maxLeakURL    = 2048
	maxLeakSource = 100
)

// scanner is who revokes published keys.
var scanner = audit.By{Kind: audit.ActorSystem, ID: "secret-scanning", Label: "secret scanning", Action: "key.revoke"}

// ReportLeak revokes a key of a live org that was published, and reports it to the org. known reports whether the token is, or
// was, a key of this service. Keys of the sandbox reach no real account and stay valid: examples are full of them.
func (s *Keys) ReportLeak(ctx context.Context, token secret.String, at Leak) (known bool, err error) {
	h, err := parseToken(token.Reveal())
	if err != nil {
		return false, nil //nolint:nilerr // it cannot be a key
	}
	row, err := db.New(s.deps.DB).ByHash(ctx, h[:])
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case Kind(row.Kind) != KindSecret:
		return false, nil
	case !strings.HasPrefix(token.Reveal(), prefix(environment.Live)):
		return true, nil
	}
	var committed func(context.Context)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		label, err := revoke(ctx, tx, row.OrgID, row.ID, s.deps.Now())
		if errors.Is(err, errUnchanged) {
			return nil // already revoked, perhaps by an earlier report
		}
		if err != nil {
			return err
		}
		if committed, err = s.deps.Orgs.AdvanceEpoch(ctx, tx, row.OrgID); err != nil {
			return err
		}
		found := contract.KeyLeaked{ID: row.ID, Label: label, URL: clip(at.URL, maxLeakURL), Source: clip(at.Source, maxLeakSource)}
		revoked := contract.KeyRevoked{ID: row.ID, Label: label, By: scanner.Actor()}
		for _, data := range []contract.Event{found, revoked} {
			if err := s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: row.OrgID, Data: data}); err != nil {
				return err
			}
		}
		return s.deps.Audit.Record(ctx, tx, row.OrgID, scanner, string(row.ID), audit.Changes{
			"label": {From: label}, "revoked": {From: false, To: true}, "leakedAt": {To: found.URL},
		})
	})
	if err == nil && committed != nil {
		committed(ctx)
	}
	return true, err
}

// clip shortens a text that others wrote, and removes what the database cannot store.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
