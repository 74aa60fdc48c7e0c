package connect

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/qrcode"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

func (a *operations) streamRoutes(t *endpoint.Table) {
	endpoint.Plain(t, endpoint.Operation{
		ID: "streamAttempt", Method: http.MethodGet, Path: "/v1/connect/login/{attemptId}/events", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Media: []string{"text/event-stream"}, Problems: []problem.Kind{problem.AttemptNotFound},
		Summary:     "Stream an attempt",
		Description: "Server-sent events: `event: attempt` with the attempt as data, immediately and after every change. The stream ends with the attempt.",
	}, a.streamAttempt)
	endpoint.Plain(t, endpoint.Operation{
		ID: "getAttemptQR", Method: http.MethodGet, Path: "/v1/connect/login/{attemptId}/qr", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsWrite, Quota: admission.Free, Media: []string{"image/svg+xml", "image/png", "text/plain"},
		Problems: []problem.Kind{problem.AttemptNotFound, problem.AttemptStateConflict, problem.AttemptCompleted},
		Summary:  "Get the QR code of an attempt", Description: "The current `phone_url` as an image, or as text for a terminal, depending on the Accept header. It changes about once a minute: load it again at `phone_url_expires_at`.",
	}, a.attemptQR)
}

// watchFor bounds one wait for a change; the next wait follows immediately.
const watchFor = 20 * time.Second

func (a *operations) streamAttempt(w http.ResponseWriter, r *http.Request) error {
	at, err := FindAttempt(r.Context(), a.Connects, r.PathValue("attemptId"))
	if err != nil {
		return err
	}
	org := endpoint.Caller(r.Context()).Org.ID
	f, err := a.Connects.Get(r.Context(), org, at)
	if err != nil {
		return err
	}
	events, err := endpoint.Stream(w, r)
	if err != nil {
		return err
	}
	defer events.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-events.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for known := int64(-1); ; {
		if f.Version != known {
			known = f.Version
			if err := a.Permit(ctx, org); err != nil {
				events.Fail(err)
				return nil
			}
			if events.Event("attempt", etag(f)[1:len(etag(f))-1], visible(r.Context(), f.Attempt)) != nil {
				return nil
			}
		}
		if strings.HasPrefix(f.State, "completed_") || ctx.Err() != nil {
			return nil
		}
		if f, err = a.Connects.Changed(ctx, org, at, known, watchFor); err != nil {
			events.Fail(err)
			return nil
		}
	}
}

func (a *operations) attemptQR(w http.ResponseWriter, r *http.Request) error {
	at, err := FindAttempt(r.Context(), a.Connects, r.PathValue("attemptId"))
	if err != nil {
		return err
	}
	f, err := a.Connects.Get(r.Context(), endpoint.Caller(r.Context()).Org.ID, at)
	if err != nil {
		return err
	}
	if f.PhoneURL == nil {
		kind := problem.AttemptStateConflict
		if strings.HasPrefix(f.State, "completed_") {
			kind = problem.AttemptCompleted
		}
		return kind.New("The attempt has no QR code in this state.").With("attemptId", f.ID).With("state", f.State).With("nextActions", f.NextActions)
	}
	media, body, err := drawQR(*f.PhoneURL, r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Vary", "Accept")
	_, err = w.Write(body)
	return err
}

// drawQR draws a QR code in the form that the caller accepts; SVG by default.
func drawQR(text, accept string) (media string, body []byte, err error) {
	code, err := qrcode.New(text)
	if err != nil {
		return "", nil, err
	}
	switch {
	case strings.Contains(accept, "image/png"):
		body, err = code.PNG()
		return "image/png", body, err
	case strings.Contains(accept, "text/plain"):
		return "text/plain; charset=utf-8", []byte(code.Text()), nil
	}
	return "image/svg+xml", code.SVG(480), nil
}

// Polls of one attempt that are free: two a second.
const (
	freePolls       = 10
	freePollsWithin = 5 * time.Second
)

// countPoll admits a poll as a call if it is beyond the free polls of the attempt.
func (a *operations) countPoll(ctx context.Context, at id.Attempt) error {
	if a.polls.Take(string(at)) {
		return nil
	}
	p := endpoint.Caller(ctx)
	d, err := a.Limits.Admit(ctx, admission.Call{
		Org: p.Org.ID, Quota: admission.Plain, Epoch: p.Org.Epoch, Limits: &p.Org.Limits, Started: endpoint.From(ctx).Origin.Started, ReadAt: p.ReadAt(),
	})
	if err != nil {
		return err
	}
	if d.Denied != nil {
		return d.Denied.Problem()
	}
	return nil
}
