// Package events has the commands listen, tail and trigger, and the subcommand events replay.
//
// cursor.go stores how far this machine has read the event log, feed.go reads the event stream, forward.go signs events
// and posts them to a local receiver, since.go finds a position in the log. The commands events list and get are in
// package manage. Start at Commands.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// Commands returns listen, tail and trigger.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{
		listenCommand(app),
		core.Group("tail", "Follow events or requests", tailEvents(app), tailLogs(app)),
		triggerCommand(app),
	}
}

// filter selects events by account and kind. Empty fields select all.
type filter struct {
	// account is an id, or before resolve a label or user name.
	account string
	events  []string
}

func (w *filter) flags(app *core.App, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.account, "account", "a", "", "only this account (id, label or user name)")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	cmd.Flags().StringSliceVarP(&w.events, "events", "e", nil,
		"only these kinds: names, patterns such as message*, !name to exclude")
	_ = cmd.RegisterFlagCompletionFunc("events", completeKinds)
}

// resolve replaces the account's name by its id.
func (w *filter) resolve(ctx context.Context, app *core.App) error {
	if w.account == "" {
		return nil
	}
	account, err := app.Account(ctx, w.account) // fetch even if it is an id, so that a wrong one fails immediately
	w.account = account.ID
	return err
}

func (w *filter) params() stagedoor.EventsListParams {
	return stagedoor.EventsListParams{AccountID: w.account, Events: w.events}
}

// nameCache looks up account names for terminal output and keeps them for the run.
type nameCache struct {
	app   *core.App
	known map[string]string
}

// of returns the account's name, or its id if the name cannot be fetched.
func (n *nameCache) of(ctx context.Context, account string) string {
	if account == "" {
		return "–"
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	if name, ok := n.known[account]; ok {
		return name
	}
	n.known[account] = account // ask only once, even if the request fails
	if got, err := n.app.Account(ctx, account); err == nil {
		n.known[account] = core.AccountName(got)
	}
	return n.known[account]
}

// formatRow formats an event as a line on a terminal.
func formatRow(ctx context.Context, p *output.Printer, n *nameCache, e *stagedoor.Event) string {
	kind, name := columnWidths(p)
	return fmt.Sprintf("%s  %s  %s  %s", p.Style(output.Faint, output.Clock(e.Time)),
		p.Style(output.Strong, pad(string(e.Kind), kind)),
		pad(output.Cut(output.OneLine(n.of(ctx, e.AccountID)), name), name), p.Style(output.Faint, e.ID))
}

// columnWidths returns the widths of kind and account name for the terminal's width.
func columnWidths(p *output.Printer) (kind, name int) {
	if p.Width > 0 && p.Width < 110 {
		return 12, 10
	}
	return 22, 16
}

// rowWidth returns the number of columns that formatRow uses, without escape sequences.
func rowWidth(p *output.Printer, e *stagedoor.Event) int {
	kind, name := columnWidths(p)
	return len("15:04:05") + 2 + max(kind, len(e.Kind)) + 2 + name + 2 + len(e.ID)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}

// timeFormat is the time format of the API.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// tabbed formats an event as a line in a pipe.
func tabbed(e *stagedoor.Event) string {
	return strings.Join([]string{e.Time.Format(timeFormat), string(e.Kind), e.AccountID, e.ID}, "\t")
}

// digest summarises an event's data: who, how much, what was said. It is safe to print.
func digest(data json.RawMessage) string {
	var body map[string]any
	if json.Unmarshal(data, &body) != nil {
		return ""
	}
	var parts []string
	if who := firstText(body, "name", "username", "label"); who != "" {
		parts = append(parts, who)
	}
	if cents := firstNumber(body, "amountCents", "tipCents", "priceCents"); cents > 0 {
		parts = append(parts, "$"+strconv.FormatFloat(cents/100, 'f', 2, 64))
	}
	if text := firstText(body, "text", "reason", "state"); text != "" {
		parts = append(parts, text)
	}
	return output.OneLine(strings.Join(parts, " · "))
}

// firstText returns the first of the named fields that holds text. For each name it looks at the top level first and
// then into the objects of levels.
func firstText(body map[string]any, names ...string) string {
	for _, name := range names {
		for _, level := range levels(body) {
			if text, ok := level[name].(string); ok && text != "" {
				return text
			}
		}
	}
	return ""
}

func firstNumber(body map[string]any, names ...string) float64 {
	for _, name := range names {
		for _, level := range levels(body) {
			if n, ok := level[name].(float64); ok && n > 0 {
				return n
			}
		}
	}
	return 0
}

// levels returns an object and those of its members that hold a person or a thing, in a fixed order.
func levels(body map[string]any) []map[string]any {
	list := []map[string]any{body}
	for _, name := range []string{"fromUser", "user", "message", "tip", "transaction", "post", "subscription", "account"} {
		if inner, ok := body[name].(map[string]any); ok {
			list = append(list, inner)
		}
	}
	return list
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
