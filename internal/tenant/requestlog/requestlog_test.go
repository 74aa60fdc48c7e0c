package requestlog_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// What is noted is what is read, to the last field, and a reader of the same node finds it at once.
func TestEveryFieldComesBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := running(t, database(t), c)
	owner := id.New[id.Org]()
	full := requestlog.Entry{
		Org: owner, At: noon.Add(123456789 * time.Nanosecond), Request: "mine:1_a.b-c", Key: id.New[id.Key](), Account: id.New[id.Account](),
		Operation: "messages.send", Verb: "POST", Status: 502, Took: 1234567 * time.Microsecond, Upstream: 1234 * time.Millisecond,
		Problem: "upstream/error", Retryable: true, UpstreamCode: -7, In: math.MaxInt64, Out: 1 << 40, Replayed: true, DryRun: true,
		Source: requestlog.SourceCLI, Reason: "org_rpm", Fields: "enum /scopes/0\nrequired query/x",
	}
	empty := requestlog.Entry{Org: owner, At: noon, Request: "x"}
	quick := requestlog.Entry{Org: owner, At: noon, Request: "y", Upstream: time.Nanosecond}
	for _, e := range []requestlog.Entry{full, empty, quick} {
		j.Add(e)
	}
	full.At = full.At.Truncate(time.Microsecond)
	quick.Upstream = time.Microsecond // not "was not asked"
	empty.Source, quick.Source = requestlog.SourceAPI, requestlog.SourceAPI
	for _, want := range []requestlog.Entry{full, empty, quick} {
		got, err := j.Get(t.Context(), everything(owner), string(want.Request))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("\n%+v\n%+v", got, want)
		}
	}
	if all := pages(t, j, everything(owner), requestlog.Filter{}, 10); len(all) != 3 || all[0].Request != full.Request {
		t.Errorf("%+v", all)
	}
}

// mixed are requests that differ in everything that can be filtered by.
func mixed(owner id.Org, n int) (entries []requestlog.Entry, accounts []id.Account, keys []id.Key) {
	accounts = []id.Account{"", id.New[id.Account](), id.New[id.Account](), id.New[id.Account]()}
	keys = []id.Key{id.New[id.Key](), id.New[id.Key]()}
	outcomes := []struct {
		status  int
		problem string
	}{{200, ""}, {201, ""}, {404, "account-not-found"}, {429, "quota-exceeded"}, {502, "upstream/error"}, {503, "service-unavailable"}, {304, ""}}
	operations := []string{"getMe", "messages.send", "chats.list"}
	for i := range n {
		e := plain(owner, noon.Add(-time.Duration(i/3)*time.Hour)) // three at a time
		outcome := outcomes[i%len(outcomes)]
		e.Status, e.Problem = outcome.status, outcome.problem
		e.Account, e.Key, e.Operation = accounts[(i/2)%len(accounts)], keys[(i/5)%len(keys)], operations[(i/7)%len(operations)]
		e.Source = []requestlog.Source{requestlog.SourceAPI, requestlog.SourceDashboard, requestlog.SourceCLI}[(i/11)%3]
		entries = append(entries, e)
	}
	return entries, accounts, keys
}

