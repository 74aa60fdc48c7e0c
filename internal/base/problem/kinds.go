package problem

import "net/http"

// catalogue holds every kind in the order of declaration. Calls of add in this file fill it while the package is
// initialised; it does not change afterwards.
var catalogue []Kind

func add(k Kind) Kind {
	catalogue = append(catalogue, k)
	return k
}

// All returns a copy of the catalogue.
func All() []Kind { return append([]Kind(nil), catalogue...) }

// Lookup finds a kind by its code.
func Lookup(code string) (Kind, bool) {
	for _, k := range catalogue {
		if k.Code == code {
			return k, true
		}
	}
	return Kind{}, false
}

// The request itself is wrong.
var (
	MalformedJSON        = add(Kind{"malformed-json", http.StatusBadRequest, "Malformed JSON", false, "Send one well-formed JSON value, in UTF-8, without repeated names."})
	InvalidRequest       = add(Kind{"invalid-request", http.StatusBadRequest, "Invalid request", false, "Correct the header, query parameter or cursor that the detail names."})
	RequestTimeout       = add(Kind{"request-timeout", http.StatusRequestTimeout, "Request took too long to arrive", true, "Send a JSON body within 10 seconds and without a pause of 3 seconds; do not pause an upload for 30 seconds."})
	RouteNotFound        = add(Kind{"route-not-found", http.StatusNotFound, "No such route", false, "Check the path against /v1/openapi.json."})
	MethodNotAllowed     = add(Kind{"method-not-allowed", http.StatusMethodNotAllowed, "Method not allowed", false, "Use one of the methods in the Allow header."})
	NotAcceptable        = add(Kind{"not-acceptable", http.StatusNotAcceptable, "Not acceptable", false, "Ask for a media type that the operation offers, or send no Accept header."})
	PayloadTooLarge      = add(Kind{"payload-too-large", http.StatusRequestEntityTooLarge, "Payload too large", false, "Send a body of at most limit bytes."})
	UnsupportedMediaType = add(Kind{"unsupported-media-type", http.StatusUnsupportedMediaType, "Unsupported media type", false, "Send the body as application/json, without a content encoding."})
	ValidationFailed     = add(Kind{"validation-failed", http.StatusUnprocessableEntity, "Validation failed", false, "Correct the fields that errors points at."})
	PreconditionFailed   = add(Kind{"precondition-failed", http.StatusPreconditionFailed, "Precondition failed", false, "Read the resource again and apply the change to its current version."})
)

