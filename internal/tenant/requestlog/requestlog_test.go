package requestlog_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/effect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Every field of an entry is read back, immediately after Add on the same node.
func TestEveryFieldIsReadBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := startJournal(t, database(t), c)
	owner := id.New[id.Org]()
	full := requestlog.Entry{
		Org: owner, At: noon.Add(123456789 * time.Nanosecond), Request: "mine:1_a.b-c", Key: id.New[id.Key](), Account: id.New[id.Account](),
		Operation: "messages.send", Verb: "POST", Status: 502, Took: 1234567 * time.Microsecond, Upstream: 1234 * time.Millisecond,
		Problem: "upstream/error", Retryable: true, UpstreamCode: "-7", In: math.MaxInt64, Out: 1 << 40, Replayed: true, DryRun: true,
		Source: requestlog.SourceCLI, Reason: "org_rpm", Fields: "enum /scopes/0\nrequired query/x", Members: `{"limit":30}`, Free: true,
		Events: requestlog.EventsOf([]effect.Event{{ID: "evt_1", Kind: "account.paused", Account: "acct_1"}, {ID: "evt_2", Kind: "key.created"}}),
	}
	empty := requestlog.Entry{Org: owner, At: noon, Request: "x"}
	quick := requestlog.Entry{Org: owner, At: noon, Request: "y", Upstream: time.Nanosecond, UpstreamCode: "ValidationError"}
	for _, e := range []requestlog.Entry{full, empty, quick} {
		j.Add(e)
	}
	full.At = full.At.Truncate(time.Microsecond)
	quick.Upstream = time.Microsecond // 0 would mean that the platform was not called
	empty.Source, quick.Source = requestlog.SourceAPI, requestlog.SourceAPI
	for _, want := range []requestlog.Entry{full, empty, quick} {
		got, err := j.Get(t.Context(), unlimited(owner), string(want.Request))
		must.OK(t, err)
		if got != want {
			t.Errorf("\n%+v\n%+v", got, want)
		}
	}
	if all := allPages(t, j, unlimited(owner), requestlog.Filter{}, 10); len(all) != 3 || all[0].Request != full.Request {
		t.Errorf("%+v", all)
	}
}

// caused is an event of some requests of mixed.
const caused id.Event = "evt_01k9zk16062m4d8v9qx7q00001"

// mixed returns n requests that differ in everything that a filter can select.
func mixed(owner id.Org, n int) (entries []requestlog.Entry, accounts []id.Account, keys []id.Key) {
	accounts = []id.Account{"", id.New[id.Account](), id.New[id.Account](), id.New[id.Account]()}
	keys = []id.Key{id.New[id.Key](), id.New[id.Key]()}
	outcomes := []struct {
		status  int
		problem string
	}{{200, ""}, {201, ""}, {404, "account-not-found"}, {429, "quota-exceeded"}, {502, "upstream/error"}, {503, "service-unavailable"}, {304, ""}}
	operations := []string{"getMe", "messages.send", "chats.list"}
	for i := range n {
		e := success(owner, noon.Add(-time.Duration(i/3)*time.Hour)) // three with the same time
		outcome := outcomes[i%len(outcomes)]
		e.Status, e.Problem = outcome.status, outcome.problem
		e.Account, e.Key, e.Operation = accounts[(i/2)%len(accounts)], keys[(i/5)%len(keys)], operations[(i/7)%len(operations)]
		if i%10 == 0 {
			e.Events = requestlog.EventsOf([]effect.Event{{ID: caused, Kind: "account.updated"}})
		}
		e.Took, e.Free = time.Duration(1+i%13)*time.Millisecond, i%3 == 0
		if e.Status == 429 {
			e.Reason = []string{"org_rpm", "account_write_rpm"}[i%2]
		}
		e.Source = []requestlog.Source{requestlog.SourceAPI, requestlog.SourceDashboard, requestlog.SourceCLI}[(i/11)%3]
		entries = append(entries, e)
	}
	return entries, accounts, keys
}

