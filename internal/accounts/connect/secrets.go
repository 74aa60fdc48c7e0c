package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// secrets holds what an attempt must not reveal: the credentials, and the state of the sign-in on the platform.
type secrets struct {
	email, password secret.String
	// session is the encoded session of the signed-in creator; empty before.
	session secret.String
	// next continues the sign-in on the platform.
	next driver.Continuation
	// verifier proves to the platform that the authorization code is for us, code is the authorization code.
	verifier, code secret.String
	// qr and page are URLs of the platform: the one that the phone opens, and the page where the selfie is taken.
	qr, page secret.String
}

// storedSecrets is the JSON form of secrets that is sealed.
type storedSecrets struct {
	Email    string `json:"email,omitempty"`
	Password string `json:"password,omitempty"`
	Session  string `json:"session,omitempty"`
	Next     string `json:"next,omitempty"`
	QR       string `json:"qr,omitempty"`
	Page     string `json:"page,omitempty"`
	Verifier string `json:"verifier,omitempty"`
	Code     string `json:"code,omitempty"`
}

func (s secrets) encode() secret.String {
	text, err := json.Marshal(storedSecrets{
		s.email.Reveal(), s.password.Reveal(), s.session.Reveal(), s.next.Encode().Reveal(), s.qr.Reveal(), s.page.Reveal(),
		s.verifier.Reveal(), s.code.Reveal(),
	})
	if err != nil {
		panic("encode secrets: " + err.Error())
	}
	return secret.New(string(text))
}

var errSecrets = errors.New("unsealed secrets of an attempt cannot be decoded")

func decodeSecrets(text secret.String) (secrets, error) {
	var st storedSecrets
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return secrets{}, errSecrets
	}
	return secrets{
		email: secret.New(st.Email), password: secret.New(st.Password), session: secret.New(st.Session),
		next: driver.DecodeContinuation(secret.New(st.Next)), qr: secret.New(st.QR), page: secret.New(st.Page),
		verifier: secret.New(st.Verifier), code: secret.New(st.Code),
	}, nil
}

// holder returns the name of the data key of an attempt.
func holder(at id.Attempt) string { return string(at) }

// sealSecrets seals s as the next version of the row's secrets and sets it in r.
func (c *Connects) sealSecrets(ctx context.Context, r *record, s secrets) error {
	r.sealedVersion++
	sealed, err := c.deps.Seal.Seal(ctx, seal.Address{Org: r.Org, Holder: holder(r.ID), Purpose: seal.PurposeAttempt, Version: r.sealedVersion}, s.encode())
	if err != nil {
		return sealProblem(err)
	}
	r.sealed = sealed
	return nil
}

func (c *Connects) openSecrets(ctx context.Context, r record) (secrets, error) {
	text, err := c.deps.Seal.Open(ctx, seal.Address{Org: r.Org, Holder: holder(r.ID), Purpose: seal.PurposeAttempt, Version: r.sealedVersion}, r.sealed)
	if err != nil {
		return secrets{}, sealProblem(err)
	}
	return decodeSecrets(text)
}

func (c *Connects) sealInput(ctx context.Context, r record, step int64, input secret.String) ([]byte, error) {
	sealed, err := c.deps.Seal.Seal(ctx, seal.Address{Org: r.Org, Holder: holder(r.ID), Purpose: seal.PurposeInput, Version: step}, input)
	return sealed, sealProblem(err)
}

func (c *Connects) openInput(ctx context.Context, r record) (secret.String, error) {
	text, err := c.deps.Seal.Open(ctx, seal.Address{Org: r.Org, Holder: holder(r.ID), Purpose: seal.PurposeInput, Version: r.StepSeq}, r.input)
	return text, sealProblem(err)
}

// sealProblem converts an error of the sealer for the caller; nil stays nil.
func sealProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seal.ErrUnavailable):
		return problem.ConnectUnavailable.New(
			"Secrets cannot be encrypted right now, so no account can be connected.").After(5).Because(err)
	}
	return fmt.Errorf("seal an attempt: %w", err)
}
