package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/notice/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
)

// Queue is the River queue of messages.
const Queue = "notices"

// maxTries is how often a message is tried, with River's growing pauses: for about a day.
const maxTries = 15

// enqueuer adds a job to the queue in a transaction; implemented by *river.Client[pgx.Tx].
type enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// postArgs identify what an organisation was told at one time.
type postArgs struct {
	Org  id.Org    `json:"org"`
	Told mail.Kind `json:"kind"`
	At   time.Time `json:"at"`
}

func (postArgs) Kind() string { return "post_notice" }

func (s *Notices) enqueuePost(ctx context.Context, tx postgres.Tx, args postArgs) error {
	if _, err := s.deps.Queue.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: Queue, MaxAttempts: maxTries}); err != nil {
		return fmt.Errorf("enqueue a message: %w", err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[postArgs]
	notices *Notices
}

// Timeout is longer than a request takes.
func (*worker) Timeout(*river.Job[postArgs]) time.Duration { return time.Minute }

// Work posts one message.
func (w *worker) Work(ctx context.Context, job *river.Job[postArgs]) error {
	return w.notices.post(postgres.WithOrg(ctx, job.Args.Org), job.Args)
}

// Register adds this package's worker.
func Register(workers *river.Workers, s *Notices) { river.AddWorker(workers, &worker{notices: s}) }

// post sends what an organisation was told to its URL, at least once. A URL that was removed in the meantime gets nothing.
func (s *Notices) post(ctx context.Context, args postArgs) error {
	setting, err := s.Setting(ctx, args.Org)
	if err != nil || !setting.HasSlack() {
		return err
	}
	body, err := s.slackBody(ctx, args, setting)
	if err != nil || body == nil {
		return err
	}
	url, err := s.deps.Seal.Open(ctx, slackAddress(args.Org, setting.slackVersion), setting.slack)
	if err != nil {
		return fmt.Errorf("open the URL of notices: %w", err)
	}
	answer, err := s.deps.Public.Post(ctx, url.Reveal(), http.Header{"Content-Type": {"application/json"}, "User-Agent": {"stagedoor"}}, body)
	if err == nil && answer.Status/100 != 2 {
		err = fmt.Errorf("the URL of notices answers with the status %d", answer.Status)
		if answer.Status == http.StatusNotFound || answer.Status == http.StatusGone {
			err = river.JobCancel(err) // the URL was revoked
		}
	}
	if err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot post notice", slog.String(logkey.OrgID, string(args.Org)), slog.Any(logkey.Error, err))
	}
	return err
}

// slackBody returns the message, or nil if nothing of it still holds.
func (s *Notices) slackBody(ctx context.Context, args postArgs, setting Setting) ([]byte, error) {
	o, err := s.deps.Orgs.Get(ctx, args.Org)
	if errors.Is(err, problem.OrgNotFound.New("")) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := db.New(s.deps.DB).ToldAt(ctx, db.ToldAtParams{OrgID: args.Org, Kind: string(args.Told), ToldAt: &args.At})
	if err != nil {
		return nil, err
	}
	data := make([][]byte, len(rows))
	for i, r := range rows {
		data[i] = r.Data
	}
	facts, err := s.readFacts(ctx, args.Org, args.Told, data, args.At)
	if err != nil || len(facts) == 0 {
		return nil, err
	}
	brief, err := s.deps.Mail.Brief(s.message(o, args.Told, setting.Locale, facts, args.At), args.At)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"text": slackText(brief)})
}

// slackText writes a message in Slack's markup, in which three characters are special.
func slackText(b mail.Brief) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	var text strings.Builder
	fmt.Fprintf(&text, "*%s*\n", escape.Replace(b.Subject))
	for _, it := range b.Items {
		fmt.Fprintf(&text, "• %s\n", escape.Replace(it))
	}
	fmt.Fprintf(&text, "<%s|%s>", escape.Replace(b.Link), escape.Replace(b.Button))
	return text.String()
}
