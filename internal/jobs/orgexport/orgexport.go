// Package orgexport is the job that gives an organisation everything that the service holds of it: a line of JSON per
// record, with its kind. It has no secrets, and nothing that only the service itself needs; tables.go says what is withheld and why.
//
// Tables are read from the schema, column by column, by the organisation; row-level security keeps out the rows of others.
// What came from an account is written for that account, so that package job seals it with the account's key. Start with
// Kind.
package orgexport

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// Name is the kind of the job.
const Name = "org_export"

// The kinds of lines that are not read as a table.
const (
	kindPerson = "person"
	kindEvent  = "event"
)

// pageRows is how many rows one query reads, and pageEvents how many events: those can have 240 KB each.
const pageRows, pageEvents = 500, 100

// percentOfTables is how much of the progress are the tables. The events are most of the work, and their progress counts the
// accounts.
const percentOfTables = 10

// Deps are the dependencies of an Exporter.
type Deps struct {
	DB       *postgres.DB
	Members  *member.Members
	Audit    *audit.Log
	Webhooks *webhook.Webhooks
	Events   *event.Store
}

// Exporter exports organisations.
type Exporter struct{ deps Deps }

// New returns an Exporter.
func New(d Deps) *Exporter { return &Exporter{d} }

// Kind returns the kind of job.
func (e *Exporter) Kind() job.Kind { return job.Kind{Name: Name, MaxOpen: 1, Check: check, Run: e.run} }

// reads are the scopes that together may read everything that an export has.
func reads() scope.Set {
	return scope.Of(scope.AccountsRead, scope.SDKCall, scope.WebhooksRead, scope.MeRead, scope.UsageRead)
}

// check permits owners, and keys that may read everything.
func check(_ json.RawMessage, r job.Rights) error {
	if r.Role != "" {
		if r.Role != member.Owner {
			return problem.RoleRequired.New("Only an owner can export the organisation.").With("requiredRole", string(member.Owner))
		}
		return nil
	}
	missing := reads().Without(r.Scopes).Names()
	switch {
	case len(missing) > 0:
		return problem.ScopeMissing.Newf("An export has everything of the organisation: the key needs the scope %s.", missing[0]).
			With("missingScope", missing[0])
	case r.Allow.Accounts != nil:
		return problem.AccountNotAllowedForKey.New("An export has all accounts, but this key may use only some.")
	case len(r.Allow.Methods) > 0:
		return problem.MethodNotAllowedForKey.New("An export has everything of the organisation, but this key may call only some methods.")
	}
	return nil
}

// checkpoint is where an export continues.
type checkpoint struct {
	// Step counts the steps that are done.
	Step int `json:"step"`
	// Group is the group of the table that the step is at; empty for its first.
	Group string `json:"group,omitempty"`
	// After is the last row of the step that is done; nil at its beginning, or at that of the group.
	After []string `json:"after,omitempty"`
	// Source is the source of events that was being exported, and Seq its last event that is done.
	Source string `json:"source,omitempty"`
	Seq    int64  `json:"seq,omitempty"`
}

// line is a line of the result.
type line struct {
	Kind string `json:"kind"`
	Data any    `json:"data"`
}

// run exports an organisation.
func (e *Exporter) run(ctx context.Context, r *job.Run) error {
	var at checkpoint
	if err := r.Checkpoint(&at); err != nil {
		return err
	}
	steps := len(tables) + 2 // the last one is the events
	for ; at.Step < steps; at = (checkpoint{Step: at.Step + 1}) {
		r.Progress.Percent = max(r.Progress.Percent, percentOfTables*at.Step/steps)
		var err error
		switch {
		case at.Step < len(tables):
			err = e.exportTable(ctx, r, &tables[at.Step], at)
		case at.Step == len(tables):
			err = e.exportPeople(ctx, r)
		default:
			err = e.exportEvents(ctx, r, at)
		}
		if err == nil {
			err = r.Save(ctx, checkpoint{Step: at.Step + 1})
		}
		if err != nil {
			return err
		}
	}
	r.Progress.AccountsDone = r.Progress.AccountsTotal
	return nil
}

