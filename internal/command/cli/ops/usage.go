package ops

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/billing"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// usageOptions are the flags of ops usage.
type usageOptions struct{ org, from, to, format, customers string }

var usageFormats = []string{"csv", "cloudevents", "stripe"}

const usagePath = "/admin/v1/usage"

// usageSends are the parameters that ops usage sends.
var usageSends = []string{"query/org", "query/from", "query/to", "query/limit", "query/cursor"}

func usage(app *core.App) *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use: "usage", Short: "Export usage by organisation and day, for billing", Args: cobra.NoArgs,
		Long: `Export usage by organisation and day, for billing. Days are in UTC and complete; days without usage are not listed.
Nothing is printed unless everything could be read.

The formats are csv with a header; cloudevents for OpenMeter, an event of type stagedoor.usage.day per line; and stripe,
a meter event per line for each of stagedoor_calls, stagedoor_active_accounts, stagedoor_events_delivered and
stagedoor_bytes. Exporting a day again gives the same identifiers, by which both recognise what they
have. Stripe does so for 24 hours only, and takes no event that is older than 35 days. With --json it is an object per line.

Stripe needs the customers: a CSV file with the ids of an organisation and of its customer in each line. If an
organisation with usage is not in it, the command fails; leave the customer empty to skip one.`,
		Example: "  stagedoor ops usage --from 2026-11-01 --to 2026-12-01 > november.csv\n" +
			"  stagedoor ops usage --from 2026-11-18 --format cloudevents\n" +
			"  stagedoor ops usage --from 2026-11-18 --format stripe --customers customers.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.from == "" {
				return core.UsageHint("Usage: "+cmd.UseLine(), "%s requires --from", cmd.CommandPath())
			}
			if err := core.OneOf("format", o.format, usageFormats); err != nil {
				return err
			}
			customers, err := o.readCustomers(app)
			if err != nil {
				return err
			}
			if err := app.ActAsOperator(); err != nil {
				return err
			}
			days, err := o.read(cmd, app)
			if err != nil {
				return err
			}
			return o.print(app, days, customers)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.org, "org", "", "only of the organisation with this id")
	flags.StringVar(&o.from, "from", "", "the first day, such as 2026-11-01")
	flags.StringVar(&o.to, "to", "", "the day after the last one (default: today, so that the last one is yesterday)")
	flags.StringVar(&o.format, "format", "csv", "csv, cloudevents or stripe")
	flags.StringVar(&o.customers, "customers", "", "for stripe: a CSV file of organisations and their customers")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(usageFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// readCustomers returns the customers at Stripe by organisation.
func (o usageOptions) readCustomers(app *core.App) (map[string]string, error) {
	if (o.format == "stripe") != (o.customers != "") {
		return nil, core.Usage("--format stripe and --customers belong together")
	}
	if o.customers == "" {
		return map[string]string{}, nil
	}
	text, err := app.ReadFile(o.customers)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(string(text)))
	r.FieldsPerRecord, r.TrimLeadingSpace = 2, true
	lines, err := r.ReadAll()
	if err != nil {
		return nil, core.UsageHint("Each line has the ids of an organisation and of its customer: org_…,cus_…", "%s: %v", o.customers, err)
	}
	customers := map[string]string{}
	for _, line := range lines {
		customers[line[0]] = strings.TrimSpace(line[1])
	}
	return customers, nil
}

// read reads all pages.
func (o usageOptions) read(cmd *cobra.Command, app *core.App) ([]billing.UsageDay, error) {
	q := url.Values{"from": {o.from}, "limit": {"100"}}
	for name, value := range map[string]string{"org": o.org, "to": o.to} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var days []billing.UsageDay
	for {
		res, err := app.API().Request(cmd.Context(), stagedoor.Request{Method: http.MethodGet, Path: usagePath, Query: q})
		if err != nil {
			return nil, err
		}
		var page struct {
			Days       []billing.UsageDay
			NextCursor string
		}
		if err := res.JSON(&page); err != nil {
			return nil, err
		}
		if days = append(days, page.Days...); page.NextCursor == "" {
			return days, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

func (o usageOptions) print(app *core.App, days []billing.UsageDay, customers map[string]string) error {
	lines := make([]any, 0, len(days))
	switch {
	case app.Out.JSON:
		for _, d := range days {
			lines = append(lines, d)
		}
	case o.format == "cloudevents":
		for _, d := range days {
			lines = append(lines, d.Event())
		}
	case o.format == "stripe":
		for _, d := range days {
			events, err := meterEvents(d, customers)
			if err != nil {
				return err
			}
			lines = append(lines, events...)
		}
	default:
		return printCSV(app.Out, days)
	}
	for _, line := range lines {
		if err := app.Out.Line(line); err != nil {
			return err
		}
	}
	return nil
}

// meterEvent is the body of POST /v2/billing/meter_events at Stripe. Stripe refuses an identifier that it has had within
// the last day.
type meterEvent struct {
	EventName  string            `json:"event_name"`
	Identifier string            `json:"identifier"`
	Timestamp  string            `json:"timestamp"`
	Payload    map[string]string `json:"payload"`
}

func meterEvents(d billing.UsageDay, customers map[string]string) ([]any, error) {
	customer, known := customers[d.OrgID]
	if !known {
		return nil, core.UsageHint("Add it to the file of --customers; without a customer it is skipped.", "%s has no line with its customer", d.OrgID)
	}
	var events []any
	for _, m := range []struct {
		name  string
		value int64
	}{
		{"stagedoor_calls", d.Calls}, {"stagedoor_active_accounts", d.ActiveAccounts}, {"stagedoor_events_delivered", d.EventsDelivered},
		{"stagedoor_bytes", d.BytesSent + d.BytesReceived},
	} {
		if customer == "" || m.value == 0 {
			continue
		}
		events = append(events, meterEvent{
			EventName: m.name, Identifier: d.OrgID + "/" + d.Day + "/" + m.name, Timestamp: d.Day + "T00:00:00Z",
			Payload: map[string]string{"stripe_customer_id": customer, "value": strconv.FormatInt(m.value, 10)},
		})
	}
	return events, nil
}

func printCSV(o *output.Printer, days []billing.UsageDay) error {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write([]string{ // a Builder does not fail
		"org", "plan", "environment", "day", "calls", "failed_calls", "rate_limited_calls", "active_accounts", "events_received", "events_streamed",
		"events_delivered", "failed_deliveries", "bytes_sent", "bytes_received",
	})
	for _, d := range days {
		row := []string{d.OrgID, d.Plan, d.Environment, d.Day}
		for _, n := range []int64{
			d.Calls, d.FailedCalls, d.RateLimitedCalls, d.ActiveAccounts, d.EventsReceived, d.EventsStreamed, d.EventsDelivered, d.FailedDeliveries,
			d.BytesSent, d.BytesReceived,
		} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		_ = w.Write(row)
	}
	w.Flush()
	o.Bytes([]byte(text.String()))
	return nil
}
