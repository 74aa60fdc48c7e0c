package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail/internal/db"
)

// Queue is the River queue of mails.
const Queue = "mail"

const (
	// sendTimeout bounds one try; leaseFor is how long no other worker tries, so that no two send the same mail.
	sendTimeout = time.Minute
	leaseFor    = 2 * time.Minute
	// maxTries is more than there are tries before the last mail expires.
	maxTries = 200
	// firstRetry is the pause after the first try that failed. It doubles up to maxRetry.
	firstRetry = 10 * time.Second
	maxRetry   = time.Hour
)

// enqueuer adds a job to the queue in a transaction; implemented by *river.Client[pgx.Tx].
type enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// sendArgs identify a mail to be sent.
type sendArgs struct {
	Org  id.Org  `json:"org"`
	Mail id.Mail `json:"mail"`
}

func (sendArgs) Kind() string { return "send_mail" }

func (o *Outbox) enqueue(ctx context.Context, tx postgres.Tx, owner id.Org, which id.Mail) error {
	if _, err := o.deps.Queue.InsertTx(ctx, tx, sendArgs{owner, which}, &river.InsertOpts{Queue: Queue, MaxAttempts: maxTries}); err != nil {
		return fmt.Errorf("enqueue %s: %w", which, err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[sendArgs]
	outbox *Outbox
}

// Timeout leaves time to note the result of a try.
func (*worker) Timeout(*river.Job[sendArgs]) time.Duration { return leaseFor - 10*time.Second }

// NextRetry returns when a mail is tried again.
func (*worker) NextRetry(job *river.Job[sendArgs]) time.Time {
	return clock.Now().Add(retryAfter(len(job.Errors)))
}

// retryAfter returns the pause after a number of tries that failed.
func retryAfter(tries int) time.Duration {
	return min(firstRetry<<min(max(tries-1, 0), 16), maxRetry)
}

// Work sends one mail.
func (w *worker) Work(ctx context.Context, job *river.Job[sendArgs]) error {
	ctx = postgres.WithOrg(ctx, job.Args.Org)
	err := w.outbox.Send(ctx, job.Args.Org, job.Args.Mail)
	if errors.Is(err, ErrTaken) {
		return river.JobSnooze(leaseFor)
	}
	return err
}

// Register adds this package's worker.
func Register(workers *river.Workers, o *Outbox) { river.AddWorker(workers, &worker{outbox: o}) }

// ErrTaken means that another worker is sending the mail.
var ErrTaken = errors.New("another worker is sending the mail")

var errNoServer = errors.New("the service has no mail server any more")

// Send sends a queued mail. It returns nil when the mail is over: sent, refused for good or expired. After any other error
// it must be called again.
func (o *Outbox) Send(ctx context.Context, org id.Org, which id.Mail) error {
	q := db.New(o.deps.DB)
	now, err := o.deps.DB.Now(ctx, o.deps.DB)
	if err != nil {
		return err
	}
	until := now.Add(leaseFor)
	row, err := q.Take(ctx, db.TakeParams{OrgID: org, ID: which, Now: &now, Until: &until})
	if errors.Is(err, postgres.ErrNoRows) {
		return o.checkOver(ctx, org, which)
	}
	if err != nil {
		return err
	}
	if !now.Before(row.ExpiresAt) {
		return o.fail(ctx, org, which, row.Kind, "expired")
	}
	err = o.handOver(ctx, org, which, row)
	refused, final := errors.AsType[*smtp.RefusedError](err)
	switch {
	case err == nil:
		o.tries.WithLabelValues(row.Kind, sentOutcome).Inc()
		_, err = q.Finish(ctx, db.FinishParams{OrgID: org, ID: which, State: "sent"})
		return err
	case final:
		return o.fail(ctx, org, which, row.Kind, refused.Error())
	}
	o.tries.WithLabelValues(row.Kind, retryOutcome).Inc()
	o.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot send mail", slog.String(logkey.OrgID, string(org)),
		slog.String(logkey.Kind, row.Kind), slog.Any(logkey.Error, err))
	return errors.Join(err, q.Release(ctx, db.ReleaseParams{OrgID: org, ID: which}))
}

// checkOver returns nil if a mail is over or was deleted, and ErrTaken if another worker has it.
func (o *Outbox) checkOver(ctx context.Context, org id.Org, which id.Mail) error {
	row, err := db.New(o.deps.DB).State(ctx, db.StateParams{OrgID: org, ID: which})
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return nil
	case err == nil && row.State == "queued":
		return ErrTaken
	}
	return err
}

func (o *Outbox) handOver(ctx context.Context, org id.Org, which id.Mail, row db.TakeRow) error {
	if !o.IsConfigured() {
		return errNoServer
	}
	text, err := o.deps.Seal.OpenBytes(ctx, address(org, which), row.Sealed)
	if err != nil {
		return fmt.Errorf("open a mail: %w", err)
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("read a mail: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return o.deps.Sender.Send(ctx, smtp.Mail{
		ID: string(which), To: c.To, Subject: c.Subject, Text: c.Text, HTML: c.HTML, Unsubscribe: c.Unsubscribe, At: row.CreatedAt,
	})
}

// actionFail is the action in the audit log for a mail that cannot be sent.
const actionFail = "mail.fail"

// fail ends a mail that cannot be sent, and tells the organisation in its audit log.
func (o *Outbox) fail(ctx context.Context, org id.Org, which id.Mail, kind, reason string) error {
	o.tries.WithLabelValues(kind, failedOutcome).Inc()
	return o.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		n, err := db.New(tx).Finish(ctx, db.FinishParams{OrgID: org, ID: which, State: "failed", Reason: reason})
		if err != nil || n == 0 {
			return err
		}
		by := audit.By{Kind: audit.ActorSystem, ID: "mail", Label: "mail", Action: actionFail}
		return o.deps.Audit.Record(ctx, tx, org, by, string(which), audit.Changes{"reason": {To: reason}})
	})
}

// trimBatch is how many rows one statement deletes.
const trimBatch = 1000

// Trim deletes the mails of all organisations after KeepDays, and subjects that no longer limit anything.
func (o *Outbox) Trim(ctx context.Context) error {
	now, err := o.deps.DB.Now(ctx, o.deps.DB)
	if err != nil {
		return err
	}
	q := db.New(o.deps.DB)
	for n := int64(trimBatch); err == nil && n == trimBatch; {
		n, err = q.Trim(ctx, db.TrimParams{Before: now.AddDate(0, 0, -KeepDays), MaxRows: trimBatch})
	}
	for n := int64(trimBatch); err == nil && n == trimBatch; {
		n, err = q.TrimSubjects(ctx, db.TrimSubjectsParams{Before: now.Add(-time.Hour), MaxRows: trimBatch})
	}
	return err
}
