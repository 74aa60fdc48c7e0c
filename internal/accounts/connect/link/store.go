package link

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

func insertSession(ctx context.Context, tx postgres.Tx, s Session) error {
	return db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: s.Org, ID: s.ID, TokenHash: s.hash, Platform: s.Platform, Site: s.Site, Kinds: s.Kinds, ReferenceID: s.ReferenceID, Label: s.Label, Region: s.Region,
		AccountID: s.Account, ReturnUrl: s.ReturnURL, AllowedOrigins: s.AllowedOrigins, Locale: s.Locale, Remember: s.Remember,
		Now: s.CreatedAt, ExpiresAt: s.ExpiresAt, ReceiptTo: s.receiptTo,
	})
}

func getSession(ctx context.Context, q db.DBTX, org id.Org, session id.Session) (Session, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{OrgID: org, ID: session})
	return fromRow(row), notFound(err)
}

func lockSession(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session) (Session, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: session})
	return fromRow(row), notFound(err)
}

func findByToken(ctx context.Context, q db.DBTX, hash []byte) (Session, error) {
	row, err := db.New(q).ByToken(ctx, hash)
	return fromRow(row), notFound(err)
}

func saveSession(ctx context.Context, tx postgres.Tx, s Session) error {
	return db.New(tx).Save(ctx, db.SaveParams{
		OrgID: s.Org, ID: s.ID, Status: string(s.Status), ActiveAttempt: s.Active,
		Attempts:         postgres.Convert(s.Attempts, func(a id.Attempt) string { return string(a) }),
		ConnectedAccount: s.Connected, UpdatedAt: s.UpdatedAt, FinishedAt: s.FinishedAt, DueAt: s.due,
		OpenedAt: s.OpenedAt, Browsers: s.browsers, BoundAt: s.BoundAt, BrowserName: s.OpenedIn.Name, BrowserSystem: s.OpenedIn.System, Others: int32(s.others),
	})
}

func listSessions(ctx context.Context, q db.DBTX, org id.Org, f Filter, now time.Time) ([]Session, error) {
	p := db.ListParams{
		OrgID: org, Before: f.Before, Status: string(f.Status), ReferenceID: f.ReferenceID, Accounts: id.Texts(f.Accounts), Now: now, MaxRows: int32(f.Limit),
	}
	if p.Before == "" {
		p.Before = "cs_~" // sorts after every id
	}
	rows, err := db.New(q).List(ctx, p)
	return postgres.Convert(rows, fromRow), err
}

// listOpenOfAccount lists the newest sessions that connect an account again and stay open beyond after.
func listOpenOfAccount(ctx context.Context, q db.DBTX, org id.Org, account id.Account, after time.Time) ([]Session,
	error) {
	rows, err := db.New(q).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: org, AccountID: account, After: after})
	return postgres.Convert(rows, fromRow), err
}

func getPage(ctx context.Context, q db.DBTX, org id.Org) (Page, error) {
	row, err := db.New(q).GetPage(ctx, org)
	if errors.Is(err, postgres.ErrNoRows) {
		return defaultPage(), nil
	}
	return Page{
		BrandLight: row.BrandLight, BrandDark: row.BrandDark, Scheme: row.Scheme, AllowedOrigins: row.AllowedOrigins,
		HelpURL: row.HelpUrl, LogoTag: row.LogoTag,
	}, err
}

func putPage(ctx context.Context, tx postgres.Tx, org id.Org, p Page, now time.Time) error {
	return db.New(tx).PutPage(ctx, db.PutPageParams{
		OrgID: org, BrandLight: p.BrandLight, BrandDark: p.BrandDark, Scheme: p.Scheme, AllowedOrigins: p.AllowedOrigins, HelpUrl: p.HelpURL, Now: now,
	})
}

func fromRow(r db.ConnectSession) Session {
	s := Session{
		ID: r.ID, Org: r.OrgID, Status: Status(r.Status), Platform: r.Platform, Site: r.Site, Kinds: r.Kinds, ReferenceID: r.ReferenceID, Label: r.Label, Region: r.Region,
		Account: r.AccountID, ReturnURL: r.ReturnUrl, AllowedOrigins: r.AllowedOrigins, Locale: r.Locale, Remember: r.Remember,
		Active: r.ActiveAttempt, Connected: r.ConnectedAccount,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt, OpenedAt: r.OpenedAt, FinishedAt: r.FinishedAt, due: r.DueAt, hash: r.TokenHash, receiptTo: r.ReceiptTo,
		OpenedIn: Browser{r.BrowserName, r.BrowserSystem}, BoundAt: r.BoundAt, browsers: r.Browsers, others: int(r.Others),
	}
	for _, a := range r.Attempts {
		s.Attempts = append(s.Attempts, id.Attempt(a))
	}
	return s
}
