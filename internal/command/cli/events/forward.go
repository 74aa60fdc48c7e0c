package events

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/version"
)

const (
	// receiverTimeout is the time a receiver has to respond, the same as for real webhooks.
	receiverTimeout = 10 * time.Second
	// maxSnippet is the number of bytes to keep of an error response.
	maxSnippet = 512
)

// forwarder posts events to a local receiver with the bytes, headers and signatures of a real webhook.
type forwarder struct {
	url    string
	signer *sign.Signer
	client *http.Client
	now    func() time.Time
	// replay adds the header that marks replayed events.
	replay bool
}

func newForwarder(app *core.App, target string, key secret.String, insecure bool) (*forwarder, error) {
	target, err := receiverURL(target)
	if err != nil {
		return nil, err
	}
	return &forwarder{url: target, signer: sign.New(key), now: app.Now, client: &http.Client{
		Timeout: receiverTimeout,
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: receiverTimeout}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // only with --skip-verify
		},
		// Real webhooks do not follow redirects either.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// receiverURL completes the value of --forward-to: 3000, :3000/hooks and localhost:3000/hooks are on this machine.
func receiverURL(text string) (string, error) {
	full := text
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		full = ":" + text
	}
	if strings.HasPrefix(full, ":") {
		full = "localhost" + full
	}
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", core.UsageHint("Use an address such as localhost:3000/hooks or http://127.0.0.1:3000.",
			"%q is not an address to forward to", text)
	}
	return u.String(), nil
}

// outcome is the result of one delivery.
type outcome struct {
	// Status is the HTTP status; 0 means no response.
	Status int   `json:"status"`
	Millis int64 `json:"durationMs"`
	// Error says why there was no response, or is the beginning of an error response.
	Error string `json:"error,omitempty"`
}

func (o outcome) ok() bool { return o.Status >= 200 && o.Status < 300 }

// send posts one event. A failure of the receiver is an outcome, not an error; an error ends the command.
func (f *forwarder) send(ctx context.Context, e *stagedoor.Event) (outcome, error) {
	at := f.now()
	whole, standard := f.signer.Sign(e.ID, at.Unix(), e.Raw)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(e.Raw))
	if err != nil {
		return outcome{}, fmt.Errorf("create the request: %w", err)
	}
	sent := strconv.FormatInt(at.Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "stagedoor-cli/" + version.String(),
		"X-Webhook-Signature": whole, "X-Webhook-Id": e.ID, "X-Webhook-Event": string(e.Kind),
		"X-Webhook-Attempt": "1", "X-Webhook-Timestamp": sent,
		"webhook-id": e.ID, "webhook-timestamp": sent, "webhook-signature": standard,
	} {
		req.Header.Set(name, value)
	}
	if seq := core.Deref(e.Meta.Seq); seq > 0 {
		req.Header.Set("X-Webhook-Sequence", strconv.FormatInt(seq, 10))
	}
	if f.replay {
		req.Header.Set("X-Webhook-Replay", "cli")
	}
	res, err := f.client.Do(req)
	took := func() int64 { return f.now().Sub(at).Milliseconds() }
	if err != nil {
		if ctx.Err() != nil {
			return outcome{}, ctx.Err()
		}
		return outcome{Millis: took(), Error: describeError(err)}, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxSnippet)) // only the status matters
	result := outcome{Status: res.StatusCode, Millis: took()}
	if !result.ok() {
		result.Error = output.OneLine(strings.TrimSpace(string(text)))
	}
	return result, nil
}

// describeError returns a short reason why there was no response.
func describeError(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return "no response within " + output.Short(receiverTimeout)
		}
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return "cannot connect (" + e.Err.Error() + ")"
	}
	return err.Error()
}

// format formats an outcome as the end of a line on a terminal.
func (o outcome) format(p *output.Printer) string {
	took := p.Style(output.Faint, fmt.Sprintf("%4d ms", o.Millis))
	switch {
	case o.Status == 0:
		return "→ " + p.Style(output.Bad, o.Error)
	case o.ok():
		return "→ " + p.Style(output.Good, strconv.Itoa(o.Status)) + "  " + took
	}
	return "→ " + p.Style(output.Bad, strconv.Itoa(o.Status)) + "  " + took
}

// tabbed formats an outcome as fields in a pipe.
func (o outcome) tabbed() string {
	return strings.Join([]string{strconv.Itoa(o.Status), strconv.FormatInt(o.Millis, 10), output.OneLine(o.Error)}, "\t")
}
