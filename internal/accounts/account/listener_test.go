package account_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

func listening(d *account.Deps) { d.Config.Listens = true }

func recordListener(t testing.TB, r *accounttest.Fixture, a account.Account, epoch int64,
	s account.ListenerState) account.Account {
	t.Helper()
	must.OK(t, r.Accounts.RecordListener(t.Context(), account.Ref{Org: a.Org, Account: a.ID}, epoch, s))
	return r.Get(a)
}

func takeShard(t testing.TB, r *accounttest.Fixture, a account.Account, epoch int64) {
	t.Helper()
	must.OK(t, r.Accounts.TakeShard(t.Context(), account.ShardOf(a.ID), epoch))
}

func TestListenerStateIsWrittenOnlyByTheHolderOfTheShard(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	if a = recordListener(t, r, a, 1, account.ListenerUp); a.Listener.State != account.ListenerOff {
		t.Fatal("the state was written although no epoch was recorded for the shard")
	}
	takeShard(t, r, a, 3)
	a = recordListener(t, r, a, 3, account.ListenerUp)
	began := r.Clock.Now()
	if a.Listener.State != account.ListenerUp || a.Listener.Since == nil || !a.Listener.Since.Equal(began) {
		t.Fatalf("%+v", a.Listener)
	}
	r.Clock.Advance(time.Minute)
	takeShard(t, r, a, 4)
	if a = recordListener(t, r, a, 3, account.ListenerDown); a.Listener.State != account.ListenerUp {
		t.Fatal("the previous holder of the shard can still write")
	}
	takeShard(t, r, a, 3) // late: the newer epoch stays
	if a = recordListener(t, r, a, 3, account.ListenerDown); a.Listener.State != account.ListenerUp {
		t.Fatal("an older epoch replaced a newer one")
	}
	if a = recordListener(t, r, a, 4, account.ListenerUp); !a.Listener.Since.Equal(began) {
		t.Fatal("a repeat changed the time")
	}
	if a = recordListener(t, r, a, 4, account.ListenerDown); a.Listener.State != account.ListenerDown ||
		!a.Listener.Since.Equal(r.Clock.Now()) {
		t.Fatalf("%+v", a.Listener)
	}
	if v := a.View().Listener; v.State != "down" || v.Since == nil {
		t.Fatalf("%+v", v)
	}
}

