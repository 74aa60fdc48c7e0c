package account

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// follower follows a connect attempt to its end: it polls, shows links and QR codes, and prompts for codes. Without a
// user it reads codes from standard input, one per line.
type follower struct {
	*core.App
	// open opens the first link in the browser.
	open bool
	// mustEnd makes it a failure to return while the attempt is still waiting. Set with --wait.
	mustEnd bool

	// now is the last state read, raw its JSON.
	now stagedoor.Attempt
	raw []byte
	// etag identifies the last state read, for long polling.
	etag string
	// shown is the link for the creator that was printed last. The platform renews that for a phone from time to time.
	shown string
}

// attemptCall is a call whose result is the attempt. It passes the option on to the client.
type attemptCall func(keep stagedoor.CallOption) (*stagedoor.Attempt, error)

// do carries out a call and keeps its result.
func (f *follower) do(call attemptCall) (res stagedoor.Response, err error) {
	attempt, err := call(stagedoor.WithResponse(&res))
	if err == nil && res.Status != http.StatusNotModified {
		f.now, f.raw = *attempt, res.Body
	}
	return res, err
}

// offers reports whether the attempt accepts an action now.
func (f *follower) offers(action string) bool { return slices.Contains(f.now.NextActions, action) }

func (f *follower) start(call attemptCall) error {
	if _, err := f.do(call); err != nil {
		return err
	}
	f.Out.Hint("Attempt %s", f.now.AttemptID)
	return nil
}

// read fetches the attempt. With wait the server responds when the attempt has changed since the last read,
// or after 20 s.
func (f *follower) read(ctx context.Context, id string, wait bool) error {
	res, err := f.do(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		if !wait || f.etag == "" {
			return f.API().Connect.GetAttempt(ctx, id, stagedoor.ConnectGetAttemptParams{}, keep)
		}
		unchanged := stagedoor.WithHeader("If-None-Match", f.etag)
		return f.API().Connect.GetAttempt(ctx, id, stagedoor.ConnectGetAttemptParams{Wait: 20}, unchanged, keep)
	})
	if err == nil && res.Status != http.StatusNotModified {
		f.etag = res.Header.Get("ETag")
	}
	return err
}

// submit sends an answer to the attempt. If the attempt has moved on in the meantime, submit only reads it again.
func (f *follower) submit(ctx context.Context, call attemptCall) error {
	_, err := f.do(call)
	if stagedoor.IsProblem(err, stagedoor.CodeAttemptCompleted, stagedoor.CodeAttemptStateConflict) {
		return f.read(ctx, f.now.AttemptID, false)
	}
	if err == nil {
		f.etag = ""
	}
	return err
}

// answer submits a code, a channel or the end of a selfie check.
func (f *follower) answer(ctx context.Context, params stagedoor.ConnectSubmitParams) error {
	return f.submit(ctx, func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		return f.API().Connect.Submit(ctx, f.now.AttemptID, params, keep)
	})
}

// run follows the attempt until it ends, or needs input that is not available.
func (f *follower) run(ctx context.Context) error {
	if f.NoInput && !f.mustEnd && (f.now.State == "awaiting_mobile_session" || f.waitsForPage()) {
		return f.leavePending()
	}
	spin := f.Out.Spin(progress(f.now))
	defer spin.Stop()
	for {
		var err error
		switch f.now.State {
		case "completed_success":
			spin.Stop()
			return f.printSuccess(ctx)
		case "completed_failed":
			spin.Stop()
			return f.failure()
		case "pending":
			if err = f.showPage(ctx); err == nil {
				spin.Text(progress(f.now))
				err = f.read(ctx, f.now.AttemptID, true)
			}
		case "awaiting_mobile_session":
			if err = f.showPhoneLink(ctx); err == nil {
				spin.Text(progress(f.now))
				err = f.read(ctx, f.now.AttemptID, true)
			}
		default:
			spin.Stop()
			if err = f.answerChallenge(ctx); errors.Is(err, errNoInput) {
				return f.leavePending()
			}
			spin = f.Out.Spin(progress(f.now))
		}
		if err != nil {
			spin.Stop()
			f.sayHowToResume(ctx)
			return err
		}
	}
}

// errNoInput means that the attempt needs input and none is available.
var errNoInput = errors.New("no input available")

