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

// LocalID is the id of every local key. Its versions are the key ids of Tink, which are random.
const LocalID = "local"

const (
	// maxKeysetFile limits the size of the file. A thousand versions have about 300 KB.
	maxKeysetFile = 1 << 20
	// tinkPrefix is the length of the prefix of Tink's ciphertexts: the byte 1 and the key id.
	tinkPrefix = 5
)

// LocalConfig names the keyset.
type LocalConfig struct {
	// File holds a Tink keyset of AES256-GCM keys as unencrypted JSON. Only its owner may have access (mode 0600 or
	// 0400).
	File string
	// Create creates the file if it does not exist. Use it only for development and for the first start: if the file is
	// lost later, nothing notices until an old key is needed.
	Create bool
}

// Local wraps with a keyset in a file, and is only as safe as that file. It reads the file when it is opened or
// checked, and when it unwraps a key of a version that another node has added.
type Local struct {
	file string

	mu   sync.Mutex // serialises reading the file and replacing ring, so that an older state never replaces a newer one
	ring atomic.Pointer[localRing]
}

// localRing is the parsed content of the file. It is immutable.
type localRing struct {
	handle   *keyset.Handle
	aead     tink.AEAD
	primary  uint32
	versions map[uint32]bool
}

// OpenLocal reads the keyset, and creates it if c.Create is set and it does not exist.
func OpenLocal(c LocalConfig) (*Local, error) {
	l := &Local{file: c.File}
	_, err := l.reload()
	if c.Create && errors.Is(err, fs.ErrNotExist) {
		if err = createKeyset(c.File); err == nil {
			_, err = l.reload()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open local keyset: %w", err)
	}
	return l, nil
}

func (*Local) ID() string { return LocalID }

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

func (l *Local) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	if err := ctx.Err(); err != nil {
		return secret.String{}, unavailable("unwrap a key", LocalID, err)
	}
	// Tink selects the key by the prefix. If the version differs from it, the wrapped key was changed.
	if wrapped.Key.ID != LocalID || len(aad) == 0 || len(wrapped.Ciphertext) < tinkPrefix ||
		binary.BigEndian.Uint32(wrapped.Ciphertext[1:tinkPrefix]) != wrapped.Key.Version {
		return secret.String{}, ErrCorrupt
	}
	ring := l.ring.Load()
	// Another node may have rotated since the file was read.
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

// Check implements Wrapper. It reads the file again, so that this node wraps with the newest version from now on.
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

// Rotate adds a version to the file and wraps with it from now on. Older versions can still be unwrapped. Other nodes
// can unwrap keys of the new version immediately, and wrap with it after their next Check. Rotate fails if another
// process is rotating at the moment.
func (l *Local) Rotate() (Ref, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := lockFolder(filepath.Dir(l.file))
	if err != nil {
		return Ref{}, fmt.Errorf("rotate local keyset: %w", err)
	}
	defer unlock()
	ring, err := l.addVersion()
	if err != nil {
		return Ref{}, fmt.Errorf("rotate local keyset: %w", err)
	}
	l.ring.Store(ring)
	return Ref{ID: LocalID, Version: ring.primary}, nil
}

// addVersion starts from the file, not from memory, because another node may have added a version.
func (l *Local) addVersion() (*localRing, error) {
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

// reload reads the file and replaces the ring. If it fails, the old ring stays in use.
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
		// The reader's error may contain parts of the file.
		return nil, fmt.Errorf("%s is not a Tink keyset in JSON", path)
	}
	return newRing(handle)
}

// newRing accepts only AES256-GCM keys with Tink's prefix, because Unwrap compares the prefix with the version.
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
		return nil, errors.New("the keyset has no usable key")
	}
	return ring, nil
}

// readPrivate reads a file, and fails if anyone but its owner has access to it.
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
		return nil, fmt.Errorf("%s is not a regular file", path)
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
	// A link fails if the file exists. Of several nodes that start together, one wins and the others read its keyset.
	err = writeKeyset(path, handle, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeKeyset writes a temporary file in the same folder and moves it to path with place, so that readers never see a
// partial keyset. It syncs file and folder: the keyset must be on disk before any key is wrapped with it.
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

// lockFolder takes a lock without waiting, so that two processes do not rotate concurrently: the later rename would
// remove the version that the earlier one added.
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
