package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// record is a row of the table attempt: the attempt, and what is stored with it.
type record struct {
	attempt.Attempt
	// login is a keyed hash of the login (loginHash); nil if it is unknown.
	login     []byte
	returnURL string
	// sealed holds secrets and input a submitted code, both sealed under the attempt's data key. sealedVersion is the
	// version that sealed was sealed for.
	sealed        []byte
	sealedVersion int64
	input         []byte
	consent       Consent
	starter       starter
	// named marks the account settings that the caller gave.
	named account.Named
	// after runs once the change is committed.
	after []account.AfterCommit
}

func insertRow(ctx context.Context, tx postgres.Tx, r record) error {
	metadata, consent, by, err := r.documents()
	if err != nil {
		return err
	}
	err = db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: r.Org, ID: r.ID, Version: r.Version, Kind: string(r.Kind), State: string(r.State), Progress: string(r.Progress), Login: r.login,
		AccountID: r.Account, Reconnect: r.Reconnect, SessionID: r.Session, Label: r.Label, Region: r.Region, Reference: r.Reference,
		Metadata: metadata, Remember: r.Remember, Named: namedTexts(r.named), ReturnUrl: r.returnURL, Step: string(r.Step),
		StepSeq: r.StepSeq, StepAt: timePointer(r.StepAt), Secrets: r.sealed,
		SecretsVersion: r.sealedVersion, Consent: consent, StartedBy: by, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Deadline: timePointer(r.Deadline), ExpiresAt: r.ExpiresAt, WakeAt: timePointer(r.Wake()),
	})
	if err != nil {
		return fmt.Errorf("insert attempt: %w", err)
	}
	return countStarted(ctx, tx, r)
}

// documents encodes the JSON columns.
func (r record) documents() (metadata, consent, by json.RawMessage, err error) {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	metadata, err = json.Marshal(r.Metadata)
	if err == nil {
		consent, err = json.Marshal(r.consent)
	}
	if err == nil {
		by, err = json.Marshal(r.starter)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode attempt: %w", err)
	}
	return metadata, consent, by, nil
}

// updateRow writes all columns that can change. An ended attempt loses its secrets here.
func updateRow(ctx context.Context, tx postgres.Tx, r record) error {
	failure := attempt.Failure{}
	if r.Failure != nil {
		failure = *r.Failure
	}
	if r.State.Final() {
		r.sealed, r.input = nil, nil
	}
	available := r.Available
	if available == nil {
		available = []string{}
	}
	err := db.New(tx).Update(ctx, db.UpdateParams{
		OrgID: r.Org, ID: r.ID, Version: r.Version, State: string(r.State), Progress: string(r.Progress), AccountID: r.Account,
		Channel: r.Channel, Available: available, Mask: r.Mask, ChallengeSent: r.Challenge.Sent,
		ChallengeExpiresAt: timePointer(r.Challenge.ExpiresAt),
		Challenges:         int32(r.Challenges), Submissions: int32(r.Submissions), Resends: int32(r.Resends),
		ResendAt:    timePointer(r.ResendAt),
		QrExpiresAt: timePointer(r.QRExpiresAt), Step: string(r.Step), StepSeq: r.StepSeq, StepAt: timePointer(r.StepAt),
		Target: r.Target, Tries: int32(r.Tries),
		RetryAt: timePointer(r.RetryAt), PollAt: timePointer(r.PollAt), Lease: r.Lease, LeaseEnd: timePointer(r.LeaseEnd),
		Sent:    r.Sent,
		Secrets: r.sealed, SecretsVersion: r.sealedVersion, Input: r.input, FailureCode: failure.Code,
		FailureAfter: int64(failure.RetryAfter), UpstreamCode: int32(failure.UpstreamCode), UpstreamMessage: failure.UpstreamMessage,
		UpdatedAt: r.UpdatedAt, Deadline: timePointer(r.Deadline), FinishedAt: timePointer(r.FinishedAt),
		WakeAt: timePointer(r.Wake()),
	})
	if err != nil {
		return fmt.Errorf("update attempt: %w", err)
	}
	return nil
}

