// Package usagehook sends the usage of each organisation on each day to the operator's billing system, as a signed
// CloudEvent.
package usagehook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/billing"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/usagehook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

const (
	// lock is the key of the advisory lock of the Sender that sends.
	lock = 7_264_053
	// every is the pause between two rounds.
	every = time.Minute
	// settle is how long after its end a day is sent. Nodes write their counts every second, unless the database is away.
	settle = 15 * time.Minute
	// firstDays is how many days are sent when the webhook is set up. Stripe takes nothing that is older.
	firstDays = 35
	// pageOrgs is how many organisations are read at a time.
	pageOrgs = 100

	day = 24 * time.Hour
)

// Deps are the dependencies of a Sender.
type Deps struct {
	DB    *postgres.DB
	Orgs  *org.Orgs
	Usage *usage.Usage
	// URL receives the events, and Secret signs them as it would the deliveries of a webhook.
	URL      string
	Secret   secret.String
	Client   *http.Client
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Sender sends the days one after the other, and the organisations of a day in the order of their ids: each at least once,
// with an id by which the receiver recognises a repeat. The position is in the database, so that another process goes on
// where the last one ended.
type Sender struct {
	deps     Deps
	signer   *sign.Signer
	lag      prometheus.Gauge
	sent     prometheus.Counter
	failures prometheus.Counter
	// failing means that the last round failed, which is in the log.
	failing bool
}

// New returns a Sender that does nothing until Run.
func New(d Deps) *Sender {
	register := promauto.With(d.Registry)
	return &Sender{
		deps: d, signer: sign.New(d.Secret),
		lag: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_usage_webhook_lag_seconds",
			Help: "How long ago the oldest day ended whose usage was not sent; 0 if all was. All workers report the same number.",
		}),
		sent: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_usage_webhook_sent_total", Help: "Days of organisations whose usage this node has sent.",
		}),
		failures: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_usage_webhook_failures_total", Help: "Rounds of the usage webhook that failed on this node.",
		}),
	}
}

// Run sends until ctx ends. Any number of nodes may run it: one at a time sends.
func (s *Sender) Run(ctx context.Context) error {
	for range clock.Every(ctx, every) {
		err := s.Round(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			s.failures.Inc()
		}
		if failing := err != nil; failing != s.failing {
			s.failing = failing
			if failing {
				s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot send usage", slog.Any(logkey.Error, err))
			} else {
				s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "usage is sent again")
			}
		}
	}
	return nil
}

// position is the day to send, and the last organisation that was sent of it.
type position struct {
	day   time.Time
	after id.Org
}

// Round sends the days that have ended. It sends nothing while another process does.
func (s *Sender) Round(ctx context.Context) error {
	if _, _, err := s.due(ctx); err != nil { // for the metric
		return err
	}
	release, ok, err := s.deps.DB.TryLock(ctx, lock)
	if err != nil || !ok {
		return err
	}
	defer release()
	for {
		at, due, err := s.due(ctx)
		if err != nil || !due {
			return err
		}
		if err := s.sendDay(ctx, at); err != nil {
			return err
		}
	}
}

// due reads the position, and reports whether its day can be sent.
func (s *Sender) due(ctx context.Context) (at position, due bool, err error) {
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return position{}, false, err
	}
	row, err := db.New(s.deps.DB).Position(ctx, now.UTC().Truncate(day).AddDate(0, 0, -firstDays))
	if err != nil {
		return position{}, false, fmt.Errorf("read the position of the usage webhook: %w", err)
	}
	at = position{row.Day.UTC(), id.Org(row.AfterOrg)}
	ended := now.Sub(at.day.Add(day))
	s.lag.Set(max(0, ended.Seconds()))
	return at, ended >= settle, nil
}

// sendDay sends the rest of a day, and moves the position to the next one.
func (s *Sender) sendDay(ctx context.Context, at position) error {
	for {
		orgs, err := s.deps.Orgs.Search(ctx, org.Search{After: at.after}, pageOrgs)
		if err != nil {
			return err
		}
		if len(orgs) == 0 {
			return s.move(ctx, position{day: at.day.AddDate(0, 0, 1)})
		}
		ids := make([]id.Org, len(orgs))
		byID := make(map[id.Org]org.Org, len(orgs))
		for i, o := range orgs {
			ids[i], byID[o.ID] = o.ID, o
		}
		days, err := s.deps.Usage.Days(ctx, ids, at.day, at.day.AddDate(0, 0, 1))
		if err != nil {
			return err
		}
		for _, d := range days {
			if err := s.post(ctx, d.Bill(byID[d.Org])); err != nil {
				return err
			}
			s.sent.Inc()
			if err := s.move(ctx, position{at.day, d.Org}); err != nil {
				return err
			}
		}
		at.after = ids[len(ids)-1]
		if err := s.move(ctx, at); err != nil {
			return err
		}
	}
}

func (s *Sender) move(ctx context.Context, to position) error {
	if err := db.New(s.deps.DB).Move(ctx, db.MoveParams{Day: to.day, AfterOrg: string(to.after)}); err != nil {
		return fmt.Errorf("store the position of the usage webhook: %w", err)
	}
	return nil
}

// post sends one event. Any status of 200 to 299 means that the receiver has it.
func (s *Sender) post(ctx context.Context, d billing.UsageDay) error {
	event := d.Event()
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.deps.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the usage webhook is not a valid address")
	}
	whole, standard := s.signer.Sign(event.ID, now.Unix(), body)
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("User-Agent", "stagedoor")
	req.Header.Set("X-Webhook-Signature", whole)
	req.Header.Set("Webhook-Id", event.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", standard)
	resp, err := s.deps.Client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which may have a secret in its query
		}
		return fmt.Errorf("post to the usage webhook: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the usage webhook answers with the status %d", resp.StatusCode)
	}
	return nil
}
