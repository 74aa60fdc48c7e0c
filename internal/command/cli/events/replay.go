package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// replay is one run of events replay.
type replay struct {
	app        *core.App
	forwardTo  string
	secretFile string
	skipVerify bool
}

// Replay is `events replay`, for the group of commands about events.
func Replay(app *core.App) *cobra.Command {
	r := &replay{app: app}
	cmd := &cobra.Command{
		Use:   "replay <event>...",
		Short: "Send events again, to a receiver on this machine or to their account's webhook",
		Long: `Send events again, to a receiver on this machine or to their account's webhook.

With --forward-to they are posted from here, signed as listen signs them. Without it the service sends each to the webhook of its
account again, with its first bytes and id.`,
		Example: `  stagedoor events replay evt_01m7h0zrckf5s8swedzqcs95bz --forward-to localhost:3000/hooks
  stagedoor events replay evt_01m7h0zrckf5s8swedzqcs95bz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&r.forwardTo, "forward-to", "", "post them to this address instead, signed")
	cmd.Flags().StringVar(&r.secretFile, "secret-file", "", "sign with the secret in this file; - is standard input")
	cmd.Flags().BoolVar(&r.skipVerify, "skip-verify", false, "take any certificate of the receiver")
	return cmd
}

func (r *replay) run(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, "evt_") {
			return core.UsageHint("Find one: stagedoor tail events", "%q is not the id of an event", id)
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
	l.forward, l.names = forward, names{app: r.app}
	for _, id := range ids {
		e, err := r.find(ctx, id)
		if err != nil {
			return err
		}
		if err := l.deliver(ctx, &e); err != nil {
			return err
		}
	}
	if n := len(l.failed); n > 0 {
		return &core.Fault{Code: core.ExitOther, Text: fmt.Sprintf("%d of %s did not get through", n, plural(len(ids), "event"))}
	}
	return nil
}

func (r *replay) find(ctx context.Context, id string) (envelope, error) {
	var got struct {
		Event json.RawMessage `json:"event"`
	}
	if _, err := r.app.Get(ctx, "/v1/events/"+url.PathEscape(id), nil, &got); err != nil {
		return envelope{}, err
	}
	return readEnvelope(got.Event, "")
}

// toWebhooks asks the service to send each event again. It replays a stretch of the log, so the stretch is as long as one event.
func (r *replay) toWebhooks(ctx context.Context, ids []string) error {
	for _, id := range ids {
		e, err := r.find(ctx, id)
		if err != nil {
			return err
		}
		if e.AccountID == "" {
			return core.UsageHint("Send it to a receiver of yours: --forward-to", "%s is about the organisation, and webhooks belong to accounts", id)
		}
		reply, err := r.app.Send(ctx, "POST", "/v1/accounts/"+url.PathEscape(e.AccountID)+"/webhook/replay", map[string]any{
			"fromId": id, "toTime": e.TS.Add(time.Millisecond).Format(time.RFC3339Nano), "events": []string{e.Event},
		}, nil)
		if err != nil {
			return err
		}
		switch o := r.app.Out; {
		case o.JSON:
			o.Body(reply.Body)
		case o.TTY:
			o.Done("%s %s is on its way again", e.Event, id)
			o.Hint("See how it went: stagedoor webhooks deliveries %s", e.AccountID)
		default:
			o.Data("%s\t%s", out.OneLine(e.Event), id)
		}
	}
	return nil
}
