package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// field is a field of an event that --set accepts.
type field struct {
	name   string
	number bool
}

func (f field) kind() string {
	if f.number {
		return "a number"
	}
	return "text"
}

var settable = []field{
	{"amountCents", true}, {"count", true}, {"reason", false}, {"refId", false}, {"text", false}, {"userId", false},
}

// trigger holds the flags of the command.
type trigger struct {
	app     *core.App
	account string
	sets    []string
	count   int
	rate    string
}

func triggerCommand(app *core.App) *cobra.Command {
	t := &trigger{app: app}
	cmd := &cobra.Command{
		Use:   "trigger [kind]",
		Short: "Trigger an event on the sandbox: a message, a tip, a subscription",
		Long: `Trigger an event on the sandbox: a message, a tip, a subscription.

The event really happens on the sandbox platform and arrives over the account's socket like a real one. Later calls show
it. Only for accounts of sandbox organisations. Without a kind, list all kinds.`,
		Example: `  stagedoor trigger message -a Maya --set text="Hi there"
  stagedoor trigger tips --set amountCents=2500
  stagedoor trigger message --count 100 --rate 10/s
  stagedoor trigger`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return t.listKinds()
			}
			return t.run(cmd.Context(), args[0])
		},
	}
	app.AccountFlag(cmd, &t.account)
	flags := cmd.Flags()
	flags.StringArrayVar(&t.sets, "set", nil,
		"set a field: text, amountCents, userId, refId, count or reason (repeatable)")
	flags.IntVarP(&t.count, "count", "n", 1, "number of events")
	flags.StringVar(&t.rate, "rate", "", "maximum rate, such as 10/s or 100/m")
	_ = cmd.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []cobra.Completion
		for _, f := range settable {
			names = append(names, f.name+"=")
		}
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// sandboxKinds returns the events that the sandbox platform can emit.
func sandboxKinds() ([]*catalog.EventKind, error) {
	c, err := catalog.Sandbox()
	if err != nil {
		return nil, err
	}
	var list []*catalog.EventKind
	for _, k := range c.Events() {
		if c.FrameFor(k.Kind) != "" {
			list = append(list, k)
		}
	}
	return list, nil
}

