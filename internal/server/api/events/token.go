package events

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

type tokenInput struct {
	ID string `path:"id" doc:"The account's id."`
}

type tokenOutput struct {
	Body struct {
		_         struct{}   `schema:"EventToken" doc:"A token with which a browser follows an account's events."`
		Token     string     `json:"token" doc:"Opens one stream of this account: GET /v1/accounts/{id}/events?token=…" sensitive:"true"`
		ExpiresAt stamp.Time `json:"expiresAt" doc:"The token must be used before this time, 60 seconds from now."`
	}
}

func (e *events) tokens(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "createEventToken", Method: http.MethodPost, Path: path + "/token", Tag: tag, Status: http.StatusCreated, Account: "id",
		Scope: scope.AccountsRead, Quota: admission.Plain, Unaudited: "its holder can do once, within a minute, what the key may do anyway",
		Problems: []problem.Kind{problem.AccountNotFound},
		Summary:  "Create a token for a browser",
		Description: "A browser cannot send a key with an EventSource, and must not have one. Create a token on your server and let the browser open the stream with `?token=`. " +
			"The token works once, within 60 seconds, for this account. The stream ends when the key that created the token is revoked or expires. Such responses have `Access-Control-Allow-Origin: *`.",
	}, e.token)
	endpoint.Plain(t, endpoint.Operation{
		ID: "preflightEvents", Method: http.MethodOptions, Path: path, Tag: tag, Status: http.StatusNoContent, Public: true,
		Unaudited: "it only says what a browser may send",
		Summary:   "Answer a CORS preflight request", Description: "Browsers send this request automatically before they open a stream with custom headers. It is allowed with `?token=`.",
	}, preflight)
}

func (e *events) token(ctx context.Context, in *tokenInput) (*tokenOutput, error) {
	at, err := e.findAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	token, expires, err := e.Streams.Token(ctx, endpoint.Caller(ctx), at)
	if err != nil {
		return nil, err
	}
	out := &tokenOutput{}
	out.Body.Token, out.Body.ExpiresAt = token.Reveal(), stamp.Time(expires)
	return out, nil
}

// ticket authenticates the token of a request. Any page may read the response: the holder of the token may see the
// events.
func (e *events) ticket(r *http.Request, token string) (endpoint.Identity, error) {
	h := endpoint.From(r.Context()).Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	at, err := endpoint.ParseAccount(r.PathValue("id"))
	if err != nil {
		return endpoint.Identity{}, err
	}
	p, err := e.Streams.Redeem(r.Context(), token, at, endpoint.From(r.Context()).Origin.Source)
	if err != nil {
		return endpoint.Identity{}, err
	}
	return endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey, ID: string(p.Key.ID), Label: p.Key.Label}, nil
}

func preflight(w http.ResponseWriter, r *http.Request) error {
	if h := w.Header(); r.URL.Query().Has(endpoint.TicketParameter) {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", http.MethodGet)
		h.Set("Access-Control-Allow-Headers", "Accept, Cache-Control, Last-Event-ID")
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