func TestAccountBecomesActiveWhenItsListenerIsUp(t *testing.T) {
	t.Parallel()
	r := newFixture(t, listening)
	a := r.Connect(r.Connected(r.Org(), "1"))
	takeShard(t, r, a, 1)
	if until, awaits := r.Accounts.AwaitsListener(a, r.Clock.Now()); !awaits || until.Sub(r.Clock.Now()) != 30*time.Second {
		t.Fatalf("%s %t", until, awaits)
	}
	if _, awaits := r.Accounts.AwaitsListener(a, r.Clock.Now().Add(30*time.Second)); awaits {
		t.Fatal("it waits for its listener without end")
	}
	// The sign-in read the profile, which counts as the first good probe. Without it the listener alone is not enough.
	a.Health.Successes = 0
	must.OK(t, r.Accounts.RecordProbe(t.Context(), a, true))
	if a = recordListener(t, r, a, 1, account.ListenerUp); a.State != account.Connecting ||
		a.Health.ProbeAt.After(r.Clock.Now()) {
		t.Fatalf("%s, probed at %s", a.State, a.Health.ProbeAt)
	}
	b := r.Connect(r.Connected(r.Org(), "2"))
	takeShard(t, r, b, 1)
	if b = recordListener(t, r, b, 1, account.ListenerUp); b.State != account.Active {
		t.Fatal(b.State)
	}
	recordListener(t, r, a, 1, account.ListenerDown)
	a.Health.Successes = 1
	must.OK(t, r.Accounts.RecordProbe(t.Context(), a, true))
	if a = recordListener(t, r, a, 1, account.ListenerUp); a.State != account.Active {
		t.Fatal(a.State)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected"}) {
		t.Fatal(kinds)
	}
	a = trigger(t, r, a, account.Cause{On: account.Failing, Reason: account.ReasonListenerDown})
	a = recordListener(t, r, a, 1, account.ListenerDown)
	a.Health.Successes = 2
	must.OK(t, r.Accounts.RecordProbe(t.Context(), a, true))
	if a = recordListener(t, r, a, 1, account.ListenerUp); a.State != account.Active || a.Reason != "" {
		t.Fatal(a.State)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}

func TestListenerIsOffAfterAPauseOrANewSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	takeShard(t, r, a, 1)
	a = recordListener(t, r, a, 1, account.ListenerUp)
	r.Clock.Advance(time.Minute)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	if a = r.Get(a); a.Listener.State != account.ListenerOff || !a.Listener.Since.Equal(r.Clock.Now()) || a.Listenable() {
		t.Fatalf("%+v", a.Listener)
	}
	if a = recordListener(t, r, a, 1, account.ListenerUp); a.Listener.State != account.ListenerOff {
		t.Fatal("a late listener of a paused account was recorded")
	}
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	trigger(t, r, a, account.Cause{On: account.ProbePassed})
	before := recordListener(t, r, a, 1, account.ListenerUp)
	again := r.Connect(r.Connected(a.Org, "1"))
	if again.SameConnection(before) || r.Get(a).Listener.State != account.ListenerOff {
		t.Fatal("the listener of a replaced session is still recorded")
	}
	label := "Nova"
	after, err := r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID, account.Change{Label: &label})
	if err != nil || !after.SameConnection(again) {
		t.Fatal("a label needs no other socket", err)
	}
	region := "uk"
	if after, err = r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID,
		account.Change{Region: &region}); err != nil || after.SameConnection(again) {
		t.Fatal("another region needs another socket", err)
	}
}

func TestInShardListsAccountsThatNeedAListener(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner, want := r.Org(), map[int][]id.Account{}
	for n := range 24 {
		a := r.Connect(r.Connected(owner, string(rune('a'+n))))
		if n%4 == 0 {
			trigger(t, r, a, account.Cause{On: account.Pause, Reason: account.ReasonPausedByCaller})
			continue
		}
		shard := account.ShardOf(a.ID)
		want[shard] = append(want[shard], a.ID)
		if found, err := r.Accounts.Owner(t.Context(), a.ID); err != nil || found != owner {
			t.Fatal(found, err)
		}
	}
	for shard := range account.Shards {
		var got []id.Account
		for after := id.Account(""); ; {
			list, err := r.Accounts.InShard(t.Context(), shard, after, 2)
			must.OK(t, err)
			for _, one := range list {
				if one.Org != owner || one.SessionVersion == 0 {
					t.Fatalf("%+v", one)
				}
				got, after = append(got, one.Account), one.Account
			}
			if len(list) < 2 {
				break
			}
		}
		slices.Sort(want[shard])
		if !slices.Equal(got, want[shard]) {
			t.Errorf("shard %d: %v, want %v", shard, got, want[shard])
		}
	}
	if found, err := r.Accounts.Owner(t.Context(), id.New[id.Account]()); err != nil || found != "" {
		t.Fatal(found, err)
	}
}

func TestEventTimesAreRecordedForManyAccounts(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := connectActive(t, r, "1"), connectActive(t, r, "2")
	at := r.Clock.Now().Add(time.Minute)
	list := []account.EventTime{{Ref: account.Ref{Org: a.Org, Account: a.ID}, At: at},
		{Ref: account.Ref{Org: b.Org, Account: b.ID}, At: at.Add(-time.Hour)}}
	for range 2 {
		must.OK(t, r.Accounts.RecordEventTimes(t.Context(), list))
	}
	if a, b = r.Get(a), r.Get(b); !a.Listener.LastEventAt.Equal(at) || !a.LastSeenAt.Equal(at) || !b.Listener.LastEventAt.Equal(at.Add(-time.Hour)) || b.LastSeenAt.Before(r.Clock.Now()) {
		t.Fatalf("%+v, %+v", a.Listener, b.Listener)
	}
}
