package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// listFixture is a service over rows that a test writes itself. Sealed secrets are reversed text.
type listFixture struct {
	*webhook.Webhooks
	t     *testing.T
	db    *postgres.DB
	owner id.Org
}

// labels stands for the accounts: each has a label.
type labels struct{}

func (labels) Get(context.Context, id.Org, id.Account) (account.Account, error) {
	return account.Account{}, nil
}

func (labels) Labels(_ context.Context, _ id.Org, accounts []id.Account) (map[id.Account]string, error) {
	found := map[id.Account]string{}
	for _, one := range accounts {
		found[one] = "label of " + string(one)
	}
	return found, nil
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// backwards stands for the sealer.
type backwards struct{}

func (backwards) Prepare(context.Context, id.Org, string) error { return nil }

func (backwards) Seal(_ context.Context, _ seal.Address, text secret.String) ([]byte, error) {
	return []byte(reversed(text.Reveal())), nil
}

func (backwards) Open(_ context.Context, at seal.Address, sealed []byte) (secret.String, error) {
	if at.Version != 1 && at.Version != 2 || at.Purpose != seal.PurposeWebhook {
		return secret.String{}, errors.New("sealed for something else")
	}
	return secret.New(reversed(string(sealed))), nil
}

func newListFixture(t *testing.T) *listFixture {
	t.Helper()
	r := &listFixture{t: t, db: testenv.Postgres(t)}
	r.owner = testenv.AddOrg(t, r.db)
	log := slog.New(slog.DiscardHandler)
	if _, err := postgres.NewDays(r.db, "webhook_delivery", log).Upkeep(t.Context(), 1, 2, 31); err != nil {
		t.Fatal(err)
	}
	store := event.New(event.Deps{DB: r.db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: log, Now: clock.Now})
	must.OK(t, store.Upkeep(t.Context()))
	r.Webhooks = webhook.New(webhook.Deps{DB: r.db, Accounts: labels{}, Events: store, Seal: backwards{}, Log: log, Now: clock.Now})
	return r
}

// head writes the sequence of an account's last event.
func (r *listFixture) head(at id.Account, seq int64) {
	r.t.Helper()
	r.exec(`INSERT INTO event_source (org_id, source, bucket, last_seq, last_at) VALUES ($1, $2, 0, $3, now())`, r.owner, at, seq)
}

func (r *listFixture) stored(at id.Account, of id.Event, ago time.Duration, body string) {
	r.t.Helper()
	r.exec(`INSERT INTO event (at, seq, org_id, source, id, kind, upstream_id, body) VALUES ($1, 1, $2, $3, $4, 'message', '', $5)`,
		time.Now().Add(-ago), r.owner, at, of, []byte(body))
}

func (r *listFixture) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Pool().Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

// hook adds an account with a webhook. lane is empty for a webhook that keeps up.
func (r *listFixture) hook(lane, key string) id.Account {
	r.t.Helper()
	at := id.New[id.Account]()
	r.exec(`INSERT INTO account (org_id, id, upstream_id, label, state, state_changed_at, username, display_name, avatar_url, region, reference_id,
		remember_credentials, created_at, session_version, sealed_version, sign_in, attempt_id, attempt_kind)
		VALUES ($1, $2, $2, 'l', 'active', now(), 'u', 'd', '', 'us', '', false, now(), 1, 1, 1, '', '')`, r.owner, at)
	r.exec(`INSERT INTO webhook (org_id, account_id, bucket, url, ordering, max_in_flight, secret_version, secret, secret_last4, start_seq, gen, test_at, created_at, updated_at)
		VALUES ($1, $2, 0, 'https://x.test/' || $2::text, 'strict', 1, 1, $3, $4, 0, 1, now(), now(), now())`, r.owner, at, []byte(reversed(key)), key[len(key)-4:])
	if lane != "" {
		r.exec(`INSERT INTO webhook_lane (org_id, account_id, bucket, gen, state, cursor, fail_since, reason, updated_at)
			VALUES ($1, $2, 0, 1, $3, 0, now(), 'failing', now())`, r.owner, at, lane)
	}
	return at
}

func (r *listFixture) deliver(at id.Account, of id.Event, ago time.Duration, status int) id.Delivery {
	r.t.Helper()
	one := id.New[id.Delivery]()
	r.exec(`INSERT INTO webhook_delivery (at, seq, took_us, attempt, status, delivered, org_id, account_id, id, event_id, kind, cause, error, snippet)
		VALUES ($1, 1, 1, 1, $2, $3, $4, $5, $6, $7, 'message', 'live', '', '')`, time.Now().Add(-ago), status, status == 200, r.owner, at, one, of)
	return one
}

const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Webhooks are listed by state and page by page, with their last delivery, and only those that the reader may see.
func TestWebhooksAreListedByState(t *testing.T) {
	t.Parallel()
	r := newListFixture(t)
	of := map[webhook.State][]id.Account{}
	for lane, state := range map[string]webhook.State{"": webhook.Healthy, "lagging": webhook.Healthy, "draining": webhook.Healthy, "backoff": webhook.Failing, "paused": webhook.Paused, "disabled": webhook.Disabled} {
		for range 3 {
			at := r.hook(lane, key)
			of[state] = append(of[state], at)
			of[""] = append(of[""], at)
		}
	}
	failing := of[webhook.Failing][0]
	r.deliver(failing, "evt_1", 2*time.Hour, 200)
	r.deliver(failing, "evt_2", time.Hour, 503)
	all := webhook.Reader{Org: r.owner, Days: 30}
	for state, want := range of {
		slices.Sort(want)
		var got []id.Account
		for after := id.Account(""); ; {
			page, next, err := r.List(t.Context(), all, webhook.ListFilter{State: state}, after, 2)
			must.OK(t, err)
			for _, row := range page {
				got = append(got, row.Account)
				if row.Label != "label of "+string(row.Account) || !strings.HasSuffix(row.URL, string(row.Account)) || state != "" && webhook.StateOf(row.Health.State) != state {
					t.Errorf("%+v", row)
				}
			}
			if after = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", state, got, want)
		}
	}
	page, _, err := r.List(t.Context(), webhook.Reader{Org: r.owner, Accounts: []id.Account{failing}, Days: 30}, webhook.ListFilter{}, "", 10)
	if err != nil || len(page) != 1 || page[0].Health.LastStatus != 503 || page[0].Health.FailingSince.IsZero() ||
		time.Since(page[0].Health.LastSuccess).Round(time.Hour) != 2*time.Hour {
		t.Errorf("%+v %v", page, err)
	}
	counts, err := r.CountByState(t.Context(), all)
	if err != nil || counts[webhook.Healthy] != 9 || counts[webhook.Failing] != 3 || counts[webhook.Paused] != 3 || counts[webhook.Disabled] != 3 {
		t.Errorf("%v %v", counts, err)
	}
	byURL, err := r.CountByURL(t.Context(), all, "", 100)
	must.OK(t, err)
	listed := 0
	for _, one := range byURL {
		same, _, err := r.List(t.Context(), all, webhook.ListFilter{URL: one.URL}, "", 100)
		must.OK(t, err)
		if listed += one.Webhooks; len(same) != one.Webhooks {
			t.Errorf("%d webhooks have the URL %s, want %d", len(same), one.URL, one.Webhooks)
		}
	}
	if every, _, err := r.List(t.Context(), all, webhook.ListFilter{}, "", 100); err != nil || listed != len(every) || listed == 0 {
		t.Errorf("%d webhooks are counted by URL, want %d: %v", listed, len(every), err)
	}
	if found, _, err := r.List(t.Context(), all, webhook.ListFilter{Query: "no such text", Named: []id.Account{failing}}, "", 10); err != nil || len(found) != 1 {
		t.Errorf("a search by name finds %+v %v", found, err)
	}
	if found, _, err := r.List(t.Context(), all, webhook.ListFilter{Query: strings.ToUpper(byURL[0].URL)}, "", 100); err != nil || len(found) < byURL[0].Webhooks {
		t.Errorf("a search by URL finds %+v %v", found, err)
	}
	none, _, err := r.List(t.Context(), webhook.Reader{Org: id.New[id.Org](), Days: 30}, webhook.ListFilter{}, "", 10)
	if err != nil || len(none) != 0 {
		t.Errorf("another organisation sees %v %v", none, err)
	}
	states, err := r.States(t.Context(), r.owner, []id.Account{failing, of[webhook.Healthy][0], id.New[id.Account]()})
	if err != nil || len(states) != 2 || states[failing] != "failing" {
		t.Errorf("%v %v", states, err)
	}
}

// Failing, disabled and lagging webhooks are listed and counted together: they need attention.
func TestWebhooksThatNeedAttentionAreListedTogether(t *testing.T) {
	t.Parallel()
	r := newListFixture(t)
	var want, lagging []id.Account
	for _, lane := range []string{"", "draining", "paused", "backoff", "disabled", "lagging"} {
		at := r.hook(lane, key)
		if lane == "backoff" || lane == "disabled" || lane == "lagging" {
			want = append(want, at)
		}
		if lane == "lagging" {
			lagging = append(lagging, at)
		}
	}
	all := webhook.Reader{Org: r.owner, Days: 30}
	for state, want := range map[webhook.State][]id.Account{webhook.Attention: want, webhook.Lagging: lagging} {
		page, _, err := r.List(t.Context(), all, webhook.ListFilter{State: state}, "", 10)
		must.OK(t, err)
		var got []id.Account
		for _, row := range page {
			got = append(got, row.Account)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	counts, err := r.CountByState(t.Context(), all)
	if err != nil || counts[webhook.Attention] != 3 || counts[webhook.Lagging] != 1 || counts[webhook.Healthy] != 3 {
		t.Errorf("%v %v", counts, err)
	}
}

// Events wait for webhooks that fail, are disabled or lag, also those that were set aside. A paused one must not deliver, and one without a lane has
// caught up.
func TestWaitingCountsEventsThatAreDue(t *testing.T) {
	t.Parallel()
	r := newListFixture(t)
	for lane, head := range map[string]int64{"": 1, "paused": 10, "backoff": 100, "disabled": 1000, "lagging": 10_000, "draining": 100_000} {
		r.head(r.hook(lane, key), head)
	}
	r.hook("backoff", key) // without an event yet
	for _, lane := range []string{"draining", "paused"} {
		_, err := r.db.Pool().Exec(t.Context(), `INSERT INTO webhook_errand (org_id, account_id, id, bucket, kind, from_seq, to_seq, cursor, tries, since, next_at)
			SELECT org_id, account_id, 'whr_1', 0, 'retry', 1, 1, 0, 3, now() - interval '1 hour', now() FROM webhook_lane WHERE org_id = $1 AND state = $2`, r.owner, lane)
		must.OK(t, err)
	}
	if b, err := r.Backlog(t.Context(), r.owner); err != nil || b.Events != 111_101 || b.Lag < 3600 {
		t.Errorf("%+v waits, %v; want 111101 events for at least an hour", b, err)
	}
	if b, err := r.Backlog(t.Context(), id.New[id.Org]()); err != nil || b != (webhook.Backlog{}) {
		t.Errorf("%+v waits for another organisation, %v", b, err)
	}
}

// Deliveries are found by id and by event while they are kept, and only by readers who may see them.
func TestDeliveriesAreFound(t *testing.T) {
	t.Parallel()
	r := newListFixture(t)
	at, other := r.hook("", key), r.hook("", key)
	mine, theirs := id.New[id.Event](), id.New[id.Event]()
	r.stored(at, mine, time.Minute, "{}")
	r.stored(other, theirs, 0, "{}")
	var made []id.Delivery
	for i := range 5 {
		made = append(made, r.deliver(at, mine, time.Duration(5-i)*time.Second, 503))
	}
	foreign := r.deliver(other, theirs, 0, 200)
	all, limited := webhook.Reader{Org: r.owner, Days: 30}, webhook.Reader{Org: r.owner, Accounts: []id.Account{at}, Days: 30}
	if d, err := r.FindDelivery(t.Context(), limited, made[2]); err != nil || d.ID != made[2] || d.Account != at || d.Status != 503 {
		t.Errorf("%+v %v", d, err)
	}
	for name, c := range map[string]struct {
		r   webhook.Reader
		one id.Delivery
	}{
		"of another account": {limited, foreign}, "of another org": {webhook.Reader{Org: id.New[id.Org](), Days: 30}, foreign}, "unknown": {all, id.New[id.Delivery]()},
		"too old": {webhook.Reader{Org: r.owner, Days: 0}, made[0]},
	} {
		_, err := r.FindDelivery(t.Context(), c.r, c.one)
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.DeliveryNotFound.Code {
			t.Errorf("%s: %v", name, err)
		}
	}
	var got []id.Delivery
	var after webhook.Position
	for {
		list, next, err := r.DeliveriesOf(t.Context(), all, []id.Event{mine, theirs, id.New[id.Event]()}, after, 4)
		must.OK(t, err)
		for _, d := range list {
			got = append(got, d.ID)
		}
		if after = next; next.At.IsZero() {
			break
		}
	}
	slices.Reverse(made)
	if want := append([]id.Delivery{foreign}, made...); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if list, _, err := r.DeliveriesOf(t.Context(), limited, []id.Event{theirs}, webhook.Position{}, 4); err != nil || len(list) != 0 {
		t.Errorf("of another account: %v %v", list, err)
	}
}

// A signature is checked against the secrets of the account that the request is about, and the body against the event
// as it was sent.
func TestSignaturesAreChecked(t *testing.T) {
	t.Parallel()
	r := newListFixture(t)
	const otherKey = "whsec_AAAABBBBCCCCDDDDEEEEFFFF"
	at, other := r.hook("", key), r.hook("", otherKey)
	r.exec(`UPDATE webhook SET previous = $3, previous_version = 2, previous_until = now() WHERE org_id = $1 AND account_id = $2`, r.owner, at, []byte(reversed("whsec_before_before")))
	ev := id.New[id.Event]()
	body := fmt.Sprintf(`{"id":%q,"event":"message","accountId":%q,"data":{}}`, ev, at)
	r.stored(at, ev, 0, body)
	signed := func(with, body string) map[string]string {
		whole, _ := sign.New(secret.New(with)).Sign("", 0, []byte(body))
		return map[string]string{"X-Webhook-Signature": whole}
	}
	all, limited := webhook.Reader{Org: r.owner, Days: 30}, webhook.Reader{Org: r.owner, Accounts: []id.Account{at}, Days: 30}
	for name, c := range map[string]struct {
		r       webhook.Reader
		q       webhook.Question
		verdict sign.Verdict
		whose   id.Account
	}{
		"by the body alone":         {all, webhook.Question{Body: []byte(body), Header: signed(key, body)}, sign.Match, at},
		"by the account":            {all, webhook.Question{Account: at, Body: []byte("{}"), Header: signed(key, "{}")}, sign.Match, at},
		"a changed body":            {all, webhook.Question{Event: ev, Body: []byte("{}"), Header: signed(key, body)}, sign.BodyChanged, at},
		"the previous secret":       {all, webhook.Question{Account: at, Body: []byte(body), Header: signed(key, body), Secret: secret.New("whsec_before_before")}, sign.PreviousSecret, at},
		"another's secret":          {all, webhook.Question{Account: at, Body: []byte(body), Header: signed(key, body), Secret: secret.New(otherKey)}, sign.OtherAccount, at},
		"another's, not visible":    {limited, webhook.Question{Account: at, Body: []byte(body), Header: signed(key, body), Secret: secret.New(otherKey)}, sign.WrongSecret, at},
		"sent to the wrong account": {all, webhook.Question{Account: other, Body: []byte(body), Header: signed(key, body)}, sign.OtherAccount, other},
		"only a secret":             {all, webhook.Question{Body: []byte("x"), Header: signed("some secret of theirs", "x"), Secret: secret.New("some secret of theirs")}, sign.Match, ""},
		"the event in a header":     {all, webhook.Question{Body: []byte("{}"), Header: map[string]string{"X-Webhook-Id": string(ev), "X-Webhook-Signature": signed(key, body)["X-Webhook-Signature"]}}, sign.BodyChanged, at},
		"an event too old to read":  {all, webhook.Question{Account: at, Body: []byte(body), Header: signed(key, body), Since: time.Now().Add(time.Hour)}, sign.Match, at},
		"an event of an invisible account": {
			webhook.Reader{Org: r.owner, Accounts: []id.Account{other}, Days: 30}, webhook.Question{Account: other, Body: []byte(body), Header: signed(key, body)}, sign.WrongSecret, other,
		},
	} {
		a, err := r.CheckSignature(t.Context(), c.r, c.q)
		if err != nil || a.Verdict != c.verdict || a.Account != c.whose {
			t.Errorf("%s: verdict %s for account %s, %v", name, a.Verdict, a.Account, err)
		}
	}
	for name, c := range map[string]struct {
		q    webhook.Question
		kind problem.Kind
	}{
		"nothing to go by": {webhook.Question{Body: []byte("{}")}, problem.ValidationFailed},
		"an unknown event": {webhook.Question{Event: id.New[id.Event]()}, problem.EventNotFound},
		"no webhook":       {webhook.Question{Account: id.New[id.Account]()}, problem.WebhookNotFound},
	} {
		_, err := r.CheckSignature(t.Context(), all, c.q)
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != c.kind.Code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
