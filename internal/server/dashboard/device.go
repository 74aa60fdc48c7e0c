package dashboard

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// Tools sign in by RFC 8628. They call two addresses without a key, and a person approves them on a page.

const (
	devicePath      = "/app/device"
	deviceCodePath  = "/v1/device/code"
	deviceTokenPath = "/v1/device/token" //nolint:gosec // an address
	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
)

// deviceBody is the response to a tool that asks to be signed in.
type deviceBody struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code"`
	VerificationURI string `json:"verification_uri"`
	Complete        string `json:"verification_uri_complete"`
	ExpiresIn       int    `json:"expires_in"`
	Interval        int    `json:"interval"`
}

// tokenBody is the response to a tool that was approved. The key does not expire.
type tokenBody struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	KeyID       string `json:"key_id"`
}

// deviceError is the response to a tool that gets no key yet, or never.
type deviceError struct {
	Error       string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

// toolForm reads the form of a tool. It returns false if it has answered.
func (v *visit) toolForm() bool {
	kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err == nil && kind == "application/x-www-form-urlencoded" {
		err = v.r.ParseForm()
	}
	if err != nil || kind != "application/x-www-form-urlencoded" || v.r.PostFormValue("client_id") == "" {
		v.json(http.StatusBadRequest, deviceError{"invalid_request", "Send client_id in a form, as application/x-www-form-urlencoded."})
		return false
	}
	return true
}

func (v *visit) postDeviceCode() {
	if !v.toolForm() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	d, err := v.deps.Members.StartDevice(ctx, v.r.PostFormValue("machine"), v.source)
	if err != nil {
		v.refuse(err)
		return
	}
	page := v.deps.Config.PublicURL + devicePath
	v.json(http.StatusOK, deviceBody{
		DeviceCode: d.Code.Reveal(), UserCode: d.UserCode, VerificationURI: page, Complete: page + "?user_code=" + d.UserCode,
		ExpiresIn: int(member.DeviceTTL / time.Second), Interval: int(member.DevicePoll / time.Second),
	})
}

func (v *visit) postDeviceToken() {
	if !v.toolForm() {
		return
	}
	if v.r.PostFormValue("grant_type") != deviceGrant {
		v.json(http.StatusBadRequest, deviceError{"unsupported_grant_type", "grant_type must be " + deviceGrant + "."})
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	key, plain, err := v.deps.Members.RedeemDevice(ctx, v.actor(), secret.New(v.r.PostFormValue("device_code")))
	for _, known := range []struct {
		err  error
		code string
	}{
		{member.ErrDevicePending, "authorization_pending"}, {member.ErrDeviceEarly, "slow_down"}, {member.ErrDeviceExpired, "expired_token"},
		{member.ErrDeviceUnknown, "invalid_grant"}, {member.ErrDeviceDenied, "access_denied"},
	} {
		if errors.Is(err, known.err) {
			v.json(http.StatusBadRequest, deviceError{Error: known.code})
			return
		}
	}
	if p := problem.Of(err); err != nil && p.Kind.Status < http.StatusInternalServerError {
		v.json(http.StatusBadRequest, deviceError{"access_denied", p.Detail})
		return
	}
	if err != nil {
		v.refuse(err)
		return
	}
	v.json(http.StatusOK, tokenBody{plain.Reveal(), "Bearer", string(key.ID)})
}

// getDevice asks for the code that a tool shows.
func (v *visit) getDevice() {
	ctx, cancel := v.context()
	defer cancel()
	if _, ok := v.deviceUser(ctx, v.r.URL.Query().Get("user_code")); ok {
		v.show(http.StatusOK, "device", "Sign in a tool", &page{Code: v.r.URL.Query().Get("user_code")})
	}
}

// deviceUser returns the session of a person, and sends the browser to the sign-in if there is none. Operators who support
// an org cannot sign tools in.
func (v *visit) deviceUser(ctx context.Context, code string) (member.Session, bool) {
	b, ok, err := v.signedIn(ctx)
	switch {
	case err != nil:
		v.refuse(err)
	case !ok || b.Person.ID == "":
		http.Redirect(v.w, v.r, signInAt(deviceAt(code)), http.StatusSeeOther)
	default:
		return b, true
	}
	return b, false
}

// deviceAt returns the address of the page with a code.
func deviceAt(code string) string {
	if code == "" {
		return devicePath
	}
	return devicePath + "?" + url.Values{"user_code": {code}}.Encode()
}

// postDevice shows the tool with a code, and approves or refuses it.
func (v *visit) postDevice() {
	ctx, cancel := v.context()
	defer cancel()
	code := v.r.PostFormValue("user_code")
	b, ok := v.deviceUser(ctx, code)
	if !ok {
		return
	}
	// Guesses are counted per network and per person, so that neither many networks nor many people help.
	guesser := string(b.Person.ID)
	if v.misses.Spent(v.source) || v.misses.Spent(guesser) {
		v.showTooMany()
		return
	}
	tool, err := v.deps.Members.FindDevice(ctx, code)
	if err == nil {
		err = v.decideDevice(ctx, b, tool, code)
	}
	switch {
	case errors.Is(err, member.ErrDeviceUnknown):
		v.misses.Take(v.source)
		v.misses.Take(guesser)
		v.show(http.StatusNotFound, "device", "Sign in a tool", &page{
			Problem: "This code does not work. A code works once, for ten minutes. Start again in your tool, and type the code that it shows.",
		})
	case errors.Is(err, problem.ReauthenticationRequired.New("")):
		http.Redirect(v.w, v.r, "/app/sign-in?"+url.Values{"fresh": {"1"}, "to": {deviceAt(code)}}.Encode(), http.StatusSeeOther)
	case err != nil:
		v.refuse(err)
	}
}

// decideDevice answers unless it returns an error.
func (v *visit) decideDevice(ctx context.Context, b member.Session, tool member.DeviceRequest, code string) error {
	switch v.r.PostFormValue("decision") {
	case "approve":
		if err := v.deps.Members.RequireRecent(ctx, b.ID); err != nil {
			return err
		}
		places, err := v.deps.Members.Places(ctx, b)
		if err != nil {
			return err
		}
		for _, at := range places {
			if string(at.Org.ID) != v.r.PostFormValue("org") {
				continue
			}
			if err := v.deps.Members.ApproveDevice(ctx, b.Person.ID, at.Org.ID, code); err != nil {
				return err
			}
			v.show(http.StatusOK, "device", "The tool is signed in", &page{
				Done: "The tool is signed in to " + at.Org.Name + ". Go back to it; you can close this page. To end its access, revoke its key under API keys.",
			})
			return nil
		}
		return problem.MembershipMissing.New("The person does not belong to this organisation.")
	case "deny":
		if err := v.deps.Members.DenyDevice(ctx, b.Person.ID, code); err != nil {
			return err
		}
		v.show(http.StatusOK, "device", "The tool was refused", &page{Done: "The tool was refused and has no access."})
		return nil
	}
	places, err := v.deps.Members.Places(ctx, b)
	if err != nil {
		return err
	}
	v.show(http.StatusOK, "device", "Sign in this tool?", &page{Code: code, Tool: &tool, Places: places, Current: string(b.Org), Who: b.Person.Email})
	return nil
}
