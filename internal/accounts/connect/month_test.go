package connect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The month counts every attempt once at its start and once at its end, however it ends and however often Clean runs.
// Reauths do not count.
func TestMonthCountsEveryAttemptOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	month := admission.MonthStart(time.Now())
	read := func(of id.Org) connect.Month {
		t.Helper()
		m, err := r.connects.Month(t.Context(), of, month)
		must.OK(t, err)
		return m
	}
	if m := read(r.org.ID); m != (connect.Month{}) {
		t.Errorf("org without attempts: %+v", m)
	}
	good := r.start(login("ok"), "good", func(s *connect.Start) { s.Remember = new(true) })
	made := r.waitFor(good.ID, attempt.Success)
	wrong := r.start(login("ok"), "bad", nil)
	r.waitFor(wrong.ID, attempt.Failed)
	waiting := r.start(login("sms"), "good", nil)
	r.waitFor(waiting.ID, attempt.NeedsOTP)
	for range 2 {
		_, err := r.connects.Cancel(t.Context(), r.org.ID, by, waiting.ID)
		must.OK(t, err)
	}
	open := r.start(login("sms"), "good", nil)
	r.waitFor(open.ID, attempt.NeedsOTP)
	again, err := r.connects.Reauthenticate(t.Context(), r.org, by, id.Account(*made.AccountID), false)
	must.OK(t, err)
	r.waitFor(again.ID, attempt.Success)

	_, err = r.db.Pool().Exec(t.Context(), "UPDATE attempt SET finished_at = finished_at - interval '1 minute'")
	must.OK(t, err)
	for range 2 {
		must.OK(t, r.connects.Clean(t.Context()))
	}
	if m := read(r.org.ID); m != (connect.Month{Started: 4, Succeeded: 1, Failed: 2}) {
		t.Errorf("%+v", m)
	}
	if m := read(r.newOrg().ID); m != (connect.Month{}) {
		t.Errorf("another org: %+v", m)
	}
}

// List can filter attempts by their accounts. An attempt without an account matches no account.
func TestListFiltersByAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	first := r.waitFor(r.start(login("ok"), "good", nil).ID, attempt.Success)
	second := r.waitFor(r.start(login("ok"), "good", nil).ID, attempt.Success)
	open := r.start(login("sms"), "good", nil)
	r.waitFor(open.ID, attempt.NeedsOTP)
	back := r.start(login("sms"), "good", func(s *connect.Start) { s.Account = id.Account(*second.AccountID) })
	list := func(accounts []id.Account) (found []id.Attempt) {
		t.Helper()
		rows, err := r.connects.List(t.Context(), r.org.ID, connect.Filter{Accounts: accounts, Limit: 10})
		must.OK(t, err)
		for _, one := range rows {
			found = append(found, one.ID)
		}
		return found
	}
	for name, c := range map[string]struct {
		accounts []id.Account
		want     []id.Attempt
	}{
		"all":   {nil, []id.Attempt{back.ID, open.ID, second.ID, first.ID}},
		"one":   {[]id.Account{id.Account(*first.AccountID)}, []id.Attempt{first.ID}},
		"again": {[]id.Account{id.Account(*second.AccountID)}, []id.Attempt{back.ID, second.ID}},
		"none":  {[]id.Account{}, nil},
		"other": {[]id.Account{id.New[id.Account]()}, nil},
	} {
		if got := list(c.accounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
