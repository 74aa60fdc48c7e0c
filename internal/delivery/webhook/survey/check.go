package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Question is a request whose signature somebody wonders about.
type Question struct {
	// Account and Event may be empty; they are then found by what the request says.
	Account id.Account
	Event   id.Event
	Body    []byte
	Header  map[string]string
	// Secret is the one that the receiver uses; empty if it is not told.
	Secret secret.String
	// At is when it was received; zero for now.
	At time.Time
	// Since is from when on the caller may read events.
	Since time.Time
}

// Answer is why the signature does or does not match.
type Answer struct {
	sign.Finding
	// Account is whose webhook the request was held against, and Event the event that its body was compared with; empty if there is none.
	Account id.Account
	Event   id.Event
}

// Check finds out why a signature does or does not match. Nothing of the question is kept.
func (s *Survey) Check(ctx context.Context, r Reader, q Question) (Answer, error) {
	said := read(&q)
	stored, err := s.stored(ctx, r, q, said)
	if err != nil {
		return Answer{}, err
	}
	e := sign.Evidence{Body: q.Body, Header: q.Header, Given: q.Secret, At: q.At}
	if e.At.IsZero() {
		e.At = s.Now()
	}
	var a Answer
	// Whose it is: what the caller says, else what the event says, else what the body says of itself.
	a.Account = q.Account
	others := []id.Account{said.account}
	if stored != nil {
		a.Event, e.Sent = stored.ID, stored.Body
		others = append(others, id.Account(stored.Source))
	}
	for _, one := range []id.Account{others[len(others)-1], said.account} {
		if a.Account == "" && r.sees(one) {
			a.Account = one
		}
	}
	if err := s.own(ctx, r.Org, a.Account, q.Account != "", &e); err != nil {
		return Answer{}, err
	}
	if e.Current.Empty() && q.Secret.Empty() {
		return Answer{}, problem.ValidationFailed.New("It is not clear whose webhook this is about.").
			At("/accountId", "required", "give accountId, the eventId of a stored event, or the secret")
	}
	if e.Others, err = s.others(ctx, r, a.Account, q.Secret, others); err != nil {
		return Answer{}, err
	}
	a.Finding = sign.Check(e)
	return a, nil
}

// said is what a request tells of itself.
type said struct {
	event   id.Event
	account id.Account
}

func read(q *Question) (s said) {
	var body struct {
		ID        string `json:"id"`
		AccountID string `json:"accountId"`
	}
	_ = json.Unmarshal(q.Body, &body) // a body that is not JSON says nothing
	s.event = q.Event
	if s.event == "" {
		for name, value := range q.Header {
			if n := sign.Normal(name); n == "webhook-id" || n == "x-webhook-id" {
				body.ID = value
			}
		}
		s.event, _ = id.Parse[id.Event](body.ID)
	}
	s.account, _ = id.Parse[id.Account](body.AccountID)
	return s
}

// stored is the event that the request is about; nil if it is not stored, or the caller may not see it. One that the caller names must be
// there.
func (s *Survey) stored(ctx context.Context, r Reader, q Question, said said) (*event.Stored, error) {
	if said.event != "" {
		found, err := s.Events.FindAny(ctx, r.Org, []id.Event{said.event})
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && r.sees(id.Account(found[0].Source)) && !found[0].At.Before(q.Since) {
			return &found[0], nil
		}
	}
	if q.Event != "" {
		return nil, problem.EventNotFound.New("The organisation has no event with this id.")
	}
	return nil, nil //nolint:nilnil // most tests and ephemeral events are not stored
}

// own adds the secrets of the account's webhook. One that the caller names must have a webhook.
func (s *Survey) own(ctx context.Context, org id.Org, account id.Account, named bool, e *sign.Evidence) error {
	if account == "" {
		return nil
	}
	row, err := secrets(ctx, s.DB.Pool(), org, account)
	if err != nil || row == nil {
		if err == nil && named {
			err = problem.WebhookNotFound.New("The account has no webhook.")
		}
		return err
	}
	if e.Current, err = s.open(ctx, org, account, row.version, row.secret); err != nil {
		return err
	}
	if row.previous != nil {
		e.Previous, err = s.open(ctx, org, account, row.previousVersion, row.previous)
	}
	return err
}

// others are the secrets of other accounts that the request may have been signed with, as far as the caller may know of them.
func (s *Survey) others(ctx context.Context, r Reader, but id.Account, given secret.String, accounts []id.Account) ([]sign.Owned, error) {
	var list []sign.Owned
	for _, account := range accounts {
		if account == "" || account == but || !r.sees(account) {
			continue
		}
		var e sign.Evidence
		if err := s.own(ctx, r.Org, account, false, &e); err != nil {
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
	alike, err := secretsLike(ctx, s.DB.Pool(), r.Org, text[len(text)-lastShown:], but)
	if err != nil {
		return nil, err
	}
	for _, row := range alike {
		if !r.sees(row.account) {
			continue
		}
		opened, err := s.open(ctx, r.Org, row.account, row.version, row.secret)
		if err != nil {
			return nil, err
		}
		list = append(list, sign.Owned{Account: string(row.account), Secret: opened})
	}
	return list, nil
}

// lastShown is how much of a secret is stored as it is.
const lastShown = 4

// open opens a secret. That of an account which is being disconnected is gone.
func (s *Survey) open(ctx context.Context, org id.Org, account id.Account, version int64, sealed []byte) (secret.String, error) {
	text, err := s.Seal.Open(ctx, seal.Address{Org: org, Holder: string(account), Purpose: seal.PurposeWebhook, Version: version}, sealed)
	switch {
	case errors.Is(err, seal.ErrShredded):
		return secret.String{}, nil
	case errors.Is(err, seal.ErrUnavailable):
		return secret.String{}, problem.ServiceUnavailable.New("The keys of this account cannot be read now.").After(5).Because(err)
	case err != nil:
		return secret.String{}, fmt.Errorf("open a webhook's secret: %w", err)
	}
	return text, nil
}
