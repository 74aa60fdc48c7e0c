package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

const (
	// between is how long to wait before the request log is read again. It is some seconds behind anyway.
	between = 2 * time.Second
	// late is how much later than others a request may appear in the log: they are listed by when they began.
	late = 30 * time.Second
	// most is how many lines can be asked for at once.
	most = 100
)

func checkLines(n int) error {
	if n < 0 || n > most {
		return core.Usage("--lines must be a number from 0 to %d", most)
	}
	return nil
}

func tailEvents(app *core.App) *cobra.Command {
	var want which
	lines, stay := 10, true
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the last events, and then each as it happens",
		Long: `Show the last events, and then each as it happens.

Unlike listen it remembers nothing and forwards nothing: look as often as you like.`,
		Example: `  stagedoor tail events -a Maya
  stagedoor tail events --events 'tips,subscribed' --lines 50
  stagedoor tail events --follow=false --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLines(lines); err != nil {
				return err
			}
			return tailEventsRun(cmd.Context(), app, want, lines, stay)
		},
	}
	want.flags(app, cmd)
	cmd.Flags().IntVarP(&lines, "lines", "n", lines, "begin with so many of the last events")
	cmd.Flags().BoolVarP(&stay, "follow", "f", true, "stay and show what comes")
	return cmd
}

func tailEventsRun(ctx context.Context, app *core.App, want which, lines int, stay bool) error {
	if stay {
		if _, err := app.Announce(ctx); err != nil {
			return err
		}
	}
	if err := want.resolve(ctx, app); err != nil {
		return err
	}
	known := &names{app: app}
	show := func(e *envelope) error {
		switch o := app.Out; {
		case o.JSON:
			o.Bytes(append(e.Raw, '\n'))
		case o.TTY:
			o.Data("%s", withDigest(row(ctx, o, known, e), o, e))
		default:
			o.Data("%s", tabbed(e))
		}
		return nil
	}
	cursor := ""
	if lines > 0 {
		last, place, err := lastEvents(ctx, app, want, lines)
		if err != nil {
			return err
		}
		cursor = place
		for i := range last {
			if err := show(&last[i]); err != nil {
				return err
			}
		}
		if len(last) == 0 && !stay {
			app.Out.Say("No events.")
		}
	}
	if !stay {
		return nil
	}
	f := &feed{app: app, want: want, cursor: cursor, onReady: func(stagedoor.StreamReady) {}, onDrop: func(error) {}}
	return f.run(ctx, show)
}

// lastEvents are the newest, oldest of them first, and the place behind them, where the stream goes on.
func lastEvents(ctx context.Context, app *core.App, want which, n int) ([]envelope, string, error) {
	query := want.query()
	query.Set("latest", strconv.Itoa(n))
	var got struct {
		Events []json.RawMessage `json:"events"`
	}
	if _, err := app.Get(ctx, "/v1/events", query, &got); err != nil {
		return nil, "", err
	}
	list := make([]envelope, len(got.Events))
	for i, raw := range got.Events {
		e, err := readEnvelope(raw, "")
		if err != nil {
			return nil, "", err
		}
		list[len(list)-1-i] = e
	}
	if len(list) == 0 {
		return nil, "", nil
	}
	newest := list[len(list)-1].ID
	place, err := search(ctx, app, want.query(), func(id string, _ time.Time) bool { return id == newest }, func(time.Time) bool { return false })
	return list, place, err
}

// entry is what is shown of a request.
type entry struct {
	RequestID  string    `json:"requestId"`
	At         time.Time `json:"at"`
	Method     string    `json:"method"`
	HTTP       string    `json:"http"`
	Status     int       `json:"status"`
	DurationMs float64   `json:"durationMs"`
	AccountID  *string   `json:"accountId"`
	Source     string    `json:"source"`
	Code       *string   `json:"code"`
	raw        json.RawMessage
}

// logs is one run of tail logs.
type logs struct {
	app                                     *core.App
	account, status, method, code, key, src string
	lines                                   int
	stay, all                               bool
	names                                   names
	// seen are requests that were shown, by when they began: those that can still appear twice.
	seen map[string]time.Time
	from time.Time
}

func tailLogs(app *core.App) *cobra.Command {
	l := &logs{app: app, names: names{app: app}, seen: map[string]time.Time{}}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the last requests, and then each as it is made",
		Long: `Show the last requests, and then each as it is made.

A request is shown a second or two after its answer. What this command itself asks is left out, unless --all.`,
		Example: `  stagedoor tail logs --status 4xx
  stagedoor tail logs -a Maya --method messages.send
  stagedoor tail logs --code quota-exceeded --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLines(l.lines); err != nil {
				return err
			}
			return l.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&l.account, "account", "a", "", "only this account: its id, label or user name")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	flags.StringVar(&l.status, "status", "", "only this status, or class of statuses: 429, 2xx, 4xx, 5xx")
	flags.StringVar(&l.method, "method", "", "only this SDK method, such as messages.send, or operation, such as listAccounts")
	flags.StringVar(&l.code, "code", "", "only requests that ended with this problem")
	flags.StringVar(&l.key, "key", "", "only requests of this API key, by its id")
	flags.StringVar(&l.src, "source", "", "only requests of api, dashboard or cli")
	flags.IntVarP(&l.lines, "lines", "n", 10, "begin with so many of the last requests")
	flags.BoolVarP(&l.stay, "follow", "f", true, "stay and show what comes")
	flags.BoolVar(&l.all, "all", false, "show also what this command itself asks")
	return cmd
}

