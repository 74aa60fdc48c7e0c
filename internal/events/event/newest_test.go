package event_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// commitEvents commits three events in each round, for the sources in turn; kind returns the kind of the n-th event.
func (r *fixture) commitEvents(org id.Org, sources []string, rounds int, kind func(n int) string) (all []event.Stored) {
	r.t.Helper()
	for n := range rounds {
		source := sources[n%len(sources)]
		p := r.claim(source, 1)
		b := r.events(org, source, int64(n/len(sources)*3+1), 3, now())
		for i := range b.Events {
			b.Events[i].Kind = kind(3*n + i)
		}
		b.Buckets = []event.Progress{p}
		tx, err := r.Commit(r.t.Context(), &b)
		must.OK(r.t, err)
		for _, e := range b.Events {
			e.Tx = tx
			all = append(all, e.Stored)
		}
	}
	return all
}

// waitUntilListed waits until the events are listed. They are hidden while an older transaction runs, including those
// of other tests.
func (r *fixture) waitUntilListed(all []event.Stored) {
	r.t.Helper()
	for {
		head, err := r.OrgHead(r.t.Context(), r.org)
		must.OK(r.t, err)
		if head.Tx > all[len(all)-1].Tx {
			return
		}
	}
}

// Newest lists each matching event once, newest first, page by page, filtered by sources and kinds, and never those of
// another org.
func TestNewestEventsComeFirst(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	other := id.New[id.Org]()
	testenv.InsertOrg(r.t, r.Deps().DB, other)
	sources := []string{string(id.New[id.Account]()), string(id.New[id.Account]()), string(r.org)}
	kinds := []string{"message", "tips", "account.updated"}
	r.commitEvents(other, []string{string(id.New[id.Account]())}, 3, func(int) string { return "message" })
	all := r.commitEvents(r.org, sources, 12, func(n int) string { return kinds[n%7%3] })
	r.waitUntilListed(all)
	slices.Reverse(all)
	for _, c := range []struct {
		name    string
		sources []string
		kinds   []string
	}{
		{"all", nil, nil}, {"one account", sources[:1], nil}, {"two sources", sources[1:], nil}, {"none", []string{}, nil}, {"some kinds", nil, []string{"tips"}},
		{"kinds of an account", sources[:1], []string{"message", "tips"}}, {"no kind", nil, []string{}},
	} {
		var want, got []id.Event
		for _, e := range all {
			if (c.sources == nil || slices.Contains(c.sources, e.Source)) && (c.kinds == nil || slices.Contains(c.kinds, e.Kind)) {
				want = append(want, e.ID)
			}
		}
		n := event.Newest{Org: r.org, Sources: c.sources, Kinds: c.kinds, Since: now().Add(-time.Hour), Limit: 5}
		for {
			page, err := r.Newest(t.Context(), n)
			must.OK(t, err)
			for _, e := range page.Events {
				got = append(got, e.ID)
				if len(e.Body) == 0 || !strings.Contains(string(e.Body), string(e.ID)) {
					t.Errorf("%s: a body is missing", c.name)
				}
			}
			if page.Next.Tx == 0 {
				break
			}
			n.Before = page.Next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d events, want %d", c.name, len(got), len(want))
		}
	}
	if page, err := r.Newest(t.Context(), event.Newest{Org: r.org, Since: now().Add(time.Hour), Limit: 5}); err != nil || len(page.Events) != 0 {
		t.Errorf("events that may no longer be read: %d %v", len(page.Events), err)
	}
	search := event.Newest{Org: r.org, Since: now().Add(-time.Hour), Limit: 5, Text: event.NewText(strings.ToUpper(string(all[3].ID)))}
	if page, err := r.Newest(t.Context(), search); err != nil || len(page.Events) != 1 || page.Events[0].ID != all[3].ID || page.Scanned != len(all) || page.Next.Tx != 0 {
		t.Errorf("a search for one of %d events found %d among %d: %v", len(all), len(page.Events), page.Scanned, err)
	}
	search.Until = now().Add(-time.Minute)
	if page, err := r.Newest(t.Context(), search); err != nil || len(page.Events) != 0 || page.Scanned != 0 {
		t.Errorf("a search before all events found %d among %d: %v", len(page.Events), page.Scanned, err)
	}
}

