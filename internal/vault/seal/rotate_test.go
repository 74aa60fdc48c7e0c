package seal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/kms/kmstest"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

func fast(d *seal.Deps) { d.Config.RewrapRate = 1_000_000 }

func status(t testing.TB, s *seal.Sealer) seal.Status {
	t.Helper()
	out, err := s.Status(t.Context())
	must.OK(t, err)
	return out
}

func rewrap(t testing.TB, s *seal.Sealer) seal.Rewrapped {
	t.Helper()
	done, err := s.Rewrap(t.Context())
	must.OK(t, err)
	return done
}

// verifyAll checks that no key is corrupt.
func verifyAll(t testing.TB, s *seal.Sealer) seal.Verified {
	t.Helper()
	v, err := s.Verify(t.Context(), func(f seal.Fault) { t.Errorf("corrupt: %+v", f) })
	must.OK(t, err)
	return v
}

// Many holders are rewrapped with new keys twice while other nodes seal, open, prepare and shred. Nothing fails.
func TestKeysAreRotatedWhileInUse(t *testing.T) {
	t.Parallel()
	holders := proof.Scale(1_000, 10_000)
	s := newFixture(t)
	node := s.node(fast)
	orgs := []id.Org{newOrg(), newOrg(), newOrg(), newOrg()}
	all := make([]seal.Address, holders)
	texts := make([][]byte, holders)
	each(8, holders, func(i int) {
		all[i] = address(orgs[i%len(orgs)], newAccount())
		if err := node.Prepare(t.Context(), all[i].Org, all[i].Holder); err != nil {
			t.Error(err)
			return
		}
		texts[i], _ = node.Seal(t.Context(), all[i], secret.New(plain))
	})
	if t.Failed() {
		t.FailNow()
	}

	var uses, shredded atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for range 4 {
		// A separate node with a small cache, so that most opens read the keyring.
		user := s.node(func(d *seal.Deps) { d.Config.Remember = 64 })
		users.Go(func() {
			for ctx.Err() == nil {
				if err := use(t, user, all, texts, orgs, &shredded); err != nil {
					t.Error(err)
					return
				}
				uses.Add(1)
			}
		})
	}
	began := time.Now()
	for range 2 {
		if _, err := s.kms.Rotate(); err != nil {
			t.Fatal(err)
		}
		if n, err := node.Rotate(t.Context(), ""); err != nil || n != len(orgs) {
			t.Fatal(n, err)
		}
		if done := rewrap(t, node); done.DataKeys < holders || done.Corrupt != 0 {
			t.Errorf("%+v", done)
		}
	}
	took := time.Since(began)
	stop()
	users.Wait()
	t.Logf("%d holders rewrapped twice in %s, during %d uses and %d shreddings", holders, took, uses.Load(), shredded.Load())
	if uses.Load() == 0 {
		t.Error("the keys were not used")
	}
	// The next Rewrap moves holders that were prepared with the old key while it was being replaced.
	rewrap(t, node)
	got := status(t, node)
	if got.Waiting != 0 || len(got.OrgKeys) != 1 || got.OrgKeys[0].By != got.Newest || got.OrgKeys[0].Keys != len(orgs) {
		t.Errorf("%+v", got)
	}
	verifyAll(t, node)
	last := s.node()
	each(8, holders, func(i int) { expectOpens(t, last, all[i], texts[i], plain) })
}

// use opens a text of a random holder and, one time in ten, takes a new holder through its whole life.
func use(t *testing.T, user *seal.Sealer, all []seal.Address, texts [][]byte, orgs []id.Org, shredded *atomic.Int64) error {
	t.Helper()
	i := rand.IntN(len(all))
	if _, err := user.Open(t.Context(), all[i], texts[i]); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if rand.IntN(10) > 0 {
		return nil
	}
	at := address(orgs[i%len(orgs)], newAccount())
	if err := user.Prepare(t.Context(), at.Org, at.Holder); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	text, err := user.Seal(t.Context(), at, secret.New(plain))
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if _, err := user.Open(t.Context(), at, text); err != nil {
		return fmt.Errorf("open a text that was just sealed: %w", err)
	}
	if _, err := user.Shred(t.Context(), at.Org, at.Holder); err != nil {
		return fmt.Errorf("shred: %w", err)
	}
	shredded.Add(1)
	if _, err := user.Open(t.Context(), at, text); !errors.Is(err, seal.ErrShredded) {
		return fmt.Errorf("open a shredded text: %w", err)
	}
	return nil
}

// each calls do for every number below n, from several goroutines.
func each(workers, n int, do func(int)) {
	var (
		next  atomic.Int64
		group sync.WaitGroup
	)
	for range workers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
}

