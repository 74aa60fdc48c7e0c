package attempt

import (
	"slices"
	"time"
)

// Failure is why an attempt failed.
type Failure struct {
	Code            string
	RetryAfter      time.Duration
	UpstreamCode    int
	UpstreamMessage string
}

// Codes of failures that are decided here and not by the platform.
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

// meaning is what a failure's code tells people, and what they can do.
type meaning struct {
	message   string
	retryable bool
	action    string
}

// Actions beside a failure.
const (
	actRetry  = "retry_attempt"
	actFix    = "fix_input"
	actMobile = "use_mobile_app"
	actNative = "open_native"
	actHelp   = "contact_support"
)

var meanings = map[string]meaning{
	CodeCredentials:        {"The platform did not accept this email and password.", false, actFix},
	"account_locked":       {"The platform has locked sign-in for this account. The creator must unlock it on the platform.", false, actNative},
	"account_banned":       {"The platform has banned this account.", false, actNative},
	"terms_required":       {"The platform wants the creator to accept its terms first.", false, actNative},
	"captcha_required":     {"The platform asks for a captcha, which only the creator can solve. Let them sign in on their own phone.", false, actMobile},
	CodeTwoFactor:          {"Too many wrong codes.", false, actMobile},
	"two_factor_locked":    {"The platform takes no more codes for this account for now.", false, actMobile},
	CodeCodeExpired:        {"The code was not entered in time.", true, actRetry},
	"face_rejected":        {"The platform did not accept the selfie.", false, actMobile},
	"mobile_denied":        {"The creator declined on the phone.", false, actFix},
	CodeMobileExpired:      {"Nobody approved on the phone in time.", true, actRetry},
	CodeInvalid:            {"The platform does not accept this session. Copy it anew while signed in.", false, actFix},
	"session_incomplete":   {"The session lacks something that the platform needs.", false, actFix},
	CodeNotCreator:         {"This is no creator's account.", false, actFix},
	CodeMismatch:           {"This sign-in belongs to another account than the one to reconnect. The old session was not touched.", false, actFix},
	"egress_unavailable":   {"No proxy of the account's region works right now.", true, actRetry},
	"upstream_unavailable": {"The platform is not answering right now.", true, actRetry},
	"upstream_timeout":     {"The platform took too long to answer.", true, actRetry},
	CodeChanged:            {"The platform answered in a way we do not know yet. We have been told.", false, actHelp},
	CodeExpired:            {"The attempt was not finished in time.", true, actRetry},
	CodeCancelled:          {"The attempt was cancelled.", false, ""},
	CodeSuperseded:         {"A newer attempt for the same login replaced this one.", false, ""},
	CodeInterrupted:        {"A server stopped in the middle of a step that must not be repeated by itself.", true, actRetry},
	CodeDeleted:            {"The account was disconnected while it was being reconnected.", false, ""},
	CodeLimit:              {"The plan allows no more accounts.", false, actHelp},
	CodeSuspended:          {"The organisation was suspended.", false, actHelp},
	CodeInternal:           {"Something failed on our side.", true, actRetry},
}

// Known brings a platform's failure into the contract's list: what is not in it is a change of the platform.
func (f Failure) Known() Failure {
	if _, ok := meanings[f.Code]; !ok {
		f.Code = CodeChanged
	}
	return f
}

// Message says it in words.
func (f Failure) Message() string { return meanings[f.Code].message }

// Retryable says whether the same input may succeed later.
func (f Failure) Retryable() bool { return meanings[f.Code].retryable }

// Codes lists the failures there are, for documents and tests.
func Codes() []string {
	list := make([]string, 0, len(meanings))
	for code := range meanings {
		list = append(list, code)
	}
	slices.Sort(list)
	return list
}
