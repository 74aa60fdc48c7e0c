package account_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/account/accounttest"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

func listening(d *account.Deps) { d.Config.Listens = true }

func listened(t testing.TB, r *accounttest.Rig, a account.Account, epoch int64, s account.ListenerState) account.Account {
	t.Helper()
	if err := r.Accounts.Listened(t.Context(), account.Ref{Org: a.Org, Account: a.ID}, epoch, s); err != nil {
		t.Fatal(err)
	}
	return r.Get(a)
}

func take(t testing.TB, r *accounttest.Rig, a account.Account, epoch int64) {
	t.Helper()
	if err := r.Accounts.TakeShard(t.Context(), account.ShardOf(a.ID), epoch); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhoHasTheShardSaysHowAListenerStands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := active(t, r, "1")
	if a = listened(t, r, a, 1, account.ListenerUp); a.Listener.State != account.ListenerOff {
		t.Fatal("nobody has taken the shard")
	}
	take(t, r, a, 3)
	a = listened(t, r, a, 3, account.ListenerUp)
	began := r.Clock.Now()
	if a.Listener.State != account.ListenerUp || a.Listener.Since == nil || !a.Listener.Since.Equal(began) {
		t.Fatalf("%+v", a.Listener)
	}
	r.Clock.Advance(time.Minute)
	take(t, r, a, 4)
	if a = listened(t, r, a, 3, account.ListenerDown); a.Listener.State != account.ListenerUp {
		t.Fatal("who had the shard before is still heard")
	}
	take(t, r, a, 3) // one that was late
	if a = listened(t, r, a, 3, account.ListenerDown); a.Listener.State != account.ListenerUp {
		t.Fatal("an old epoch came back")
	}
	if a = listened(t, r, a, 4, account.ListenerUp); !a.Listener.Since.Equal(began) {
		t.Fatal("a repeat is no change")
	}
	if a = listened(t, r, a, 4, account.ListenerDown); a.Listener.State != account.ListenerDown || !a.Listener.Since.Equal(r.Clock.Now()) {
		t.Fatalf("%+v", a.Listener)
	}
	if v := a.View().Listener; v.State != "down" || v.Since == nil {
		t.Fatalf("%+v", v)
	}
}

func TestAnAccountThatOnlyWaitsForItsListenerIsActiveWithIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, listening)
	a := r.Connect(r.Connected(r.Org(), "1"))
	take(t, r, a, 1)
	if until, awaits := r.Accounts.AwaitsListener(a, r.Clock.Now()); !awaits || until.Sub(r.Clock.Now()) != 30*time.Second {
		t.Fatalf("%s %t", until, awaits)
	}
	if _, awaits := r.Accounts.AwaitsListener(a, r.Clock.Now().Add(30*time.Second)); awaits {
		t.Fatal("it waits for ever")
	}
	// Its sign-in read who it is, which counts as its first good probe. Without it the listener alone proves nothing.
	a.Health.Goods = 0
	if err := r.Accounts.Checked(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	if a = listened(t, r, a, 1, account.ListenerUp); a.State != account.Connecting || a.Health.ProbeAt.After(r.Clock.Now()) {
		t.Fatalf("%s, probed at %s", a.State, a.Health.ProbeAt)
	}
	b := r.Connect(r.Connected(r.Org(), "2"))
	take(t, r, b, 1)
	if b = listened(t, r, b, 1, account.ListenerUp); b.State != account.Active {
		t.Fatal(b.State)
	}
	listened(t, r, a, 1, account.ListenerDown)
	a.Health.Goods = 1
	if err := r.Accounts.Checked(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	if a = listened(t, r, a, 1, account.ListenerUp); a.State != account.Active {
		t.Fatal(a.State)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected"}) {
		t.Fatal(kinds)
	}
	a = put(t, r, a, account.Cause{On: account.Troubled, Reason: account.ReasonListenerDown})
	a = listened(t, r, a, 1, account.ListenerDown)
	a.Health.Goods = 2
	if err := r.Accounts.Checked(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	if a = listened(t, r, a, 1, account.ListenerUp); a.State != account.Active || a.Reason != "" {
		t.Fatal(a.State)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}

func TestAnAccountThatStopsOrHasAnotherSessionHasNoListener(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := active(t, r, "1")
	take(t, r, a, 1)
	a = listened(t, r, a, 1, account.ListenerUp)
	r.Clock.Advance(time.Minute)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	if a = r.Get(a); a.Listener.State != account.ListenerOff || !a.Listener.Since.Equal(r.Clock.Now()) || a.Listenable() {
		t.Fatalf("%+v", a.Listener)
	}
	if a = listened(t, r, a, 1, account.ListenerUp); a.Listener.State != account.ListenerOff {
		t.Fatal("a late listener of a paused account counts")
	}
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	put(t, r, a, account.Cause{On: account.Proved})
	before := listened(t, r, a, 1, account.ListenerUp)
	again := r.Connect(r.Connected(a.Org, "1"))
	if again.SameWay(before) || r.Get(a).Listener.State != account.ListenerOff {
		t.Fatal("the listener of a session that was replaced counts")
	}
	label := "Nova"
	after, err := r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID, account.Change{Label: &label})
	if err != nil || !after.SameWay(again) {
		t.Fatal("a label needs no other socket", err)
	}
	region := "uk"
	if after, err = r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID, account.Change{Region: &region}); err != nil || after.SameWay(again) {
		t.Fatal("another region needs another socket", err)
	}
}

func TestAShardListsWhoIsToBeListenedTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner, want := r.Org(), map[int][]id.Account{}
	for n := range 24 {
		a := r.Connect(r.Connected(owner, string(rune('a'+n))))
		if n%4 == 0 {
			put(t, r, a, account.Cause{On: account.Pause, Reason: account.ReasonPausedByCaller})
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
			if err != nil {
				t.Fatal(err)
			}
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

func TestWhenEventsCameIsWrittenDownForManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := active(t, r, "1"), active(t, r, "2")
	at := r.Clock.Now().Add(time.Minute)
	list := []account.Eventful{{Ref: account.Ref{Org: a.Org, Account: a.ID}, At: at}, {Ref: account.Ref{Org: b.Org, Account: b.ID}, At: at.Add(-time.Hour)}}
	for range 2 {
		if err := r.Accounts.Eventful(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if a, b = r.Get(a), r.Get(b); !a.Listener.LastEventAt.Equal(at) || !a.LastSeenAt.Equal(at) || !b.Listener.LastEventAt.Equal(at.Add(-time.Hour)) || b.LastSeenAt.Before(r.Clock.Now()) {
		t.Fatalf("%+v, %+v", a.Listener, b.Listener)
	}
}
