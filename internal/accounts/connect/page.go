package connect

import (
	"context"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Paged is an attempt as the creator's pages need it.
type Paged struct {
	attempt.Attempt
	// Token opens the attempt's pages.
	Token secret.String
	// PhoneURL is our page for the phone; PlatformURL is the platform's own, where the creator approves or takes the selfie.
	PhoneURL    string
	PlatformURL secret.String
	ReturnURL   string
}

// ByToken finds the attempt that a link opens.
func (c *Connects) ByToken(ctx context.Context, link secret.String) (Paged, error) {
	r, err := c.byToken(ctx, link)
	if err != nil {
		return Paged{}, err
	}
	return c.paged(ctx, r)
}

func (c *Connects) paged(ctx context.Context, r record) (Paged, error) {
	key, err := c.linkKey(ctx)
	if err != nil {
		return Paged{}, err
	}
	v, err := c.shown(ctx, r)
	if err != nil {
		return Paged{}, err
	}
	out := Paged{Attempt: r.Attempt, Token: token(key, r, forPage, 0), ReturnURL: r.returnURL}
	if v.PhoneURL != nil {
		out.PhoneURL = *v.PhoneURL
	}
	out.PlatformURL, err = c.platformURL(ctx, r)
	return out, err
}

// platformURL is where the platform itself asks the creator; empty if it does not.
func (c *Connects) platformURL(ctx context.Context, r record) (secret.String, error) {
	if r.State != attempt.AwaitingMobile && r.State != attempt.NeedsFace {
		return secret.String{}, nil
	}
	s, err := c.openSecrets(ctx, r)
	if err != nil {
		return secret.String{}, err
	}
	if r.State == attempt.AwaitingMobile {
		return s.qr, nil
	}
	return s.page, nil
}

// ChangedPage waits until the attempt of a link has another version, at most so long.
func (c *Connects) ChangedPage(ctx context.Context, link secret.String, known int64, within time.Duration) (Paged, error) {
	r, err := c.byToken(ctx, link)
	if err != nil {
		return Paged{}, err
	}
	r, err = c.changed(ctx, r.Org, r.ID, func(r record) bool { return r.Version != known || r.State.Final() }, within)
	if err != nil {
		return Paged{}, err
	}
	return c.paged(ctx, r)
}

// PageToken is the token of an attempt's pages.
func (c *Connects) PageToken(ctx context.Context, org id.Org, at id.Attempt) (secret.String, error) {
	key, err := c.linkKey(ctx)
	if err != nil {
		return secret.String{}, err
	}
	r, err := c.get(ctx, org, at)
	if err != nil {
		return secret.String{}, err
	}
	return token(key, r, forPage, 0), nil
}

// SandboxHandle is what the sandbox knows an attempt's QR or selfie by: the end of the address that the creator would open.
func (c *Connects) SandboxHandle(ctx context.Context, org id.Org, at id.Attempt) (kind, handle string, err error) {
	r, err := c.get(ctx, org, at)
	if err != nil {
		return "", "", err
	}
	address, err := c.platformURL(ctx, r)
	if err != nil {
		return "", "", err
	}
	u, bad := url.Parse(address.Reveal())
	if address.Empty() || bad != nil {
		return "", "", problem.AttemptStateConflict.New("The attempt waits for nothing that the creator does on the platform.").
			With("attemptId", r.ID).With("state", r.State).With("nextActions", r.NextActions())
	}
	handle = path.Base(u.Path)
	if r.State == attempt.NeedsFace {
		return "selfie", handle, nil
	}
	handle, _, _ = strings.Cut(handle, ".") // what follows changes every minute
	return "qr", handle, nil
}