// The caller is unknown, or may not do this.
var (
	KeyMissing               = add(Kind{"key-missing", http.StatusUnauthorized, "API key missing", false, "Send the header Authorization: Bearer <API_KEY>."})
	KeyInvalid               = add(Kind{"key-invalid", http.StatusUnauthorized, "API key invalid", false, "Check that you copied the whole key, and that it belongs to this service."})
	KeyRevoked               = add(Kind{"key-revoked", http.StatusUnauthorized, "API key revoked", false, "Use another key of the organisation, or create a new one."})
	KeyExpired               = add(Kind{"key-expired", http.StatusUnauthorized, "API key expired", false, "Create a new key."})
	PlanRequired             = add(Kind{"plan-required", http.StatusPaymentRequired, "Not included in the plan", false, "Change the plan, or stay within what it includes."})
	ScopeMissing             = add(Kind{"scope-missing", http.StatusForbidden, "Scope missing", false, "Use a key that has missingScope."})
	ScopeEscalation          = add(Kind{"scope-escalation", http.StatusForbidden, "Scope escalation refused", false, "Request only scopes that the calling key has."})
	MethodNotAllowedForKey   = add(Kind{"method-not-allowed-for-key", http.StatusForbidden, "Method not allowed for this key", false, "Use a key whose allow-list includes the method."})
	CredentialsNotAccepted   = add(Kind{"credentials-not-accepted", http.StatusForbidden, "Not possible with the account's credentials", false, "Connect the account with credentials from accepted, or call a method that its credentials can call."})
	AccountNotAllowedForKey  = add(Kind{"account-not-allowed-for-key", http.StatusForbidden, "Account not allowed for this key", false, "Use a key whose allow-list includes the account."})
	IPNotAllowed             = add(Kind{"ip-not-allowed", http.StatusForbidden, "Address not allowed for this key", false, "Call from one of the key's networks, or have its allowedIps changed."})
	OrgSuspended             = add(Kind{"org-suspended", http.StatusForbidden, "Organisation suspended", false, "Ask the operator of the service why. Keys and sessions are kept, and work again when the suspension ends."})
	SignedOut                = add(Kind{"signed-out", http.StatusUnauthorized, "Signed out", false, "Sign in again at /app/sign-in."})
	MembershipMissing        = add(Kind{"membership-missing", http.StatusForbidden, "Not a member", false, "Set Stagedoor-Org to an organisation that the person belongs to."})
	CrossOriginRefused       = add(Kind{"cross-origin-refused", http.StatusForbidden, "Request from another site refused", false, "Call from the dashboard's own pages, or use an API key instead of the cookie."})
	ReauthenticationRequired = add(Kind{"reauthentication-required", http.StatusForbidden, "Sign in again", false, "Sign in again at /app/sign-in?fresh=1, then repeat the request."})
	RoleRequired             = add(Kind{"role-required", http.StatusForbidden, "Role required", false, "Ask a member who has requiredRole."})
	ConsentRequired          = add(Kind{"consent-required", http.StatusForbidden, "Consent required", false, "Request access to the organisation, and wait until one of its owners grants it."})
	KeyEnded                 = add(Kind{"key-ended", http.StatusConflict, "The key has ended", false, "Create a new key."})
	KeySelfRevoke            = add(Kind{"key-self-revoke", http.StatusConflict, "A key cannot revoke itself", false, "Revoke it with another key of the organisation."})
)

// The object does not exist, or belongs to another organisation, which looks the same.
var (
	OrgNotFound      = add(Kind{"org-not-found", http.StatusNotFound, "No such organisation", false, "Check the id; operators list them with GET /admin/v1/orgs."})
	AccountNotFound  = add(Kind{"account-not-found", http.StatusNotFound, "No such account", false, "Check the id against GET /v1/accounts."})
	AttemptNotFound  = add(Kind{"attempt-not-found", http.StatusNotFound, "No such attempt", false, "Check the id; attempts can be read for 7 days after they end."})
	SessionNotFound  = add(Kind{"session-not-found", http.StatusNotFound, "No such connect session", false, "Check the id; create a new session with POST /v1/connect/sessions."})
	KeyNotFound      = add(Kind{"key-not-found", http.StatusNotFound, "No such API key", false, "Check the id against GET /v1/me/keys."})
	WebhookNotFound  = add(Kind{"webhook-not-found", http.StatusNotFound, "No webhook registered", false, "Register one with PUT /v1/accounts/{id}/webhook."})
	EndpointNotFound = add(Kind{"endpoint-not-found", http.StatusNotFound, "No such webhook endpoint", false, "Check the id against GET /v1/webhook-endpoints."})
	DeliveryNotFound = add(Kind{"delivery-not-found", http.StatusNotFound, "No such delivery", false, "Check the id; deliveries are kept for 30 days."})
	EventNotFound    = add(Kind{"event-not-found", http.StatusNotFound, "No such event", false, "Check the id; how long events are kept depends on the plan."})
	MethodNotFound   = add(Kind{"method-not-found", http.StatusNotFound, "No such SDK method", false, "Use one of suggestions, or list the methods with GET /v1/sdk/methods."})
	MemberNotFound   = add(Kind{"member-not-found", http.StatusNotFound, "No such member", false, "Check the id against GET /v1/org/members."})
	AccessNotFound   = add(Kind{"access-not-found", http.StatusNotFound, "No such support access", false, "Check the id against GET /v1/org/support-access. A request expires after 7 days; the operator can send another one."})
	InvitationGone   = add(Kind{"invitation-not-found", http.StatusNotFound, "No such invitation", false, "Check the id against GET /v1/org/members; invite again if it was used or has expired."})
	BrowserNotFound  = add(Kind{"browser-session-not-found", http.StatusNotFound, "No such browser session", false, "Check the id against GET /v1/me/sessions."})
	JobNotFound      = add(Kind{"job-not-found", http.StatusNotFound, "No such job", false, "Check the id against GET /v1/jobs; jobs are kept for 30 days. Operators list the jobs of the service with GET /admin/v1/jobs."})
	ProxyNotFound    = add(Kind{"proxy-not-found", http.StatusNotFound, "No such proxy", false, "Check region and place; operators list proxies with GET /admin/v1/egress."})
	LetterNotFound   = add(Kind{"dead-letter-not-found", http.StatusNotFound, "No such dead letter", false, "Check the id; operators list dead letters with GET /admin/v1/dead-letters."})
	LogNotFound      = add(Kind{"log-not-found", http.StatusNotFound, "No such log", false, "Check the id; how long requests are kept depends on the plan."})
)