// matches is a straightforward implementation of filters.
func matches(e requestlog.Entry, r requestlog.Reader, f requestlog.Filter) bool {
	return (r.Accounts == nil || slices.Contains(r.Accounts, e.Account)) &&
		(f.Account == "" || e.Account == f.Account) && (f.Key == "" || e.Key == f.Key) && (f.Operation == "" || e.Operation == f.Operation) &&
		(f.Problem == "" || e.Problem == f.Problem) && (f.Source == "" || e.Source == f.Source) && (f.StatusTo == 0 || e.Status >= f.StatusFrom && e.Status <= f.StatusTo) &&
		(f.Event == "" || strings.Contains(string(e.Events), string(f.Event))) &&
		(f.Reason == "" || e.Reason == f.Reason) && e.Took >= f.MinTook && (!f.Counted || !e.Free) &&
		strings.Contains(strings.ToLower(e.Operation+" "+e.Problem+" "+e.Reason+" "+string(e.Request)), strings.ToLower(f.Text)) &&
		!e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// Every filter and every pair of filters selects what matches says, for unlimited readers and for readers of some
// accounts.
func TestFiltersSelectMatchingRequests(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := startJournal(t, database(t), c)
	owner := id.New[id.Org]()
	entries, accounts, keys := mixed(owner, 420)
	for _, e := range entries {
		j.Add(e)
	}
	slices.SortFunc(entries, func(a, b requestlog.Entry) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Request, a.Request))
	})
	filters := []func(*requestlog.Filter){
		func(*requestlog.Filter) {},
		func(f *requestlog.Filter) { f.Account = accounts[1] },
		func(f *requestlog.Filter) { f.Account = id.New[id.Account]() },
		func(f *requestlog.Filter) { f.Key = keys[1] },
		func(f *requestlog.Filter) { f.Operation = "messages.send" },
		func(f *requestlog.Filter) { f.Problem = "quota-exceeded" },
		func(f *requestlog.Filter) { f.StatusFrom, f.StatusTo = 200, 299 },
		func(f *requestlog.Filter) { f.StatusFrom, f.StatusTo = 400, 499 },
		func(f *requestlog.Filter) { f.StatusFrom, f.StatusTo = 500, 599 },
		func(f *requestlog.Filter) { f.StatusFrom, f.StatusTo = 304, 304 },
		func(f *requestlog.Filter) { f.Source = requestlog.SourceAPI },
		func(f *requestlog.Filter) { f.Source = requestlog.SourceDashboard },
		func(f *requestlog.Filter) { f.Event, f.Since = caused, noon.Add(-30*24*time.Hour) },
		func(f *requestlog.Filter) { f.Reason = "org_rpm" },
		func(f *requestlog.Filter) { f.Text = "Write_RPM" },
		func(f *requestlog.Filter) { f.Text = "no%such_text" },
		func(f *requestlog.Filter) { f.MinTook = 9 * time.Millisecond },
		func(f *requestlog.Filter) { f.Counted = true },
		func(f *requestlog.Filter) { f.Since = noon.Add(-50 * time.Hour) },
		func(f *requestlog.Filter) { f.Until = noon.Add(-20 * time.Hour) },
	}
	cases := 0
	for _, r := range []requestlog.Reader{
		unlimited(owner), {Org: owner, Days: 30, Accounts: accounts[2:]}, {Org: owner, Days: 30, Accounts: []id.Account{}},
	} {
		for i, one := range filters {
			for k, two := range filters[i:] {
				var f requestlog.Filter
				one(&f)
				two(&f)
				var want []id.Request
				for _, e := range entries {
					if matches(e, r, f) {
						want = append(want, e.Request)
					}
				}
				cases++
				if got := requests(allPages(t, j, r, f, 100)); !slices.Equal(got, want) {
					t.Errorf("filters %d and %d (accounts %v): %d requests, want %d", i, i+k, r.Accounts != nil, len(got), len(want))
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

func requests(entries []requestlog.Entry) []id.Request {
	var list []id.Request
	for _, e := range entries {
		list = append(list, e.Request)
	}
	return list
}

// While requests are added, including some with older times, pages of any size return every request that existed at the
// start exactly once and in order, even if many requests have the same time.
func TestPagesNeitherRepeatNorSkip(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 7, 50, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			c := newClock()
			j := startJournal(t, database(t), c)
			owner := id.New[id.Org]()
			first := map[id.Request]bool{}
			for i := range 120 {
				e := success(owner, noon.Add(-time.Duration(i/20)*7*time.Hour)) // over two days, twenty with the same time
				first[e.Request] = true
				j.Add(e)
			}
			var (
				after requestlog.Position
				last  requestlog.Entry
				seen  = map[id.Request]bool{}
			)
			for {
				found, next, err := j.Page(t.Context(), unlimited(owner), requestlog.Filter{}, after, limit)
				must.OK(t, err)
				for _, e := range found {
					if seen[e.Request] {
						t.Fatalf("%s is repeated", e.Request)
					}
					if last.Request != "" && (e.At.After(last.At) || e.At.Equal(last.At) && e.Request > last.Request) {
						t.Fatalf("%s is out of order after %s", e.Request, last.Request)
					}
					seen[e.Request], last = true, e
				}
				if next.At.IsZero() {
					break
				}
				// A caller sends the position back as text.
				parsed, ok := requestlog.ParsePosition(next.String())
				if !ok || parsed != next {
					t.Fatalf("%v became %v", next, parsed)
				}
				after = parsed
				c.move(time.Second)
				j.Add(success(owner, c.now()))
				j.Add(success(owner, last.At))
			}
			for request := range first {
				if !seen[request] {
					t.Errorf("%s was skipped", request)
				}
			}
		})
	}
}

// An org sees only its own requests, even if another org has chosen the same request ids.
func TestOrgSeesOnlyItsOwnRequests(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := startJournal(t, database(t), c)
	mine, theirs := id.New[id.Org](), id.New[id.Org]()
	for _, owner := range []id.Org{mine, theirs} {
		e := success(owner, noon)
		e.Request, e.Status, e.Problem, e.Operation = "same", 500, "internal", "of."+string(owner)
		j.Add(e)
	}
	hidden := success(theirs, noon)
	j.Add(hidden)
	must.OK(t, j.Flush(t.Context()))
	for _, owner := range []id.Org{mine, theirs} {
		e, err := j.Get(t.Context(), unlimited(owner), "same")
		if err != nil || e.Org != owner || e.Operation != "of."+string(owner) {
			t.Errorf("%+v %v", e, err)
		}
		found, err := j.Failures(t.Context(), unlimited(owner), requestlog.FailureFilter{Since: noon.Add(-time.Hour)}, 10)
		if err != nil || len(found) != 1 || found[0].Operation != "of."+string(owner) || found[0].Count != 1 {
			t.Errorf("%+v %v", found, err)
		}
	}
	if got := requests(allPages(t, j, unlimited(mine), requestlog.Filter{}, 10)); !slices.Equal(got, []id.Request{"same"}) {
		t.Errorf("%v", got)
	}
	for _, request := range []string{string(hidden.Request), "", "x", "\x00", "' OR 1=1", "ü", string(make([]byte, 200))} {
		if _, err := j.Get(t.Context(), unlimited(mine), request); !isNoLog(err) {
			t.Errorf("%q: %v", request, err)
		}
	}
}

func isNoLog(err error) bool {
	p := problem.Of(err)
	return err != nil && p.Kind.Code == problem.LogNotFound.Code
}

// Failures are grouped by problem, reason, operation and status, most frequent first, with the newest request as the
// example. A reader of some accounts sees only theirs.
func TestFailuresAreGrouped(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := startJournal(t, database(t), c)
	owner := id.New[id.Org]()
	a, b := id.New[id.Account](), id.New[id.Account]()
	fail := func(ago time.Duration, account id.Account, operation, code string, retryable bool) id.Request {
		e := success(owner, noon.Add(-ago))
		e.Account, e.Operation, e.Problem, e.Retryable, e.Status = account, operation, code, retryable, 502
		if code == "internal" {
			e.Status = 500
		}
		j.Add(e)
		return e.Request
	}
	fail(3*time.Hour, a, "messages.send", "upstream/error", false)
	fail(2*time.Hour, b, "messages.send", "upstream/error", true)
	newest := fail(time.Hour, a, "messages.send", "upstream/error", true)
	other := fail(time.Hour, b, "chats.list", "upstream/error", true)
	ours := fail(time.Minute, "", "getMe", "internal", false)
	fail(25*time.Hour, a, "getMe", "internal", true) // before the requested period
	j.Add(success(owner, noon))                      // successful
	limited := func(reason string) id.Request {
		e := success(owner, noon.Add(-30*time.Hour))
		e.Operation, e.Problem, e.Reason, e.Retryable, e.Status, e.Source = "getMe", "quota-exceeded", reason, true, 429, requestlog.SourceCLI
		j.Add(e)
		return e.Request
	}
	minute, month := limited("org_rpm"), limited("org_monthly")
	since := noon.Add(-24 * time.Hour)
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	for name, c := range map[string]struct {
		r     requestlog.Reader
		until time.Time
		limit int
		want  []requestlog.Failure
	}{
		"all": {unlimited(owner), time.Time{}, 10, []requestlog.Failure{
			{"upstream/error", "", "messages.send", 502, 3, at(3 * time.Hour), at(time.Hour), 2, newest, true},
			{"internal", "", "getMe", 500, 1, at(time.Minute), at(time.Minute), 0, ours, false},
			{"upstream/error", "", "chats.list", 502, 1, at(time.Hour), at(time.Hour), 1, other, true},
		}},
		"the first": {unlimited(owner), time.Time{}, 1, []requestlog.Failure{
			{"upstream/error", "", "messages.send", 502, 3, at(3 * time.Hour), at(time.Hour), 2, newest, true},
		}},
		"until": {unlimited(owner), noon.Add(-150 * time.Minute), 10, nil},
		"of an account": {requestlog.Reader{Org: owner, Days: 30, Accounts: []id.Account{b}}, time.Time{}, 10, []requestlog.Failure{
			{"upstream/error", "", "chats.list", 502, 1, at(time.Hour), at(time.Hour), 1, other, true},
			{"upstream/error", "", "messages.send", 502, 1, at(2 * time.Hour), at(2 * time.Hour), 1, "", true},
		}},
		"of no account": {requestlog.Reader{Org: owner, Days: 30, Accounts: []id.Account{}}, time.Time{}, 10, nil},
	} {
		got, err := j.Failures(t.Context(), c.r, requestlog.FailureFilter{Since: since, Until: c.until}, c.limit)
		must.OK(t, err)
		if name == "until" {
			if len(got) != 1 || got[0].Count != 1 {
				t.Errorf("until: %+v", got)
			}
			continue
		}
		if name == "of an account" && len(got) == 2 {
			got[1].LastRequest = ""
		}
		if len(got)+len(c.want) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%+v\n%+v", name, got, c.want)
		}
	}
	got, err := j.Failures(t.Context(), unlimited(owner), requestlog.FailureFilter{Source: requestlog.SourceCLI, Since: noon.Add(-48 * time.Hour)}, 10)
	if want := []requestlog.Failure{
		{"quota-exceeded", "org_monthly", "getMe", 429, 1, at(30 * time.Hour), at(30 * time.Hour), 0, month, true},
		{"quota-exceeded", "org_rpm", "getMe", 429, 1, at(30 * time.Hour), at(30 * time.Hour), 0, minute, true},
	}; err != nil || !slices.Equal(got, want) {
		t.Errorf("of the command line:\n%+v\n%+v\n%v", got, want, err)
	}
}

