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

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/version"
)

const (
	// patience is how long a receiver may take, as with a real webhook.
	patience = 10 * time.Second
	// snippet is how much of a receiver's answer is shown when it is not a success.
	snippet = 512
)

// forwarder posts events to a receiver as a webhook would.
type forwarder struct {
	url    string
	signer *sign.Signer
	client *http.Client
	now    func() time.Time
	// replay marks what is sent again.
	replay bool
}

func newForwarder(app *core.App, target string, key secret.String, insecure bool) (*forwarder, error) {
	target, err := receiver(target)
	if err != nil {
		return nil, err
	}
	return &forwarder{url: target, signer: sign.New(key), now: app.Now, client: &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: patience}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // only where --skip-verify says so, for a receiver on this machine
		},
		// A webhook does not follow either.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// receiver completes an address: 3000, :3000/hooks and localhost:3000/hooks are on this machine.
func receiver(text string) (string, error) {
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
		return "", core.UsageHint("Write it like localhost:3000/hooks or http://127.0.0.1:3000.", "%q is not an address to forward to", text)
	}
	return u.String(), nil
}

// outcome is how a receiver took an event.
type outcome struct {
	Status int `json:"status"`
	// Millis is how long the receiver took.
	Millis int64 `json:"durationMs"`
	// Error says why there was no answer, or holds the beginning of one that was not a success.
	Error string `json:"error,omitempty"`
}

func (o outcome) ok() bool { return o.Status >= 200 && o.Status < 300 }

// send posts one event. A failure of the receiver is an outcome; an error is that the command ends.
func (f *forwarder) send(ctx context.Context, e *envelope) (outcome, error) {
	at := f.now()
	whole, standard := f.signer.Sign(e.ID, at.Unix(), e.Raw)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(e.Raw))
	if err != nil {
		return outcome{}, fmt.Errorf("make the request: %w", err)
	}
	sent := strconv.FormatInt(at.Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "stagedoor-cli/" + version.String(),
		"X-Webhook-Signature": whole, "X-Webhook-Id": e.ID, "X-Webhook-Event": e.Event, "X-Webhook-Attempt": "1", "X-Webhook-Timestamp": sent,
		"webhook-id": e.ID, "webhook-timestamp": sent, "webhook-signature": standard,
	} {
		req.Header.Set(name, value)
	}
	if e.Meta.Seq > 0 {
		req.Header.Set("X-Webhook-Sequence", strconv.FormatInt(e.Meta.Seq, 10))
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
		return outcome{Millis: took(), Error: unreached(err)}, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, snippet)) // the status counts; the rest is for reading
	result := outcome{Status: res.StatusCode, Millis: took()}
	if !result.ok() {
		result.Error = out.OneLine(strings.TrimSpace(string(text)))
	}
	return result, nil
}

// unreached says in few words why there was no answer.
func unreached(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return "no answer within " + out.Short(patience)
		}
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return "nothing listens there (" + e.Err.Error() + ")"
	}
	return err.Error()
}

// tell is an outcome as the end of a person's line.
func (o outcome) tell(p *out.Printer) string {
	took := p.Style(out.Faint, fmt.Sprintf("%4d ms", o.Millis))
	switch {
	case o.Status == 0:
		return "→ " + p.Style(out.Bad, o.Error)
	case o.ok():
		return "→ " + p.Style(out.Good, strconv.Itoa(o.Status)) + "  " + took
	}
	return "→ " + p.Style(out.Bad, strconv.Itoa(o.Status)) + "  " + took
}

// tabbed is an outcome as fields for a pipe.
func (o outcome) tabbed() string {
	return strings.Join([]string{strconv.Itoa(o.Status), strconv.FormatInt(o.Millis, 10), out.OneLine(o.Error)}, "\t")
}
