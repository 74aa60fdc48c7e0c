package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Question is a request whose signature is to be checked.
type Question struct {
	// Account and Event may be empty; the request then names them.
	Account id.Account
	Event   id.Event
	Body    []byte
	Header  map[string]string
	// Secret is the one that the receiver uses; empty if the caller does not give it.
	Secret secret.String
	// At is when the request was received; zero means now.
	At time.Time
	// Since is how far back the caller may read events.
	Since time.Time
}

// Answer explains why a signature matches or does not.
type Answer struct {
	sign.Finding
	// Account is the account whose webhook was used, Event the stored event that the body was compared with. Both may
	// be empty.
	Account id.Account
	Event   id.Event
}

// CheckSignature finds out why a signature matches or does not. It keeps nothing of the question.
func (w *Webhooks) CheckSignature(ctx context.Context, r Reader, q Question) (Answer, error) {
	said := readClaims(&q)
	stored, err := w.storedEvent(ctx, r, q, said)
	if err != nil {
		return Answer{}, err
	}
	e := sign.Evidence{Body: q.Body, Header: q.Header, Given: q.Secret, At: q.At}
	if e.At.IsZero() {
		e.At = w.deps.Now()
	}
	var a Answer
	// The caller names the account, or else the stored event does, or else the body.
	a.Account = q.Account
	others := []id.Account{said.account}
	if stored != nil {
		a.Event, e.Sent = stored.ID, stored.Body
		others = append(others, id.Account(stored.Source))
	}
	for _, one := range []id.Account{others[len(others)-1], said.account} {
		if a.Account == "" && r.canSee(one) {
			a.Account = one
		}
	}
	if err := w.addSecrets(ctx, r.Org, a.Account, q.Account != "", &e); err != nil {
		return Answer{}, err
	}
	if e.Current.Empty() && q.Secret.Empty() {
		return Answer{}, problem.ValidationFailed.New("It is not clear whose webhook this is about.").
			At("/accountId", "required", "give accountId, the eventId of a stored event, or the secret")
	}
	if e.Others, err = w.otherSecrets(ctx, r, a.Account, q.Secret, others); err != nil {
		return Answer{}, err
	}
	a.Finding = sign.Check(e)
	return a, nil
}

// claims are the event and the account that a request names.
type claims struct {
	event   id.Event
	account id.Account
}

func readClaims(q *Question) (s claims) {
	var body struct {
		ID        string `json:"id"`
		AccountID string `json:"accountId"`
	}
	_ = json.Unmarshal(q.Body, &body) // A body that is not JSON names nothing.
	s.event = q.Event
	if s.event == "" {
		for name, value := range q.Header {
			if n := sign.NormalizeHeader(name); n == "webhook-id" || n == "x-webhook-id" {
				body.ID = value
			}
		}
		s.event, _ = id.Parse[id.Event](body.ID)
	}
	s.account, _ = id.Parse[id.Account](body.AccountID)
	return s
}

// storedEvent returns the event that the request is about; nil if it is not stored or the caller may not see it. It is
// an error if the caller names an event that is not found.
func (w *Webhooks) storedEvent(ctx context.Context, r Reader, q Question, said claims) (*event.Stored, error) {
	if said.event != "" {
		found, err := w.deps.Events.FindAny(ctx, r.Org, []id.Event{said.event})
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && r.canSee(id.Account(found[0].Source)) && !found[0].At.Before(q.Since) {
			return &found[0], nil
		}
	}
	if q.Event != "" {
		return nil, problem.EventNotFound.New("The organisation has no event with this id.")
	}
	return nil, nil //nolint:nilnil // Most tests and ephemeral events are not stored.
}

// addSecrets adds the secrets of the account's webhook. It is an error if the caller names an account without one.
func (w *Webhooks) addSecrets(ctx context.Context, org id.Org, account id.Account, named bool, e *sign.Evidence) error {
	if account == "" {
		return nil
	}
	r, err := getRecord(ctx, w.deps.DB, org, account)
	switch {
	case errors.Is(err, errNoWebhook()) && !named:
		return nil
	case err != nil:
		return err
	}
	if e.Current, err = w.openUnlessShredded(ctx, &r, r.SecretVersion, r.Secret); err != nil {
		return err
	}
	if r.Previous != nil {
		e.Previous, err = w.openUnlessShredded(ctx, &r, r.PreviousVersion, r.Previous)
	}
	return err
}

// otherSecrets returns the secrets of other accounts that may have signed the request, of those that the caller may see.
func (w *Webhooks) otherSecrets(ctx context.Context, r Reader, but id.Account, given secret.String, accounts []id.Account) ([]sign.Owned, error) {
	var list []sign.Owned
	for _, account := range accounts {
		if account == "" || account == but || !r.canSee(account) {
			continue
		}
		var e sign.Evidence
		if err := w.addSecrets(ctx, r.Org, account, false, &e); err != nil {
			return nil, err
		}
		if !e.Current.Empty() {
			list = append(list, sign.Owned{Account: string(account), Secret: e.Current})
		}
	}
	text := given.Reveal()
	if len(text) < lastShown {
		return list, nil
	}
	alike, err := secretsEndingIn(ctx, w.deps.DB, r.Org, text[len(text)-lastShown:], but)
	if err != nil {
		return nil, err
	}
	for i := range alike {
		one := &alike[i]
		if !r.canSee(id.Account(one.Account)) {
			continue
		}
		opened, err := w.openUnlessShredded(ctx, one, one.SecretVersion, one.Secret)
		if err != nil {
			return nil, err
		}
		list = append(list, sign.Owned{Account: one.Account, Secret: opened})
	}
	return list, nil
}

// openUnlessShredded opens a secret of a webhook. It is empty if the account's key has been destroyed.
func (w *Webhooks) openUnlessShredded(ctx context.Context, r *record, version int64, sealed []byte) (secret.String, error) {
	text, err := w.deps.Seal.Open(ctx, w.sealAddress(r.Org, r.Account, version), sealed)
	if errors.Is(err, seal.ErrShredded) {
		return secret.String{}, nil
	}
	return text, sealProblem(err)
}
