package kms_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/kms/kmstest"
)

func openLocal(t testing.TB, file string) *kms.Local {
	t.Helper()
	local, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return local
}

func TestLocalDoesWhatEveryAdapterMust(t *testing.T) {
	t.Parallel()
	kmstest.Run(t, func(t testing.TB) kmstest.Service {
		t.Helper()
		file := filepath.Join(t.TempDir(), "keyset.json")
		return kmstest.Service{
			Open: func(t testing.TB) kms.Wrapper {
				t.Helper()
				return openLocal(t, file)
			},
			Rotate: func(t testing.TB) {
				t.Helper()
				if _, err := openLocal(t, file).Rotate(); err != nil {
					t.Error(err)
				}
			},
		}
	})
}

// Without the flag a missing file is an error; with it the file is its owner's alone, and nothing else is left behind.
func TestLocalMakesItsFileOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "keyset.json")
	if _, err := kms.OpenLocal(kms.LocalConfig{File: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := openLocal(t, file).Rotate(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

func TestLocalRefusesAFileThatOthersMayTouch(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	local := openLocal(t, file)
	for mode, good := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o660: false, 0o700: false, 0o601: false,
	} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
		if (err == nil) != good {
			t.Errorf("mode %v: %v", mode, err)
		}
		if _, err := local.Check(t.Context()); (err == nil) != good || err != nil && !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("check with mode %v: %v", mode, err)
		}
	}
	if _, err := kms.OpenLocal(kms.LocalConfig{File: filepath.Dir(file)}); err == nil {
		t.Error("a folder was opened")
	}
}

// Nodes that start together with no file end up with one keyset.
func TestLocalNodesThatStartTogetherShareOneKeyset(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	refs := make([]kms.Ref, 16)
	var group sync.WaitGroup
	for i := range refs {
		group.Go(func() {
			local, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			wrapped, err := local.Wrap(t.Context(), secret.New("key"), []byte("aad"))
			if err != nil {
				t.Error(err)
			}
			refs[i] = wrapped.Key
		})
	}
	group.Wait()
	for _, ref := range refs {
		if ref != refs[0] {
			t.Fatalf("nodes wrap with %v and %v", refs[0], ref)
		}
	}
}

// Of rotations at the same time none drops a version that another has added: each one works or says that it did not.
func TestLocalRotationsDoNotLoseVersions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	var (
		mu      sync.Mutex
		wrapped = []kms.Wrapped{}
		group   sync.WaitGroup
	)
	openLocal(t, file)
	for range 8 {
		group.Go(func() {
			local := openLocal(t, file)
			if _, err := local.Rotate(); err != nil {
				return // another one held the lock
			}
			w, err := local.Wrap(t.Context(), secret.New("key"), []byte("aad"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			wrapped = append(wrapped, w)
		})
	}
	group.Wait()
	if len(wrapped) == 0 {
		t.Error("no rotation worked")
	}
	local := openLocal(t, file)
	for _, w := range wrapped {
		if _, err := local.Unwrap(t.Context(), w, []byte("aad")); err != nil {
			t.Errorf("version %d: %v", w.Key.Version, err)
		}
	}
}

// While its file is away a node goes on with the versions it knows, and says of others that it cannot tell.
func TestLocalWithoutItsFileIsUnavailableForNewVersionsOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	stale := openLocal(t, file)
	aad := []byte("aad")
	old, err := stale.Wrap(t.Context(), secret.New("key"), aad)
	if err != nil {
		t.Fatal(err)
	}
	rotated := openLocal(t, file)
	if _, err := rotated.Rotate(); err != nil {
		t.Fatal(err)
	}
	recent, err := rotated.Wrap(t.Context(), secret.New("key"), aad)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := stale.Unwrap(t.Context(), old, aad); err != nil {
		t.Errorf("a known version: %v", err)
	}
	if _, err := stale.Unwrap(t.Context(), recent, aad); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("a new version: %v", err)
	}
	if _, err := stale.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("Check: %v", err)
	}
	if _, err := stale.Rotate(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Rotate: %v", err)
	}
}

// A file that is no keyset of ours is refused, without a word of what is in it.
func TestLocalRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	raw := aead.AES256GCMNoPrefixKeyTemplate()
	texts := map[string]string{
		"empty":     "",
		"text":      "hunter2",
		"JSON":      `{"primaryKeyId":1,"key":[{"keyData":{"value":"hunter2"}}]}`,
		"no prefix": keysetText(t, raw),
		"short key": keysetText(t, aead.AES128GCMKeyTemplate()),
		"other":     keysetText(t, aead.ChaCha20Poly1305KeyTemplate()),
		"too large": strings.Repeat(" ", 2<<20) + keysetText(t, aead.AES256GCMKeyTemplate()),
	}
	for name, text := range texts {
		file := filepath.Join(t.TempDir(), "keyset.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
		if err == nil {
			t.Errorf("%s: it was taken", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error quotes the file: %v", name, err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
}

// A keyset that Tink's own tools have made is taken.
func TestLocalTakesAKeysetOfTinks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	if err := os.WriteFile(file, []byte(keysetText(t, aead.AES256GCMKeyTemplate())), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kms.OpenLocal(kms.LocalConfig{File: file}); err != nil {
		t.Error(err)
	}
}

func keysetText(t testing.TB, template *tinkpb.KeyTemplate) string {
	t.Helper()
	handle, err := keyset.NewHandle(template)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func BenchmarkLocalWrap(b *testing.B) {
	local, key, aad := openLocal(b, filepath.Join(b.TempDir(), "keyset.json")), secret.New(strings.Repeat("k", 200)), []byte("sd1|us|org_1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := local.Wrap(b.Context(), key, aad); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLocalUnwrap(b *testing.B) {
	local, key, aad := openLocal(b, filepath.Join(b.TempDir(), "keyset.json")), secret.New(strings.Repeat("k", 200)), []byte("sd1|us|org_1")
	wrapped, err := local.Wrap(b.Context(), key, aad)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := local.Unwrap(b.Context(), wrapped, aad); err != nil {
			b.Fatal(err)
		}
	}
}
