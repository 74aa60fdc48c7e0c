package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

const (
	// pollInterval is the time between two reads of the request log. The log itself lags by a few seconds.
	pollInterval = 2 * time.Second
	// maxDelay bounds how long after its start a request may appear in the log, which is ordered by start.
	maxDelay = 30 * time.Second
	// maxLines is the maximum of --lines and the page size.
	maxLines = 100
)

func checkLines(n int) error {
	if n < 0 || n > maxLines {
		return core.Usage("--lines must be between 0 and %d", maxLines)
	}
	return nil
}

func tailEvents(app *core.App) *cobra.Command {
	var want filter
	lines, follow := 10, true
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the last events, then follow new ones",
		Long: `Show the last events, then follow new ones.

Unlike stagedoor listen, it saves no position and forwards nothing.`,
		Example: `  stagedoor tail events -a Maya
  stagedoor tail events --events 'tips,subscribed' --lines 50
  stagedoor tail events --follow=false --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLines(lines); err != nil {
				return err
			}
			return runTailEvents(cmd.Context(), app, want, lines, follow)
		},
	}
	want.flags(app, cmd)
	cmd.Flags().IntVarP(&lines, "lines", "n", lines, "start with the last N events")
	cmd.Flags().BoolVarP(&follow, "follow", "f", true, "keep running and show new events")
	return cmd
}

func runTailEvents(ctx context.Context, app *core.App, want filter, lines int, follow bool) error {
	if follow {
		if _, err := app.Announce(ctx); err != nil {
			return err
		}
	}
	if err := want.resolve(ctx, app); err != nil {
		return err
	}
	known := &nameCache{app: app}
	show := func(e *stagedoor.Event) error {
		switch o := app.Out; {
		case o.JSON:
			o.Bytes(append(e.Raw, '\n'))
		case o.TTY:
			o.Data("%s", withDigest(formatRow(ctx, o, known, e), o, e))
		default:
			o.Data("%s", tabbed(e))
		}
		return nil
	}
	cursor := ""
	if lines > 0 {
		last, position, err := lastEvents(ctx, app, want, lines)
		if err != nil {
			return err
		}
		cursor = position
		for i := range last {
			if err := show(&last[i]); err != nil {
				return err
			}
		}
		if len(last) == 0 && !follow {
			app.Out.Say("No events.")
		}
	}
	if !follow {
		return nil
	}
	f := &feed{app: app, want: want, cursor: cursor, onReady: func(stagedoor.StreamReady) {}, onDrop: func(error) {}}
	return f.run(ctx, show)
}

// lastEvents returns the newest n events in chronological order, and the cursor of the last one,
// where the stream continues.
func lastEvents(ctx context.Context, app *core.App, want filter, n int) ([]stagedoor.Event, string, error) {
	got, err := fetchNewest(ctx, app, want.params(), n)
	if err != nil {
		return nil, "", err
	}
	list := got.Events
	slices.Reverse(list)
	if len(list) == 0 {
		return nil, "", nil
	}
	newest := list[len(list)-1].ID
	isNewest := func(id string, _ time.Time) bool { return id == newest }
	cursor, err := searchBack(ctx, app, want.params(), isNewest, func(time.Time) bool { return false })
	return list, cursor, err
}

// entry is a request in the log, with its JSON.
type entry struct {
	stagedoor.Log
	raw json.RawMessage
}

// logTail holds the flags and the state of tail logs.
type logTail struct {
	app         *core.App
	filter      core.LogFilter
	params      stagedoor.LogsListParams
	lines       int
	follow, all bool
	names       nameCache
	// seen holds the start times of shown requests that a later read may return again.
	seen map[string]time.Time
	// from is the start of the latest shown request.
	from time.Time
}

func tailLogs(app *core.App) *cobra.Command {
	l := &logTail{app: app, names: nameCache{app: app}, seen: map[string]time.Time{}}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the last API requests, then follow new ones",
		Long: `Show the last API requests, then follow new ones.

A request appears a second or two after its response. Requests of this command are hidden unless you add --all.`,
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
	l.filter.AddFlags(app, cmd)
	flags.IntVarP(&l.lines, "lines", "n", 10, "start with the last N requests")
	flags.BoolVarP(&l.follow, "follow", "f", true, "keep running and show new requests")
	flags.BoolVar(&l.all, "all", false, "include the requests of this command")
	return cmd
}

func (l *logTail) run(ctx context.Context) error {
	if l.follow {
		if _, err := l.app.Announce(ctx); err != nil {
			return err
		}
	}
	if l.filter.Account != "" {
		// Following the requests of an account that does not exist would never show anything.
		account, err := l.app.Account(ctx, l.filter.Account)
		if err != nil {
			return err
		}
		l.filter.Account = account.ID
	}
	var err error
	if l.params, err = l.filter.Params(ctx, l.app); err != nil {
		return err
	}
	// Read a full page even for fewer lines: read drops this command's own requests, and showNew must know what is old.
	list, err := l.read(ctx, time.Time{}, maxLines)
	if err != nil {
		return err
	}
	l.show(ctx, list[max(0, len(list)-l.lines):])
	for _, e := range list {
		l.markSeen(e)
	}
	if len(list) == 0 && !l.follow {
		l.app.Out.Say("No requests.")
	}
	if l.from.IsZero() {
		l.from = l.app.Now()
	}
	for l.follow {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
		if err := l.showNew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// showNew shows requests that have appeared since the last read. It reads maxDelay further back and skips what it has
// seen, because slow requests appear late.
func (l *logTail) showNew(ctx context.Context) error {
	list, err := l.read(ctx, l.from.Add(-maxDelay), 1000)
	if err != nil {
		if isTemporary(err) {
			return nil // the next poll catches up
		}
		return err
	}
	list = slices.DeleteFunc(list, func(e entry) bool { _, shown := l.seen[e.RequestID]; return shown })
	l.show(ctx, list)
	for _, e := range list {
		l.markSeen(e)
	}
	for id, at := range l.seen {
		if at.Before(l.from.Add(-2 * maxDelay)) {
			delete(l.seen, id)
		}
	}
	return nil
}

// isTemporary reports whether a retry may succeed.
func isTemporary(err error) bool {
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok {
		return p.Retryable || p.Code == ""
	}
	_, ok := errors.AsType[*stagedoor.ConnectionError](err)
	return ok
}

func (l *logTail) markSeen(e entry) {
	l.seen[e.RequestID] = e.At
	if e.At.After(l.from) {
		l.from = e.At
	}
}

// read returns requests since a time, oldest first. It reads pages until it has at least n.
func (l *logTail) read(ctx context.Context, since time.Time, n int) ([]entry, error) {
	params := l.params
	params.Since, params.Limit = since, maxLines
	var list []entry
	for {
		var res stagedoor.Response
		page, err := l.app.API().Logs.List(ctx, params, stagedoor.WithResponse(&res))
		if err != nil {
			return nil, err
		}
		var raw struct{ Logs []json.RawMessage }
		if err := res.JSON(&raw); err != nil {
			return nil, err
		}
		for i, e := range page.Logs {
			if l.all || e.Method != "listLogs" || e.Source != "cli" {
				list = append(list, entry{e, raw.Logs[i]})
			}
		}
		if page.NextCursor == nil || len(list) >= n || len(page.Logs) == 0 {
			break
		}
		params.Cursor = *page.NextCursor
	}
	slices.Reverse(list)
	return list, nil
}

func (l *logTail) show(ctx context.Context, list []entry) {
	o := l.app.Out
	for _, e := range list {
		code, account := core.Deref(e.Code), core.Deref(e.AccountID)
		switch {
		case o.JSON:
			o.Bytes(append(e.raw, '\n'))
		case o.TTY:
			name := ""
			if account != "" {
				name = output.Cut(output.OneLine(l.names.of(ctx, account)), 16)
			}
			line := fmt.Sprintf("%s  %s  %s  %s  %s  %s  %s", o.Style(output.Faint, output.Clock(e.At)),
				o.Style(output.StatusTone(e.Status), strconv.FormatInt(e.Status, 10)),
				pad(e.Http, 6), o.Style(output.Strong, pad(e.Method, 24)), pad(name, 16), o.Style(output.Faint,
					fmt.Sprintf("%6.0f ms", e.DurationMs)), o.Style(output.Faint, e.RequestID))
			if code != "" {
				line += "  " + o.Style(output.StatusTone(e.Status), code)
			}
			o.Data("%s", line)
		default:
			o.Data("%s", strings.Join([]string{e.At.Format(timeFormat), strconv.FormatInt(e.Status, 10), e.Http, e.Method,
				account, strconv.FormatFloat(e.DurationMs, 'f', -1, 64), e.RequestID, code}, "\t"))
		}
	}
}
