package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// replay holds the flags of events replay.
type replay struct {
	app        *core.App
	forwardTo  string
	secretFile string
	skipVerify bool
}

// Replay returns `events replay`. Package manage adds it to the group events.
func Replay(app *core.App) *cobra.Command {
	r := &replay{app: app}
	cmd := &cobra.Command{
		Use:   "replay <event>...",
		Short: "Resend events to a local receiver or to their account's webhook",
		Long: `Resend events to a local receiver or to their account's webhook.

With --forward-to this command posts the events, signed as stagedoor listen signs them. Without it the service resends
each event to the webhook of its account, with its original bytes and id.`,
		Example: `  stagedoor events replay evt_01m7h0zrckf5s8swedzqcs95bz --forward-to localhost:3000/hooks
  stagedoor events replay evt_01m7h0zrckf5s8swedzqcs95bz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&r.forwardTo, "forward-to", "", "post the events, signed, to this address instead")
	cmd.Flags().StringVar(&r.secretFile, "secret-file", "", "sign with the secret in this file; - reads standard input")
	cmd.Flags().BoolVar(&r.skipVerify, "skip-verify", false, "accept any certificate of the receiver")
	return cmd
}

func (r *replay) run(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, "evt_") {
			return core.UsageHint("Find one: stagedoor tail events", "%q is not an event id", id)
		}
	}
	if r.forwardTo == "" {
		return r.toWebhooks(ctx, ids)
	}
	p, err := r.app.Profile(ctx)
	if err != nil {
		return err
	}
	l := &listen{app: r.app, secretFile: r.secretFile}
	key, err := l.secret(p)
	if err != nil {
		return err
	}
	forward, err := newForwarder(r.app, r.forwardTo, key, r.skipVerify)
	if err != nil {
		return err
	}
	forward.replay = true
	l.forward, l.names = forward, nameCache{app: r.app}
	for _, id := range ids {
		e, err := r.app.API().Events.Get(ctx, id)
		if err != nil {
			return err
		}
		if err := l.deliver(ctx, e); err != nil {
			return err
		}
	}
	if n := len(l.failed); n > 0 {
		return &core.Fault{Code: core.ExitOther, Text: fmt.Sprintf("%d of %s failed", n, plural(len(ids), "event"))}
	}
	return nil
}

// toWebhooks asks the service to resend each event. The API replays a range of the log, so each request asks for a
// range of one millisecond and the event's kind.
func (r *replay) toWebhooks(ctx context.Context, ids []string) error {
	for _, id := range ids {
		e, err := r.app.API().Events.Get(ctx, id)
		if err != nil {
			return err
		}
		if e.AccountID == "" {
			return core.UsageHint("Send it to a local receiver with --forward-to.",
				"%s belongs to no account, so there is no webhook for it", id)
		}
		params := stagedoor.WebhooksReplayParams{
			FromID: id, ToTime: e.Time.Add(time.Millisecond), Events: []string{string(e.Kind)},
		}
		var res stagedoor.Response
		if _, err := r.app.API().Webhooks.Replay(ctx, e.AccountID, params, stagedoor.WithResponse(&res)); err != nil {
			return err
		}
		switch o := r.app.Out; {
		case o.JSON:
			o.Body(res.Body)
		case o.TTY:
			o.Done("Resending %s %s", e.Kind, id)
			o.Hint("Check the result: stagedoor webhooks deliveries %s", e.AccountID)
		default:
			o.Data("%s\t%s", output.OneLine(string(e.Kind)), id)
		}
	}
	return nil
}
