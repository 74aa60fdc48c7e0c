// Package accounts has the operations of the public API on accounts: reading, changing, pausing and disconnecting one
// (accounts.go), and listing them in one streamed response or page by page, as JSON or CSV (list.go, write.go).
package accounts

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Deps are the dependencies of the operations.
type Deps struct {
	Accounts *account.Accounts
	Health   *health.Health
	Webhooks *webhook.Webhooks
	Usage    *usage.Usage
	// ReceiptKeys returns the keys that verify receipts; *seal.Sealer implements it.
	ReceiptKeys func(context.Context) ([]seal.ReceiptKey, error)
	// OrgReceipt returns the receipt of an organisation that was destroyed; *org.Orgs implements it.
	OrgReceipt func(context.Context, id.Org) (json.RawMessage, error)
}

type accounts struct{ Deps }

type accountInput struct {
	ID string `path:"id" maxLength:"64" doc:"The account's id."`
}

type accountOutput struct {
	Body struct {
		_       struct{}         `schema:"AccountResponse" doc:"One account."`
		Account contract.Account `json:"account" doc:"The account."`
	}
}

type patchAccountInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		Label    *string            `json:"label,omitempty" maxLength:"120" doc:"Your own name for the account."`
		Region   *string            `json:"proxyCountry,omitempty" choices:"regions" doc:"The region through which all traffic of the account leaves from now on. The session is checked through it immediately."`
		Metadata *map[string]string `json:"metadata,omitempty" maxProperties:"16" doc:"Your own metadata. It replaces all existing metadata."`
		Remember *bool              `json:"rememberCredentials,omitempty" doc:"False destroys the stored credentials. True is rejected: connect the account again with its credentials."`
	}
}

type deletedOutput struct {
	Body struct {
		_       struct{} `schema:"AccountDisconnected" doc:"The result of disconnecting an account."`
		ID      string   `json:"id" doc:"The account's id."`
		Deleted bool     `json:"deleted" doc:"True: the account was disconnected, and its data is unreadable."`
	}
}

type accountMeOutput struct {
	Body struct {
		_  struct{}        `schema:"AccountMeResponse" doc:"The creator's profile."`
		Me json.RawMessage `json:"me" doc:"The creator's profile on the platform: the type Me of GET /v1/sdk/methods."`
	}
}

type receiptOutput struct {
	Body struct {
		_       struct{}        `schema:"PurgeReceipt" doc:"Proof that an account's secrets were destroyed."`
		Receipt json.RawMessage `json:"receipt" doc:"accountId, orgId, dataKeyId, purgedAt; covers lists what can no longer be read; keyring is separate if the keys were in a database of their own, so that no backup of other data has them, else shared; keyId is a key of GET /v1/receipt-keys; signature is Ed25519 over the other members in canonical JSON (RFC 8785), base64url."`
	}
}

type orgReceiptInput struct {
	ID string `path:"orgId" maxLength:"64" doc:"The organisation's id."`
}

type orgReceiptOutput struct {
	Body struct {
		_       struct{}        `schema:"OrgReceipt" doc:"Proof that everything of an organisation was destroyed."`
		Receipt json.RawMessage `json:"receipt" doc:"orgId, purgedAt; covers lists what was destroyed; keyring, keyId and signature are as in the receipt of an account."`
	}
}

type receiptKeysOutput struct {
	Body struct {
		_    struct{}         `schema:"ReceiptKeyList" doc:"The keys that verify receipts."`
		Keys []receiptKeyBody `json:"keys" doc:"The keys."`
	}
}

type receiptKeyBody struct {
	_         struct{}   `schema:"ReceiptKey" doc:"A key that verifies receipts."`
	ID        string     `json:"id" doc:"The keyId of receipts that were signed with it."`
	Algorithm string     `json:"algorithm" enum:"Ed25519" doc:"The algorithm of the signatures: Ed25519."`
	PublicKey string     `json:"publicKey" doc:"The 32 bytes of the public key, base64url."`
	CreatedAt stamp.Time `json:"createdAt" doc:"When the key was created."`
}