// Changes to the team of an organisation.
var (
	LastOwner     = add(Kind{"last-owner", http.StatusConflict, "The last owner cannot go", false, "Make another member an owner first."})
	AlreadyMember = add(Kind{"already-member", http.StatusConflict, "Already a member", false, "Change the member's role instead."})
)

// Jobs and their results.
var (
	LimitReached    = add(Kind{"limit-reached", http.StatusConflict, "Limit reached", false, "Wait until one is over, or end or delete one; limit says how many there can be."})
	JobNotStarted   = add(Kind{"job-not-started", http.StatusConflict, "The job has not started", true, "Wait until the job runs."})
	ResultExpired   = add(Kind{"result-expired", http.StatusGone, "The result has expired", false, "Start the job again; results are kept for 7 days."})
	JobsUnavailable = add(Kind{"jobs-unavailable", http.StatusServiceUnavailable, "Jobs are not available", false, "Ask the operator of the service to configure object storage."})
)

// Connecting an account.
var (
	AttemptInProgress    = add(Kind{"attempt-in-progress", http.StatusConflict, "An attempt is already in progress", false, "Continue with attemptId, or start again with supersede: true."})
	AttemptCompleted     = add(Kind{"attempt-completed", http.StatusConflict, "The attempt has ended", false, "Start a new attempt."})
	AttemptStateConflict = add(Kind{"attempt-state-conflict", http.StatusConflict, "The attempt waits for something else", false, "Do one of nextActions."})
	CredentialsMissing   = add(Kind{"credentials-missing", http.StatusPreconditionFailed, "No credentials remembered", false, "Connect the account again; set remember_credentials to allow this next time."})
	SessionIncomplete    = add(Kind{"session-incomplete", http.StatusUnprocessableEntity, "Session incomplete", false, "Add the cookies or headers in missing; copy them while signed in."})
	CurlUnparseable      = add(Kind{"curl-unparseable", http.StatusUnprocessableEntity, "cURL command not understood", false, "Copy the command again with the browser's Copy as cURL."})
	CurlUnsupported      = add(Kind{"curl-unsupported", http.StatusUnprocessableEntity, "cURL option not supported", false, "Remove the option that the detail names."})
	CurlWrongHost        = add(Kind{"curl-wrong-host", http.StatusUnprocessableEntity, "cURL command is for another host", false, "Copy a request that goes to the platform itself."})
	ResendTooSoon        = add(Kind{"resend-too-soon", http.StatusTooManyRequests, "Too soon to send another code", true, "Wait retryAfterSec."})
	PlatformUnavailable  = add(Kind{"platform-unavailable", http.StatusServiceUnavailable, "The account's platform is not configured", false, "Ask the operator of the service to configure the platform again. The account and its data are kept."})
	ConnectUnavailable   = add(Kind{"connect-unavailable", http.StatusServiceUnavailable, "Connecting is not possible right now", true, "Try again after retryAfterSec; if retryable is false, the organisation has no platform to connect to."})
)

