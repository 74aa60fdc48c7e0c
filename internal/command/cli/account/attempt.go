package account

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// attempt is what the loop needs of one.
type attempt struct {
	ID         string   `json:"attempt_id"`
	State      string   `json:"state"`
	Progress   string   `json:"progress"`
	AccountID  *string  `json:"account_id"`
	Page       *string  `json:"verification_page_url"`
	Phone      *string  `json:"phone_url"`
	Channel    *string  `json:"otp_channel"`
	Channels   []string `json:"otp_channels_available"`
	EmailMask  *string  `json:"email_mask"`
	PhoneMask  *string  `json:"phone_mask"`
	Next       []string `json:"next_actions"`
	Left       *int     `json:"submissions_remaining"`
	Label      string   `json:"label"`
	Reconnect  bool     `json:"reconnect"`
	PollAfter  *int     `json:"poll_after_sec"`
	Failure    *failure `json:"failure"`
	ResendWait *int     `json:"resend_after_sec"`
}

type failure struct {
	Code            string  `json:"code"`
	Message         string  `json:"message"`
	Retryable       bool    `json:"retryable"`
	UpstreamMessage *string `json:"upstream_message"`
}

func (a attempt) offers(action string) bool { return slices.Contains(a.Next, action) }

// follower leads an attempt to its end: it waits, shows what is to be seen and asks for what is wanted.
type follower struct {
	*core.App
	open bool
	// mustEnd makes an attempt that is left waiting a failure.
	mustEnd bool

	now attempt
	raw json.RawMessage
	// etag is the state that was seen, to wait for another.
	etag string
	// shown is the link whose code is on the screen.
	shown string
}

func (f *follower) start(ctx context.Context, path string, body map[string]any) error {
	reply, err := f.Send(ctx, http.MethodPost, path, body, &f.now)
	if err != nil {
		return err
	}
	f.raw = reply.Body
	f.Out.Hint("Attempt %s", f.now.ID)
	return nil
}

// read reads the attempt; with wait it is answered when the attempt is no longer as it was read last, or after some seconds.
func (f *follower) read(ctx context.Context, id string, wait bool) error {
	call := core.Call{Method: http.MethodGet, Path: "/v1/connect/login/" + url.PathEscape(id)}
	if wait && f.etag != "" {
		call.Query, call.Header = url.Values{"wait": {"20"}}, http.Header{"If-None-Match": {f.etag}}
	}
	reply, err := f.Do(ctx, call, nil)
	if err != nil {
		return err
	}
	if reply.Status == http.StatusNotModified {
		return nil
	}
	f.etag = reply.Header.Get("ETag")
	return f.take(reply.Body)
}

func (f *follower) take(body []byte) error {
	f.now, f.raw = attempt{}, body
	if err := json.Unmarshal(body, &f.now); err != nil {
		return errors.New("the attempt is not what this version expects")
	}
	return nil
}

// submit answers what the attempt asks for.
func (f *follower) submit(ctx context.Context, method, suffix string, body any) error {
	reply, err := f.Send(ctx, method, "/v1/connect/login/"+url.PathEscape(f.now.ID)+suffix, body, nil)
	if p, ok := errors.AsType[*core.Problem](err); ok && (p.Code == "attempt-completed" || p.Code == "attempt-state-conflict") {
		return f.read(ctx, f.now.ID, false) // it went on while somebody was asked
	}
	if err != nil {
		return err
	}
	f.etag = ""
	return f.take(reply.Body)
}

// run goes on until the attempt ends, or wants something that nobody is here to give.
func (f *follower) run(ctx context.Context) error {
	if f.NoInput && !f.mustEnd && f.now.State == "awaiting_mobile_session" {
		return f.leave()
	}
	spin := f.Out.Spin(progress(f.now))
	defer spin.Stop()
	for {
		var err error
		switch f.now.State {
		case "completed_success":
			spin.Stop()
			return f.succeed(ctx)
		case "completed_failed":
			spin.Stop()
			return f.fail()
		case "pending":
			spin.Text(progress(f.now))
			err = f.read(ctx, f.now.ID, true)
		case "awaiting_mobile_session":
			if err = f.showPhone(ctx); err == nil {
				spin.Text(progress(f.now))
				err = f.read(ctx, f.now.ID, true)
			}
		default:
			spin.Stop()
			if err = f.challenge(ctx); errors.Is(err, errNobody) {
				return f.leave()
			}
			spin = f.Out.Spin(progress(f.now))
		}
		if err != nil {
			spin.Stop()
			f.abandon(ctx)
			return err
		}
	}
}

