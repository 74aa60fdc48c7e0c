// Package connect has the operations of the public API that connect accounts: attempts to sign in (connect.go), with
// sessions that were copied from a browser (import.go), as streams and QR codes (stream.go), links that creators open
// (links.go), and the connect funnel (funnel.go). The pages of the links are in server/connectpages.
package connect

import (
	"context"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Deps are the dependencies of the operations.
type Deps struct {
	Connects *connect.Connects
	Sessions *link.Sessions
	Accounts *account.Accounts
	Limits   *admission.Limiter
	// Permit is called before an attempt is sent to a stream. It returns the problem org-suspended.
	Permit func(ctx context.Context, org id.Org) error
	// ConnectURL is the address at which creators reach their pages, without a trailing slash.
	ConnectURL string
	// Regions lists the regions that an account can have.
	Regions   func() []string
	Platforms registry.Registry
	Now       func() time.Time
}

type operations struct {
	Deps
	// polls are the free polls of each attempt.
	polls ratelimit.Pace
}

// Common is the part of the input that all connect methods share.
type Common struct {
	Platform  string            `json:"platform,omitempty" maxLength:"32" doc:"The platform, from GET /v1/platforms. Default: its first one; a reconnect uses the account's."`
	Site      string            `json:"site,omitempty" maxLength:"2048" doc:"The https address of the creator's own site, for a platform with siteRequired. A reconnect uses the account's."`
	Label     *string           `json:"label,omitempty" maxLength:"120" doc:"Your own name for the account. Default: an account that is already connected keeps its label."`
	Region    string            `json:"proxy_country,omitempty" choices:"regions" doc:"The region through which all traffic of the account leaves. Default: the first one for a new account; an account that is already connected keeps its region."`
	Reference *string           `json:"reference_id,omitempty" maxLength:"255" doc:"Your own identifier for the creator. It is stored with the account."`
	Account   *string           `json:"account_id,omitempty" maxLength:"64" doc:"The account to reconnect. Default: the account that signs in is connected, or refreshed if it is already connected."`
	Supersede bool              `json:"supersede,omitempty" doc:"Cancel an open attempt for the same login instead of refusing the request."`
	Metadata  map[string]string `json:"metadata,omitempty" maxProperties:"16" doc:"Your own metadata: up to 16 names (1 to 40 characters) and values (up to 500 characters). Default: an account that is already connected keeps its metadata."`
}

type loginInput struct {
	endpoint.Prefer
	Body struct {
		Common
		AuthType string        `json:"auth_type,omitempty" enum:"credentials,mobile_app,oauth" default:"credentials" doc:"mobile_app: the creator approves on their own phone. oauth: the creator agrees on the platform's own page; open verification_page_url in their browser."`
		Email    string        `json:"email,omitempty" maxLength:"254" doc:"Required for credentials."`
		Password secret.String `json:"password,omitempty" maxLength:"1024" sensitive:"true" doc:"Required for credentials. It is encrypted immediately and destroyed when the attempt ends, unless remember_credentials is set."`
		Remember *bool         `json:"remember_credentials,omitempty" doc:"Store the credentials, encrypted, so that the account can sign in again automatically. Default: false for a new account; an account that is already connected keeps its setting."`
	}
}

type mobileInput struct {
	endpoint.Prefer
	Body struct {
		Common
		ReturnURL *string `json:"return_url,omitempty" maxLength:"2048" doc:"The address to which the creator's browser goes at the end."`
	}
}

type attemptOutput struct {
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	ETag       string `header:"ETag"`
	Status     int
	Body       *contract.Attempt
}

// AttemptRef is the path parameter of an attempt.
type AttemptRef struct {
	ID string `path:"attemptId" maxLength:"64" doc:"The attempt's id."`
}

type pollInput struct {
	endpoint.PreferOrQuery
	AttemptRef
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of your copy of the attempt. With wait, the response is held until the ETag changes."`
}

type submitInput struct {
	endpoint.Prefer
	AttemptRef
	Body struct {
		Code     *secret.String `json:"code,omitempty" maxLength:"64" sensitive:"true" doc:"The code, 1 to 16 digits or letters. Spaces and dashes are ignored."`
		Selfie   *bool          `json:"selfie_verification_completed,omitempty" doc:"True when the creator has taken the selfie. The platform is asked to confirm it."`
		Channel  *string        `json:"otp_channel,omitempty" enum:"sms,app,email,face" doc:"Switch to another channel from otp_channels_available."`
		Expected *string        `json:"expected_state,omitempty" maxLength:"64" doc:"The state that you expect the attempt to be in. The response is 409 if it is in another."`
	}
}

type waitInput struct {
	endpoint.Prefer
	AttemptRef
}

type attemptsInput struct {
	State     string `query:"state" enum:"pending,awaiting_mobile_session,needs_otp,needs_app_otp,needs_email,needs_face_otp,wrong_2fa_code_retry,completed_success,completed_failed" doc:"Only attempts in this state."`
	Kind      string `query:"kind" enum:"credentials,mobile_app,cookie,curl,token,oauth,reauth" doc:"Only attempts of this kind."`
	Reference string `query:"reference_id" maxLength:"255" doc:"Only attempts with this reference of yours."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The largest number of attempts to return."`
	Cursor    string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type attemptsOutput struct {
	Body struct {
		_          struct{}           `schema:"AttemptPage" doc:"A page of connect attempts."`
		Attempts   []contract.Attempt `json:"attempts" doc:"The attempts, the newest first."`
		NextCursor *string            `json:"nextCursor" doc:"Send it as cursor to get the next page; null on the last page."`
	}
}

type reauthInput struct {
	endpoint.Prefer
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body *struct {
		Supersede bool `json:"supersede,omitempty" doc:"Cancel an open attempt for this account instead of refusing the request."`
	}
}

var startProblems = []problem.Kind{
	problem.AttemptInProgress, problem.AccountNotFound, problem.AccountNotAllowedForKey, problem.ConnectUnavailable, problem.PlatformUnavailable,
	problem.ValidationFailed, problem.UnsafeURL, problem.InvalidRequest, problem.UpstreamUnavailable, problem.UpstreamTimeout,
}

// placedProblems are those of a start that names no site: the place is known, or the platform has no sites.
var placedProblems = slices.DeleteFunc(slices.Clone(startProblems), func(k problem.Kind) bool { return k == problem.UnsafeURL })

var attemptProblems = []problem.Kind{problem.AttemptNotFound, problem.InvalidRequest}

const tag = "Connect"

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := &operations{Deps: d, polls: ratelimit.New(freePolls, freePollsWithin, d.Now)}
	endpoint.Typed(t, endpoint.Operation{
		ID: "connectLogin", Method: http.MethodPost, Path: "/v1/connect/login", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.start", Timeout: endpoint.WaitTimeout, Problems: startProblems,
		Summary: "Connect with email and password, or by phone",
		Description: "Starts a sign-in and responds immediately. Poll `polling_url`, or hold this response with `Prefer: wait=N`. " +
			"Act on `next_actions`, not on a list of states. A login can have one open attempt.",
		Example: map[string]any{"email": "ok@sandbox.test", "password": "good", "label": "Luna", "proxy_country": "us"},
	}, a.connectLogin)
	endpoint.Typed(t, endpoint.Operation{
		ID: "connectMobile", Method: http.MethodPost, Path: "/v1/connect/mobile", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.start", Timeout: endpoint.WaitTimeout, Problems: placedProblems,
		Summary:     "Connect with the creator's phone",
		Description: "Opens a QR session that the creator approves on their own device. Neither you nor we see a password. Show `phone_url` as a QR code (`GET …/qr`) or as a link.",
		Example:     map[string]any{"label": "Luna", "proxy_country": "us"},
	}, a.connectMobile)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getAttempt", Method: http.MethodGet, Path: "/v1/connect/login/{attemptId}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Free, Timeout: endpoint.WaitTimeout, Problems: attemptProblems, Answer: contract.Attempt{}, Conditional: true,
		Summary: "Get an attempt",
		Description: "Returns an attempt of any kind, until seven days after its end. Send its ETag in If-None-Match to get 304 while nothing has changed, and " +
			"`?wait=25` to hold the response until something changes. Two polls per second and attempt are free. " +
			"The addresses of the creator's pages are null for a key without `accounts:write`.",
	}, a.getAttempt)
	endpoint.Typed(t, endpoint.Operation{
		ID: "submitAttempt", Method: http.MethodPut, Path: "/v1/connect/login/{attemptId}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsWrite, Quota: admission.Safety, Unaudited: "the attempt itself is the record", Timeout: endpoint.WaitTimeout,
		Problems: append([]problem.Kind{problem.AttemptCompleted, problem.AttemptStateConflict, problem.ValidationFailed}, attemptProblems...),
		Summary:  "Submit a code or confirm a selfie",
		Description: "Send exactly one of `code`, `selfie_verification_completed` and `otp_channel`. The response is held for up to 10 s until the platform has answered " +
			"(`Prefer: wait=N` changes the time). A wrong code leads to `wrong_2fa_code_retry`; the fifth ends the attempt.",
		Example: map[string]any{"code": "123 456"},
	}, a.submitAttempt)
	endpoint.Typed(t, endpoint.Operation{
		ID: "cancelAttempt", Method: http.MethodDelete, Path: "/v1/connect/login/{attemptId}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsWrite, Quota: admission.Safety, Audit: "connect.cancel", Problems: append([]problem.Kind{problem.AttemptCompleted}, attemptProblems...),
		Summary: "Cancel an attempt", Description: "Ends the attempt and destroys its secrets. Cancelling again changes nothing.",
	}, a.cancelAttempt)
	resendProblems := append([]problem.Kind{problem.AttemptCompleted, problem.AttemptStateConflict, problem.ResendTooSoon}, attemptProblems...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "resendCode", Method: http.MethodPost, Path: "/v1/connect/login/{attemptId}/resend", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Unaudited: "the attempt itself is the record", Timeout: endpoint.WaitTimeout, Problems: resendProblems,
		Summary: "Resend the code", Description: "Asks the platform to send its code again: at most three times, 30 s apart. Earlier codes stay valid.",
	}, a.resend)
	endpoint.Typed(t, endpoint.Operation{
		ID: "sendEmailToCreator", Method: http.MethodPost, Path: "/v1/connect/login/{attemptId}/send-email-to-creator", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Unaudited: "the attempt itself is the record", Timeout: endpoint.WaitTimeout, Problems: resendProblems,
		Summary: "Send the platform's email to the creator", Description: "In the state `needs_email` the platform waits for this call before it sends its email, so that the email arrives while the creator is there.",
	}, a.sendEmail)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listAttempts", Method: http.MethodGet, Path: "/v1/connect/attempts", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List attempts", Description: "Newest first. A key with `accountIds` sees the attempts of its accounts. A key without `accounts:write` does not see the addresses of pages.",
	}, a.listAttempts)
	endpoint.Typed(t, endpoint.Operation{
		ID: "reauthenticate", Method: http.MethodPost, Path: "/v1/accounts/{id}/reauthenticate", Tag: "Accounts", Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Audit: "account.reauthenticate", Timeout: endpoint.WaitTimeout,
		Problems: append([]problem.Kind{problem.CredentialsMissing}, placedProblems...),
		Summary:  "Sign in again with stored credentials", Description: "Starts an attempt of kind `reauth` with the stored credentials. It does not count towards the limit of attempts.",
		Example: map[string]any{},
	}, endpoint.OnAccount(a.reauthenticate))
	a.importRoutes(t)
	a.streamRoutes(t)
	a.linkRoutes(t)
}