// After a rotation of the service's key, Rewrap is enough. Old org keys are deleted when they wrap nothing any more.
func TestRewrapMovesEverythingToTheNewestKeys(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := s.node(fast)
	at := prepared(t, node)
	text := sealed(t, node, at, plain)
	before, err := node.Derive(t.Context(), "link")
	must.OK(t, err)
	if done := rewrap(t, node); done != (seal.Rewrapped{}) {
		t.Errorf("with nothing to do: %+v", done)
	}
	if _, err := s.kms.Rotate(); err != nil {
		t.Fatal(err)
	}
	if done := rewrap(t, node); done.OrgKeys != 2 || done.DataKeys != 0 { // the org key and the root
		t.Errorf("new version: %+v", done)
	}
	if n, err := node.Rotate(t.Context(), at.Org); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got := status(t, node); got.Waiting != 1 || got.DataKeys != 1 || got.Orgs != 1 || got.Holders != 1 {
		t.Errorf("%+v", got)
	}
	if done := rewrap(t, node); done.DataKeys != 1 || done.Dropped != 1 {
		t.Errorf("new org key: %+v", done)
	}
	if got := status(t, node); got.Waiting != 0 || got.Root != got.Newest || len(got.OrgKeys) != 1 || got.OrgKeys[0].Keys != 1 {
		t.Errorf("%+v", got)
	}
	fresh := s.node()
	expectOpens(t, fresh, at, text, plain)
	if after, err := fresh.Derive(t.Context(), "link"); err != nil || string(after) != string(before) {
		t.Errorf("derived keys have changed, %v", err)
	}
	if n, err := node.Rotate(t.Context(), newOrg()); n != 0 || err != nil {
		t.Errorf("organisation without keys: %d, %v", n, err)
	}
}

// Two key management services can be configured while keys move from one to the other. Afterwards the old one is not
// needed.
func TestKeysMoveToAnotherKeyManagementService(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	at := prepared(t, s.node())
	text := sealed(t, s.node(), at, plain)
	server, _ := kmstest.NewTransit(t, false)
	transit, err := kms.OpenTransit(kms.TransitConfig{Address: server.URL, Key: server.Key, Token: secret.New(server.Token)})
	must.OK(t, err)
	t.Cleanup(transit.Close)
	both := func(d *seal.Deps) { d.KMS, d.OldKMS = transit, []kms.Wrapper{s.kms} }
	only := func(d *seal.Deps) { d.KMS = transit }
	if _, err := s.node(only).Open(t.Context(), at, text); !errors.Is(err, seal.ErrUnavailable) {
		t.Errorf("without the old service: %v", err)
	}
	expectOpens(t, s.node(both), at, text, plain)
	if done := rewrap(t, s.node(both)); done.OrgKeys != 1 {
		t.Errorf("%+v", done)
	}
	expectOpens(t, s.node(only), at, text, plain)
	if got := status(t, s.node(only)); len(got.OrgKeys) != 1 || got.OrgKeys[0].By.ID != transit.ID() {
		t.Errorf("%+v", got)
	}
}

