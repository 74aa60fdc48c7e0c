package core

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// deviceReply is a response of the server to a tool that signs in (RFC 8628).
type deviceReply struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	Page       string `json:"verification_uri"`
	Complete   string `json:"verification_uri_complete"`
	ExpiresIn  int    `json:"expires_in"`
	Interval   int    `json:"interval"`
	Key        string `json:"access_token"`
	Error      string `json:"error"`
	About      string `json:"error_description"`
	// Title is that of a problem.
	Title string `json:"title"`
}

const (
	deviceClient = "stagedoor-cli"
	deviceGrant  = "urn:ietf:params:oauth:grant-type:device_code"
	// slowDown is added to the interval if the server asks for it; maxReply bounds a response, in bytes.
	slowDown = 5 * time.Second
	maxReply = 64 << 10
)

// SignIn lets the user approve this machine in the browser, and returns its key.
func (a *App) SignIn(ctx context.Context, base string) (secret.String, error) {
	host, _ := os.Hostname() // The name only helps the user to recognise the machine.
	start, err := a.postDevice(ctx, base, "/v1/device/code", url.Values{"client_id": {deviceClient}, "machine": {host}})
	if err != nil {
		return secret.String{}, err
	}
	if start.DeviceCode == "" {
		return secret.String{}, &Fault{
			Code: ExitOther, Text: "cannot sign in: " + cmp.Or(start.Title, start.About, start.Error, "the server does not support it"),
			Hint: "Use a key: stagedoor login --with-key",
		}
	}
	a.Out.Say("Open %s and approve the code %s.", start.Page, start.UserCode)
	a.Out.Say("The page shows the same code. It works for %d minutes.", start.ExpiresIn/60)
	if err := a.Browse(ctx, start.Complete); err != nil {
		a.Out.Warn("%s; open the address manually", err)
	}
	wait := time.Duration(max(1, start.Interval)) * time.Second
	for {
		got, err := a.postDevice(ctx, base, "/v1/device/token",
			url.Values{"client_id": {deviceClient}, "grant_type": {deviceGrant}, "device_code": {start.DeviceCode}})
		if err != nil {
			return secret.String{}, err
		}
		switch got.Error {
		case "":
			if got.Key != "" {
				return secret.New(got.Key), nil
			}
			return secret.String{}, &Fault{Code: ExitOther, Text: "cannot sign in: " + cmp.Or(got.Title, "the response has no key")}
		case "authorization_pending":
		case "slow_down":
			wait += slowDown
		case "access_denied":
			return secret.String{}, &Fault{Code: ExitKey, Text: cmp.Or(got.About, "this machine was refused"), Hint: "Try again: stagedoor login"}
		case "expired_token", "invalid_grant":
			return secret.String{}, &Fault{Code: ExitKey, Text: "the code has expired", Hint: "Try again: stagedoor login"}
		default:
			return secret.String{}, &Fault{Code: ExitOther, Text: "cannot sign in: " + cmp.Or(got.About, got.Error)}
		}
		if !clock.Pause(ctx, wait) {
			return secret.String{}, fmt.Errorf("wait for the approval: %w", ctx.Err())
		}
	}
}

// postDevice sends a form of a tool that signs in. Errors of RFC 8628 are in the reply.
func (a *App) postDevice(ctx context.Context, base, path string, form url.Values) (deviceReply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return deviceReply{}, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := (&http.Client{Transport: tracer{a}, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return deviceReply{}, Unreachable(base, err)
	}
	defer func() { _ = res.Body.Close() }()
	var got deviceReply
	if err := json.NewDecoder(io.LimitReader(res.Body, maxReply)).Decode(&got); err != nil {
		return deviceReply{}, &Fault{Code: ExitOther, Text: fmt.Sprintf("%s is not a Stagedoor server: it answered %d without JSON", base, res.StatusCode)}
	}
	return got, nil
}
