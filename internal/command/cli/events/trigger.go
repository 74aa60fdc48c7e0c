package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// settable are the fields of an event that can be chosen, and whether they are numbers.
var settable = []struct {
	name   string
	number bool
}{{"amountCents", true}, {"count", true}, {"reason", false}, {"refId", false}, {"text", false}, {"userId", false}}

// trigger is one run of the command.
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
		Short: "Make something happen on the sandbox: a message, a tip, a subscription",
		Long: `Make something happen on the sandbox: a message, a tip, a subscription.

It really happens on the sandbox platform, which tells it on the account's socket: the event comes by the same way as a real one, and
later calls show it. Only accounts of sandbox organisations can be used. Without a kind it lists those that there are.`,
		Example: `  stagedoor trigger message -a Maya --set text="Hi there"
  stagedoor trigger tips --set amountCents=2500
  stagedoor trigger message --count 100 --rate 10/s
  stagedoor trigger`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return t.list()
			}
			return t.run(cmd.Context(), args[0])
		},
	}
	app.AccountFlag(cmd, &t.account)
	flags := cmd.Flags()
	flags.StringArrayVar(&t.sets, "set", nil, "set a field of the event: text, amountCents, userId, refId, count or reason (repeat it for more)")
	flags.IntVarP(&t.count, "count", "n", 1, "so many of them")
	flags.StringVar(&t.rate, "rate", "", "not more than so many in a time, such as 10/s or 100/m")
	_ = cmd.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fields []cobra.Completion
		for _, f := range settable {
			fields = append(fields, f.name+"=")
		}
		return fields, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// kinds are the events that the sandbox's platform can emit.
func kinds() ([]*catalog.EventKind, error) {
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
	list, err := kinds()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, k := range list {
		names = append(names, cobra.CompletionWithDesc(k.Kind, k.Summary))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (t *trigger) list() error {
	list, err := kinds()
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
	table := out.Table{Columns: []out.Column{{Name: "kind"}, {Name: "class"}, {Name: "what", Flex: true}}}
	for _, k := range list {
		table.Rows = append(table.Rows, []out.Cell{out.Text(k.Kind), out.Text(string(k.Class)), out.Text(k.Summary)})
	}
	t.app.Out.Table(table)
	return nil
}

func (t *trigger) run(ctx context.Context, kind string) error {
	if err := t.known(kind); err != nil {
		return err
	}
	data, err := fields(t.sets)
	if err != nil {
		return err
	}
	every, err := pace(t.rate)
	if err != nil {
		return err
	}
	if t.count < 1 {
		return core.Usage("--count must be a number from 1 on")
	}
	account, err := t.app.Account(ctx, t.account)
	if err != nil {
		return err
	}
	body := map[string]any{"event": kind}
	if len(data) > 0 {
		body["data"] = data
	}
	begun := t.app.Now()
	fired, err := t.fire(ctx, account.ID, body, every)
	switch {
	case t.app.Out.JSON && err == nil:
		return t.app.Out.Value(map[string]any{"accepted": fired, "event": kind, "accountId": account.ID})
	case fired == 0:
		return err
	case t.count == 1:
		t.app.Out.Done("%s on %s", kind, account.Name())
	default:
		t.app.Out.Done("%d × %s on %s in %s", fired, kind, account.Name(), out.Short(t.app.Now().Sub(begun)))
	}
	if err == nil {
		t.app.Out.Hint("See it: stagedoor tail events -a %s", core.Quote(account.Name()))
	}
	return err
}

// known refuses a kind that the platform has not, with those it may be meant for.
func (t *trigger) known(kind string) error {
	list, err := kinds()
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
	hint := out.DidYouMean(kind, names)
	if hint == "" {
		hint = "List them: stagedoor trigger"
	}
	return core.UsageHint(hint, "the sandbox makes no event %q", kind)
}

// fire makes events one after the other. It waits where the service says that it is too fast.
func (t *trigger) fire(ctx context.Context, account string, body map[string]any, every time.Duration) (fired int, err error) {
	spin := t.app.Out.Spin("")
	defer spin.Stop()
	next := t.app.Now()
	for fired < t.count {
		if err := until(ctx, next.Sub(t.app.Now())); err != nil {
			return fired, err
		}
		_, err := t.app.Send(ctx, http.MethodPost, "/v1/sandbox/accounts/"+url.PathEscape(account)+"/fire_event", body, nil)
		if wait, slow := tooFast(err); slow && t.count > 1 {
			t.app.Out.Say("Waiting %s: %v", out.Short(wait), err)
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

// tooFast says how long to wait, if that is all that is wrong.
func tooFast(err error) (time.Duration, bool) {
	p, ok := errors.AsType[*core.Problem](err)
	if !ok || p.Status != http.StatusTooManyRequests || p.RetryAfterSec == nil {
		return 0, false
	}
	wait := time.Duration(max(*p.RetryAfterSec, 1)) * time.Second
	return wait, wait <= time.Minute
}

func until(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// fields reads --set: text=Hi, or data.text=Hi as the event itself will have it, or count:=5 as JSON.
func fields(sets []string) (map[string]any, error) {
	data := map[string]any{}
	for _, set := range sets {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, core.UsageHint("Write it like --set text=Hi.", "--set %s has no value", core.Quote(set))
		}
		name, asJSON := strings.CutSuffix(strings.TrimPrefix(name, "data."), ":")
		i := slices.IndexFunc(settable, func(f struct {
			name   string
			number bool
		}) bool {
			return f.name == name
		})
		if i < 0 {
			return nil, unsettable(name)
		}
		if !asJSON && !settable[i].number {
			data[name] = value
			continue
		}
		var read any
		if err := json.Unmarshal([]byte(value), &read); err != nil {
			return nil, core.Usage("--set %s: %q is not a number", name, value)
		}
		data[name] = read
	}
	return data, nil
}

func unsettable(name string) error {
	var known []string
	for _, f := range settable {
		known = append(known, f.name)
	}
	hint := out.DidYouMean(name, known)
	if hint == "" {
		hint = "Fields that can be set: " + strings.Join(known, ", ")
	}
	return core.UsageHint(hint, "--set: an event of the sandbox has no field %q to set", name)
}

// pace is the time between two events at a rate such as 10/s, 100/m or 5.
func pace(rate string) (time.Duration, error) {
	if rate == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(rate, "/")
	per, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || n <= 0 || n > 1000 {
		return 0, core.UsageHint("Write it like 10/s or 100/m.", "--rate: %q is not a rate", rate)
	}
	return time.Duration(float64(per) / n), nil
}