const (
	tag = "Accounts"
	// platformTimeout bounds operations that wait for the platform, which may be asked twice.
	platformTimeout = 40 * time.Second
)

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := &accounts{d}
	a.listRoute(t)
	notFound := []problem.Kind{problem.AccountNotFound}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getAccount", Method: http.MethodGet, Path: "/v1/accounts/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Account: "id", Problems: notFound,
		Summary: "Get an account", Description: "The state of the account: `state` and `stateReason` say what is wrong, `userAction` says what a person must do. This call does not contact the platform.",
	}, endpoint.OnAccount(a.getAccount))
	endpoint.Typed(t, endpoint.Operation{
		ID: "updateAccount", Method: http.MethodPatch, Path: "/v1/accounts/{id}", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Audit: "account.update", Problems: notFound,
		Summary: "Update an account", Description: "Changes the label, the region or the metadata, or deletes the credentials. Omitted fields stay unchanged. " +
			"After a change of region the platform may require the creator to sign in again; `state` shows it.",
		Example: map[string]any{"label": "Luna, main account", "metadata": map[string]string{"team": "west"}},
	}, endpoint.OnAccount(a.updateAccount))
	endpoint.Typed(t, endpoint.Operation{
		ID: "disconnectAccount", Method: http.MethodDelete, Path: "/v1/accounts/{id}", Tag: tag, Status: http.StatusOK, Timeout: platformTimeout, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Safety, Account: "id", Audit: "account.disconnect", Problems: notFound,
		Summary: "Disconnect an account", Description: "Ends the session on the platform if possible, cancels open attempts, and destroys the account's data key, so that data " +
			"encrypted with it can never be read again. After the response no call with the account can start on any server. The contents of its events and deliveries are deleted as well. The proof is at `GET /v1/accounts/{id}/purge-receipt`.",
	}, endpoint.OnAccount(a.disconnectAccount))
	endpoint.Typed(t, endpoint.Operation{
		ID: "getAccountMe", Method: http.MethodGet, Path: "/v1/accounts/{id}/me", Tag: tag, Status: http.StatusOK, Timeout: platformTimeout,
		Scope: scope.AccountsRead, Quota: admission.Read, Account: "id",
		Problems: append([]problem.Kind{
			problem.AccountDisconnected, problem.AccountPaused, problem.CredentialsNotAccepted, problem.UpstreamAccountRestricted,
			problem.AccountReauthenticating, problem.EgressUnavailable,
			problem.UpstreamRateLimited, problem.UpstreamUnavailable, problem.UpstreamTimeout, problem.UpstreamError, problem.UpstreamInvalidResponse, problem.UpstreamChanged,
		}, notFound...),
		Summary: "Get the creator's profile", Description: "Asks the platform, through the account's region, so a response proves that the session works. It counts as a read of the account. " +
			"410 means that the session was lost and a person must reconnect the account at `reconnect.url`.",
	}, endpoint.OnAccount(a.getAccountMe))
	endpoint.Typed(t, endpoint.Operation{
		ID: "pauseAccount", Method: http.MethodPost, Path: "/v1/accounts/{id}/pause", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Safety, Account: "id", Audit: "account.pause", Problems: notFound,
		Summary: "Pause an account", Description: "Calls are refused with `account-paused`, and nothing is sent to the platform, until the account is resumed. The session is kept. Pausing again changes nothing.",
	}, endpoint.OnAccount(a.pauseAccount))
	endpoint.Typed(t, endpoint.Operation{
		ID: "resumeAccount", Method: http.MethodPost, Path: "/v1/accounts/{id}/resume", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Audit: "account.resume", Problems: notFound,
		Summary: "Resume an account", Description: "The account becomes `connecting`, or `reconnect_required` if it lost its session while it was paused. Resuming an account that is not paused changes nothing.",
	}, endpoint.OnAccount(a.resumeAccount))
	endpoint.Typed(t, endpoint.Operation{
		ID: "getPurgeReceipt", Method: http.MethodGet, Path: "/v1/accounts/{id}/purge-receipt", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Account: "id", Problems: notFound,
		Summary: "Get the deletion receipt of an account", Description: "The signed receipt of a disconnected account. You can check it offline with the service's public receipt key. " +
			"The response is 404 while the account is connected or its deletion is in progress.",
	}, endpoint.OnAccount(a.getPurgeReceipt))
	endpoint.Typed(t, endpoint.Operation{
		ID: "listReceiptKeys", Method: http.MethodGet, Path: "/v1/receipt-keys", Tag: tag, Status: http.StatusOK, Public: true, Quota: admission.Free,
		Summary: "List the keys of receipts", Description: "The public keys that verify deletion receipts, including earlier ones. A receipt names its key in `keyId`. Its `signature` is Ed25519 over the receipt without `signature` in canonical JSON (RFC 8785), in base64url. No API key is needed.",
	}, a.listReceiptKeys)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getOrgReceipt", Method: http.MethodGet, Path: "/v1/org-receipts/{orgId}", Tag: tag, Status: http.StatusOK, Public: true, Quota: admission.Free,
		Problems: []problem.Kind{problem.OrgNotFound},
		Summary:  "Get the deletion receipt of an organisation", Description: "The signed receipt of an organisation that was destroyed. The response is 404 until that has ended. " +
			"Check it with a key of `GET /v1/receipt-keys`. No API key is needed, because the organisation has none any more.",
	}, a.getOrgReceipt)
}

