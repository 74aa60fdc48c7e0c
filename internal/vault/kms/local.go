package kms

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// LocalID is the id of every local key. Its versions are the ids that Tink gives to keys.
const LocalID = "local"

const (
	// maxKeysetFile bounds what is read; a thousand versions are about 300 KB.
	maxKeysetFile = 1 << 20
	// tinkPrefix is how many bytes Tink puts before a ciphertext: a one and the key's id.
	tinkPrefix = 5
)

// LocalConfig says where the keyset is.
type LocalConfig struct {
	// File holds a Tink keyset of AES256-GCM keys as JSON, not encrypted. Nobody but its owner may have rights on it.
	File string
	// Create makes the file if it is missing. With it a lost file goes unnoticed until an old key is needed, so it is for
	// development and for the first start.
	Create bool
}

// Local wraps with a keyset in a file: as safe as that file, and no safer. It is read when it is opened or checked,
// and when a key was wrapped with a version that another node has added.
type Local struct {
	file string

	mu   sync.Mutex // makes reading the file and taking over its keys one step
	ring atomic.Pointer[localRing]
}

// localRing is one state of the file.
type localRing struct {
	handle   *keyset.Handle
	aead     tink.AEAD
	primary  uint32
	versions map[uint32]bool
}

// OpenLocal reads the keyset, or makes it.
func OpenLocal(c LocalConfig) (*Local, error) {
	l := &Local{file: c.File}
	_, err := l.reload()
	if c.Create && errors.Is(err, fs.ErrNotExist) {
		if err = createKeyset(c.File); err == nil {
			_, err = l.reload()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the local keyset: %w", err)
	}
	return l, nil
}

// ID implements Wrapper.
func (*Local) ID() string { return LocalID }

// Wrap implements Wrapper.
func (l *Local) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	if err := ctx.Err(); err != nil {
		return Wrapped{}, unavailable("wrap a key", LocalID, err)
	}
	ring := l.ring.Load()
	plain := []byte(key.Reveal())
	defer clear(plain)
	ciphertext, err := ring.aead.Encrypt(plain, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", LocalID, errors.New("tink cannot encrypt"))
	}
	return Wrapped{Key: Ref{ID: LocalID, Version: ring.primary}, Ciphertext: ciphertext}, nil
}

// Unwrap implements Wrapper.
func (l *Local) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	if err := ctx.Err(); err != nil {
		return secret.String{}, unavailable("unwrap a key", LocalID, err)
	}
	// Tink finds the key by the prefix; a version that says otherwise was tampered with.
	if wrapped.Key.ID != LocalID || len(aad) == 0 || len(wrapped.Ciphertext) < tinkPrefix ||
		binary.BigEndian.Uint32(wrapped.Ciphertext[1:tinkPrefix]) != wrapped.Key.Version {
		return secret.String{}, ErrCorrupt
	}
	ring := l.ring.Load()
	if !ring.versions[wrapped.Key.Version] {
		var err error
		if ring, err = l.reload(); err != nil {
			return secret.String{}, unavailable("unwrap a key", LocalID, err)
		}
	}
	plain, err := ring.aead.Decrypt(wrapped.Ciphertext, aad)
	if err != nil {
		return secret.String{}, ErrCorrupt
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}

// Check implements Wrapper: it reads the file again.
func (l *Local) Check(ctx context.Context) (Ref, error) {
	if err := ctx.Err(); err != nil {
		return Ref{}, unavailable("check", LocalID, err)
	}
	ring, err := l.reload()
	if err != nil {
		return Ref{}, unavailable("check", LocalID, err)
	}
	return Ref{ID: LocalID, Version: ring.primary}, nil
}

// Rotate adds a version to the file and wraps with it from now on; older ones stay readable. Other nodes read what it
// wraps at once, and wrap with it themselves after their next Check.
func (l *Local) Rotate() (Ref, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := lockFolder(filepath.Dir(l.file))
	if err != nil {
		return Ref{}, fmt.Errorf("rotate the local keyset: %w", err)
	}
	defer unlock()
	ring, err := l.rotate()
	if err != nil {
		return Ref{}, fmt.Errorf("rotate the local keyset: %w", err)
	}
	l.ring.Store(ring)
	return Ref{ID: LocalID, Version: ring.primary}, nil
}

// rotate starts from the file, not from memory: another node may have added a version.
func (l *Local) rotate() (*localRing, error) {
	ring, err := readRing(l.file)
	if err != nil {
		return nil, err
	}
	manager := keyset.NewManagerFromHandle(ring.handle)
	version, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	if err := manager.SetPrimary(version); err != nil {
		return nil, err
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, err
	}
	next, err := newRing(handle)
	if err != nil {
		return nil, err
	}
	if err := writeKeyset(l.file, handle, os.Rename); err != nil {
		return nil, err
	}
	return next, nil
}

func (l *Local) reload() (*localRing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ring, err := readRing(l.file)
	if err != nil {
		return nil, err
	}
	l.ring.Store(ring)
	return ring, nil
}

func readRing(path string) (*localRing, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		// The reader's error may quote the file.
		return nil, fmt.Errorf("%s is not a Tink keyset as JSON", path)
	}
	return newRing(handle)
}

// newRing takes AES256-GCM keys with Tink's prefix only: others would lack the version that we compare.
func newRing(handle *keyset.Handle) (*localRing, error) {
	ring := &localRing{handle: handle, versions: map[uint32]bool{}}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, err
		}
		parameters, ok := entry.Key().Parameters().(*aesgcm.Parameters)
		if !ok || parameters.KeySizeInBytes() != 32 || parameters.Variant() != aesgcm.VariantTink {
			return nil, fmt.Errorf("key %d of the keyset is not AES256-GCM with Tink's prefix (template AES256_GCM)", entry.KeyID())
		}
		if entry.KeyStatus() == keyset.Enabled {
			ring.versions[entry.KeyID()] = true
		}
		if entry.IsPrimary() {
			ring.primary = entry.KeyID()
		}
	}
	var err error
	if ring.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("the keyset has no key that can be used")
	}
	return ring, nil
}

// readPrivate reads a file that nobody but its owner has rights on.
func readPrivate(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&^0o600 != 0:
		return nil, fmt.Errorf("%s has mode %04o; run chmod 600 on it", path, info.Mode().Perm())
	case info.Size() > maxKeysetFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxKeysetFile)
	}
	return io.ReadAll(io.LimitReader(file, maxKeysetFile))
}

func createKeyset(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return err
	}
	// A link fails if the file is there: of many nodes that start together one wins, and the others read its keyset.
	err = writeKeyset(path, handle, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeKeyset writes a file beside the path and puts it into place whole, on the disk before anything is wrapped with it.
func writeKeyset(path string, handle *keyset.Handle, place func(from, to string) error) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, ".keyset-*") // has mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // after a rename there is nothing to remove
	err = insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(file))
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := place(file.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// lockFolder keeps two rotations apart: the later rename would drop the version that the earlier one added.
func lockFolder(path string) (func(), error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is locked by another rotation: %w", path, err), folder.Close())
	}
	return func() { _ = folder.Close() }, nil // closing unlocks
}