// Without the key management service, a node continues with its cached org keys for a day and no longer.
func TestACachedOrgWorksForADayWithoutTheService(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	server, _ := kmstest.NewTransit(t, false)
	transit, err := kms.OpenTransit(kms.TransitConfig{Address: server.URL, Key: server.Key, Token: secret.New(server.Token), Timeout: time.Second})
	must.OK(t, err)
	t.Cleanup(transit.Close)
	var m testClock
	node := s.node(m.set, func(d *seal.Deps) { d.KMS = transit })
	at := prepared(t, node)
	text := sealed(t, node, at, plain)
	if _, err := node.Derive(t.Context(), "link"); err != nil {
		t.Fatal(err)
	}
	server.Hang()
	for range 3 {
		m.add(7 * time.Hour)
		expectOpens(t, node, at, text, plain)
		if _, err := node.Derive(t.Context(), "link"); err != nil {
			t.Error(err)
		}
		if err := node.Prepare(t.Context(), at.Org, newAccount()); err != nil {
			t.Errorf("new account of a cached organisation: %v", err)
		}
	}
	if err := node.Prepare(t.Context(), newOrg(), newAccount()); !errors.Is(err, seal.ErrUnavailable) {
		t.Errorf("new organisation: %v", err)
	}
	if err := node.Check(t.Context()); !errors.Is(err, seal.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	m.add(4 * time.Hour)
	_, open := node.Open(t.Context(), at, text)
	_, derive := node.Derive(t.Context(), "link")
	for _, err := range []error{open, derive} {
		if !errors.Is(err, seal.ErrUnavailable) || errors.Is(err, seal.ErrCorrupt) {
			t.Errorf("after a day: %v", err)
		}
	}
	server.Answer(nil)
	expectOpens(t, node, at, text, plain)
}

// Without the keyring, uncached keys are unavailable, not shredded or corrupt.
func TestWithoutTheKeyringKeysAreUnavailable(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := s.node()
	at := prepared(t, node)
	text := sealed(t, node, at, plain)
	if _, err := s.db.Pool().Exec(t.Context(), "ALTER TABLE keyring.data_key RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	fresh := s.node()
	_, open := fresh.Open(t.Context(), at, text)
	_, seals := fresh.Seal(t.Context(), at, secret.New(plain))
	_, shred := fresh.Shred(t.Context(), at.Org, at.Holder)
	for _, err := range []error{open, seals, shred} {
		if !errors.Is(err, seal.ErrUnavailable) || errors.Is(err, seal.ErrShredded) || errors.Is(err, seal.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	}
	expectOpens(t, node, at, text, plain) // cached
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := fresh.Open(ended, at, text); !errors.Is(err, seal.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Verify reports every damaged key, and Rewrap skips it.
func TestVerifyFindsEveryDamagedKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := s.node(fast)
	good, badData, badOrg := prepared(t, node), prepared(t, node), prepared(t, node)
	for range 2 {
		must.OK(t, node.Prepare(t.Context(), badData.Org, newAccount()))
	}
	if _, err := node.Derive(t.Context(), "link"); err != nil {
		t.Fatal(err)
	}
	if v := verifyAll(t, node); v != (seal.Verified{Root: 1, OrgKeys: 3, DataKeys: 5}) {
		t.Errorf("%+v", v)
	}
	damage := "UPDATE keyring.%s SET wrapped = set_byte(wrapped, length(wrapped) - 1, get_byte(wrapped, length(wrapped) - 1) # 1)"
	for table, where := range map[string]string{"data_key": "holder = '" + badData.Holder + "'", "org_key": "org_id = '" + string(badOrg.Org) + "'", "root_key": "true"} {
		if _, err := s.db.Pool().Exec(t.Context(), fmt.Sprintf(damage, table)+" WHERE "+where); err != nil {
			t.Fatal(err)
		}
	}
	faults := map[seal.Fault]bool{}
	v, err := node.Verify(t.Context(), func(f seal.Fault) { faults[f] = true })
	if err != nil || v != (seal.Verified{OrgKeys: 2, DataKeys: 3, Corrupt: 4}) {
		t.Errorf("%+v, %v", v, err)
	}
	for _, want := range []seal.Fault{{}, {Org: badOrg.Org, Version: 1}, {Org: badOrg.Org, Holder: badOrg.Holder, Version: 1}, {Org: badData.Org, Holder: badData.Holder, Version: 1}} {
		if !faults[want] {
			t.Errorf("%+v was not found", want)
		}
	}
	if _, err := s.kms.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Rotate(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	done := rewrap(t, s.node(fast)) // its cache is empty
	if done.DataKeys != 3 || done.Corrupt == 0 {
		t.Errorf("%+v", done)
	}
	if _, err := s.node().Derive(t.Context(), "link"); !errors.Is(err, seal.ErrCorrupt) {
		t.Errorf("damaged root: %v", err)
	}
	expectOpens(t, s.node(), good, sealed(t, node, good, plain), plain)
}

// Only one process rewraps at a time, and at the configured rate.
func TestOneProcessRewrapsAtATime(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	slow := s.node(func(d *seal.Deps) { d.Config.RewrapRate = 1 })
	at := prepared(t, slow)
	each(4, 149, func(int) {
		if err := slow.Prepare(t.Context(), at.Org, newAccount()); err != nil {
			t.Error(err)
		}
	})
	if _, err := slow.Rotate(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Rewrap(ctx)
		ended <- err
	}()
	// The first hundred are rewrapped immediately; the rest would take a minute.
	for status(t, slow).Waiting == 150 {
		continue
	}
	if _, err := s.node().Rewrap(t.Context()); !errors.Is(err, seal.ErrBusy) {
		t.Errorf("%v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, seal.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if got := status(t, slow); got.Waiting != 50 {
		t.Errorf("%d data keys are waiting, want 50", got.Waiting)
	}
	if done := rewrap(t, s.node(fast)); done.DataKeys != 50 || done.Dropped != 1 {
		t.Errorf("%+v", done)
	}
}

// Run rewraps keys and deletes the rows of holders that were shredded long ago.
func TestRunDoesTheMaintenance(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var m testClock
	node := s.node(m.set, fast)
	at, gone := prepared(t, node), prepared(t, node)
	if _, err := node.Shred(t.Context(), gone.Org, gone.Holder); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Rotate(t.Context(), at.Org); err != nil {
		t.Fatal(err)
	}
	m.add(41 * 24 * time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	for got := status(t, node); got.Waiting != 0 || got.Shredded != 0; got = status(t, node) {
		if got.Holders != 1 {
			t.Fatalf("%+v", got)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSealtestMakesWorkingSealers(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := sealtest.New(t, s.db, nil)
	at := prepared(t, node)
	expectOpens(t, node, at, sealed(t, node, at, plain), plain)
}