// answerChallenge answers what the platform asks: it requests an email, waits for a selfie, or submits a code. The user
// may type resend or another channel instead of a code.
func (f *follower) answerChallenge(ctx context.Context) error {
	if f.offers("send_email") && !f.offers("submit_code") {
		f.Out.Say("Asking the platform to send an email.")
		return f.submit(ctx, func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
			return f.API().Connect.SendEmailToCreator(ctx, f.now.AttemptID, keep)
		})
	}
	if f.now.State == "needs_face_otp" {
		return f.waitForSelfie(ctx)
	}
	f.Out.Say("%s", describeChallenge(f.now))
	answer, err := f.readAnswer(ctx, "Code"+f.promptAlternatives())
	if err != nil {
		return err
	}
	switch word := strings.ToLower(answer); {
	case word == "":
		return nil
	case word == "resend" && f.offers("resend_code"):
		err = f.submit(ctx, func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
			return f.API().Connect.ResendCode(ctx, f.now.AttemptID, keep)
		})
		if p, ok := errors.AsType[*stagedoor.Problem](err); ok && p.Code == stagedoor.CodeResendTooSoon {
			f.Out.Warn("%s", p.Detail)
			return nil
		}
		if err == nil {
			f.Out.Say("Sent another code.")
		}
		return err
	case slices.Contains(f.now.OTPChannelsAvailable, word):
		return f.answer(ctx, stagedoor.ConnectSubmitParams{OTPChannel: word})
	}
	return f.answer(ctx, stagedoor.ConnectSubmitParams{Code: answer})
}

