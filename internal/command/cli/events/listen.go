package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// listen is one run of the command.
type listen struct {
	app  *core.App
	want which
	// forwardTo is where events are posted; since, count and timeout say from where, how many and how long.
	forwardTo, since string
	count            int
	timeout          time.Duration
	printSecret      bool
	rotate           bool
	secretFile       string
	skipVerify       bool

	forward *forwarder
	mark    *mark
	names   names
	keys    bool
	began   bool
	// turn is held by whoever is in the middle of a delivery; it guards what is below.
	turn sync.Mutex
	// dropped is when the connection was lost; zero while there is one.
	dropped time.Time
	heard   int
	failed  []string
	// last is the delivery that failed last, and lastResult how; nil if none did, or it has got through since.
	last       *envelope
	lastResult outcome
}

func listenCommand(app *core.App) *cobra.Command {
	l := &listen{app: app, names: names{app: app}}
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Print events as they happen, and forward them to a receiver on this machine",
		Long: `Print events as they happen, and forward them to a receiver on this machine.

The place in the event log is kept on this machine for each organisation and filter. A laptop that sleeps, a connection that
breaks, a server that restarts or this program being killed lose nothing: the next event is the one after the last that was
printed and forwarded. --since goes to another place, now skips what was missed.

Forwarded events have the bytes and the headers of a real webhook and are signed with a secret of this machine, which stays the
same until --rotate. Give it to the receiver: stagedoor listen --print-secret`,
		Example: `  stagedoor listen
  stagedoor listen -a Maya --events 'message*,tips' --forward-to localhost:3000/hooks
  stagedoor listen --since 1h --count 10 --json
  WEBHOOK_SECRET=$(stagedoor listen --print-secret)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.want.flags(app, cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.forwardTo, "forward-to", "", "post each event to this address, signed")
	flags.StringVar(&l.since, "since", "", "begin there: 15m, 1h, 2d, a time, an event's id, now or all")
	flags.IntVarP(&l.count, "count", "n", 0, "end after so many events")
	flags.DurationVar(&l.timeout, "timeout", 0, "end after so long; a failure if --count was not reached")
	flags.BoolVar(&l.printSecret, "print-secret", false, "print the signing secret of this machine and end")
	flags.BoolVar(&l.rotate, "rotate", false, "make a new signing secret first")
	flags.StringVar(&l.secretFile, "secret-file", "", "sign with the secret in this file, such as that of a registered webhook; - is standard input")
	flags.BoolVar(&l.skipVerify, "skip-verify", false, "take any certificate of the receiver")
	return cmd
}

func (l *listen) run(ctx context.Context) error {
	if err := l.check(); err != nil {
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
	defer l.mark.close()
	return l.follow(ctx)
}

func (l *listen) check() error {
	switch {
	case l.count < 0:
		return core.Usage("--count must be a number from 1 on")
	case l.timeout < 0:
		return core.Usage("--timeout must be a duration such as 30s")
	case l.secretFile != "" && l.rotate:
		return core.Usage("--rotate makes a new secret of this machine, and --secret-file uses another one; choose one of them")
	case l.forwardTo == "" && (l.secretFile != "" || l.skipVerify) && !l.printSecret:
		return core.Usage("--secret-file and --skip-verify are for --forward-to")
	}
	return nil
}

func (l *listen) secret(p profile.Profile) (secret.String, error) {
	if l.secretFile == "" {
		return signingSecret(p.ConfigDir, p.OrgID, l.rotate)
	}
	text, err := l.app.ReadFile(l.secretFile)
	if err != nil {
		return secret.String{}, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return secret.String{}, core.Usage("%s holds no secret", l.secretFile)
	}
	return secret.New(strings.TrimSpace(string(text))), nil
}

// prepare finds where to begin, and what to sign with.
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
		l.app.Out.Say("%s", l.app.Out.Err(out.Faint, l.signing(key)))
	}
	mark, err := openMark(p.StateDir, p.OrgID, p.Name, l.want)
	if err != nil && !errors.Is(err, errTaken) {
		return err
	}
	if err != nil {
		l.app.Out.Warn("another stagedoor listen with this filter is running; this one starts at the same place but does not move it")
	}
	l.mark = mark
	return nil
}

func (l *listen) signing(key secret.String) string {
	switch {
	case l.secretFile != "":
		return "Signing with the secret in " + l.secretFile
	case l.rotate:
		return "Signing with the new " + secretStart(key) + "…  (tell the receiver: stagedoor listen --print-secret)"
	}
	return "Signing with " + secretStart(key) + "…  (same every time on this machine; --print-secret)"
}

// follow reads the stream until it is enough.
func (l *listen) follow(ctx context.Context) error {
	cursor, err := l.begin(ctx)
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
	f := &feed{app: l.app, want: l.want, cursor: cursor, onReady: l.ready, onDrop: l.drop}
	err = f.run(until, func(e *envelope) error { return l.take(until, e) })
	switch {
	case errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		l.summary()
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		l.summary()
		if l.count > 0 {
			return &core.Fault{Code: core.ExitOther, Text: fmt.Sprintf("only %d of %s came within %s", l.heard, plural(l.count, "event"), l.timeout)}
		}
		return nil
	}
	return err
}

// begin is the place in the log to start behind.
func (l *listen) begin(ctx context.Context) (string, error) {
	if l.since != "" {
		return placeOf(ctx, l.app, l.want, l.since)
	}
	return l.mark.cursor, nil
}

// errEnough ends a stream that has given as many events as were asked for.
var errEnough = errors.New("enough")

// ready tells where the stream goes on.
func (l *listen) ready(r stagedoor.StreamReady) {
	o := l.app.Out
	if err := l.remember(r); err != nil {
		o.Warn("%v", err)
	}
	switch {
	case l.began && r.Gap, r.Gap && l.since == "":
		o.Warn("some events are older than the plan keeps, and gone; resumed %s", after(l.place(r)))
	case l.began:
		o.Say("%s", o.Err(out.Faint, fmt.Sprintf("Connected again after %s; resumed %s (0 missed)", out.Short(l.app.Now().Sub(l.dropped)), after(l.place(r)))))
	case r.Resumed && l.since == "":
		o.Say("%s", o.Err(out.Faint, "Resumed "+after(r.Cursor)+" (0 missed)"))
	case r.Resumed:
		o.Say("%s", o.Err(out.Faint, "Starting "+after(r.Cursor)))
	default:
		o.Say("%s", o.Err(out.Faint, "Listening. Make something happen: stagedoor trigger message"))
	}
	l.began, l.dropped = true, time.Time{}
}

// remember keeps the place before the first event: a program that is killed before one comes must not miss it. A service that cannot
// go on at the place of the mark says where it is instead, which may be earlier.
func (l *listen) remember(r stagedoor.StreamReady) error {
	if r.Gap && l.since == "" {
		return l.mark.set(r.Cursor)
	}
	if l.began {
		return nil
	}
	return l.mark.save(r.Cursor)
}

// place is where the stream stands.
func (l *listen) place(r stagedoor.StreamReady) string {
	if r.Cursor != "" {
		return r.Cursor
	}
	return l.mark.cursor
}

// after is a place as a person would say it.
func after(cursor string) string {
	switch event := eventOf(cursor); {
	case event != "":
		return "after " + event
	case strings.Trim(cursor, "0.") == "":
		return "at the beginning of the log"
	}
	return "where it ended" // nothing had happened since it began
}

func (l *listen) drop(err error) {
	if !l.dropped.IsZero() {
		return // said already; silence until it is back
	}
	l.dropped = l.app.Now()
	reason := "the connection was lost"
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok && p.Code != stagedoor.CodeServerDraining {
		reason = string(p.Code) + ": " + p.Detail
	}
	l.app.Out.Say("%s", l.app.Out.Err(out.Attention, "… ")+reason+"; connecting again. Nothing is missed.")
}

// take prints and forwards an event, and then moves the mark: in this order, because an event twice is better than none.
func (l *listen) take(ctx context.Context, e *envelope) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.deliver(ctx, e); err != nil {
		return err
	}
	if err := l.mark.save(e.Cursor); err != nil {
		return err
	}
	l.heard++
	if l.count > 0 && l.heard >= l.count {
		return errEnough
	}
	return nil
}

func (l *listen) deliver(ctx context.Context, e *envelope) error {
	o := l.app.Out
	if l.forward == nil {
		switch {
		case o.JSON:
			o.Bytes(append(e.Raw, '\n'))
		case o.TTY:
			o.Data("%s", withDigest(row(ctx, o, &l.names, e), o, e))
		default:
			o.Data("%s", tabbed(e))
		}
		return nil
	}
	result, err := l.post(ctx, e)
	if err != nil {
		return err // stopped in the middle; it comes again next time
	}
	l.keep(e, result)
	return l.tell(ctx, e, result)
}

// post forwards an event. While the receiver takes its time a person sees which event it is.
func (l *listen) post(ctx context.Context, e *envelope) (outcome, error) {
	if o := l.app.Out; o.TTY && !o.JSON {
		defer o.Spin(row(ctx, o, &l.names, e) + "  → …").Stop()
	}
	return l.forward.send(ctx, e)
}

// keep remembers what failed, for the end and for the keys.
func (l *listen) keep(e *envelope, result outcome) {
	if result.ok() {
		return
	}
	l.failed = append(l.failed, e.ID)
	l.last, l.lastResult = e, result
}

func (l *listen) tell(ctx context.Context, e *envelope, result outcome) error {
	o := l.app.Out
	switch {
	case o.JSON:
		return o.Line(map[string]any{"event": json.RawMessage(e.Raw), "forward": result})
	case !o.TTY:
		o.Data("%s\t%s", tabbed(e), result.tabbed())
		return nil
	}
	text := row(ctx, o, &l.names, e) + "  " + result.tell(o)
	if !result.ok() && l.keys {
		text += "   " + o.Style(out.Faint, "r retry · d details · o open")
	} else if !result.ok() && result.Status > 0 && result.Error != "" {
		text += "\n          " + o.Style(out.Faint, out.Cut(result.Error, max(20, o.Width-12)))
	}
	o.Data("%s", text)
	return nil
}

// withDigest puts the gist of an event behind its line, as far as the terminal is wide.
func withDigest(line string, o *out.Printer, e *envelope) string {
	room := 60
	if o.Width > 0 {
		room = o.Width - rowWidth(o, e) - 2
	}
	gist := digest(e.Data)
	if gist == "" || room < 12 {
		return line
	}
	return line + "  " + out.Cut(gist, room)
}

// summary tells at the end what was heard, and how to send again what failed.
func (l *listen) summary() {
	o := l.app.Out
	if o.ErrTTY {
		o.Say("")
	}
	text := "Stopped. " + plural(l.heard, "event")
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
