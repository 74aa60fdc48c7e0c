package connect

import (
	"context"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

func textOrNil[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	out := string(s)
	return &out
}

func timeOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	out := stamp.Text(t)
	return &out
}

func pointerTo(n int) *int { return &n }

// view returns an attempt without its links. Links act on the attempt, so events, which are stored, must not contain
// them.
func (c *Connects) view(r record, now time.Time) contract.Attempt {
	v := contract.Attempt{
		AttemptID: string(r.ID), Kind: string(r.Kind), State: string(r.State), Progress: string(r.Progress),
		PollingURL: textOrNil(c.deps.Config.PublicURL + "/v1/connect/login/" + string(r.ID)), Channel: textOrNil(r.Channel),
		Channels:    r.Available,
		NextActions: r.NextActions(), Platform: r.place.Platform, Site: textOrNil(r.place.Site), Label: r.Label, Region: r.Region, Reference: textOrNil(r.Reference),
		Metadata: r.Metadata,
		Session:  textOrNil(r.Session), Reconnect: r.Reconnect, CreatedAt: *timeOrNil(r.CreatedAt),
		UpdatedAt: *timeOrNil(r.UpdatedAt), ExpiresAt: *timeOrNil(r.ExpiresAt),
	}
	if v.Channels == nil {
		v.Channels = []string{}
	}
	if r.State.Final() {
		v.Channel, v.Channels = nil, []string{}
	}
	switch {
	case r.State.Challenge():
		v.ChallengeEnds = timeOrNil(r.Deadline)
		if r.State.TakesCode() {
			v.Submissions, v.Resends = pointerTo(attempt.MaxSubmissions-r.Submissions), pointerTo(attempt.MaxResends-r.Resends)
			v.ResendAfter = pointerTo(max(0, int(math.Ceil(r.ResendAt.Sub(now).Seconds()))))
		}
		switch r.Channel {
		case "email":
			v.EmailMask = textOrNil(r.Mask)
		case "sms":
			v.PhoneMask = textOrNil(r.Mask)
		}
	case r.State == attempt.Pending:
		v.PollAfter = pointerTo(2)
		if r.AwaitsConsent() {
			v.ChallengeEnds = timeOrNil(r.Deadline)
		}
	case r.State == attempt.AwaitingMobile:
		v.PollAfter, v.PhoneExpires = pointerTo(2), timeOrNil(r.QRExpiresAt)
	}
	if f := r.Failure; f != nil {
		v.Failure = &contract.Failure{Code: f.Code, Message: f.Message(r.Kind), Retryable: f.Retryable(),
			UpstreamMessage: textOrNil(f.UpstreamMessage)}
		if f.RetryAfter > 0 {
			v.Failure.RetryAfter = pointerTo(int(math.Ceil(f.RetryAfter.Seconds())))
		}
		v.Failure.UpstreamCode = problem.UpstreamCode(f.UpstreamCode)
	}
	if r.State == attempt.Success {
		v.AccountID = textOrNil(r.Account)
	}
	if r.Reconnect {
		v.Reconnects = textOrNil(r.Account)
	}
	return v
}

// viewWithLinks is view with links, for callers who may use them.
func (c *Connects) viewWithLinks(ctx context.Context, r record) (contract.Attempt, error) {
	now := r.UpdatedAt
	if r.State.TakesCode() { // for resend_after_sec
		var err error
		if now, err = c.deps.DB.Now(ctx, c.deps.DB); err != nil {
			return contract.Attempt{}, err
		}
	}
	v := c.view(r, now)
	if r.State.Final() {
		return v, nil
	}
	key, err := c.linkKey(ctx)
	if err != nil {
		return contract.Attempt{}, err
	}
	base := c.deps.Config.ConnectURL + "/a/"
	page := base + token(key, r, forPage, 0).Reveal()
	v.EmbedURL = textOrNil(page + "/embed")
	if r.State.Challenge() || r.AwaitsConsent() {
		v.PageURL = &page
	}
	if r.State == attempt.AwaitingMobile || r.State == attempt.NeedsFace {
		v.PhoneURL = textOrNil(base + token(key, r, forPhone, qrTurn(r)).Reveal() + "/phone")
	}
	return v, nil
}

// Key identifies the version of an attempt that a view shows, for ETags.
type Key struct {
	ID      id.Attempt
	Version int64
}
