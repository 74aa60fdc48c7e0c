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
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/kms/kmstest"
)

func openLocal(t testing.TB, file string) *kms.Local {
	t.Helper()
	local, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
	must.OK(t, err)
	return local
}

func TestLocalPassesTheSuite(t *testing.T) {
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

// Without Create, a missing file is an error. With it, only the owner has access to the new file, and no temporary file
// remains.
func TestLocalCreatesItsFileOnlyWithCreate(t *testing.T) {
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
	must.OK(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder contains %v, %v", left, err)
	}
}

func TestLocalRejectsAFileThatOthersCanAccess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	local := openLocal(t, file)
	for mode, good := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o660: false, 0o700: false, 0o601: false,
	} {
		must.OK(t, os.Chmod(file, mode))
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

// Nodes that start together without a file end up with the same keyset.
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

// Concurrent rotations do not remove each other's versions. Each one succeeds or returns an error.
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
		t.Error("no rotation succeeded")
	}
	local := openLocal(t, file)
	for _, w := range wrapped {
		if _, err := local.Unwrap(t.Context(), w, []byte("aad")); err != nil {
			t.Errorf("version %d: %v", w.Key.Version, err)
		}
	}
}

// If the file disappears, a node continues with the versions that it knows. Others are unavailable, not corrupt.
func TestLocalWithoutItsFileIsUnavailableForNewVersionsOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	stale := openLocal(t, file)
	aad := []byte("aad")
	old, err := stale.Wrap(t.Context(), secret.New("key"), aad)
	must.OK(t, err)
	rotated := openLocal(t, file)
	if _, err := rotated.Rotate(); err != nil {
		t.Fatal(err)
	}
	recent, err := rotated.Wrap(t.Context(), secret.New("key"), aad)
	must.OK(t, err)
	must.OK(t, os.Rename(file, file+".away"))
	if _, err := stale.Unwrap(t.Context(), old, aad); err != nil {
		t.Errorf("known version: %v", err)
	}
	if _, err := stale.Unwrap(t.Context(), recent, aad); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("new version: %v", err)
	}
	if _, err := stale.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("Check: %v", err)
	}
	if _, err := stale.Rotate(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Rotate: %v", err)
	}
}

// A file that is not a suitable keyset is rejected, and the error does not contain its content.
func TestLocalRejectsOtherFiles(t *testing.T) {
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
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error contains the file: %v", name, err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
}

// A keyset made by Tink's own tools is accepted.
func TestLocalAcceptsAKeysetMadeByTink(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	must.OK(t, os.WriteFile(file, []byte(keysetText(t, aead.AES256GCMKeyTemplate())), 0o600))
	if _, err := kms.OpenLocal(kms.LocalConfig{File: file}); err != nil {
		t.Error(err)
	}
}

func keysetText(t testing.TB, template *tinkpb.KeyTemplate) string {
	t.Helper()
	handle, err := keyset.NewHandle(template)
	must.OK(t, err)
	var text strings.Builder
	must.OK(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)))
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
	must.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := local.Unwrap(b.Context(), wrapped, aad); err != nil {
			b.Fatal(err)
		}
	}
}