// promptAlternatives returns the words that the user can type instead of a code, in parentheses, or an empty string.
func (f *follower) promptAlternatives() string {
	var words []string
	if f.offers("resend_code") {
		words = append(words, "resend")
	}
	for _, c := range f.now.OTPChannelsAvailable {
		if c != core.Deref(f.now.OTPChannel) && f.offers("switch_channel") {
			words = append(words, c)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " (or: " + strings.Join(words, ", ") + ")"
}

func (f *follower) waitForSelfie(ctx context.Context) error {
	f.Out.Say("The platform asks the creator for a selfie, on its own page:")
	if page := core.Deref(f.now.VerificationPageURL); page != "" {
		f.Out.Say("  %s", page)
	}
	if phone := core.Deref(f.now.PhoneURL); phone != "" && phone != f.shown && f.Out.ErrTTY {
		f.shown = phone
		if err := f.Out.QR(phone); err != nil {
			return err
		}
	}
	if _, err := f.readAnswer(ctx, "Press Enter when the check is finished"); err != nil {
		return err
	}
	if err := f.answer(ctx, stagedoor.ConnectSubmitParams{SelfieVerificationCompleted: true}); err != nil {
		return err
	}
	if f.now.State == "needs_face_otp" {
		f.Out.Warn("The platform has not confirmed it yet.")
	}
	return nil
}

// readAnswer prompts the user, or returns the next line of standard input if that is no terminal.
func (f *follower) readAnswer(ctx context.Context, question string) (string, error) {
	if f.Interactive() {
		return f.Ask(ctx, question, "")
	}
	if f.StdinTTY {
		return "", errNoInput
	}
	text, err := f.NextLine()
	if errors.Is(err, io.EOF) {
		return "", errNoInput
	}
	return text, err
}

// readSecret prompts for a secret without showing it, or reads a line of standard input.
func (f *follower) readSecret(ctx context.Context, name string) (string, error) {
	if f.Interactive() {
		return f.AskSecret(ctx, name, "")
	}
	if !f.StdinTTY {
		if text, err := f.NextLine(); err == nil && text != "" {
			return text, nil
		}
	}
	return "", core.UsageHint("Pipe it as the first line of standard input.", "a %s is required", strings.ToLower(name))
}

// showPhoneLink prints the link for the creator's phone, as a QR code too on a terminal, whenever it changes.
func (f *follower) showPhoneLink(ctx context.Context) error {
	link := core.Deref(f.now.PhoneURL)
	if link == "" || link == f.shown {
		return nil
	}
	first := f.shown == ""
	f.shown = link
	if f.Out.ErrTTY {
		if err := f.Out.QR(link); err != nil {
			return err
		}
	}
	if first {
		f.Out.Say("Scan the code with the creator's phone, or send this link:")
	} else {
		f.Out.Say("The link was renewed. Use this one:")
	}
	f.Out.Say("  %s", link)
	if first && f.open {
		return f.Browse(ctx, link)
	}
	return nil
}

// waitsForPage reports whether the creator must open a page before the attempt can go on.
func (f *follower) waitsForPage() bool {
	return f.now.State == "pending" && f.offers("open_verification_page")
}

// showPage prints the link to the page where the creator allows the access, once.
func (f *follower) showPage(ctx context.Context) error {
	link := core.Deref(f.now.VerificationPageURL)
	if !f.waitsForPage() || link == "" || link == f.shown {
		return nil
	}
	f.shown = link
	f.Out.Say("Open this page as the creator, or send them the link:")
	f.Out.Say("  %s", link)
	if f.open {
		return f.Browse(ctx, link)
	}
	return nil
}

func (f *follower) printSuccess(ctx context.Context) error {
	id := core.Deref(f.now.AccountID)
	if f.Out.JSON {
		f.Out.Body(f.raw)
		return nil
	}
	name := f.now.Label
	if account, err := f.Account(ctx, id); err == nil {
		name = core.AccountName(account)
	}
	verb := "Connected"
	if f.now.Reconnect {
		verb = "Reconnected"
	}
	if !f.Out.TTY {
		f.Out.Data("%s", id)
	}
	f.Out.Done("%s %s (%s)", verb, id, name)
	f.Out.Hint("Next: stagedoor call me.get -a %s", id)
	return nil
}

// failureHints maps failure codes to advice.
var failureHints = map[string]string{
	"invalid_credentials":    "Check them and try again.",
	"captcha_required":       "Only the creator's own phone can pass this check: stagedoor connect --method mobile",
	"two_factor_locked":      "The platform has locked codes for now. Use the phone: stagedoor connect --method mobile",
	"two_factor_failed":      "Too many wrong codes. Start again when you have the right one.",
	"code_expired":           "Start again and enter the code sooner.",
	"mobile_denied":          "If that was a mistake, start again.",
	"mobile_session_expired": "The creator did not approve in time. Start again.",
	"session_invalid":        "The platform rejected this session. Copy it again while signed in.",
	"not_a_creator":          "This login belongs to a fan, not a creator.",
	"account_mismatch":       "A different creator signed in. To connect this account too, omit --account.",
	"account_limit":          "Your plan's account limit is reached: stagedoor usage",
}

// failure returns the fault of a failed attempt.
func (f *follower) failure() error {
	if f.Out.JSON {
		f.Out.Body(f.raw)
	}
	if f.now.Failure == nil {
		return &core.Fault{Code: core.ExitOther, Text: "the attempt failed"}
	}
	fault := f.now.Failure
	code := core.ExitRejected
	if strings.HasPrefix(fault.Code, "upstream_") || fault.Code == "egress_unavailable" {
		code = core.ExitUpstream
	}
	hint := failureHints[fault.Code]
	if hint == "" && fault.Retryable {
		hint = "A retry may help."
	}
	text := strings.TrimSuffix(fault.Message, ".")
	text = cmp.Or(text, "not connected")
	return &core.Fault{Code: code, Text: fault.Code + ": " + text + ".", Hint: strings.TrimSpace(hint + " Nothing was saved.")}
}

// leavePending prints the attempt and how to resume it, and ends the command. That is a success with --no-input unless
// the caller waits for the end, and a fault otherwise.
func (f *follower) leavePending() error {
	next := "stagedoor connect --wait " + f.now.AttemptID
	if f.Out.JSON {
		var body map[string]any
		if err := json.Unmarshal(f.raw, &body); err != nil {
			return fmt.Errorf("cannot read the attempt: %w", err)
		}
		body["next_step"] = next
		if err := f.Out.Value(body); err != nil {
			return err
		}
	} else {
		link := core.Deref(f.now.PhoneURL)
		if link == "" {
			link = core.Deref(f.now.VerificationPageURL)
		}
		f.Out.Fields([]output.Field{
			{Name: "attempt", Cell: output.Text(f.now.AttemptID)}, {Name: "state", Cell: output.State(f.now.State)},
			{Name: "link", Cell: output.Text(link)}, {Name: "next", Cell: output.Text(next)},
		})
	}
	if f.NoInput && !f.mustEnd {
		return nil
	}
	return &core.Fault{Code: core.ExitOther, Text: "not connected yet: input is required", Hint: "Continue with: " + next}
}

// sayHowToResume prints how to resume the attempt if the user interrupted the command.
func (f *follower) sayHowToResume(ctx context.Context) {
	if ctx.Err() != nil && f.now.AttemptID != "" {
		f.Out.Say("The attempt continues. Resume with: stagedoor connect --wait %s", f.now.AttemptID)
	}
}

// describeChallenge says what the attempt waits for.
func describeChallenge(a stagedoor.Attempt) string {
	switch a.State {
	case "wrong_2fa_code_retry":
		text := "That code did not match. Check it and try again."
		if left := a.SubmissionsRemaining; left != nil && *left <= 3 {
			text += " " + output.Count(*left, "try is", "tries are") + " left."
		}
		return text
	case "needs_face_otp":
		return "The platform asks the creator for a selfie."
	case "awaiting_mobile_session":
		return "The creator has to approve on the phone."
	}
	switch core.Deref(a.OTPChannel) {
	case "sms":
		return "The platform sent a code by text message" + recipient(a.PhoneMask) + "."
	case "app":
		return "The platform asks for a code from the creator's authenticator app."
	case "email":
		return "The platform sent a code by email" + recipient(a.EmailMask) + "."
	}
	return "The platform asks for a code."
}

func recipient(mask *string) string {
	if core.Deref(mask) == "" {
		return ""
	}
	return " to " + *mask
}

// progress is the spinner's text.
func progress(a stagedoor.Attempt) string {
	if a.State == "pending" && slices.Contains(a.NextActions, "open_verification_page") {
		return "Waiting for the creator"
	}
	switch a.Progress {
	case "queued", "opening_egress":
		return "Contacting the platform"
	case "signing_in":
		return "Signing in"
	case "checking_code":
		return "Checking the code"
	case "awaiting_scan":
		return "Waiting for the phone"
	case "scanned":
		return "Scanned; waiting for approval"
	case "capturing_session", "verifying_session", "sealing":
		return "Securing the session"
	}
	return "Working"
}