func viewAccount(one account.Account, err error) (*accountOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &accountOutput{}
	out.Body.Account = one.View()
	return out, nil
}

func (a *accounts) getAccount(ctx context.Context, at id.Account, _ *accountInput) (*accountOutput, error) {
	return viewAccount(a.Accounts.Get(ctx, endpoint.Caller(ctx).Org.ID, at))
}

func (a *accounts) updateAccount(ctx context.Context, at id.Account, in *patchAccountInput) (*accountOutput, error) {
	change := account.Change{Label: in.Body.Label, Region: in.Body.Region, Metadata: in.Body.Metadata}
	if in.Body.Remember != nil {
		if *in.Body.Remember {
			return nil, problem.ValidationFailed.New("Credentials can only be stored when the account is connected.").
				At("/rememberCredentials", "enum", "must be false; connect the account again with remember_credentials to store them")
		}
		change.ForgetCredentials = true
	}
	return viewAccount(a.Accounts.Update(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, change))
}

func (a *accounts) disconnectAccount(ctx context.Context, at id.Account, in *accountInput) (*deletedOutput, error) {
	if err := a.Accounts.Disconnect(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at); err != nil {
		return nil, err
	}
	out := &deletedOutput{}
	out.Body.ID, out.Body.Deleted = in.ID, true
	return out, nil
}

func (a *accounts) getAccountMe(ctx context.Context, at id.Account, _ *accountInput) (*accountMeOutput, error) {
	me, err := a.Health.Profile(ctx, endpoint.Caller(ctx).Org.ID, at)
	if err != nil {
		return nil, err
	}
	out := &accountMeOutput{}
	out.Body.Me = me
	return out, nil
}

func (a *accounts) pauseAccount(ctx context.Context, at id.Account, _ *accountInput) (*accountOutput, error) {
	return viewAccount(a.Accounts.Pause(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, account.ReasonPausedByCaller))
}

func (a *accounts) resumeAccount(ctx context.Context, at id.Account, _ *accountInput) (*accountOutput, error) {
	return viewAccount(a.Accounts.Resume(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at))
}

func (a *accounts) getPurgeReceipt(ctx context.Context, at id.Account, _ *accountInput) (*receiptOutput, error) {
	receipt, err := a.Accounts.Receipt(ctx, endpoint.Caller(ctx).Org.ID, at)
	if err != nil {
		return nil, err
	}
	out := &receiptOutput{}
	out.Body.Receipt = receipt
	return out, nil
}

func (a *accounts) getOrgReceipt(ctx context.Context, in *orgReceiptInput) (*orgReceiptOutput, error) {
	of, err := id.Parse[id.Org](in.ID)
	if err != nil {
		return nil, problem.OrgNotFound.New("There is no receipt of an organisation with this id.")
	}
	out := &orgReceiptOutput{}
	out.Body.Receipt, err = a.OrgReceipt(ctx, of)
	return out, err
}

func (a *accounts) listReceiptKeys(ctx context.Context, _ *struct{}) (*receiptKeysOutput, error) {
	keys, err := a.ReceiptKeys(ctx)
	if err != nil {
		return nil, err
	}
	out := &receiptKeysOutput{}
	for _, k := range keys {
		out.Body.Keys = append(out.Body.Keys, receiptKeyBody{
			ID: k.Public.ID(), Algorithm: "Ed25519", PublicKey: k.Public.String(), CreatedAt: stamp.Time(k.CreatedAt),
		})
	}
	return out, nil
}
