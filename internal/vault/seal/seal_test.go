package seal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

const plain = "the session of an account"

// fixture is one installation: a keyring and a key management service.
type fixture struct {
	db  *postgres.DB
	kms *kms.Local
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	db := testenv.Postgres(t)
	sealtest.Migrate(t, db)
	return fixture{db, sealtest.Local(t)}
}

// node makes a sealer of the installation, like a node that has just started.
func (s fixture) node(change ...func(*seal.Deps)) *seal.Sealer {
	d := seal.Deps{DB: s.db, KMS: s.kms, Log: slog.New(slog.DiscardHandler), Now: clock.Now}
	for _, c := range change {
		c(&d)
	}
	return seal.New(d)
}

// testClock is a clock that tests move forward.
type testClock struct{ by atomic.Int64 }

func (m *testClock) now() time.Time      { return clock.Now().Add(time.Duration(m.by.Load())) }
func (m *testClock) add(d time.Duration) { m.by.Add(int64(d)) }
func (m *testClock) set(d *seal.Deps)    { d.Now = m.now }

func newAccount() string { return string(id.New[id.Account]()) }
func newOrg() id.Org     { return id.New[id.Org]() }

func address(o id.Org, h string) seal.Address {
	return seal.Address{Org: o, Holder: h, Purpose: seal.PurposeSession, Version: 1}
}

// prepared prepares a new account of a new organisation.
func prepared(t testing.TB, s *seal.Sealer) seal.Address {
	t.Helper()
	at := address(newOrg(), newAccount())
	must.OK(t, s.Prepare(t.Context(), at.Org, at.Holder))
	return at
}

func sealed(t testing.TB, s *seal.Sealer, at seal.Address, text string) []byte {
	t.Helper()
	out, err := s.Seal(t.Context(), at, secret.New(text))
	must.OK(t, err)
	return out
}

func expectOpens(t testing.TB, s *seal.Sealer, at seal.Address, text []byte, want string) {
	t.Helper()
	got, err := s.Open(t.Context(), at, text)
	if err != nil {
		t.Errorf("open: %v", err)
	} else if got.Reveal() != want {
		t.Error("Open returned another text")
	}
}

// expectError requires the error itself: an error that wraps it could reveal which check failed.
func expectError(t testing.TB, s *seal.Sealer, at seal.Address, text []byte, want error) {
	t.Helper()
	got, err := s.Open(t.Context(), at, text)
	if err != want { //nolint:errorlint // see above
		t.Errorf("open: %v; want %v", err, want)
	}
	if !got.Empty() {
		t.Error("Open returned a text and an error")
	}
}

func TestOneNodeOpensWhatAnotherSealed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	one, other := s.node(), s.node()
	at := prepared(t, one)
	for _, text := range []string{plain, "", "\x00\xff", strings.Repeat("x", 1<<20)} {
		out := sealed(t, one, at, text)
		if text != "" && bytes.Contains(out, []byte(text)) {
			t.Error("the sealed text contains the text")
		}
		expectOpens(t, one, at, out, text)
		expectOpens(t, other, at, out, text)
		if again := sealed(t, one, at, text); bytes.Equal(again, out) {
			t.Error("sealing a text twice gives the same bytes")
		}
	}
	// Preparing again changes nothing.
	out := sealed(t, one, at, plain)
	must.OK(t, other.Prepare(t.Context(), at.Org, at.Holder))
	expectOpens(t, s.node(), at, out, plain)
}