// newStart returns a connect.Start with the fields that all connect methods share.
func (a *operations) newStart(ctx context.Context, kind attempt.Kind, in Common) (connect.Start, error) {
	s := connect.Start{
		Org: endpoint.Caller(ctx).Org, By: endpoint.By(ctx), Kind: kind, Platform: in.Platform, Site: in.Site, Label: in.Label, Region: in.Region, Supersede: in.Supersede, Metadata: in.Metadata,
		Reference: deref(in.Reference),
	}
	if in.Account != nil {
		at, err := endpoint.ParseAccount(*in.Account)
		if err != nil {
			return s, err
		}
		s.Account = at
	}
	if err := mayConnect(ctx, s.Account); err != nil {
		return s, err
	}
	bad := problem.ValidationFailed.New("The metadata has invalid values.")
	account.CheckMetadata(bad, "/metadata", in.Metadata)
	if len(bad.Fields) > 0 {
		return s, bad
	}
	return s, nil
}

func (a *operations) connectLogin(ctx context.Context, in *loginInput) (*attemptOutput, error) {
	kind := attempt.Credentials
	bad := problem.ValidationFailed.New("The sign-in has invalid values.")
	if in.Body.AuthType == string(attempt.Mobile) || in.Body.AuthType == string(attempt.OAuth) {
		kind = attempt.Kind(in.Body.AuthType)
		why := map[attempt.Kind]string{attempt.Mobile: "must be omitted when the creator approves on the phone", attempt.OAuth: "must be omitted for oauth"}
		unexpected := func(name string, given bool) {
			if given {
				bad.At("/"+name, "unexpected", why[kind])
			}
		}
		unexpected("email", in.Body.Email != "")
		unexpected("password", !in.Body.Password.Empty())
		unexpected("remember_credentials", deref(in.Body.Remember))
	} else {
		if parsed, err := mail.ParseAddress(in.Body.Email); err != nil || parsed.Address != in.Body.Email {
			bad.At("/email", "format", "must be the email address that the creator signs in with")
		}
		if in.Body.Password.Empty() {
			bad.At("/password", "required", "must be given for credentials")
		}
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	s, err := a.newStart(ctx, kind, in.Body.Common)
	if err != nil {
		return nil, err
	}
	s.Email, s.Password, s.Remember = secret.New(in.Body.Email), in.Body.Password, in.Body.Remember
	return a.startAttempt(ctx, s)
}

func (a *operations) connectMobile(ctx context.Context, in *mobileInput) (*attemptOutput, error) {
	s, err := a.newStart(ctx, attempt.Mobile, in.Body.Common)
	if err != nil {
		return nil, err
	}
	s.ReturnURL = deref(in.Body.ReturnURL)
	if err := link.CheckReturn(s.ReturnURL, s.Org.Environment); err != nil {
		return nil, err
	}
	return a.startAttempt(ctx, s)
}

// startAttempt starts an attempt and holds the response if the caller asks for it.
func (a *operations) startAttempt(ctx context.Context, s connect.Start) (*attemptOutput, error) {
	unless := time.Duration(0)
	if s.Kind == attempt.Mobile {
		unless = 2 * time.Second // Time for the platform to return the QR code.
	}
	wait, err := endpoint.Wait(ctx, unless)
	if err != nil {
		return nil, err
	}
	f, err := a.Connects.Start(ctx, s)
	if err == nil && wait > 0 {
		f, err = a.Connects.Verdict(ctx, s.Org.ID, f.ID, wait)
	}
	if err != nil {
		return nil, err
	}
	out := viewAttempt(ctx, f, http.StatusAccepted)
	out.Location, out.RetryAfter = *f.PollingURL, "2"
	return out, nil
}

// mayConnect returns a problem if the caller's key may not connect an account. A key that is limited to accounts cannot
// connect a new one, which would not be in its list.
func mayConnect(ctx context.Context, account id.Account) error {
	caller := endpoint.Caller(ctx)
	if caller.Key.Allow.Accounts != nil && account == "" {
		return problem.AccountNotAllowedForKey.New("This key is limited to certain accounts and cannot connect others. To reconnect one of them, send its id in account_id.")
	}
	return endpoint.MayUse(caller, account)
}

// visible returns an attempt as the caller may see it. Its capability URLs are enough to finish or cancel it without a
// key, so a key that cannot do that does not see them.
func visible(ctx context.Context, a contract.Attempt) contract.Attempt {
	if endpoint.From(ctx).Identity.Scopes.Has(scope.AccountsWrite) {
		return a
	}
	return a.WithoutLinks()
}

func viewAttempt(ctx context.Context, f connect.Found, status int) *attemptOutput {
	body := visible(ctx, f.Attempt)
	return &attemptOutput{Status: status, ETag: etag(f), Body: &body}
}

func etag(f connect.Found) string { return `"` + strconv.FormatInt(f.Version, 10) + `"` }

// FindAttempt parses the id of an attempt that the caller's key may see. A key that is limited to accounts sees only
// attempts for these accounts.
func FindAttempt(ctx context.Context, connects *connect.Connects, text string) (id.Attempt, error) {
	at, err := id.Parse[id.Attempt](text)
	if err != nil {
		return "", attemptNotFound()
	}
	caller := endpoint.Caller(ctx)
	if caller.Key.Allow.Accounts == nil {
		return at, nil
	}
	f, err := connects.Get(ctx, caller.Org.ID, at)
	if err != nil {
		return "", err
	}
	if f.About() == "" || !caller.Key.Allow.MayUse(f.About()) {
		return "", attemptNotFound()
	}
	return at, nil
}

func attemptNotFound() error {
	return problem.AttemptNotFound.New("There is no connect attempt with this id.")
}

func (a *operations) getAttempt(ctx context.Context, in *pollInput) (*attemptOutput, error) {
	at, err := FindAttempt(ctx, a.Connects, in.ID)
	if err != nil {
		return nil, err
	}
	wait, err := endpoint.Wait(ctx, 0)
	if err != nil {
		return nil, err
	}
	if err := a.countPoll(ctx, at); err != nil {
		return nil, err
	}
	org := endpoint.Caller(ctx).Org.ID
	f, err := a.Connects.Get(ctx, org, at)
	if err != nil {
		return nil, err
	}
	if wait > 0 && (in.IfNoneMatch == "" || endpoint.Matches(in.IfNoneMatch, etag(f))) {
		if f, err = a.Connects.Changed(ctx, org, at, f.Version, wait); err != nil {
			return nil, err
		}
	}
	out := viewAttempt(ctx, f, http.StatusOK)
	if endpoint.Matches(in.IfNoneMatch, out.ETag) {
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return out, nil
}

func (a *operations) submitAttempt(ctx context.Context, in *submitInput) (*attemptOutput, error) {
	at, err := FindAttempt(ctx, a.Connects, in.ID)
	if err != nil {
		return nil, err
	}
	wait, err := endpoint.Wait(ctx, 10*time.Second)
	if err != nil {
		return nil, err
	}
	var s connect.Submission
	given := 0
	if in.Body.Code != nil {
		given++
		if s.Code = *in.Body.Code; s.Code.Empty() {
			return nil, problem.ValidationFailed.New("The code is empty.").At("/code", "length", "must have 1 to 16 digits or letters")
		}
	}
	if in.Body.Selfie != nil {
		given++
		if s.Selfie = *in.Body.Selfie; !s.Selfie {
			return nil, problem.ValidationFailed.New("Only a completed selfie can be confirmed.").At("/selfie_verification_completed", "enum", "must be true")
		}
	}
	if in.Body.Channel != nil {
		given++
		s.Channel = *in.Body.Channel
	}
	if given != 1 {
		return nil, problem.ValidationFailed.New("Send exactly one of code, selfie_verification_completed and otp_channel.").At("", "oneOf", "must have exactly one of code, selfie_verification_completed, otp_channel")
	}
	if in.Body.Expected != nil {
		s.Expected = attempt.State(*in.Body.Expected)
	}
	org := endpoint.Caller(ctx).Org.ID
	f, err := a.Connects.Submit(ctx, org, at, s)
	if err == nil && wait > 0 {
		f, err = a.Connects.Verdict(ctx, org, at, wait)
	}
	if err != nil {
		return nil, err
	}
	return viewAttempt(ctx, f, http.StatusOK), nil
}

func (a *operations) cancelAttempt(ctx context.Context, in *AttemptRef) (*attemptOutput, error) {
	at, err := FindAttempt(ctx, a.Connects, in.ID)
	if err != nil {
		return nil, err
	}
	f, err := a.Connects.Cancel(ctx, endpoint.Caller(ctx).Org.ID, endpoint.By(ctx), at)
	if err != nil {
		return nil, err
	}
	return viewAttempt(ctx, f, http.StatusOK), nil
}

func (a *operations) resend(ctx context.Context, in *waitInput) (*attemptOutput, error) {
	return a.sendMessage(ctx, in, a.Connects.Resend)
}

func (a *operations) sendEmail(ctx context.Context, in *waitInput) (*attemptOutput, error) {
	return a.sendMessage(ctx, in, a.Connects.SendEmail)
}

// sendMessage asks the platform to send a message and waits a moment for its response.
func (a *operations) sendMessage(ctx context.Context, in *waitInput, do func(context.Context, id.Org, id.Attempt) (connect.Found, error)) (*attemptOutput, error) {
	at, err := FindAttempt(ctx, a.Connects, in.ID)
	if err != nil {
		return nil, err
	}
	wait, err := endpoint.Wait(ctx, 5*time.Second)
	if err != nil {
		return nil, err
	}
	org := endpoint.Caller(ctx).Org.ID
	f, err := do(ctx, org, at)
	if err == nil && wait > 0 {
		f, err = a.Connects.Verdict(ctx, org, at, wait)
	}
	if err != nil {
		return nil, err
	}
	return viewAttempt(ctx, f, http.StatusAccepted), nil
}

func (a *operations) listAttempts(ctx context.Context, in *attemptsInput) (*attemptsOutput, error) {
	caller := endpoint.Caller(ctx)
	f := connect.Filter{State: in.State, Kind: in.Kind, Reference: in.Reference, Accounts: caller.Key.Allow.Accounts, Limit: in.Limit + 1}
	if in.Cursor != "" {
		at, err := id.Parse[id.Attempt](in.Cursor)
		if err != nil {
			return nil, problem.InvalidRequest.New("The cursor is invalid. Use the nextCursor of an earlier page.").At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
		f.Before = at
	}
	found, err := a.Connects.List(ctx, caller.Org.ID, f)
	if err != nil {
		return nil, err
	}
	out := &attemptsOutput{}
	out.Body.Attempts = []contract.Attempt{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		last := found[in.Limit-1].AttemptID
		out.Body.NextCursor = &last
	}
	for _, one := range found {
		out.Body.Attempts = append(out.Body.Attempts, visible(ctx, one.Attempt))
	}
	return out, nil
}

func (a *operations) reauthenticate(ctx context.Context, at id.Account, in *reauthInput) (*attemptOutput, error) {
	wait, err := endpoint.Wait(ctx, 0)
	if err != nil {
		return nil, err
	}
	org := endpoint.Caller(ctx).Org
	f, err := a.Connects.Reauthenticate(ctx, org, endpoint.By(ctx), at, in.Body != nil && in.Body.Supersede)
	if err == nil && wait > 0 {
		f, err = a.Connects.Verdict(ctx, org.ID, f.ID, wait)
	}
	if err != nil {
		return nil, err
	}
	out := viewAttempt(ctx, f, http.StatusAccepted)
	out.Location, out.RetryAfter = *f.PollingURL, "2"
	return out, nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
