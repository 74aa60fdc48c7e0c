package attempt

import "time"

// Failure is why an attempt failed.
type Failure struct {
	Code            string
	RetryAfter      time.Duration
	UpstreamCode    string
	UpstreamMessage string
}

// Codes of failures that this code refers to by name. Others come from the platform's driver; see meanings.
const (
	CodeCancelled     = "cancelled"
	CodeExpired       = "expired"
	CodeSuperseded    = "superseded"
	CodeInterrupted   = "interrupted"
	CodeDeleted       = "account_deleted"
	CodeLimit         = "account_limit"
	CodeSuspended     = "org_suspended"
	CodeInternal      = "internal"
	CodeMismatch      = "account_mismatch"
	CodeNotCreator    = "not_a_creator"
	CodeInvalid       = "session_invalid"
	CodeTwoFactor     = "two_factor_failed"
	CodeCodeExpired   = "code_expired"
	CodeMobileExpired = "mobile_session_expired"
	CodeChanged       = "upstream_changed"
	CodeCredentials   = "invalid_credentials"
)

// meaning is what a failure code means to people, and what they can do next.
type meaning struct {
	message   string
	retryable bool
	action    string
}

// Values of NextActions for failures.
const (
	actRetry  = "retry_attempt"
	actFix    = "fix_input"
	actMobile = "use_mobile_app"
	actNative = "open_native"
	actHelp   = "contact_support"
)

// meanings lists all failure codes of the API.
var meanings = map[string]meaning{
	CodeCredentials:         {"The platform did not accept this email and password.", false, actFix},
	"account_locked":        {"The platform has locked sign-in for this account. The creator must unlock it on the platform.", false, actNative},
	"account_banned":        {"The platform has banned this account.", false, actNative},
	"terms_required":        {"The platform requires the creator to accept its terms first.", false, actNative},
	"captcha_required":      {"The platform asks for a captcha, which only the creator can solve. Let them sign in on their own phone.", false, actMobile},
	CodeTwoFactor:           {"Too many wrong codes.", false, actMobile},
	"two_factor_locked":     {"The platform does not accept any more codes for this account for now.", false, actMobile},
	CodeCodeExpired:         {"The code was not entered in time.", true, actRetry},
	"face_rejected":         {"The platform did not accept the selfie.", false, actMobile},
	"mobile_denied":         {"The creator declined on the phone.", false, actFix},
	CodeMobileExpired:       {"The sign-in was not approved on the phone in time.", true, actRetry},
	CodeInvalid:             {"The platform does not accept this session. Copy it again while signed in.", false, actFix},
	"session_incomplete":    {"The session lacks something that the platform needs.", false, actFix},
	CodeNotCreator:          {"This is not a creator's account.", false, actFix},
	CodeMismatch:            {"This sign-in belongs to a different account than the one to reconnect. The existing session was not changed.", false, actFix},
	"egress_unavailable":    {"No proxy of the account's region works right now.", true, actRetry},
	"upstream_unavailable":  {"The platform is not answering right now.", true, actRetry},
	"upstream_rate_limited": {"The platform accepts no more sign-ins for now.", true, actRetry},
	"upstream_timeout":      {"The platform took too long to answer.", true, actRetry},
	CodeChanged: {"The platform sent a response that we do not support yet. We have been notified.", false,
		actHelp},
	CodeExpired:     {"The attempt was not finished in time.", true, actRetry},
	CodeCancelled:   {"The attempt was cancelled.", false, ""},
	CodeSuperseded:  {"A newer attempt for the same login replaced this one.", false, ""},
	CodeInterrupted: {"A server stopped during a step that must not be repeated automatically.", true, actRetry},
	CodeDeleted:     {"The account was disconnected while it was being reconnected.", false, ""},
	CodeLimit:       {"The plan allows no more accounts.", false, actHelp},
	CodeSuspended:   {"The organisation was suspended.", false, actHelp},
	CodeInternal:    {"Something failed on our side.", true, actRetry},
}

// Known replaces a code that the API does not list by upstream_changed.
func (f Failure) Known() Failure {
	if _, ok := meanings[f.Code]; !ok {
		f.Code = CodeChanged
	}
	return f
}

// Message returns the failure of an attempt in words, for people.
func (f Failure) Message(kind Kind) string {
	if kind == Token {
		switch f.Code {
		case CodeInvalid:
			return "The platform does not accept this key. It may be of another site, or may have been deleted or regenerated. Copy it again."
		case CodeMismatch:
			return "This is not the key of the account to reconnect. Use that key, regenerated if need be, or connect this one as a new account. " +
				"The existing account was not changed."
		}
	}
	if kind == OAuth {
		switch f.Code {
		case CodeInvalid:
			return "The platform does not accept the authorisation that it has just given."
		case CodeCancelled:
			return "The creator did not agree, or the attempt was cancelled."
		}
	}
	return meanings[f.Code].message
}

// Retryable reports whether the same input may succeed later.
func (f Failure) Retryable() bool { return meanings[f.Code].retryable }