// SEC-MOVE: an attacker who can write to the database gains nothing by moving sealed texts.
func TestASealedTextOpensOnlyAtItsAddress(t *testing.T) {
	t.Parallel()
	s := newFixture(t).node()
	at := prepared(t, s)
	text := sealed(t, s, at, plain)
	sameOrg, other := address(at.Org, newAccount()), prepared(t, s)
	for _, a := range []seal.Address{sameOrg, {Org: other.Org, Holder: at.Holder}} {
		must.OK(t, s.Prepare(t.Context(), a.Org, a.Holder))
	}
	for name, change := range map[string]func(*seal.Address){
		"another account":            func(a *seal.Address) { a.Holder = sameOrg.Holder },
		"another org's account":      func(a *seal.Address) { *a = other },
		"the same id in another org": func(a *seal.Address) { a.Org = other.Org },
		"another purpose":            func(a *seal.Address) { a.Purpose = seal.PurposeCredentials },
		"an older version":           func(a *seal.Address) { a.Version-- },
		"a newer version":            func(a *seal.Address) { a.Version++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := at
			change(&to)
			expectError(t, s, to, text, seal.ErrCorrupt)
			expectOpens(t, s, at, text, plain)
		})
	}
}

// Wrapped keys cannot be moved either: a data key to another holder, or an org key to another organisation.
func TestAWrappedKeyWorksOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for name, sql := range map[string]string{
		"data key of another holder":     "UPDATE keyring.data_key SET wrapped = (SELECT wrapped FROM keyring.data_key WHERE holder = $3) WHERE org_id = $1 AND holder = $2",
		"data key of another org":        "UPDATE keyring.data_key SET wrapped = (SELECT wrapped FROM keyring.data_key WHERE holder = $4) WHERE org_id = $1 AND holder = $2 AND $3 <> ''",
		"org key of another org":         "UPDATE keyring.org_key SET wrapped = (SELECT o.wrapped FROM keyring.org_key o JOIN keyring.data_key d USING (org_id) WHERE d.holder = $4) WHERE org_id = $1 AND $2 <> '' AND $3 <> ''",
		"data key of another generation": "UPDATE keyring.data_key SET generation = 2 WHERE org_id = $1 AND holder = $2 AND $3 <> ''",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := s.node()
			at, other := prepared(t, node), prepared(t, node)
			peer := address(at.Org, newAccount())
			must.OK(t, node.Prepare(t.Context(), peer.Org, peer.Holder))
			text := sealed(t, node, at, plain)
			args := []any{at.Org, at.Holder, peer.Holder, other.Holder}
			if !strings.Contains(sql, "$4") {
				args = args[:3]
			}
			if tag, err := s.db.Pool().Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() != 1 {
				t.Fatal(err, tag)
			}
			expectError(t, s.node(), at, text, seal.ErrCorrupt)
		})
	}
}

func TestEveryFlippedBitAndTruncationIsNoticed(t *testing.T) {
	t.Parallel()
	s := newFixture(t).node()
	at := prepared(t, s)
	text := sealed(t, s, at, plain)
	for bit := range len(text) * 8 {
		flipped := slices.Clone(text)
		flipped[bit/8] ^= 1 << (bit % 8)
		expectError(t, s, at, flipped, seal.ErrCorrupt)
	}
	for size := range len(text) {
		expectError(t, s, at, text[:size], seal.ErrCorrupt)
	}
	expectError(t, s, at, append(slices.Clone(text), 0), seal.ErrCorrupt)
	expectError(t, s, at, nil, seal.ErrCorrupt)
	expectOpens(t, s, at, text, plain)
}

// Nodes that prepare a holder concurrently, in an organisation without a key, all use the same key.
func TestConcurrentPreparesShareOneKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for range 5 {
		at := address(newOrg(), newAccount())
		var group sync.WaitGroup
		texts := make([][]byte, 8)
		for i := range texts {
			node := s.node()
			group.Go(func() {
				if err := node.Prepare(t.Context(), at.Org, at.Holder); err != nil {
					t.Error(err)
					return
				}
				out, err := node.Seal(t.Context(), at, secret.New(plain))
				if err != nil {
					t.Error(err)
				}
				texts[i] = out
			})
		}
		group.Wait()
		last := s.node()
		for _, text := range texts {
			expectOpens(t, last, at, text, plain)
		}
	}
}