// An event of any source is found by its id, but only by its org.
func TestEventsAreFoundByTheirIds(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	other := id.New[id.Org]()
	testenv.InsertOrg(r.t, r.Deps().DB, other)
	all := r.commitEvents(r.org, []string{string(id.New[id.Account]()), string(r.org)}, 4,
		func(int) string { return "message" })
	for _, e := range all {
		found, err := r.FindOne(t.Context(), r.org, e.ID)
		must.OK(t, err)
		equal(t, e, found)
		if _, err := r.FindOne(t.Context(), other, e.ID); !isKind(err, problem.EventNotFound) {
			t.Errorf("another org: %v", err)
		}
	}
	list, err := r.FindAny(t.Context(), r.org, []id.Event{all[7].ID, id.New[id.Event](), all[2].ID})
	must.OK(t, err)
	equal(t, []event.Stored{all[2], all[7]}, list)
}

func isKind(err error, k problem.Kind) bool {
	p, ok := errors.AsType[*problem.Error](err)
	return ok && p.Kind.Code == k.Code
}

// With a hundred thousand events of an org in a day, the newest events and an event by its id are read with an index.
func TestLookingUpEventsUsesAnIndex(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills a table")
	}
	r := newFixture(t)
	conn, err := r.Deps().DB.Pool().Acquire(t.Context())
	must.OK(t, err)
	defer conn.Release()
	for _, sql := range []string{
		`SET statement_timeout = 0`,
		`INSERT INTO event (at, seq, tx, org_id, source, id, kind, upstream_id, body)
		SELECT now() - interval '2 hours' + i * interval '50 ms', i / 100, i, '` + string(r.org) + `', 'acct_' || i % 100,
			'evt_' || lpad(to_hex(i), 26, '0'), CASE i % 1000 WHEN 0 THEN 'rare' ELSE 'message' END, '', convert_to(repeat('x', 400), 'UTF8') FROM generate_series(1, 100000) i`,
		`VACUUM ANALYZE event`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		must.OK(t, err)
	}
	since := now().Add(-24 * time.Hour).Format(time.RFC3339)
	for name, c := range map[string]struct{ sql, index string }{
		"one event": {fmt.Sprintf(`SELECT body FROM event WHERE org_id = '%s' AND id = ANY ('{evt_%026x}') AND at >= '%s' AND at < now() + interval '1 hour'`, r.org, 0x5000, since), "_id_idx"},
		"newest": {fmt.Sprintf(`SELECT id, (CASE WHEN kind = ANY ('{message}') THEN body END) FROM event WHERE org_id = '%s' AND tx <= 9223372036854775807 AND at >= '%s'
			AND tx < (SELECT event_horizon()) + 1000000 ORDER BY tx DESC, id DESC LIMIT 51`, r.org, since), "org_id_tx"},
		"newest of an account": {fmt.Sprintf(`SELECT e.id FROM unnest('{acct_1,acct_2}'::text[]) AS s (source) CROSS JOIN LATERAL (SELECT * FROM event WHERE event.org_id = '%s'
			AND event.source = s.source AND event.at >= '%s' ORDER BY event.seq DESC LIMIT 51) e ORDER BY e.tx DESC, e.id DESC LIMIT 51`, r.org, since), "pkey"},
	} {
		rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) "+c.sql)
		must.OK(t, err)
		var plan []string
		for rows.Next() {
			var line string
			must.OK(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		must.OK(t, rows.Err())
		text := strings.Join(plan, "\n")
		t.Log(name, plan[len(plan)-1])
		if !strings.Contains(text, c.index) {
			t.Errorf("%s does not use its index:\n%s", name, text)
		}
	}
}
