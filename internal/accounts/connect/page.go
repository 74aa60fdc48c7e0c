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
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Paged is an attempt as the connect pages need it.
type Paged struct {
	attempt.Attempt
	// Token opens the attempt's pages.
	Token secret.String
	// PhoneURL is our page for the phone. PlatformURL is the platform's page, where the creator approves the sign-in or
	// takes the selfie.
	PhoneURL    string
	PlatformURL secret.String
	ReturnURL   string
	// Place is where the creator signs in.
	Place driver.Place
}

// ByToken returns the attempt that a link opens. It fails with session-not-found.
func (c *Connects) ByToken(ctx context.Context, link secret.String) (Paged, error) {
	r, err := c.findByToken(ctx, link)
	if err != nil {
		return Paged{}, err
	}
	return c.pageView(ctx, r)
}

func (c *Connects) pageView(ctx context.Context, r record) (Paged, error) {
	key, err := c.linkKey(ctx)
	if err != nil {
		return Paged{}, err
	}
	v, err := c.viewWithLinks(ctx, r)
	if err != nil {
		return Paged{}, err
	}
	out := Paged{Attempt: r.Attempt, Token: token(key, r, forPage, 0), ReturnURL: r.returnURL, Place: r.place}
	if v.PhoneURL != nil {
		out.PhoneURL = *v.PhoneURL
	}
	out.PlatformURL, err = c.platformURL(ctx, r)
	return out, err
}

// platformURL returns the platform's page on which the creator must act; empty if there is none now.
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

func (c *Connects) ChangedPage(ctx context.Context, link secret.String, known int64, within time.Duration) (Paged, error) {
	r, err := c.findByToken(ctx, link)
	if err != nil {
		return Paged{}, err
	}
	r, err = c.waitUntil(ctx, r.Org, r.ID, func(r record) bool { return r.Version != known || r.State.Final() }, within)
	if err != nil {
		return Paged{}, err
	}
	return c.pageView(ctx, r)
}

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

// SandboxHandle returns the id that the sandbox uses for an attempt's QR code or selfie: the end of the URL that the
// creator would open. kind is "qr" or "selfie".
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
		return "", "", problem.AttemptStateConflict.New("The attempt does not wait for the creator to act on the platform.").
			With("attemptId", r.ID).With("state", r.State).With("nextActions", r.NextActions())
	}
	handle = path.Base(u.Path)
	if r.State == attempt.NeedsFace {
		return "selfie", handle, nil
	}
	handle, _, _ = strings.Cut(handle, ".") // the rest changes every minute
	return "qr", handle, nil
}