// errNobody means that there is nobody to give what is wanted.
var errNobody = errors.New("nobody is here to answer")

// challenge does what the platform asks of the creator.
func (f *follower) challenge(ctx context.Context) error {
	if f.now.offers("send_email") && !f.now.offers("submit_code") {
		f.Out.Say("Asking the platform to send a mail.")
		return f.submit(ctx, http.MethodPost, "/send-email-to-creator", nil)
	}
	if f.now.State == "needs_face_otp" {
		return f.selfie(ctx)
	}
	f.Out.Say("%s", wanted(f.now))
	answer, err := f.line(ctx, "Code"+f.others())
	if err != nil {
		return err
	}
	switch word := strings.ToLower(answer); {
	case word == "":
		return nil
	case word == "resend" && f.now.offers("resend_code"):
		err = f.submit(ctx, http.MethodPost, "/resend", nil)
		if p, ok := errors.AsType[*core.Problem](err); ok && p.Code == "resend-too-soon" {
			f.Out.Warn("%s", p.Detail)
			return nil
		}
		if err == nil {
			f.Out.Say("Another code is on its way.")
		}
		return err
	case slices.Contains(f.now.Channels, word):
		return f.submit(ctx, http.MethodPut, "", map[string]any{"otp_channel": word})
	}
	return f.submit(ctx, http.MethodPut, "", map[string]any{"code": answer})
}