func (c *Connects) get(ctx context.Context, org id.Org, at id.Attempt) (record, error) {
	row, err := db.New(c.DB.Pool()).Get(ctx, db.GetParams{OrgID: org, ID: at})
	return fromRow(row, err)
}

func lockAttempt(ctx context.Context, tx postgres.Tx, org id.Org, at id.Attempt) (record, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: at})
	return fromRow(row, err)
}

// fromRow decodes a query's row. An attempt of another org, an old one and an unknown id are all not found.
func fromRow(row db.Attempt, err error) (record, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return record{}, problem.AttemptNotFound.New("There is no connect attempt with this id.")
	}
	if err != nil {
		return record{}, fmt.Errorf("read attempt: %w", err)
	}
	return decodeRow(row)
}

func decodeRow(row db.Attempt) (record, error) {
	r := record{
		login: row.Login, returnURL: row.ReturnUrl, sealed: row.Secrets, sealedVersion: row.SecretsVersion, input: row.Input, named: namedFrom(row.Named),
		Attempt: attempt.Attempt{
			Org: row.OrgID, ID: row.ID, Version: row.Version, Kind: attempt.Kind(row.Kind), State: attempt.State(row.State),
			Progress: attempt.Progress(row.Progress), Account: row.AccountID, Reconnect: row.Reconnect, Session: row.SessionID, Label: row.Label,
			Region: row.Region, Reference: row.Reference, Remember: row.Remember,
			Challenge: attempt.Challenge{
				Channel: row.Channel, Available: row.Available, Mask: row.Mask, ExpiresAt: timeValue(row.ChallengeExpiresAt),
				Sent: row.ChallengeSent,
			},
			Challenges: int(row.Challenges), Submissions: int(row.Submissions), Resends: int(row.Resends),
			ResendAt:    timeValue(row.ResendAt),
			QRExpiresAt: timeValue(row.QrExpiresAt), Step: attempt.Step(row.Step), StepSeq: row.StepSeq,
			StepAt: timeValue(row.StepAt), Target: row.Target, Tries: int(row.Tries),
			RetryAt: timeValue(row.RetryAt), PollAt: timeValue(row.PollAt), Lease: row.Lease, LeaseEnd: timeValue(row.LeaseEnd),
			Sent:      row.Sent,
			CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Deadline: timeValue(row.Deadline), ExpiresAt: row.ExpiresAt,
			FinishedAt: timeValue(row.FinishedAt),
		},
	}
	if row.FailureCode != "" {
		r.Failure = &attempt.Failure{
			Code: row.FailureCode, RetryAfter: time.Duration(row.FailureAfter), UpstreamCode: int(row.UpstreamCode), UpstreamMessage: row.UpstreamMessage,
		}
	}
	for text, into := range map[*json.RawMessage]any{&row.Metadata: &r.Metadata, &row.Consent: &r.consent, &row.StartedBy: &r.starter} {
		if err := json.Unmarshal(*text, into); err != nil {
			return record{}, fmt.Errorf("read attempt %s: %w", row.ID, err)
		}
	}
	return r, nil
}

// Names of the fields of account.Named in the column named.
const (
	namedRegion   = "proxy_country"
	namedLabel    = "label"
	namedMetadata = "metadata"
	namedRemember = "remember_credentials"
)

func namedTexts(n account.Named) []string {
	out := []string{}
	for _, one := range []struct {
		name string
		is   bool
	}{{namedRegion, n.Region}, {namedLabel, n.Label}, {namedMetadata, n.Metadata}, {namedRemember, n.Remember}} {
		if one.is {
			out = append(out, one.name)
		}
	}
	return out
}

func namedFrom(list []string) account.Named {
	return account.Named{
		Region: slices.Contains(list, namedRegion), Label: slices.Contains(list, namedLabel),
		Metadata: slices.Contains(list, namedMetadata), Remember: slices.Contains(list, namedRemember),
	}
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func timeValue(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
