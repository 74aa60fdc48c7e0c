package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// record is a row of the table attempt: the attempt, and what is stored with it.
type record struct {
	attempt.Attempt
	// place is where the creator signs in.
	place driver.Place
	// login is a keyed hash of the login (loginHash); nil if it is unknown.
	login     []byte
	returnURL string
	// sealed holds secrets and input a submitted code, both sealed under the attempt's data key. sealedVersion is the
	// version that sealed was sealed for.
	sealed        []byte
	sealedVersion int64
	input         []byte
	consent       Consent
	// oauthState and oauthBrowser are hashes of the state with which the creator comes back from the platform, and of the
	// browser's cookie; nil before the creator was sent there.
	oauthState, oauthBrowser []byte
	starter                  starter
	// named marks the account settings that the caller gave.
	named account.Named
	// after runs once the change is committed.
	after []account.AfterCommit
}

func insertRow(ctx context.Context, tx postgres.Tx, r record) error {
	consent, err := json.Marshal(r.consent)
	if err != nil {
		return fmt.Errorf("encode consent: %w", err)
	}
	by, err := json.Marshal(r.starter)
	if err != nil {
		return fmt.Errorf("encode starter: %w", err)
	}
	err = db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: r.Org, ID: r.ID, Version: r.Version, Kind: r.Kind, State: r.State, Progress: r.Progress, Login: r.login,
		AccountID: r.Account, Reconnect: r.Reconnect, SessionID: r.Session, Platform: r.place.Platform, Site: r.place.Site,
		SiteRoot: r.place.Root, SiteID: r.place.SiteID, Label: r.Label, Region: r.Region, Reference: r.Reference,
		Metadata: postgres.OrEmpty(r.Metadata), Remember: r.Remember, Named: namedTexts(r.named), ReturnUrl: r.returnURL, Step: r.Step,
		StepSeq: r.StepSeq, StepAt: timePointer(r.StepAt), Secrets: r.sealed,
		SecretsVersion: r.sealedVersion, Consent: consent, StartedBy: by, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Deadline: timePointer(r.Deadline), ExpiresAt: r.ExpiresAt, WakeAt: timePointer(r.Wake()),
	})
	if err != nil {
		return fmt.Errorf("insert attempt: %w", err)
	}
	return countStarted(ctx, tx, r)
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
	return db.New(tx).Update(ctx, db.UpdateParams{
		OrgID: r.Org, ID: r.ID, Version: r.Version, State: r.State, Progress: r.Progress, AccountID: r.Account,
		Channel: r.Channel, Available: available, Mask: r.Mask, ChallengeSent: r.Challenge.Sent,
		ChallengeExpiresAt: timePointer(r.Challenge.ExpiresAt),
		Challenges:         r.Challenges, Submissions: r.Submissions, Resends: r.Resends,
		ResendAt:    timePointer(r.ResendAt),
		QrExpiresAt: timePointer(r.QRExpiresAt), Step: r.Step, StepSeq: r.StepSeq, StepAt: timePointer(r.StepAt),
		Target: r.Target, Tries: r.Tries,
		RetryAt: timePointer(r.RetryAt), PollAt: timePointer(r.PollAt), Lease: r.Lease, LeaseEnd: timePointer(r.LeaseEnd),
		Sent:    r.Sent,
		Secrets: r.sealed, SecretsVersion: r.sealedVersion, Input: r.input, FailureCode: failure.Code,
		FailureAfter: failure.RetryAfter, UpstreamCode: numberOf(failure.UpstreamCode), UpstreamText: failure.UpstreamCode,
		UpstreamMessage: failure.UpstreamMessage,
		UpdatedAt:       r.UpdatedAt, Deadline: timePointer(r.Deadline), FinishedAt: timePointer(r.FinishedAt),
		WakeAt: timePointer(r.Wake()),
	})
}

func (c *Connects) get(ctx context.Context, org id.Org, at id.Attempt) (record, error) {
	row, err := db.New(c.deps.DB).Get(ctx, db.GetParams{OrgID: org, ID: at})
	return fromRow(row, err)
}

func lockAttempt(ctx context.Context, tx postgres.Tx, org id.Org, at id.Attempt) (record, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: at})
	return fromRow(row, err)
}

// numberOf returns a platform's error code as earlier versions of the server store it; 0 if it is not an integer.
func numberOf(code string) int32 {
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// codeOf returns the stored error code of the platform; empty if there is none.
func codeOf(row db.Attempt) string {
	if row.UpstreamText == "" && row.UpstreamCode != 0 {
		return strconv.Itoa(int(row.UpstreamCode))
	}
	return row.UpstreamText
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
		place: driver.Place{Platform: row.Platform, Site: row.Site, Root: row.SiteRoot, SiteID: row.SiteID},
		login: row.Login, returnURL: row.ReturnUrl, sealed: row.Secrets, sealedVersion: row.SecretsVersion, input: row.Input, named: namedFrom(row.Named),
		oauthState: row.OauthState, oauthBrowser: row.OauthBrowser,
		Attempt: attempt.Attempt{
			Org: row.OrgID, ID: row.ID, Version: row.Version, Kind: row.Kind, State: row.State, Progress: row.Progress,
			Account: row.AccountID, Reconnect: row.Reconnect, Session: row.SessionID, Label: row.Label,
			Region: row.Region, Reference: row.Reference, Remember: row.Remember, Metadata: row.Metadata,
			Challenge: attempt.Challenge{
				Channel: row.Channel, Available: row.Available, Mask: row.Mask, ExpiresAt: timeValue(row.ChallengeExpiresAt),
				Sent: row.ChallengeSent,
			},
			Challenges: row.Challenges, Submissions: row.Submissions, Resends: row.Resends, ResendAt: timeValue(row.ResendAt),
			QRExpiresAt: timeValue(row.QrExpiresAt), Step: row.Step, StepSeq: row.StepSeq, StepAt: timeValue(row.StepAt),
			Target: row.Target, Tries: row.Tries,
			RetryAt: timeValue(row.RetryAt), PollAt: timeValue(row.PollAt), Lease: row.Lease, LeaseEnd: timeValue(row.LeaseEnd),
			Sent:      row.Sent,
			CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Deadline: timeValue(row.Deadline), ExpiresAt: row.ExpiresAt,
			FinishedAt: timeValue(row.FinishedAt),
		},
	}
	if row.FailureCode != "" {
		r.Failure = &attempt.Failure{
			Code: row.FailureCode, RetryAfter: row.FailureAfter, UpstreamCode: codeOf(row),
			UpstreamMessage: row.UpstreamMessage,
		}
	}
	err := errors.Join(json.Unmarshal(row.Consent, &r.consent), json.Unmarshal(row.StartedBy, &r.starter))
	if err != nil {
		return record{}, fmt.Errorf("decode attempt %s: %w", row.ID, err)
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
