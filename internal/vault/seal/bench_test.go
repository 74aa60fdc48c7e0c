package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Nothing but a sealed text at its address opens, and no input causes a panic.
func FuzzOpen(f *testing.F) {
	node := newFixture(f).node()
	at := prepared(f, node)
	text := sealed(f, node, at, plain)
	f.Add(text, int64(1))
	f.Add(text, int64(2))
	f.Add(text[:len(text)-1], int64(1))
	f.Add(append([]byte{2}, text[1:]...), int64(1))
	f.Add([]byte{}, int64(0))
	f.Add([]byte{1, 0, 0, 0, 1}, int64(1))
	f.Fuzz(func(t *testing.T, given []byte, version int64) {
		to := at
		to.Version = max(0, version)
		got, err := node.Open(t.Context(), to, given)
		if bytes.Equal(given, text) && to == at {
			if err != nil || got.Reveal() != plain {
				t.Fatalf("a sealed text did not open: %v", err)
			}
			return
		}
		if !errors.Is(err, seal.ErrCorrupt) || !got.Empty() {
			t.Fatalf("%x at version %d: %v", given, version, err)
		}
	})
}

// session is the size of a session with its cookies, in bytes.
const session = 4 << 10

func BenchmarkSealWarm(b *testing.B) {
	node := newFixture(b).node()
	at := prepared(b, node)
	text := secret.New(string(make([]byte, session)))
	b.SetBytes(session)
	for b.Loop() {
		if _, err := node.Seal(b.Context(), at, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenWarm(b *testing.B) {
	node := newFixture(b).node()
	at := prepared(b, node)
	text := sealed(b, node, at, string(make([]byte, session)))
	b.SetBytes(session)
	for b.Loop() {
		if _, err := node.Open(b.Context(), at, text); err != nil {
			b.Fatal(err)
		}
	}
}

// Sealing and opening of one event of 512 bytes on its way from a listener to a webhook: the frame is sealed and opened,
// then the envelope. The keys of the accounts are cached.
func BenchmarkEvent(b *testing.B) {
	node := newFixture(b).node()
	accounts := make([]seal.Address, 1000)
	for i := range accounts {
		accounts[i] = prepared(b, node)
	}
	body := make([]byte, 512)
	next := 0
	for b.Loop() {
		frame := accounts[next%len(accounts)]
		frame.Purpose, frame.Version = seal.PurposeFrame, 0
		envelope := frame
		envelope.Purpose, envelope.Version = seal.PurposeEvent, int64(next)
		for _, at := range []seal.Address{frame, envelope} {
			text, err := node.SealBytes(b.Context(), at, body)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := node.OpenBytes(b.Context(), at, text); err != nil {
				b.Fatal(err)
			}
		}
		next++
	}
}

// The data key is read from the keyring and unwrapped; the org key is cached.
func BenchmarkOpenCold(b *testing.B) {
	node := newFixture(b).node()
	at := prepared(b, node)
	text := sealed(b, node, at, string(make([]byte, session)))
	for b.Loop() {
		node.Distrust()
		if _, err := node.Open(b.Context(), at, text); err != nil {
			b.Fatal(err)
		}
	}
}

// Nothing is cached: a node opens its first text of an organisation, with a local key management service.
func BenchmarkOpenFirst(b *testing.B) {
	s := newFixture(b)
	at := prepared(b, s.node())
	text := sealed(b, s.node(), at, string(make([]byte, session)))
	for b.Loop() {
		if _, err := s.node(func(d *seal.Deps) { d.Config.Remember = 16 }).Open(b.Context(), at, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	node := newFixture(b).node()
	org := prepared(b, node).Org
	for b.Loop() {
		must.OK(b, node.Prepare(b.Context(), org, newAccount()))
	}
}