// An org can read back exactly as many days as its plan says, at most 30.
func TestPlanLimitsHowFarBackAnOrgReads(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := startJournal(t, database(t), c)
	owner := id.New[id.Org]()
	day := 24 * time.Hour
	for _, days := range []int{3, 7, 14, 30} {
		for i, at := range []time.Time{noon.Add(-time.Duration(days) * day), noon.Add(-time.Duration(days)*day - time.Microsecond)} {
			e := success(owner, at)
			e.Request, e.Problem, e.Status = id.Request(fmt.Sprint(days, "-", i)), "internal", 500
			j.Add(e)
		}
	}
	for days, want := range map[int]int{0: 0, 3: 1, 7: 3, 14: 5, 30: 7, -1: 7, 365: 7} {
		r := requestlog.Reader{Org: owner, Days: days}
		if got := allPages(t, j, r, requestlog.Filter{Since: noon.Add(-400 * day)}, 3); len(got) != want {
			t.Errorf("%d days: %v", days, requests(got))
		}
		found, err := j.Failures(t.Context(), r, requestlog.FailureFilter{Since: noon.Add(-400 * day)}, 10)
		if err != nil || (want > 0) != (len(found) == 1 && found[0].Count == int64(want)) {
			t.Errorf("%d days: %+v %v", days, found, err)
		}
		reach := days
		if days < 0 || days > 30 {
			reach = 30
		}
		for _, known := range []int{3, 7, 14, 30} {
			for i := range 2 {
				_, err := j.Get(t.Context(), r, fmt.Sprint(known, "-", i))
				if visible := known < reach || known == reach && i == 0; (err == nil) != visible {
					t.Errorf("%d days, the request of %d days and %d µs: %v", days, known, i, err)
				}
			}
		}
	}
}
