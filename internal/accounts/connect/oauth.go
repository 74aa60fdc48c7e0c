package connect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// statePrefix starts the state that comes back from a platform. The attempt's id and 256 random bits follow. Only a hash
// of it is stored.
const statePrefix = "st_"

// ErrOtherBrowser means that a creator came back from a platform in a browser that we did not send there. Either the
// address of the platform's page was forwarded, or the answer was. In both cases the account of one person would be
// connected for another, so nothing has changed.
var ErrOtherBrowser = errors.New("the browser is not the one that was sent to the platform")

// random returns 256 random bits as text. It is also a valid PKCE verifier.
func random() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func hashSecret(text secret.String) []byte {
	sum := sha256.Sum256([]byte(text.Reveal()))
	return sum[:]
}

// Authorize prepares an attempt for the creator's visit to the platform, and returns the address of the platform's page.
// browser is a secret that only the creator's browser has; Authorized requires it. consent is what the creator has agreed
// to on our page. Calling it again makes the previous address useless.
func (c *Connects) Authorize(ctx context.Context, link, browser secret.String, consent Consent) (secret.String, error) {
	if browser.Empty() {
		return secret.String{}, errors.New("authorize without a browser")
	}
	r, err := c.findByToken(ctx, link)
	if err != nil {
		return secret.String{}, err
	}
	platform, ok := c.deps.Platforms.Get(r.place.Platform)
	if !ok {
		return secret.String{}, registry.Unavailable(r.place.Platform)
	}
	name, _ := strings.CutPrefix(string(r.ID), "att_")
	state, verifier := secret.New(statePrefix+name+random()), secret.New(random())
	address, err := platform.Driver.AuthorizeURL(state, verifier)
	if errors.Is(err, driver.ErrNoOAuth) {
		return secret.String{}, registry.Unavailable(r.place.Platform).Because(err)
	}
	if err != nil {
		return secret.String{}, err
	}
	text, err := json.Marshal(consent)
	if err != nil {
		return secret.String{}, fmt.Errorf("encode consent: %w", err)
	}
	err = c.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if r, err = lockAttempt(ctx, tx, r.Org, r.ID); err != nil {
			return err
		}
		if r.State.Final() {
			return attempt.ErrFinished
		}
		if !r.AwaitsConsent() {
			return attempt.ErrState
		}
		if err := c.sealSecrets(ctx, &r, secrets{verifier: verifier}); err != nil {
			return err
		}
		if err := updateRow(ctx, tx, r); err != nil {
			return err
		}
		return db.New(tx).SetAuthorization(ctx, db.SetAuthorizationParams{
			OrgID: r.Org, ID: r.ID, OauthState: hashSecret(state), OauthBrowser: hashSecret(browser), Consent: text,
		})
	})
	if err != nil {
		return secret.String{}, refusalProblem(r, err, r.UpdatedAt)
	}
	return address, nil
}

// Return is what a creator's browser brings back from a platform.
type Return struct {
	State, Browser secret.String
	// Code is the authorization code, or Error the error code of RFC 6749. Exactly one is set.
	Code  secret.String
	Error string
}

// Authorized accepts a creator who comes back from the platform, and starts the step that exchanges the code. An error of
// the platform ends the attempt. It fails with session-not-found for an unknown state and with ErrOtherBrowser; then
// nothing has changed. A state that was used before returns the attempt as it is.
func (c *Connects) Authorized(ctx context.Context, back Return) (Paged, error) {
	r, err := c.findByState(ctx, back.State)
	if err != nil {
		return Paged{}, err
	}
	if back.Browser.Empty() || subtle.ConstantTimeCompare(r.oauthBrowser, hashSecret(back.Browser)) != 1 {
		return Paged{}, ErrOtherBrowser
	}
	known := r.oauthState
	r, now, err := c.tryChange(ctx, r.Org, r.ID, "", func(r *record, now time.Time) error {
		if !r.AwaitsConsent() || subtle.ConstantTimeCompare(r.oauthState, known) != 1 {
			return attempt.ErrState
		}
		if back.Error != "" {
			f := driver.AuthorizeError(back.Error)
			return r.Fail(failureOf(&f), now)
		}
		s, err := c.openSecrets(ctx, *r)
		if err != nil {
			return err
		}
		s.code = back.Code
		if err := c.sealSecrets(ctx, r, s); err != nil {
			return err
		}
		return r.Authorized(now)
	})
	switch {
	case errors.Is(err, attempt.ErrState), errors.Is(err, attempt.ErrFinished): // the creator reloaded the page
	case err != nil:
		return Paged{}, refusalProblem(r, err, now)
	default:
		c.afterCommit(ctx, r)
	}
	return c.pageView(ctx, r)
}

// findByState returns the attempt that a state belongs to. The query does not filter by org; the state proves that we
// issued it for this attempt.
func (c *Connects) findByState(ctx context.Context, state secret.String) (record, error) {
	text, ok := strings.CutPrefix(state.Reveal(), statePrefix)
	if !ok || len(text) <= nameLength {
		return record{}, errLink
	}
	at, err := id.Parse[id.Attempt]("att_" + text[:nameLength])
	if err != nil {
		return record{}, errLink
	}
	r, err := fromRow(db.New(c.deps.DB).Find(ctx, at))
	if err != nil {
		if errors.Is(err, problem.AttemptNotFound.New("")) {
			return record{}, errLink
		}
		return record{}, err
	}
	expired := !r.FinishedAt.IsZero() && c.deps.Now().Sub(r.FinishedAt) > linkLife
	if r.oauthState == nil || subtle.ConstantTimeCompare(r.oauthState, hashSecret(state)) != 1 || expired {
		return record{}, errLink
	}
	return r, nil
}