func completeKinds(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list, err := sandboxKinds()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, k := range list {
		names = append(names, cobra.CompletionWithDesc(k.Kind, k.Summary))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (t *trigger) listKinds() error {
	list, err := sandboxKinds()
	if err != nil {
		return err
	}
	if t.app.Out.JSON {
		all := []map[string]string{}
		for _, k := range list {
			all = append(all, map[string]string{"event": k.Kind, "class": string(k.Class), "description": k.Summary})
		}
		return t.app.Out.Value(map[string]any{"events": all})
	}
	table := output.Table{Columns: []output.Column{{Name: "kind"}, {Name: "class"}, {Name: "description", Flex: true}}}
	for _, k := range list {
		table.Rows = append(table.Rows,
			[]output.Cell{output.Text(k.Kind), output.Text(string(k.Class)), output.Text(k.Summary)})
	}
	t.app.Out.Table(table)
	return nil
}

func (t *trigger) run(ctx context.Context, kind string) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	data, err := parseFields(t.sets)
	if err != nil {
		return err
	}
	every, err := parseRate(t.rate)
	if err != nil {
		return err
	}
	if t.count < 1 {
		return core.Usage("--count must be at least 1")
	}
	account, err := t.app.Account(ctx, t.account)
	if err != nil {
		return err
	}
	started := t.app.Now()
	event := stagedoor.SandboxFireEventParams{Event: kind}
	if len(t.sets) > 0 {
		event.Data = data
	}
	fired, err := t.fireEvents(ctx, account.ID, event, every)
	switch {
	case t.app.Out.JSON && err == nil:
		return t.app.Out.Value(map[string]any{"accepted": fired, "event": kind, "accountId": account.ID})
	case fired == 0:
		return err
	case t.count == 1:
		t.app.Out.Done("%s on %s", kind, core.AccountName(account))
	default:
		t.app.Out.Done("%d × %s on %s in %s", fired, kind, core.AccountName(account), output.Short(t.app.Now().Sub(started)))
	}
	if err == nil {
		t.app.Out.Hint("Show it: stagedoor tail events -a %s", core.Quote(core.AccountName(account)))
	}
	return err
}

// checkKind returns a usage fault with suggestions if the sandbox platform has no such kind.
func checkKind(kind string) error {
	list, err := sandboxKinds()
	if err != nil {
		return err
	}
	var names []string
	for _, k := range list {
		names = append(names, k.Kind)
	}
	if slices.Contains(names, kind) {
		return nil
	}
	hint := cmp.Or(output.DidYouMean(kind, names), "List kinds: stagedoor trigger")
	return core.UsageHint(hint, "unknown event kind %q", kind)
}

// fireEvents triggers the events one after another and returns how many were accepted. If there are several, it waits
// when the service rate-limits it.
func (t *trigger) fireEvents(
	ctx context.Context, account string, event stagedoor.SandboxFireEventParams, every time.Duration,
) (fired int, err error) {
	spin := t.app.Out.Spin("")
	defer spin.Stop()
	next := t.app.Now()
	for fired < t.count {
		if !clock.Pause(ctx, next.Sub(t.app.Now())) {
			return fired, ctx.Err()
		}
		_, err := t.app.API().Sandbox.FireEvent(ctx, account, event)
		if wait, limited := retryDelay(err); limited && t.count > 1 {
			t.app.Out.Say("Waiting %s: %s", output.Short(wait), core.Describe(err))
			next = t.app.Now().Add(wait)
			continue
		}
		if err != nil {
			return fired, err
		}
		fired++
		next = next.Add(every)
		spin.Text(fmt.Sprintf("%d of %d", fired, t.count))
	}
	return fired, nil
}

// retryDelay returns how long to wait after a rate-limit error, and whether that is at most a minute.
func retryDelay(err error) (time.Duration, bool) {
	p, ok := errors.AsType[*stagedoor.Problem](err)
	if !ok || p.Status != http.StatusTooManyRequests || p.RetryAfterSec == 0 {
		return 0, false
	}
	wait := time.Duration(p.RetryAfterSec) * time.Second
	return wait, wait <= time.Minute
}

// parseFields parses the values of --set: text=Hi, data.text=Hi as in the event itself, or count:=5 as JSON.
func parseFields(sets []string) (*stagedoor.SandboxEventData, error) {
	data := &stagedoor.SandboxEventData{}
	for _, set := range sets {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, core.UsageHint("Example: --set text=Hi", "--set %s has no value", core.Quote(set))
		}
		name, asJSON := strings.CutSuffix(strings.TrimPrefix(name, "data."), ":")
		i := slices.IndexFunc(settable, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, unknownField(name)
		}
		var given any = value
		if asJSON || settable[i].number {
			given = json.RawMessage(value)
		}
		object, err := json.Marshal(map[string]any{name: given})
		if err == nil {
			err = json.Unmarshal(object, data)
		}
		if err != nil {
			return nil, core.Usage("--set %s: %q is not %s", name, value, settable[i].kind())
		}
	}
	return data, nil
}

func unknownField(name string) error {
	var known []string
	for _, f := range settable {
		known = append(known, f.name)
	}
	hint := cmp.Or(output.DidYouMean(name, known), "Choose one of: "+strings.Join(known, ", "))
	return core.UsageHint(hint, "--set: unknown field %q", name)
}

// parseRate returns the time between two events at a rate such as 10/s, 100/m or 5, which is per second.
func parseRate(rate string) (time.Duration, error) {
	if rate == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(rate, "/")
	per, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || n <= 0 || n > 1000 {
		return 0, core.UsageHint("Use a rate such as 10/s or 100/m.", "--rate: %q is not a rate", rate)
	}
	return time.Duration(float64(per) / n), nil
}