// others are the words that can be typed instead of a code.
func (f *follower) others() string {
	var words []string
	if f.now.offers("resend_code") {
		words = append(words, "resend")
	}
	for _, c := range f.now.Channels {
		if c != core.Deref(f.now.Channel) && f.now.offers("switch_channel") {
			words = append(words, c)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " (or: " + strings.Join(words, ", ") + ")"
}

func (f *follower) selfie(ctx context.Context) error {
	f.Out.Say("The platform wants a selfie of the creator, on its own page:")
	if page := core.Deref(f.now.Page); page != "" {
		f.Out.Say("  %s", page)
	}
	if phone := core.Deref(f.now.Phone); phone != "" && phone != f.shown && f.Out.ErrTTY {
		f.shown = phone
		if err := f.Out.QR(phone); err != nil {
			return err
		}
	}
	if _, err := f.line(ctx, "Press Enter when the check is finished"); err != nil {
		return err
	}
	if err := f.submit(ctx, http.MethodPut, "", map[string]any{"selfie_verification_completed": true}); err != nil {
		return err
	}
	if f.now.State == "needs_face_otp" {
		f.Out.Warn("The platform has not confirmed it yet.")
	}
	return nil
}

// line asks a person, or takes the next line that a script piped in.
func (f *follower) line(ctx context.Context, question string) (string, error) {
	if f.Interactive() {
		return f.Ask(ctx, question, "")
	}
	if f.StdinTTY {
		return "", errNobody
	}
	text, err := f.NextLine()
	if errors.Is(err, io.EOF) {
		return "", errNobody
	}
	return text, err
}

func (f *follower) password(ctx context.Context) (string, error) {
	if f.Interactive() {
		return f.AskSecret(ctx, "Password", "")
	}
	if !f.StdinTTY {
		if text, err := f.NextLine(); err == nil && text != "" {
			return text, nil
		}
	}
	return "", core.UsageHint("Pipe it: the first line of standard input is the password.", "a password is needed")
}

func (f *follower) showPhone(ctx context.Context) error {
	link := core.Deref(f.now.Phone)
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
		f.Out.Say("Scan it with the creator's phone, or send this link:")
	} else {
		f.Out.Say("The code has changed; this is the new one:")
	}
	f.Out.Say("  %s", link)
	if first && f.open {
		return f.Browse(ctx, link)
	}
	return nil
}

func (f *follower) succeed(ctx context.Context) error {
	id := core.Deref(f.now.AccountID)
	if f.Out.JSON {
		f.Out.Body(f.raw)
		return nil
	}
	name := f.now.Label
	if account, err := f.Account(ctx, id); err == nil {
		name = account.Name()
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

// advice is what to do about a failure, by its code.
var advice = map[string]string{
	"invalid_credentials":    "Check them and try again.",
	"captcha_required":       "Only the creator's own phone gets past this: stagedoor connect --method mobile",
	"two_factor_locked":      "The platform has locked codes for a while: stagedoor connect --method mobile",
	"two_factor_failed":      "Too many wrong codes. Start again when you have the right one.",
	"code_expired":           "Start again, and enter the code while it is fresh.",
	"mobile_denied":          "If that was a mistake, start again.",
	"mobile_session_expired": "Nobody approved in time. Start again.",
	"session_invalid":        "The platform does not take this session. Copy it again while signed in.",
	"not_a_creator":          "This login is a fan's, not a creator's.",
	"account_mismatch":       "Somebody else signed in. To connect them as well, leave out --account.",
	"account_limit":          "The plan has no room for another account: stagedoor usage",
}

func (f *follower) fail() error {
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
	hint := advice[fault.Code]
	if hint == "" && fault.Retryable {
		hint = "Trying again may help."
	}
	text := strings.TrimSuffix(fault.Message, ".")
	if text == "" {
		text = "not connected"
	}
	return &core.Fault{Code: code, Text: fault.Code + ": " + text + ".", Hint: strings.TrimSpace(hint + " Nothing was saved.")}
}

// leave ends the command while the attempt goes on, and says how to come back to it.
func (f *follower) leave() error {
	next := "stagedoor connect --wait " + f.now.ID
	if f.Out.JSON {
		var body map[string]any
		if err := json.Unmarshal(f.raw, &body); err != nil {
			return errors.New("the attempt is not what this version expects")
		}
		body["next_step"] = next
		if err := f.Out.Value(body); err != nil {
			return err
		}
	} else {
		link := core.Deref(f.now.Phone)
		if link == "" {
			link = core.Deref(f.now.Page)
		}
		f.Out.Fields([]out.Field{
			{Name: "attempt", Cell: out.Text(f.now.ID)}, {Name: "state", Cell: out.State(f.now.State)},
			{Name: "link", Cell: out.Text(link)}, {Name: "next", Cell: out.Text(next)},
		})
	}
	if f.NoInput && !f.mustEnd {
		return nil
	}
	return &core.Fault{Code: core.ExitOther, Text: "not connected yet: there is no answer for this", Hint: "Go on with: " + next}
}

// abandon tells somebody who breaks off how to come back.
func (f *follower) abandon(ctx context.Context) {
	if ctx.Err() != nil && f.now.ID != "" {
		f.Out.Say("The attempt goes on without you. Come back with: stagedoor connect --wait %s", f.now.ID)
	}
}

// wanted says what the attempt waits for.
func wanted(a attempt) string {
	switch a.State {
	case "wrong_2fa_code_retry":
		text := "That code did not match. Check it and try again."
		if a.Left != nil && *a.Left <= 3 {
			text += " " + out.Count(*a.Left, "try is", "tries are") + " left."
		}
		return text
	case "needs_face_otp":
		return "The platform wants a selfie of the creator."
	case "awaiting_mobile_session":
		return "The creator has to approve on the phone."
	}
	switch core.Deref(a.Channel) {
	case "sms":
		return "The platform sent a code by text message" + to(a.PhoneMask) + "."
	case "app":
		return "The platform wants a code of the creator's authenticator app."
	case "email":
		return "The platform sent a code by mail" + to(a.EmailMask) + "."
	}
	return "The platform wants a code."
}

func to(mask *string) string {
	if core.Deref(mask) == "" {
		return ""
	}
	return " to " + *mask
}

// progress says what happens, while it does.
func progress(a attempt) string {
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
		return "Seen on the phone; waiting for approval"
	case "capturing_session", "verifying_session", "sealing":
		return "Securing the session"
	}
	return "Working"
}
