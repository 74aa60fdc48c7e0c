package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// testsPerMinute limits the tests of one webhook: a customer could otherwise send many requests to someone else's URL.
const testsPerMinute = 10

// Tested is the result of a test.
type Tested struct {
	Delivered bool
	// Status is 0 if there was no response.
	Status  int
	Took    time.Duration
	Snippet string
	// Reason says in words why there was no response; empty if there was one.
	Reason string
}

// testSnippet is how many bytes of the response are shown.
const testSnippet = 512

// Test sends a test event to an account's webhook, signed like any other, and returns the response. The delivery is
// logged, and not retried.
func (w *Webhooks) Test(ctx context.Context, by audit.By, org id.Org, account id.Account) (Tested, error) {
	if err := w.maySendTest(ctx, org); err != nil {
		return Tested{}, err
	}
	a, err := w.deps.Accounts.Get(ctx, org, account)
	if err != nil {
		return Tested{}, err
	}
	r, err := w.admitTest(ctx, by, org, account)
	if err != nil {
		return Tested{}, err
	}
	return w.sendTest(ctx, by, &r, event.Envelope{
		Account: string(account), Meta: event.Meta{OfUserID: a.UpstreamID, ReferenceID: a.ReferenceID, Sandbox: a.Environment.IsTest()},
	})
}

func (w *Webhooks) maySendTest(ctx context.Context, org id.Org) error {
	if err := w.deps.Switches.Refuse(switches.Webhooks); err != nil {
		return err
	}
	return w.deps.Permits.Permit(ctx, org)
}

// sendTest sends a test event to a webhook. The envelope has its account, if any, and meta.
func (w *Webhooks) sendTest(ctx context.Context, by audit.By, r *record, envelope event.Envelope) (Tested, error) {
	hook, gone, err := w.buildHook(ctx, r, 0)
	if gone {
		return Tested{}, sealProblem(seal.ErrShredded)
	}
	if err != nil {
		return Tested{}, sealProblem(err)
	}
	test := contract.Test{Message: "This is a test: nothing has happened on the platform.", RequestID: by.Request}
	data, err := json.Marshal(test)
	if err != nil {
		return Tested{}, fmt.Errorf("encode a test: %w", err)
	}
	source := cmp.Or(envelope.Account, string(r.Org))
	ev := event.Stored{Org: r.Org, Source: source, ID: id.New[id.Event](), Kind: test.Kind(), At: w.deps.Now()}
	envelope.ID, envelope.Kind, envelope.At, envelope.Data = ev.ID, ev.Kind, ev.At, data
	ev.Body = event.AppendEnvelope(nil, &envelope)
	result, answer := w.post(ctx, endpointOf(hook), &ev, deliveryMeta{attempt: 1})
	if result.Aborted {
		if err := context.Cause(ctx); err != nil {
			return Tested{}, fmt.Errorf("test the webhook of %s: %w", r.Account, err)
		}
		return Tested{}, problem.ServiceUnavailable.New("The service could not send the test. Try again.").After(2)
	}
	d := Delivery{
		ID: id.New[id.Delivery](), Org: r.Org, Endpoint: endpointOf(hook).id, Account: accountOf(&ev), At: w.deps.Now(), Event: ev.ID, Kind: ev.Kind, Attempt: 1,
		Status: result.Status, Took: result.Took, Error: result.Failure, Cause: CauseTest, Delivered: lane.Classify(result) == lane.Delivered,
	}
	shown := snippet(answer.Body, testSnippet)
	if !d.Delivered {
		d.Snippet = shown
		w.sealSnippet(ctx, &d)
	}
	w.log.add(&d)
	w.flushLog(ctx) // a node that only serves the API does not flush otherwise
	return Tested{Delivered: d.Delivered, Status: result.Status, Took: result.Took, Snippet: shown, Reason: answer.Reason}, nil
}

// admitTest counts a test, or refuses it if there were too many: a leaky bucket in the webhook's row.
func (w *Webhooks) admitTest(ctx context.Context, by audit.By, org id.Org, account id.Account) (r record, err error) {
	err = w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var exists bool
		if r, exists, err = lockRecord(ctx, tx, org, account); err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		now := w.deps.Now()
		level, err := r.addTest(now)
		if err != nil {
			return err
		}
		if err := setTest(ctx, tx, &r, level, now); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, org, by, string(account), audit.Changes{})
	})
	return r, err
}

// addTest returns the level of the leaky bucket after one more test, or refuses the test.
func (r *record) addTest(now time.Time) (float64, error) {
	level := max(r.TestLevel-now.Sub(r.TestAt).Minutes()*testsPerMinute, 0)
	if level+1 > testsPerMinute {
		wait := time.Duration((level + 1 - testsPerMinute) / testsPerMinute * float64(time.Minute))
		d := admission.Denial{Reason: "webhook_test_rpm", Wait: wait, Limit: testsPerMinute, Current: int(level)}
		return 0, d.Problem()
	}
	return level + 1, nil
}
