// Package events holds the commands that stay and watch: listen, tail, trigger, and events replay.
//
// It owns the place in the event log up to which this machine has heard (cursor.go), how events reach a receiver on this machine with a
// signature (forward.go), and the stream that goes on where it broke off (feed.go). Start at Commands.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// Commands are listen, tail and trigger.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{
		listenCommand(app),
		core.Group("tail", "Watch events or requests as they happen", tailEvents(app), tailLogs(app)),
		triggerCommand(app),
	}
}

// envelope is what is read of an event.
type envelope struct {
	ID        string          `json:"id"`
	Event     string          `json:"event"`
	AccountID string          `json:"accountId"`
	TS        time.Time       `json:"ts"`
	Data      json.RawMessage `json:"data"`
	Meta      struct {
		Seq int64 `json:"seq"`
	} `json:"meta"`
	// Raw are the bytes as the service wrote them: they are what is signed, so they are passed on and never written anew.
	Raw []byte `json:"-"`
	// Cursor is the event's place in the log; ephemeral events have none.
	Cursor string `json:"-"`
}

func readEnvelope(raw []byte, cursor string) (envelope, error) {
	e := envelope{Raw: raw, Cursor: cursor}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	return e, nil
}

// which is what somebody wants to see: one account or all, all kinds or some.
type which struct {
	account string
	events  []string
}

func (w *which) flags(app *core.App, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.account, "account", "a", "", "only this account: its id, label or user name")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	cmd.Flags().StringSliceVarP(&w.events, "events", "e", nil, "only these kinds: names, families such as message*, and !name to leave out")
	_ = cmd.RegisterFlagCompletionFunc("events", completeKinds)
}

// resolve turns the account's name into its id.
func (w *which) resolve(ctx context.Context, app *core.App) error {
	if w.account == "" {
		return nil
	}
	account, err := app.Account(ctx, w.account) // also for an id: one that is wrong should be told at once
	w.account = account.ID
	return err
}

func (w *which) query() url.Values {
	q := url.Values{}
	if w.account != "" {
		q.Set("accountId", w.account)
	}
	if len(w.events) > 0 {
		q.Set("events", strings.Join(w.events, ","))
	}
	return q
}

// names remembers what accounts are called, for the eyes of a person.
type names struct {
	app   *core.App
	known map[string]string
}

func (n *names) of(ctx context.Context, account string) string {
	if account == "" {
		return "–"
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	if name, ok := n.known[account]; ok {
		return name
	}
	n.known[account] = account // asked once, also when there is no answer
	if got, err := n.app.Account(ctx, account); err == nil {
		n.known[account] = got.Name()
	}
	return n.known[account]
}

// row is an event as a line for a person.
func row(ctx context.Context, p *out.Printer, n *names, e *envelope) string {
	kind, name := columns(p)
	return fmt.Sprintf("%s  %s  %s  %s", p.Style(out.Faint, out.Clock(e.TS)), p.Style(out.Strong, pad(e.Event, kind)),
		pad(out.Cut(out.OneLine(n.of(ctx, e.AccountID)), name), name), p.Style(out.Faint, e.ID))
}

// columns are how wide a kind and an account's name are, by how wide the terminal is.
func columns(p *out.Printer) (kind, name int) {
	if p.Width > 0 && p.Width < 110 {
		return 12, 10
	}
	return 22, 16
}

// rowWidth is how many columns row takes.
func rowWidth(p *out.Printer, e *envelope) int {
	kind, name := columns(p)
	return len("15:04:05") + 2 + max(kind, len(e.Event)) + 2 + name + 2 + len(e.ID)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}

// stamp is a time as the API writes it.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// tabbed is an event as fields for a pipe.
func tabbed(e *envelope) string {
	return strings.Join([]string{e.TS.Format(stamp), e.Event, e.AccountID, e.ID}, "\t")
}

// digest is the gist of an event's data, so that a person need not open it: who, what was said, how much.
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
	return out.OneLine(strings.Join(parts, " · "))
}

// firstText finds the first of some fields that holds a text, on the surface first and then one level down.
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

// levels are an object and the objects in it that events keep their people and things in, in a fixed order.
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