// Calls and events of a connected account.
var (
	AccountPaused           = add(Kind{"account-paused", http.StatusConflict, "Account paused", false, "Resume it with POST /v1/accounts/{id}/resume."})
	AccountDisconnected     = add(Kind{"account-disconnected", http.StatusGone, "Reconnect required", false, "Have the creator connect the account again: send them reconnect.url, or a link from POST /v1/accounts/{id}/reconnect-link."})
	AccountReauthenticating = add(Kind{"account-reauthenticating", http.StatusServiceUnavailable, "Account is signing in again", true, "Try again after retryAfterSec."})
	UnknownEvent            = add(Kind{"unknown-event", http.StatusUnprocessableEntity, "Unknown event name", false, "Use names from the event catalogue."})
	UnsafeURL               = add(Kind{"unsafe-url", http.StatusUnprocessableEntity, "URL not allowed", false, "Use an https URL on a public host, without credentials in it."})
	IdempotencyMismatch     = add(Kind{"idempotency-mismatch", http.StatusConflict, "Idempotency key used for another request", false, "Use a new Idempotency-Key for a new request."})
	IdempotencyInProgress   = add(Kind{"idempotency-in-progress", http.StatusConflict, "The first request with this key is still running", true, "Repeat the same request after retryAfterSec."})
	SlowConsumer            = add(Kind{"slow-consumer", http.StatusServiceUnavailable, "Stream closed: reader too slow", true, "Reconnect with the last event id; no stored event is lost."})
)

// Limits and outages of this service.
var (
	QuotaExceeded      = add(Kind{"quota-exceeded", http.StatusTooManyRequests, "Rate limit reached", true, "Wait retryAfterSec; reason names the limit."})
	Internal           = add(Kind{"internal", http.StatusInternalServerError, "Internal error", true, "Try again; if it persists, report the request id in instance."})
	ServiceUnavailable = add(Kind{"service-unavailable", http.StatusServiceUnavailable, "Service unavailable", true, "Try again after retryAfterSec."})
	ServerDraining     = add(Kind{"server-draining", http.StatusServiceUnavailable, "Server is restarting", true, "Reconnect; another server will answer."})
	EgressUnavailable  = add(Kind{"egress-unavailable", http.StatusServiceUnavailable, "No egress in the account's region", true, "Try again after retryAfterSec; traffic never leaves through another region."})
)

// Failures of the platform.
var (
	UpstreamForbidden         = add(Kind{"upstream/forbidden", http.StatusForbidden, "Refused by the platform", false, "The account may not do this on the platform."})
	UpstreamCreatorOnly       = add(Kind{"upstream/creator-only", http.StatusForbidden, "For creators only", false, "Connect a creator's account."})
	UpstreamAccountRestricted = add(Kind{"upstream/account-restricted", http.StatusForbidden, "Account restricted by the platform", false, "The creator must resolve it on the platform."})
	UpstreamNotFound          = add(Kind{"upstream/not-found", http.StatusNotFound, "Not found on the platform", false, "Check the platform ids in the arguments."})
	UpstreamConflict          = add(Kind{"upstream/conflict", http.StatusConflict, "Conflict on the platform", false, "Read the current state and repeat what still applies."})
	UpstreamRejected          = add(Kind{"upstream/rejected", http.StatusUnprocessableEntity, "Rejected by the platform", false, "Correct the arguments as upstreamMessage says."})
	UpstreamRateLimited       = add(Kind{"upstream/rate-limited", http.StatusTooManyRequests, "Rate limited by the platform", true, "Wait retryAfterSec; other accounts are not affected."})
	UpstreamError             = add(Kind{"upstream/error", http.StatusBadGateway, "Platform error", true, "Try again with back-off."})
	UpstreamInvalidResponse   = add(Kind{"upstream/invalid-response", http.StatusBadGateway, "Platform answer not understood", false, "Report the request id in instance."})
	UpstreamChanged           = add(Kind{"upstream/changed", http.StatusBadGateway, "Platform interface changed", false, "No action needed; we are notified and update the driver."})
	UpstreamUnavailable       = add(Kind{"upstream/unavailable", http.StatusServiceUnavailable, "Platform unavailable", true, "Try again after retryAfterSec."})
	UpstreamTimeout           = add(Kind{"upstream/timeout", http.StatusGatewayTimeout, "Platform did not answer in time", true, "Repeat a read. Before repeating a write whose outcome is unknown, read what happened."})
)
