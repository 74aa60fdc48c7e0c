package requestlog_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// queryTracer records the last named query.
type queryTracer struct {
	mu   sync.Mutex
	last pgx.TraceBatchQueryData
}

func (*queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*queryTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*queryTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery sees single queries, because each is sent together with its organisation.
func (s *queryTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(q.SQL, "-- name:") {
		s.last = q
	}
}

func (*queryTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *queryTracer) query() (sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.SQL, s.last.Args
}

var (
	daysRead   = regexp.MustCompile(`Scan .*on request_log_(\d{8})`)
	indexUsed  = regexp.MustCompile(`(?:using|Index Scan on) request_log_\d{8}_(\w+)_idx`)
	neverRun   = regexp.MustCompile(`.*\(never executed\)`)
	sequential = regexp.MustCompile(`Seq Scan on request_log_(\d{8})[^\n]*\(actual[^\n]*rows=(\d+)`)
)

// explain runs a query with EXPLAIN ANALYZE, with a generic plan, which the database chooses for frequent statements,
// or with a plan for these arguments.
func explain(t *testing.T, conn *pgx.Conn, sql string, args []any, generic bool) string {
	t.Helper()
	mode := map[bool]string{true: "force_generic_plan", false: "force_custom_plan"}[generic]
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = literal(arg)
	}
	for _, statement := range []string{"SET plan_cache_mode = " + mode, "DEALLOCATE ALL", "PREPARE looked AS " + sql} {
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	found, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) EXECUTE looked ("+strings.Join(literals, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	must.OK(t, err)
	lines, err := pgx.CollectRows(found, pgx.RowTo[string])
	must.OK(t, err)
	return strings.Join(lines, "\n")
}

func literal(arg any) string {
	switch v := arg.(type) {
	case time.Time:
		return "'" + v.Format(time.RFC3339Nano) + "'"
	case []string:
		return "ARRAY['" + strings.Join(v, "','") + "']"
	case bool, int16, int32:
		return fmt.Sprint(v)
	default:
		return "'" + fmt.Sprint(v) + "'"
	}
}

// fill writes n requests over ten days, most of them of one org, and returns an account with few requests.
func fill(t *testing.T, conn *pgx.Conn, j *requestlog.Journal, owner id.Org, n int) (quiet id.Account) {
	t.Helper()
	var accounts []id.Account
	for range 500 {
		accounts = append(accounts, id.New[id.Account]())
	}
	quiet = accounts[0]
	others := []id.Org{id.New[id.Org](), id.New[id.Org]()}
	step := 10 * 24 * time.Hour / time.Duration(n)
	for i := range n {
		e := success(owner, noon.Add(-time.Duration(i)*step))
		e.Operation, e.Account = "messages.list", accounts[1+i%499]
		if i%10 == 0 {
			e.Org = others[i%20/10]
		}
		if i%4001 == 0 {
			e.Account = quiet
		}
		if i%50 == 1 {
			e.Status, e.Problem = 502, "upstream/error"
		}
		if i%5000 == 1 {
			e.Status, e.Problem = 500, "internal"
		}
		if i%500 == 7 {
			e.Source = requestlog.SourceDashboard
		}
		j.Add(e)
		if i%50_000 == 49_999 || i == n-1 {
			must.OK(t, j.Flush(t.Context()))
		}
	}
	if _, err := conn.Exec(t.Context(), "ANALYZE request_log"); err != nil {
		t.Fatal(err)
	}
	return quiet
}

// Every query uses an index and reads only the days that it needs, also among a million requests of ten days
// (JOURNAL_ROWS=1000000; fewer by default).
func TestQuestionsReadWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	n := 40_000
	if given, err := strconv.Atoi(os.Getenv("JOURNAL_ROWS")); err == nil {
		n = given
	}
	watch := &queryTracer{}
	address := testenv.DatabaseURL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: address, MaxConns: 4, Name: "test", Tracer: watch})
	must.OK(t, err)
	t.Cleanup(db.Close)
	conn, err := pgx.Connect(t.Context(), address.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	c := newClock()
	j := startJournal(t, db, c)
	owner := id.New[id.Org]()
	// The plans are those of a node's role, with the policies.
	asNode, err := pgx.Connect(t.Context(), testenv.AsService(address).Reveal())
	must.OK(t, err)
	defer asNode.Close(t.Context())
	_, err = asNode.Exec(t.Context(), "SET stagedoor.org = '"+string(owner)+"'")
	must.OK(t, err)
	began := time.Now()
	quiet := fill(t, conn, j, owner, n)
	t.Logf("%d rows in %s", n, time.Since(began).Round(time.Millisecond))
	r := unlimited(owner)
	page := func(f requestlog.Filter, after requestlog.Position) func() error {
		return func() error {
			_, _, err := j.Page(t.Context(), r, f, after, 50)
			return err
		}
	}
	hoursAgo := func(n int) time.Time { return noon.Add(-time.Duration(n) * time.Hour) }
	for _, query := range []struct {
		name string
		ask  func() error
		// days bounds how many partitions may be read.
		days  int
		index string
	}{
		{"newest", page(requestlog.Filter{}, requestlog.Position{}), 1, "org_id_at_request_id"},
		{"far behind", page(requestlog.Filter{}, requestlog.Position{At: hoursAgo(8 * 24), Request: "x"}), 1, "org_id_at_request_id"},
		{"within an hour, long ago", page(requestlog.Filter{Since: hoursAgo(100), Until: hoursAgo(99)}, requestlog.Position{}), 1, "org_id_at_request_id"},
		// There are so few failures that the database may sort those of all days.
		{"failed", page(requestlog.Filter{StatusFrom: 500, StatusTo: 599}, requestlog.Position{}), 11, "org_id_at_request_id"},
		{"a rare problem", page(requestlog.Filter{Problem: "internal", Since: hoursAgo(60)}, requestlog.Position{}), 4, "org_id_at_request_id"},
		{"from the dashboard", page(requestlog.Filter{Source: requestlog.SourceDashboard, Since: hoursAgo(60)}, requestlog.Position{}), 4, "org_id_source_at_request_id"},
		{"a quiet account", page(requestlog.Filter{Account: quiet}, requestlog.Position{}), 12, "org_id_account_id_at_request_id"},
		{"one request", func() error {
			_, err := j.Get(t.Context(), requestlog.Reader{Org: owner, Days: 30}, "unknown")
			if isNoLog(err) {
				return nil
			}
			return err
		}, 15, "org_id_request_id_at"},
		{"failures of a day", func() error {
			_, err := j.Failures(t.Context(), r, requestlog.FailureFilter{Since: hoursAgo(24)}, 50)
			return err
		}, 2, "org_id_at_request_id"},
	} {
		if err := query.ask(); err != nil { // prepares it
			t.Fatal(err)
		}
		began := time.Now()
		must.OK(t, query.ask())
		took := time.Since(began)
		sql, args := watch.query()
		for _, generic := range []bool{false, true} {
			text := explain(t, asNode, sql, args, generic)
			ran := neverRun.ReplaceAllString(text, "")
			days := map[string]bool{}
			for _, m := range daysRead.FindAllStringSubmatch(ran, -1) {
				days[m[1]] = true
			}
			for _, m := range sequential.FindAllStringSubmatch(ran, -1) {
				if m[2] != "0" {
					t.Errorf("%s (generic %v): all of %s is read\n%s", query.name, generic, m[1], text)
				}
			}
			used := map[string]bool{}
			for _, m := range indexUsed.FindAllStringSubmatch(ran, -1) {
				used[strings.TrimRight(m[1], "0123456789")] = true
			}
			if len(days) > query.days || !used[query.index] {
				t.Errorf("%s (generic %v): reads %d days by %v\n%s", query.name, generic, len(days), used, text)
			}
			t.Logf("%-26s generic %-5v %2d days by %v, asked in %s; %s", query.name, generic, len(days), used, took.Round(10*time.Microsecond), text[strings.LastIndex(text, "Execution"):])
		}
	}
}