// exportTable exports a table from a checkpoint.
func (e *Exporter) exportTable(ctx context.Context, r *job.Run, t *table, at checkpoint) error {
	types, err := e.deps.DB.Columns(ctx, t.name)
	if err != nil {
		return err
	}
	if t.group == "" {
		return e.exportRows(ctx, r, t, types, at)
	}
	for {
		if at.Group == "" || at.After == nil {
			if at.Group, err = e.deps.DB.ReadNext(ctx, t.name, t.group, at.Group, t.rowsOf(r.Org)); err != nil || at.Group == "" {
				return err
			}
		}
		if err := e.exportRows(ctx, r, t, types, at); err != nil {
			return err
		}
		at.After = nil
		if err := r.Save(ctx, at); err != nil {
			return err
		}
	}
}

// rowsOf returns the condition for the rows of an organisation.
func (t *table) rowsOf(owner id.Org) []postgres.Equal {
	return []postgres.Equal{{Column: cmp.Or(t.org, "org_id"), Value: string(owner)}}
}

// page returns the page of a table after a checkpoint.
func (t *table) page(owner id.Org, at checkpoint) postgres.Page {
	page := postgres.Page{Table: t.name, Where: t.rowsOf(owner), Columns: t.columns, Order: t.order, After: at.After, Limit: pageRows}
	if t.group != "" {
		page.Where = append(page.Where, postgres.Equal{Column: t.group, Value: at.Group})
	}
	return page
}

// sourcesPage returns the page of an organisation's sources of events after one of them.
func sourcesPage(owner id.Org, after []string) postgres.Page {
	return postgres.Page{
		Table: "event_source", Where: []postgres.Equal{{Column: "org_id", Value: string(owner)}}, Columns: []string{"source"},
		Order: []string{"source"}, After: after, Limit: pageRows,
	}
}

// exportRows exports the rows of a table, or of one group of it, from a checkpoint.
func (e *Exporter) exportRows(ctx context.Context, r *job.Run, t *table, types map[string]string, at checkpoint) error {
	page := t.page(r.Org, at)
	for {
		rows, err := e.deps.DB.ReadPage(ctx, page, types)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := e.exportRow(ctx, r, t, types, row.Values); err != nil {
				return err
			}
		}
		if len(rows) < pageRows {
			return nil
		}
		page.After = rows[len(rows)-1].Position
		if err := r.Save(ctx, checkpoint{Step: at.Step, Group: at.Group, After: page.After}); err != nil {
			return err
		}
	}
}

// exportRow writes a row. One of an account is written for the account as long as that has its key.
func (e *Exporter) exportRow(ctx context.Context, r *job.Run, t *table, types map[string]string, values []any) error {
	row := make(map[string]any, len(values))
	for i, name := range t.columns {
		row[name] = convert(types[name], values[i])
	}
	if t.name == "account" {
		r.Progress.AccountsTotal++
	}
	// The account is looked up before anything is opened: what is opened of one without a key has no content.
	account, err := holderOf(ctx, r, t, row)
	if err != nil {
		return err
	}
	if t.open != nil {
		if err := t.open(ctx, e, r.Org, row); err != nil {
			return fmt.Errorf("open a row of %s: %w", t.name, err)
		}
	}
	out := make(map[string]any, len(row))
	for name, value := range row {
		if account == "" && t.account != "" && slices.Contains(t.personal, name) && isAccount(row[t.account]) {
			value = nil // deleted since it was read, or before
		}
		out[camel(name)] = value
	}
	return r.Write(account, line{t.kind, out})
}

// holderOf returns the account whose key seals a row; empty for that of the organisation.
func holderOf(ctx context.Context, r *job.Run, t *table, row map[string]any) (id.Account, error) {
	of := row[t.account]
	if isAccount(row["source"]) {
		of = row["source"] // a delivery to an endpoint: its webhook is not the account's
	}
	if t.account == "" || !isAccount(of) {
		return "", nil
	}
	account, _ := of.(string)
	has, err := r.HasKey(ctx, id.Account(account))
	if err != nil || !has {
		return "", err
	}
	return id.Account(account), nil
}

