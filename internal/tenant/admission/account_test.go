package admission_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Every admission of a call on an account returns when the account was last written to, through any node.
func TestAdmitReturnsTheLastWrite(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner, account := n.newOrg(t), id.New[id.Account]()
	limits := &org.Limits{CallsPerMinute: 600, CallsPerMonth: 1000, AccountReadPerMinute: 60, AccountWritePerMinute: 3}
	admit := func(node int, q admission.Quota) admission.Decision {
		t.Helper()
		d, err := n.limiters[node].Admit(t.Context(), admission.Call{Org: owner, Account: account, Quota: q, Limits: limits, Started: time0.Now(), ReadAt: time0.Now()})
		must.OK(t, err)
		return d
	}
	if d := admit(0, admission.Read); !d.LastWrite.IsZero() || !d.At.Equal(time0.Now()) {
		t.Errorf("before any write: %s at %s", d.LastWrite, d.At)
	}
	must.OK(t, n.limiters[0].SessionChanged(t.Context(), owner, account, 7))
	if d := admit(1, admission.Read); !d.LastWrite.IsZero() || d.SessionVersion != 7 {
		t.Errorf("after a new session: %s", d.LastWrite)
	}
	time0.Advance(time.Second)
	wrote := time0.Now()
	if d := admit(1, admission.Write); !d.LastWrite.IsZero() {
		t.Errorf("the first write has a last write: %s", d.LastWrite)
	}
	time0.Advance(time.Second)
	for node := range 3 {
		if d := admit(node, admission.Read); !d.LastWrite.Equal(wrote) {
			t.Errorf("node %d: %s, want %s", node, d.LastWrite, wrote)
		}
	}
	for range 3 {
		admit(2, admission.Write)
	}
	time0.Advance(100 * time.Millisecond)
	second := admit(0, admission.Read).LastWrite
	if d := admit(2, admission.Write); d.Denied == nil || !admit(0, admission.Read).LastWrite.Equal(second) {
		t.Error("a denied write changed the last write")
	}
}

// AccountWindows uses nothing, and returns the windows that calls on the account get.
func TestAccountWindowsUsesNothing(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner, account := n.newOrg(t), id.New[id.Account]()
	limits := &org.Limits{CallsPerMinute: 600, CallsPerMonth: 1000, AccountReadPerMinute: 60, AccountWritePerMinute: 20}
	call := admission.Call{Org: owner, Account: account, Quota: admission.Write, Limits: limits, Started: time0.Now(), ReadAt: time0.Now()}
	var d admission.Decision
	for range 3 {
		var err error
		d, err = n.limiters[0].Admit(t.Context(), call)
		must.OK(t, err)
	}
	for range 5 {
		read, write, err := n.limiters[1].AccountWindows(t.Context(), owner, account, limits)
		if err != nil || read.Remaining != 60 || read.Limit != 60 || write != d.Account || write.Remaining != 17 {
			t.Fatalf("%+v, %+v, %v; want %+v", read, write, err, d.Account)
		}
	}
	call.Quota = admission.Plain
	if again, err := n.limiters[0].Admit(t.Context(), call); err != nil || again.MonthUsed != 4 {
		t.Errorf("%d calls of the month, want 4: %v", again.MonthUsed, err)
	}
}

// Jobs have a part of each limit, together on all nodes, and use nothing of it themselves.
func TestJobsHaveAPartOfALimit(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner, account, other := n.newOrg(t), id.New[id.Account](), id.New[id.Account]()
	limits := &org.Limits{CallsPerMinute: 600, CallsPerMonth: 1000, AccountReadPerMinute: 60, AccountWritePerMinute: 4}
	ask := func(node int, at id.Account, of admission.Quota) admission.Decision {
		t.Helper()
		d, err := n.limiters[node].Admit(t.Context(), admission.Call{
			Org: owner, Account: at, Quota: admission.Jobs, Of: of, Most: 2, Limits: limits, Started: time0.Now(), ReadAt: time0.Now(),
		})
		must.OK(t, err)
		return d
	}
	for node := range 2 {
		if d := ask(node, account, admission.Write); d.Denied != nil {
			t.Errorf("denied on node %d: %+v", node, d.Denied)
		}
	}
	denied := ask(2, account, admission.Write).Denied
	if denied == nil || denied.Reason != admission.JobShare || denied.Limit != 2 || denied.Wait != 30*time.Second {
		t.Errorf("a third job's call: %+v", denied)
	}
	if ask(2, account, admission.Read).Denied != nil || ask(2, other, admission.Write).Denied != nil || ask(2, "", admission.Plain).Denied != nil {
		t.Error("the part of another limit was used")
	}
	_, write, err := n.limiters[0].AccountWindows(t.Context(), owner, account, limits)
	if must.OK(t, err); write.Remaining != 4 {
		t.Errorf("%d of 4 writes are left to callers", write.Remaining)
	}
	time0.Advance(30 * time.Second)
	if d := ask(0, account, admission.Write); d.Denied != nil {
		t.Errorf("denied after the wait: %+v", d.Denied)
	}
}
