package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

func insertSession(ctx context.Context, tx postgres.Tx, s Session, hash []byte) error {
	err := db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: s.Org, ID: s.ID, TokenHash: hash, Kinds: s.Kinds, ReferenceID: s.ReferenceID, Label: s.Label, Region: s.Region,
		AccountID: string(s.Account), ReturnUrl: s.ReturnURL, AllowedOrigins: s.AllowedOrigins, Locale: s.Locale, Remember: s.Remember,
		Now: s.CreatedAt, ExpiresAt: s.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("insert connect session: %w", err)
	}
	return nil
}

func getSession(ctx context.Context, q db.DBTX, org id.Org, session id.Session) (Session, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{OrgID: org, ID: session})
	if err != nil {
		return Session{}, fmt.Errorf("read connect session: %w", notFound(err))
	}
	return fromRow(row), nil
}

func lockSession(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session) (Session, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: session})
	if err != nil {
		return Session{}, fmt.Errorf("lock connect session: %w", notFound(err))
	}
	return fromRow(row), nil
}

func findByToken(ctx context.Context, q db.DBTX, hash []byte) (Session, error) {
	row, err := db.New(q).ByToken(ctx, hash)
	if err != nil {
		return Session{}, fmt.Errorf("read connect session of a link: %w", notFound(err))
	}
	return fromRow(row), nil
}

func saveSession(ctx context.Context, tx postgres.Tx, s Session) error {
	err := db.New(tx).Save(ctx, db.SaveParams{
		OrgID: s.Org, ID: s.ID, Status: string(s.Status), Attempts: texts(s.Attempts), ActiveAttempt: string(s.Active),
		ConnectedAccount: string(s.Connected), UpdatedAt: s.UpdatedAt, FinishedAt: s.FinishedAt, DueAt: s.due,
	})
	if err != nil {
		return fmt.Errorf("write connect session %s: %w", s.ID, err)
	}
	return nil
}

func recordOpened(ctx context.Context, q db.DBTX, org id.Org, session id.Session, now time.Time) error {
	if err := db.New(q).Open(ctx, db.OpenParams{OrgID: org, ID: session, Now: now}); err != nil {
		return fmt.Errorf("record that %s was opened: %w", session, err)
	}
	return nil
}

func listSessions(ctx context.Context, q db.DBTX, org id.Org, f Filter, now time.Time) ([]Session, error) {
	p := db.ListParams{
		OrgID: org, Before: f.Before, Status: string(f.Status), ReferenceID: f.ReferenceID, Accounts: id.Texts(f.Accounts), Now: now, MaxRows: int32(f.Limit),
	}
	if p.Before == "" {
		p.Before = "cs_~" // sorts after every id
	}
	rows, err := db.New(q).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list connect sessions of %s: %w", org, err)
	}
	found := make([]Session, len(rows))
	for i, row := range rows {
		found[i] = fromRow(row)
	}
	return found, nil
}

// listOpenOfAccount lists the newest sessions that connect an account again and stay open beyond after.
func listOpenOfAccount(ctx context.Context, q db.DBTX, org id.Org, account id.Account, after time.Time) ([]Session,
	error) {
	rows, err := db.New(q).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: org, AccountID: string(account), After: after})
	if err != nil {
		return nil, fmt.Errorf("find open sessions of %s: %w", account, err)
	}
	found := make([]Session, len(rows))
	for i, row := range rows {
		found[i] = fromRow(row)
	}
	return found, nil
}

func countLinks(ctx context.Context, q db.DBTX, org id.Org, since, until time.Time, accounts []id.Account) (Counts,
	error) {
	row, err := db.New(q).CountOpened(ctx, db.CountOpenedParams{
		OrgID: org, First: string(id.Earliest[id.Session](since)), Last: string(id.Earliest[id.Session](until)), Accounts: id.Texts(accounts),
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count connect sessions of %s: %w", org, err)
	}
	return Counts{row.Made, row.Opened}, nil
}

func lockDue(ctx context.Context, tx postgres.Tx, now time.Time, limit int) ([]Session, error) {
	rows, err := db.New(tx).Due(ctx, db.DueParams{Now: now, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("lock due connect sessions: %w", err)
	}
	list := make([]Session, len(rows))
	for i, row := range rows {
		list[i] = fromRow(row)
	}
	return list, nil
}

func deleteSession(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session) error {
	if err := db.New(tx).Forget(ctx, db.ForgetParams{OrgID: org, ID: session}); err != nil {
		return fmt.Errorf("delete connect session %s: %w", session, err)
	}
	return nil
}

func getPage(ctx context.Context, q db.DBTX, org id.Org) (Page, error) {
	row, err := db.New(q).GetPage(ctx, org)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return defaultPage(), nil
	case err != nil:
		return Page{}, fmt.Errorf("read page of %s: %w", org, err)
	}
	return Page{BrandLight: row.BrandLight, BrandDark: row.BrandDark, Scheme: row.Scheme, AllowedOrigins: row.AllowedOrigins, HelpURL: row.HelpUrl}, nil
}

func putPage(ctx context.Context, tx postgres.Tx, org id.Org, p Page, now time.Time) error {
	err := db.New(tx).PutPage(ctx, db.PutPageParams{
		OrgID: org, BrandLight: p.BrandLight, BrandDark: p.BrandDark, Scheme: p.Scheme, AllowedOrigins: p.AllowedOrigins, HelpUrl: p.HelpURL, Now: now,
	})
	if err != nil {
		return fmt.Errorf("write page of %s: %w", org, err)
	}
	return nil
}

func fromRow(r db.ConnectSession) Session {
	s := Session{
		ID: r.ID, Org: r.OrgID, Status: Status(r.Status), Kinds: r.Kinds, ReferenceID: r.ReferenceID, Label: r.Label, Region: r.Region,
		Account: id.Account(r.AccountID), ReturnURL: r.ReturnUrl, AllowedOrigins: r.AllowedOrigins, Locale: r.Locale, Remember: r.Remember,
		Active: id.Attempt(r.ActiveAttempt), Connected: id.Account(r.ConnectedAccount),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt, OpenedAt: r.OpenedAt, FinishedAt: r.FinishedAt, due: r.DueAt, hash: r.TokenHash,
	}
	for _, a := range r.Attempts {
		s.Attempts = append(s.Attempts, id.Attempt(a))
	}
	return s
}

func texts(list []id.Attempt) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = string(a)
	}
	return out
}
