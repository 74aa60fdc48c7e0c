package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// listen holds the flags and the state of one run.
type listen struct {
	app  *core.App
	want filter

	// Flags.
	forwardTo, since string
	count            int
	timeout          time.Duration
	printSecret      bool
	rotate           bool
	secretFile       string
	skipVerify       bool

	forward    *forwarder
	checkpoint *checkpoint
	names      nameCache
	keys       bool
	// connected is set by the first connect and stays set.
	connected bool
	// mu is held during a delivery, so that keys wait for it. It guards the failed deliveries below.
	mu sync.Mutex
	// dropped is when the connection was lost; zero while connected.
	dropped  time.Time
	received int
	failed   []string
	// last is the last failed delivery and lastResult its outcome. It is nil if none failed or it was delivered since.
	last       *stagedoor.Event
	lastResult outcome
}

func listenCommand(app *core.App) *cobra.Command {
	l := &listen{app: app, names: nameCache{app: app}}
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Print events as they happen, and forward them to a local receiver",
		Long: `Print events as they happen, and forward them to a local receiver.

The position in the event log is saved on this machine for each organisation and filter. No event is lost if the laptop
sleeps, the connection breaks, the server restarts or this command is killed: the next run continues after the last
event that was printed and forwarded. Use --since to start at another position; --since now skips missed events.

Forwarded events have the bytes and headers of a real webhook. They are signed with a secret of this machine that stays
the same until you use --rotate. To configure the receiver, print it with stagedoor listen --print-secret.`,
		Example: `  stagedoor listen
  stagedoor listen -a Maya --events 'message*,tips' --forward-to localhost:3000/hooks
  stagedoor listen --since 1h --count 10 --json
  WEBHOOK_SECRET=$(stagedoor listen --print-secret)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.want.flags(app, cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.forwardTo, "forward-to", "", "post each event, signed, to this address")
	flags.StringVar(&l.since, "since", "", "start at 15m, 1h or 2d ago, a time, an event id, now or all")
	flags.IntVarP(&l.count, "count", "n", 0, "exit after N events")
	flags.DurationVar(&l.timeout, "timeout", 0, "exit after this time; fail if --count was not reached")
	flags.BoolVar(&l.printSecret, "print-secret", false, "print the signing secret of this machine and exit")
	flags.BoolVar(&l.rotate, "rotate", false, "create a new signing secret first")
	flags.StringVar(&l.secretFile, "secret-file", "",
		"sign with the secret in this file, such as a registered webhook's; - reads standard input")
	flags.BoolVar(&l.skipVerify, "skip-verify", false, "accept any certificate of the receiver")
	return cmd
}

func (l *listen) run(ctx context.Context) error {
	if err := l.checkFlags(); err != nil {
		return err
	}
	if l.printSecret {
		p, err := l.app.Profile(ctx)
		if err != nil {
			return err
		}
		key, err := l.secret(p)
		if err != nil {
			return err
		}
		if l.app.Out.JSON {
			return l.app.Out.Value(map[string]string{"signingSecret": key.Reveal(), "orgId": p.OrgID})
		}
		l.app.Out.Data("%s", key.Reveal())
		return nil
	}
	p, err := l.app.Announce(ctx)
	if err != nil {
		return err
	}
	if err := l.want.resolve(ctx, l.app); err != nil {
		return err
	}
	if err := l.prepare(p); err != nil {
		return err
	}
	defer l.checkpoint.close()
	return l.follow(ctx)
}

func (l *listen) checkFlags() error {
	switch {
	case l.count < 0:
		return core.Usage("--count must be at least 1")
	case l.timeout < 0:
		return core.Usage("--timeout must be a duration such as 30s")
	case l.secretFile != "" && l.rotate:
		return core.Usage("--rotate and --secret-file cannot be used together")
	case l.forwardTo == "" && (l.secretFile != "" || l.skipVerify) && !l.printSecret:
		return core.Usage("--secret-file and --skip-verify require --forward-to")
	}
	return nil
}

// secret returns the signing secret: the one in --secret-file, or this machine's own.
func (l *listen) secret(p profile.Profile) (secret.String, error) {
	if l.secretFile == "" {
		return signingSecret(p.ConfigDir, p.OrgID, l.rotate)
	}
	text, err := l.app.ReadFile(l.secretFile)
	if err != nil {
		return secret.String{}, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return secret.String{}, core.Usage("%s is empty", l.secretFile)
	}
	return secret.New(strings.TrimSpace(string(text))), nil
}

// prepare sets up the forwarder and opens the checkpoint.
func (l *listen) prepare(p profile.Profile) error {
	if l.forwardTo != "" || l.rotate {
		key, err := l.secret(p)
		if err != nil {
			return err
		}
		if l.forwardTo != "" {
			if l.forward, err = newForwarder(l.app, l.forwardTo, key, l.skipVerify); err != nil {
				return err
			}
		}
		l.app.Out.Say("%s", l.app.Out.Err(output.Faint, l.signingNote(key)))
	}
	checkpoint, err := openCheckpoint(p.StateDir, p.OrgID, p.Name, l.want)
	if err != nil && !errors.Is(err, errTaken) {
		return err
	}
	if err != nil {
		l.app.Out.Warn("another stagedoor listen with this filter is running; this one does not save its position")
	}
	l.checkpoint = checkpoint
	return nil
}

func (l *listen) signingNote(key secret.String) string {
	switch {
	case l.secretFile != "":
		return "Signing with the secret in " + l.secretFile
	case l.rotate:
		return "Signing with the new " + secretStart(key) + "…  (for the receiver: stagedoor listen --print-secret)"
	}
	return "Signing with " + secretStart(key) + "…  (stays the same on this machine; --print-secret)"
}

// follow reads the stream until --count or --timeout is reached or the context ends.
func (l *listen) follow(ctx context.Context) error {
	cursor, err := l.startCursor(ctx)
	if err != nil {
		return err
	}
	until := ctx
	if l.timeout > 0 {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}
	stopKeys := l.watchKeys(until)
	defer stopKeys()
	f := &feed{app: l.app, want: l.want, cursor: cursor, onReady: l.onReady, onDrop: l.onDrop}
	err = f.run(until, func(e *stagedoor.Event) error { return l.handleEvent(until, e) })
	switch {
	case errors.Is(err, errCountReached):
		return nil
	case ctx.Err() != nil:
		l.summary()
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		l.summary()
		if l.count > 0 {
			text := fmt.Sprintf("received only %d of %s within %s", l.received, plural(l.count, "event"), l.timeout)
			return &core.Fault{Code: core.ExitOther, Text: text}
		}
		return nil
	}
	return err
}

// startCursor returns the position in the log to start after.
func (l *listen) startCursor(ctx context.Context) (string, error) {
	if l.since != "" {
		return resolveSince(ctx, l.app, l.want, l.since)
	}
	return l.checkpoint.cursor, nil
}

// errCountReached ends the stream after --count events.
var errCountReached = errors.New("count reached")

// onReady saves the start position and reports where the stream starts or resumes.
func (l *listen) onReady(r stagedoor.StreamReady) {
	o := l.app.Out
	if err := l.saveStart(r); err != nil {
		o.Warn("%v", err)
	}
	switch {
	case l.connected && r.Gap, r.Gap && l.since == "":
		o.Warn("some missed events exceeded the plan's retention and were deleted; resumed %s",
			describePosition(l.position(r)))
	case l.connected:
		away := output.Short(l.app.Now().Sub(l.dropped))
		o.Say("%s", o.Err(output.Faint,
			fmt.Sprintf("Reconnected after %s; resumed %s (0 missed)", away, describePosition(l.position(r)))))
	case r.Resumed && l.since == "":
		o.Say("%s", o.Err(output.Faint, "Resumed "+describePosition(r.Cursor)+" (0 missed)"))
	case r.Resumed:
		o.Say("%s", o.Err(output.Faint, "Starting "+describePosition(r.Cursor)))
	default:
		o.Say("%s", o.Err(output.Faint, "Listening. Trigger an event: stagedoor trigger message"))
	}
	l.connected, l.dropped = true, time.Time{}
}

// saveStart saves the position before the first event, so that the first event is not missed if the command is killed
// before it arrives. After a gap the service continues at another position, which may be earlier than the checkpoint.
func (l *listen) saveStart(r stagedoor.StreamReady) error {
	if r.Gap && l.since == "" {
		return l.checkpoint.set(r.Cursor)
	}
	if l.connected {
		return nil
	}
	return l.checkpoint.advance(r.Cursor)
}

// position returns the stream's position, or the checkpoint if the service did not send one.
func (l *listen) position(r stagedoor.StreamReady) string {
	return cmp.Or(r.Cursor, l.checkpoint.cursor)
}

func describePosition(cursor string) string {
	switch event := eventInCursor(cursor); {
	case event != "":
		return "after " + event
	case strings.Trim(cursor, "0.") == "":
		return "at the beginning of the log"
	}
	return "at the last position" // a cursor without an event: none had arrived yet
}

func (l *listen) onDrop(err error) {
	if !l.dropped.IsZero() {
		return // reported already; stay silent until reconnected
	}
	l.dropped = l.app.Now()
	reason := "connection lost"
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok && p.Code != stagedoor.CodeServerDraining {
		reason = string(p.Code) + ": " + p.Detail
	}
	l.app.Out.Say("%s", l.app.Out.Err(output.Attention, "… ")+reason+"; reconnecting. No events will be missed.")
}

// handleEvent prints and forwards an event, then moves the checkpoint. In this order an event may be repeated after a
// crash, but is never lost.
func (l *listen) handleEvent(ctx context.Context, e *stagedoor.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.deliver(ctx, e); err != nil {
		return err
	}
	if err := l.checkpoint.advance(e.Cursor); err != nil {
		return err
	}
	l.received++
	if l.count > 0 && l.received >= l.count {
		return errCountReached
	}
	return nil
}

func (l *listen) deliver(ctx context.Context, e *stagedoor.Event) error {
	o := l.app.Out
	if l.forward == nil {
		switch {
		case o.JSON:
			o.Bytes(append(e.Raw, '\n'))
		case o.TTY:
			o.Data("%s", withDigest(formatRow(ctx, o, &l.names, e), o, e))
		default:
			o.Data("%s", tabbed(e))
		}
		return nil
	}
	result, err := l.post(ctx, e)
	if err != nil {
		return err // interrupted; the next run delivers it again
	}
	l.recordFailure(e, result)
	return l.printForwarded(ctx, e, result)
}

// post forwards an event. On a terminal it shows the event while it waits for the receiver.
func (l *listen) post(ctx context.Context, e *stagedoor.Event) (outcome, error) {
	if o := l.app.Out; o.TTY && !o.JSON {
		defer o.Spin(formatRow(ctx, o, &l.names, e) + "  → …").Stop()
	}
	return l.forward.send(ctx, e)
}

// recordFailure records a failed delivery for the summary and the keys.
func (l *listen) recordFailure(e *stagedoor.Event, result outcome) {
	if result.ok() {
		return
	}
	l.failed = append(l.failed, e.ID)
	l.last, l.lastResult = e, result
}

func (l *listen) printForwarded(ctx context.Context, e *stagedoor.Event, result outcome) error {
	o := l.app.Out
	switch {
	case o.JSON:
		return o.Line(map[string]any{"event": e.Raw, "forward": result})
	case !o.TTY:
		o.Data("%s\t%s", tabbed(e), result.tabbed())
		return nil
	}
	text := formatRow(ctx, o, &l.names, e) + "  " + result.format(o)
	if !result.ok() && l.keys {
		text += "   " + o.Style(output.Faint, "r retry · d details · o open")
	} else if !result.ok() && result.Status > 0 && result.Error != "" {
		text += "\n          " + o.Style(output.Faint, output.Cut(result.Error, max(20, o.Width-12)))
	}
	o.Data("%s", text)
	return nil
}

// withDigest appends the event's digest to its line, cut to the terminal's width.
func withDigest(line string, o *output.Printer, e *stagedoor.Event) string {
	room := 60
	if o.Width > 0 {
		room = o.Width - rowWidth(o, e) - 2
	}
	gist := digest(core.EventData(e))
	if gist == "" || room < 12 {
		return line
	}
	return line + "  " + output.Cut(gist, room)
}

// summary prints the number of events, and the command that replays the failed ones.
func (l *listen) summary() {
	o := l.app.Out
	if o.ErrTTY {
		o.Say("")
	}
	text := "Stopped. " + plural(l.received, "event")
	if len(l.failed) == 0 {
		o.Say("%s.", text)
		return
	}
	const most = 5
	again := l.failed[:min(len(l.failed), most)]
	them, rest := "it", ""
	if len(l.failed) > 1 {
		them = "them"
	}
	if len(l.failed) > most {
		rest = fmt.Sprintf("  (and %d more: stagedoor listen --since %s --forward-to %s)", len(l.failed)-most, l.failed[most-1], core.Quote(l.forwardTo))
	}
	o.Say("%s, %d failed. Replay %s:  stagedoor events replay %s --forward-to %s%s", text, len(l.failed), them, strings.Join(again, " "), core.Quote(l.forwardTo), rest)
}