func TestAHolderWithoutAKeyCanNeitherSealNorOpen(t *testing.T) {
	t.Parallel()
	s := newFixture(t).node()
	text := sealed(t, s, prepared(t, s), plain)
	never := address(newOrg(), newAccount())
	if _, err := s.Seal(t.Context(), never, secret.New(plain)); !errors.Is(err, seal.ErrShredded) {
		t.Errorf("seal: %v", err)
	}
	expectError(t, s, never, text, seal.ErrShredded)
}

// After Renew, texts are sealed with the new generation, and older texts still open on every node.
func TestOlderGenerationsOpenAfterRenew(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	one, other := s.node(), s.node()
	at := prepared(t, one)
	texts := [][]byte{sealed(t, one, at, plain)}
	expectOpens(t, other, at, texts[0], plain)
	for range 3 {
		must.OK(t, one.Renew(t.Context(), at.Org, at.Holder))
		texts = append(texts, sealed(t, one, at, plain))
	}
	for i, text := range texts {
		if int(text[4]) != i+1 {
			t.Errorf("text %d was sealed by generation %d", i, text[4])
		}
		expectOpens(t, one, at, text, plain)
		expectOpens(t, other, at, text, plain)
		moved := slices.Clone(text)
		moved[4] = byte((i+1)%len(texts) + 1)
		expectError(t, one, at, moved, seal.ErrCorrupt)
	}
	gone, err := other.Shred(t.Context(), at.Org, at.Holder)
	if err != nil || gone.Generations != 4 {
		t.Errorf("%+v, %v", gone, err)
	}
	for _, text := range texts {
		expectError(t, other, at, text, seal.ErrShredded)
	}
}

func TestDeriveIsTheSameOnAllNodes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	results := make([][]byte, 6)
	var group sync.WaitGroup
	for i := range results {
		node := s.node()
		group.Go(func() {
			var err error
			if results[i], err = node.Derive(t.Context(), "link"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	node := s.node()
	again, err := node.Derive(t.Context(), "link")
	if err != nil || len(again) != 32 {
		t.Fatal(len(again), err)
	}
	for _, r := range results {
		if !bytes.Equal(r, again) {
			t.Error("two nodes derive different keys")
		}
	}
	if other, err := node.Derive(t.Context(), "login"); err != nil || bytes.Equal(other, again) {
		t.Errorf("two purposes derive the same key, %v", err)
	}
	if _, err := node.Derive(t.Context(), ""); err == nil {
		t.Error("an empty purpose was accepted")
	}
}

func TestInvalidAddressesAreRejected(t *testing.T) {
	t.Parallel()
	s := newFixture(t).node()
	good := prepared(t, s)
	text := sealed(t, s, good, plain)
	for name, change := range map[string]func(*seal.Address){
		"no org":      func(a *seal.Address) { a.Org = "" },
		"other id":    func(a *seal.Address) { a.Org = id.Org(a.Holder) },
		"no holder":   func(a *seal.Address) { a.Holder = "" },
		"wild holder": func(a *seal.Address) { a.Holder = "acct.*" },
		"long holder": func(a *seal.Address) { a.Holder = strings.Repeat("a", 201) },
		"no purpose":  func(a *seal.Address) { a.Purpose = "" },
		"bad purpose": func(a *seal.Address) { a.Purpose = "Session" },
		"bad version": func(a *seal.Address) { a.Version = -1 },
	} {
		at := good
		change(&at)
		_, sealErr := s.Seal(t.Context(), at, secret.New(plain))
		_, openErr := s.Open(t.Context(), at, text)
		for _, err := range []error{sealErr, openErr} {
			if err == nil || errors.Is(err, seal.ErrCorrupt) || errors.Is(err, seal.ErrShredded) || errors.Is(err, seal.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := s.Seal(t.Context(), good, secret.New(strings.Repeat("x", seal.MaxText+1))); err == nil || strings.Contains(fmt.Sprint(err), "xxx") {
		t.Errorf("too large: %v", err)
	}
}
