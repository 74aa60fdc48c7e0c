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
	// Endpoint is the endpoint to which the request was sent, and Account the account to whose webhook. At most one of them
	// is set; without both, the request decides.
	Endpoint id.Endpoint
	Account  id.Account
	// Event may be empty; the request then names it.
	Event  id.Event
	Body   []byte
	Header map[string]string
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
	// Endpoint is the endpoint that was used, or Account the account whose webhook was, and Event the stored event that the
	// body was compared with. All may be empty.
	Endpoint id.Endpoint
	Account  id.Account
	Event    id.Event
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
	a := Answer{Endpoint: q.Endpoint, Account: q.Account}
	others := []id.Account{said.account}
	if stored != nil {
		a.Event, e.Sent = stored.ID, stored.Body
		others = append(others, id.Account(stored.Source))
	}
	endpoints, err := w.endpointSecrets(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	switch {
	case q.Endpoint != "":
		if !useEndpoint(endpoints, q.Endpoint, &e) {
			return Answer{}, errNoEndpoint()
		}
	case q.Account != "":
		err = w.addSecrets(ctx, r.Org, a.Account, true, &e)
		if errors.Is(err, errNoWebhook()) && len(endpoints) > 0 {
			err = problem.WebhookNotFound.New("The account has no webhook of its own. If the delivery was sent to an endpoint of the organisation, give endpointId instead of accountId.")
		}
	default:
		err = w.guessWebhook(ctx, r, endpoints, others, &e, &a)
	}
	if err != nil {
		return Answer{}, err
	}
	if e.Current.Empty() && q.Secret.Empty() {
		return Answer{}, problem.ValidationFailed.New("It is not clear which webhook this is about.").
			At("/accountId", "required", "give endpointId, accountId, the eventId of a stored event, or the secret")
	}
	if e.Others, err = w.otherSecrets(ctx, r, a.Account, q.Secret, others); err != nil {
		return Answer{}, err
	}
	for _, one := range endpoints {
		if one.id != a.Endpoint {
			e.Others = append(e.Others, sign.Owned{Endpoint: string(one.id), Secret: one.current})
		}
	}
	a.Finding = sign.Check(e)
	return a, nil
}

// endpointSecret has the secrets of an endpoint; previous is empty if there is none.
type endpointSecret struct {
	id                id.Endpoint
	current, previous secret.String
}

// endpointSecrets returns the secrets of the endpoints that the caller may use.
func (w *Webhooks) endpointSecrets(ctx context.Context, r Reader) ([]endpointSecret, error) {
	records, err := readEndpoints(ctx, w.deps.DB, r.Org, "")
	if err != nil {
		return nil, err
	}
	var list []endpointSecret
	for i := range records {
		one := &records[i]
		if !EndpointReader(r).mayUse(one.AccountIDs) {
			continue
		}
		var e sign.Evidence
		if err := w.openSecrets(ctx, &one.record, &e); err != nil {
			return nil, err
		}
		list = append(list, endpointSecret{one.ID, e.Current, e.Previous})
	}
	return list, nil
}

// useEndpoint adds the secrets of an endpoint. It returns false if there is no such endpoint.
func useEndpoint(among []endpointSecret, endpoint id.Endpoint, e *sign.Evidence) bool {
	for _, one := range among {
		if one.id == endpoint {
			e.Current, e.Previous = one.current, one.previous
			return true
		}
	}
	return false
}

// guessWebhook adds the secrets of the webhook that a request is about if the caller names none: an endpoint whose secret
// fits, or else the webhook of the account that the event or the body names, or else the only endpoint.
func (w *Webhooks) guessWebhook(ctx context.Context, r Reader, endpoints []endpointSecret, named []id.Account, e *sign.Evidence, a *Answer) error {
	for _, one := range endpoints {
		try := *e
		try.Current, try.Previous = one.current, one.previous
		fits := try.Given.Equal(one.current) || try.Given.Equal(one.previous)
		if try.Given.Empty() {
			verdict := sign.Check(try).Verdict
			fits = verdict == sign.Match || verdict == sign.TimestampOld || verdict == sign.PreviousSecret
		}
		if fits {
			a.Endpoint, *e = one.id, try
			return nil
		}
	}
	for _, one := range []id.Account{named[len(named)-1], named[0]} {
		if a.Account == "" && r.canSee(one) {
			a.Account = one
		}
	}
	if err := w.addSecrets(ctx, r.Org, a.Account, false, e); err != nil || !e.Current.Empty() || len(endpoints) != 1 {
		return err
	}
	a.Endpoint, a.Account = endpoints[0].id, ""
	useEndpoint(endpoints, a.Endpoint, e)
	return nil
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
	return w.openSecrets(ctx, &r, e)
}

// openSecrets adds the secrets of a webhook or an endpoint.
func (w *Webhooks) openSecrets(ctx context.Context, r *record, e *sign.Evidence) (err error) {
	if e.Current, err = w.openUnlessShredded(ctx, r, r.SecretVersion, r.Secret); err != nil {
		return err
	}
	if r.Previous != nil {
		e.Previous, err = w.openUnlessShredded(ctx, r, r.PreviousVersion, r.Previous)
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