// matches is what a filter means, in plain words.
func matches(e requestlog.Entry, r requestlog.Reader, f requestlog.Filter) bool {
	return (r.Accounts == nil || slices.Contains(r.Accounts, e.Account)) &&
		(f.Account == "" || e.Account == f.Account) && (f.Key == "" || e.Key == f.Key) && (f.Operation == "" || e.Operation == f.Operation) &&
		(f.Problem == "" || e.Problem == f.Problem) && (f.Source == "" || e.Source == f.Source) && (f.StatusTo == 0 || e.Status >= f.StatusFrom && e.Status <= f.StatusTo) &&
		!e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// Every filter, and every two of them together, chooses what it says: for all keys, and for those of some accounts.
func TestFiltersChooseWhatTheySay(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := running(t, database(t), c)
	owner := id.New[id.Org]()
	entries, accounts, keys := mixed(owner, 420)
	for _, e := range entries {
		j.Add(e)
	}
	slices.SortFunc(entries, func(a, b requestlog.Entry) int {
		if n := b.At.Compare(a.At); n != 0 {
			return n
		}
		return cmpText(string(b.Request), string(a.Request))
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
		func(f *requestlog.Filter) { f.Since = noon.Add(-50 * time.Hour) },
		func(f *requestlog.Filter) { f.Until = noon.Add(-20 * time.Hour) },
	}
	cases := 0
	for _, r := range []requestlog.Reader{
		everything(owner), {Org: owner, Days: 30, Accounts: accounts[2:]}, {Org: owner, Days: 30, Accounts: []id.Account{}},
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
				if got := requests(pages(t, j, r, f, 100)); !slices.Equal(got, want) {
					t.Errorf("filters %d and %d (accounts %v): %d requests, want %d", i, i+k, r.Accounts != nil, len(got), len(want))
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

func cmpText(a, b string) int {
	if a < b {
		return -1
	}
	return map[bool]int{true: 1, false: 0}[a > b]
}

func requests(entries []requestlog.Entry) []id.Request {
	var list []id.Request
	for _, e := range entries {
		list = append(list, e.Request)
	}
	return list
}

// While requests arrive, also such that began long ago, pages show everything once that was there when they began, in order, whatever the
// size of a page; many requests may have begun in the same moment.
func TestPagesNeitherRepeatNorSkip(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 7, 50, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			c := newClock()
			j := running(t, database(t), c)
			owner := id.New[id.Org]()
			first := map[id.Request]bool{}
			for i := range 120 {
				e := plain(owner, noon.Add(-time.Duration(i/20)*7*time.Hour)) // over two days, twenty at a time
				first[e.Request] = true
				j.Add(e)
			}
			var (
				behind requestlog.Position
				last   requestlog.Entry
				seen   = map[id.Request]bool{}
			)
			for {
				found, next, err := j.Page(t.Context(), everything(owner), requestlog.Filter{}, behind, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range found {
					if seen[e.Request] {
						t.Fatalf("%s comes twice", e.Request)
					}
					if last.Request != "" && (e.At.After(last.At) || e.At.Equal(last.At) && e.Request > last.Request) {
						t.Fatalf("%s comes after %s", e.Request, last.Request)
					}
					seen[e.Request], last = true, e
				}
				if next.At.IsZero() {
					break
				}
				// What a caller sends back is text.
				parsed, ok := requestlog.ParsePosition(next.String())
				if !ok || parsed != next {
					t.Fatalf("%v became %v", next, parsed)
				}
				behind = parsed
				c.move(time.Second)
				j.Add(plain(owner, c.now()))
				j.Add(plain(owner, last.At))
			}
			for request := range first {
				if !seen[request] {
					t.Errorf("%s was skipped", request)
				}
			}
		})
	}
}

// An org sees nothing of another's, also if both have chosen the same ids.
func TestAnOrgSeesItsOwn(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := running(t, database(t), c)
	mine, theirs := id.New[id.Org](), id.New[id.Org]()
	for _, owner := range []id.Org{mine, theirs} {
		e := plain(owner, noon)
		e.Request, e.Status, e.Problem, e.Operation = "same", 500, "internal", "of."+string(owner)
		j.Add(e)
	}
	hidden := plain(theirs, noon)
	j.Add(hidden)
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []id.Org{mine, theirs} {
		e, err := j.Get(t.Context(), everything(owner), "same")
		if err != nil || e.Org != owner || e.Operation != "of."+string(owner) {
			t.Errorf("%+v %v", e, err)
		}
		found, err := j.Failures(t.Context(), everything(owner), requestlog.FailureFilter{Since: noon.Add(-time.Hour)}, 10)
		if err != nil || len(found) != 1 || found[0].Operation != "of."+string(owner) || found[0].Count != 1 {
			t.Errorf("%+v %v", found, err)
		}
	}
	if got := requests(pages(t, j, everything(mine), requestlog.Filter{}, 10)); !slices.Equal(got, []id.Request{"same"}) {
		t.Errorf("%v", got)
	}
	for _, request := range []string{string(hidden.Request), "", "x", "\x00", "' OR 1=1", "ü", string(make([]byte, 200))} {
		if _, err := j.Get(t.Context(), everything(mine), request); !isNoLog(err) {
			t.Errorf("%q: %v", request, err)
		}
	}
}

func isNoLog(err error) bool {
	p := problem.Of(err)
	return err != nil && p.Kind.Code == problem.LogNotFound.Code
}

// Failures are grouped by problem, operation and status, the most frequent first, with the newest as the example; a key of some accounts
// sees those of its accounts.
func TestFailuresAreGrouped(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := running(t, database(t), c)
	owner := id.New[id.Org]()
	a, b := id.New[id.Account](), id.New[id.Account]()
	fail := func(ago time.Duration, account id.Account, operation, code string, retryable bool) id.Request {
		e := plain(owner, noon.Add(-ago))
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
	fail(25*time.Hour, a, "getMe", "internal", true) // before the time asked for
	j.Add(plain(owner, noon))                        // went well
	limited := func(reason string) id.Request {
		e := plain(owner, noon.Add(-30*time.Hour))
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
		"all": {everything(owner), time.Time{}, 10, []requestlog.Failure{
			{"upstream/error", "", "messages.send", 502, 3, at(3 * time.Hour), at(time.Hour), 2, newest, true},
			{"internal", "", "getMe", 500, 1, at(time.Minute), at(time.Minute), 0, ours, false},
			{"upstream/error", "", "chats.list", 502, 1, at(time.Hour), at(time.Hour), 1, other, true},
		}},
		"the first": {everything(owner), time.Time{}, 1, []requestlog.Failure{
			{"upstream/error", "", "messages.send", 502, 3, at(3 * time.Hour), at(time.Hour), 2, newest, true},
		}},
		"until": {everything(owner), noon.Add(-150 * time.Minute), 10, nil},
		"of an account": {requestlog.Reader{Org: owner, Days: 30, Accounts: []id.Account{b}}, time.Time{}, 10, []requestlog.Failure{
			{"upstream/error", "", "chats.list", 502, 1, at(time.Hour), at(time.Hour), 1, other, true},
			{"upstream/error", "", "messages.send", 502, 1, at(2 * time.Hour), at(2 * time.Hour), 1, "", true},
		}},
		"of no account": {requestlog.Reader{Org: owner, Days: 30, Accounts: []id.Account{}}, time.Time{}, 10, nil},
	} {
		got, err := j.Failures(t.Context(), c.r, requestlog.FailureFilter{Since: since, Until: c.until}, c.limit)
		if err != nil {
			t.Fatal(err)
		}
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
	got, err := j.Failures(t.Context(), everything(owner), requestlog.FailureFilter{Source: requestlog.SourceCLI, Since: noon.Add(-48 * time.Hour)}, 10)
	if want := []requestlog.Failure{
		{"quota-exceeded", "org_monthly", "getMe", 429, 1, at(30 * time.Hour), at(30 * time.Hour), 0, month, true},
		{"quota-exceeded", "org_rpm", "getMe", 429, 1, at(30 * time.Hour), at(30 * time.Hour), 0, minute, true},
	}; err != nil || !slices.Equal(got, want) {
		t.Errorf("of the command line:\n%+v\n%+v\n%v", got, want, err)
	}
}

// An org reads back as far as its plan says and not a moment further, at most 30 days.
func TestAPlanSaysHowFarBackAnOrgReads(t *testing.T) {
	t.Parallel()
	c := newClock()
	j := running(t, database(t), c)
	owner := id.New[id.Org]()
	day := 24 * time.Hour
	for _, days := range []int{3, 7, 14, 30} {
		for i, at := range []time.Time{noon.Add(-time.Duration(days) * day), noon.Add(-time.Duration(days)*day - time.Microsecond)} {
			e := plain(owner, at)
			e.Request, e.Problem, e.Status = id.Request(fmt.Sprint(days, "-", i)), "internal", 500
			j.Add(e)
		}
	}
	for days, want := range map[int]int{0: 0, 3: 1, 7: 3, 14: 5, 30: 7, -1: 7, 365: 7} {
		r := requestlog.Reader{Org: owner, Days: days}
		if got := pages(t, j, r, requestlog.Filter{Since: noon.Add(-400 * day)}, 3); len(got) != want {
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