func isAccount(value any) bool {
	text, _ := value.(string)
	_, err := id.Parse[id.Account](text)
	return err == nil
}

// stampedTime is a time as it is written, and exactly.
type stampedTime struct {
	stamp.Time
	exact time.Time
}

// convert returns a value of the database as it is written.
func convert(kind string, value any) any {
	switch v := value.(type) {
	case time.Time:
		return stampedTime{stamp.Time(v), v}
	case string:
		if kind == "json" || kind == "jsonb" {
			return json.RawMessage(v)
		}
	}
	return value
}

// camel returns the name of a column as it is written.
func camel(column string) string {
	first, rest, found := strings.Cut(column, "_")
	for found {
		var word string
		word, rest, found = strings.Cut(rest, "_")
		first += strings.ToUpper(word[:1]) + word[1:]
	}
	return first
}

// exportPeople writes the names and addresses of the members, whose rows belong to no organisation.
func (e *Exporter) exportPeople(ctx context.Context, r *job.Run) error {
	members, _, err := e.deps.Members.List(ctx, r.Org)
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := r.Write("", line{kindPerson, map[string]any{"id": m.ID, "email": m.Email, "name": m.Name}}); err != nil {
			return err
		}
	}
	return nil
}

// exportEvents writes the events of the organisation and of its accounts, source by source.
func (e *Exporter) exportEvents(ctx context.Context, r *job.Run, at checkpoint) error {
	types, err := e.deps.DB.Columns(ctx, "event_source")
	if err != nil {
		return err
	}
	next := func(source string, seq int64) error {
		if err := e.exportSource(ctx, r, checkpoint{Step: at.Step, Source: source, Seq: seq}); err != nil {
			return err
		}
		if event.IsAccount(source) && r.Progress.AccountsDone < r.Progress.AccountsTotal {
			r.Progress.AccountsDone++
			r.Progress.Percent = percentOfTables + int((100-percentOfTables)*r.Progress.AccountsDone/r.Progress.AccountsTotal)
		}
		at = checkpoint{Step: at.Step, After: []string{source}}
		return r.Save(ctx, at)
	}
	// The source comes first that the run before was at. Those that were added before it since are not in this export.
	if at.Source != "" {
		if err := next(at.Source, at.Seq); err != nil {
			return err
		}
	}
	for {
		sources, err := e.deps.DB.ReadPage(ctx, sourcesPage(r.Org, at.After), types)
		if err != nil {
			return err
		}
		for _, row := range sources {
			if err := next(row.Position[0], 0); err != nil {
				return err
			}
		}
		if len(sources) < pageRows {
			return nil
		}
	}
}

// exportSource writes the events of a source after a checkpoint.
func (e *Exporter) exportSource(ctx context.Context, r *job.Run, at checkpoint) error {
	for {
		// The key is looked up before the events are opened: without it they have no content.
		account := id.Account(at.Source)
		if has, err := hasKey(ctx, r, at.Source); err != nil {
			return err
		} else if !has {
			account = ""
		}
		events, err := e.deps.Events.After(ctx, r.Org, at.Source, at.Seq, time.Time{}, pageEvents)
		if err != nil {
			return err
		}
		for i := range events {
			if err := r.Write(account, line{kindEvent, json.RawMessage(events[i].Body)}); err != nil {
				return err
			}
			at.Seq = events[i].Seq
			if err := r.Save(ctx, at); err != nil {
				return err
			}
		}
		if len(events) < pageEvents {
			return nil
		}
	}
}

// hasKey reports whether a source is an account with a key.
func hasKey(ctx context.Context, r *job.Run, source string) (bool, error) {
	if !event.IsAccount(source) {
		return false, nil
	}
	return r.HasKey(ctx, id.Account(source))
}
