package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// authenticator authenticates programs by a token, and browsers in which an operator is signed in. It implements
// endpoint.Authenticator.
type authenticator struct {
	operators *operator.Operators
	// wrong limits the wrong tokens of each source, across those of all sources together.
	wrong, across ratelimit.Pace
}

// Limits on wrong tokens per minute: from one source, and from all sources together.
const (
	wrongPerMinute = 60
	wrongOfAll     = 300
)

func newAuthenticator(operators *operator.Operators, now func() time.Time) *authenticator {
	return &authenticator{
		operators: operators,
		wrong:     ratelimit.New(wrongPerMinute, time.Minute, now), across: ratelimit.New(wrongOfAll, time.Minute, now),
	}
}

func (a *authenticator) Authenticate(ctx context.Context, token string) (endpoint.Identity, error) {
	source := endpoint.From(ctx).Origin.Source
	if a.guessing(source) {
		return endpoint.Identity{}, problem.QuotaExceeded.New("Too many wrong tokens were sent from this network. Try again later.").
			After(retryGuess).With("reason", "auth_failures").With("limit", wrongPerMinute).With("current", wrongPerMinute)
	}
	ok, err := a.operators.IsToken(ctx, secret.New(token))
	if err != nil {
		return endpoint.Identity{}, err
	}
	if !ok {
		a.missed(source)
		return endpoint.Identity{}, problem.KeyInvalid.New("This is not the operator token.")
	}
	return identityOf(operator.Program()), nil
}

// retryGuess is the number of seconds after which a source over its limit may try again.
const retryGuess = 2

// guessing reports whether a token from a source must be refused unread: the source has sent too many wrong tokens, or all
// sources together have and it sent some of them. A source that sent none is always served, so that others cannot lock an
// operator out.
func (a *authenticator) guessing(source string) bool {
	return a.wrong.Spent(source) || a.across.Spent("") && !a.wrong.Unused(source)
}

// missed records a wrong token from a source.
func (a *authenticator) missed(source string) {
	a.wrong.Take(source)
	a.across.Take("")
}

// identify authenticates a browser by its cookie. The role is that of this moment.
func (a *authenticator) identify(r *http.Request, value string) (endpoint.Identity, error) {
	who, err := a.operators.Find(r.Context(), secret.New(value))
	if err != nil {
		return endpoint.Identity{}, err
	}
	return identityOf(who), nil
}

func identityOf(who operator.Operator) endpoint.Identity {
	return endpoint.Identity{Scopes: who.Role.Scopes(), Kind: audit.ActorOperator, ID: who.ID, Label: who.Label}
}

// Refresh returns the identity unchanged: it is read for every request.
func (a *authenticator) Refresh(_ context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	return id, nil
}