func (l *logs) run(ctx context.Context) error {
	if l.stay {
		if _, err := l.app.Announce(ctx); err != nil {
			return err
		}
	}
	if l.account != "" {
		account, err := l.app.Account(ctx, l.account)
		if err != nil {
			return err
		}
		l.account = account.ID
	}
	// More than asked for, because some are left out; also with 0 lines, to know what is old.
	list, err := l.read(ctx, time.Time{}, most)
	if err != nil {
		return err
	}
	l.show(ctx, list[max(0, len(list)-l.lines):])
	for _, e := range list {
		l.note(e)
	}
	if len(list) == 0 && !l.stay {
		l.app.Out.Say("No requests.")
	}
	if l.from.IsZero() {
		l.from = l.app.Now()
	}
	for l.stay {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(between):
		}
		if err := l.more(ctx); err != nil {
			return err
		}
	}
	return nil
}

// more shows what has come since the last time.
func (l *logs) more(ctx context.Context) error {
	list, err := l.read(ctx, l.from.Add(-late), 1000)
	if err != nil {
		if temporary(err) {
			return nil // the log is still there when the server is back
		}
		return err
	}
	list = slices.DeleteFunc(list, func(e entry) bool { _, shown := l.seen[e.RequestID]; return shown })
	l.show(ctx, list)
	for _, e := range list {
		l.note(e)
	}
	for id, at := range l.seen {
		if at.Before(l.from.Add(-2 * late)) {
			delete(l.seen, id)
		}
	}
	return nil
}

// temporary says whether asking again later can help.
func temporary(err error) bool {
	if p, ok := errors.AsType[*core.Problem](err); ok {
		return p.Retryable
	}
	f, ok := errors.AsType[*core.Fault](err)
	return ok && f.Code == core.ExitOther // no answer
}

func (l *logs) note(e entry) {
	l.seen[e.RequestID] = e.At
	if e.At.After(l.from) {
		l.from = e.At
	}
}

// read lists up to n requests since a time, oldest first.
func (l *logs) read(ctx context.Context, since time.Time, n int) ([]entry, error) {
	query := url.Values{"limit": {strconv.Itoa(most)}}
	for name, value := range map[string]string{"accountId": l.account, "status": l.status, "method": l.method, "code": l.code, "keyId": l.key, "source": l.src} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	var list []entry
	for {
		var got struct {
			Logs       []json.RawMessage `json:"logs"`
			NextCursor *string           `json:"nextCursor"`
		}
		if _, err := l.app.Get(ctx, "/v1/logs", query, &got); err != nil {
			return nil, err
		}
		for _, raw := range got.Logs {
			e := entry{raw: raw}
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("read a request: %w", err)
			}
			if l.all || e.Method != "listLogs" || e.Source != "cli" {
				list = append(list, e)
			}
		}
		if got.NextCursor == nil || len(list) >= n || len(got.Logs) == 0 {
			break
		}
		query.Set("cursor", *got.NextCursor)
	}
	slices.Reverse(list)
	return list, nil
}

func (l *logs) show(ctx context.Context, list []entry) {
	o := l.app.Out
	for _, e := range list {
		code, account := core.Deref(e.Code), core.Deref(e.AccountID)
		switch {
		case o.JSON:
			o.Bytes(append(e.raw, '\n'))
		case o.TTY:
			name := ""
			if account != "" {
				name = out.Cut(out.OneLine(l.names.of(ctx, account)), 16)
			}
			line := fmt.Sprintf("%s  %s  %s  %s  %s  %s  %s", o.Style(out.Faint, out.Clock(e.At)), o.Style(out.StatusTone(e.Status), strconv.Itoa(e.Status)),
				pad(e.HTTP, 6), o.Style(out.Strong, pad(e.Method, 24)), pad(name, 16), o.Style(out.Faint, fmt.Sprintf("%6.0f ms", e.DurationMs)), o.Style(out.Faint, e.RequestID))
			if code != "" {
				line += "  " + o.Style(out.StatusTone(e.Status), code)
			}
			o.Data("%s", line)
		default:
			o.Data("%s", strings.Join([]string{e.At.Format(stamp), strconv.Itoa(e.Status), e.HTTP, e.Method, account, strconv.FormatFloat(e.DurationMs, 'f', -1, 64), e.RequestID, code}, "\t"))
		}
	}
}
