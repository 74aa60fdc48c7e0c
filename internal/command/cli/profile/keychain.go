package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zalando/go-keyring"
)

// Keychain keeps keys by the name of their profile. The operating system's and a file of one's own are the two there are.
type Keychain interface {
	Get(name string) (string, error)
	// Set says where the key is now.
	Set(name, key string) (where string, err error)
	// Delete is content when there is none.
	Delete(name string) error
}

// service is the name under which the keychain lists our keys.
const service = "stagedoor"

// system is the keychain of the operating system. Machines without one, such as servers and containers, use the fallback.
type system struct{ fallback fileChain }

func (s system) Get(name string) (string, error) {
	key, err := keyring.Get(service, name)
	if err == nil {
		return key, nil
	}
	return s.fallback.Get(name)
}

func (s system) Set(name, key string) (string, error) {
	if err := keyring.Set(service, name, key); err != nil {
		return s.fallback.Set(name, key)
	}
	// An older copy in the file would outlive the next logout.
	return "the system's keychain", s.fallback.Delete(name)
}

func (s system) Delete(name string) error {
	// Without a keychain there is nothing in it.
	_ = keyring.Delete(service, name)
	return s.fallback.Delete(name)
}

// fileChain is a file of keys that only its owner can read.
type fileChain struct{ path string }

func (f fileChain) read() (map[string]string, error) {
	keys := map[string]string{}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others; run: chmod 600 %s", f.path, f.path)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("%s is not what this program wrote; move it away and log in again", f.path)
	}
	return keys, nil
}

func (f fileChain) Get(name string) (string, error) {
	keys, err := f.read()
	if err != nil {
		return "", err
	}
	if keys[name] == "" {
		return "", errors.New("its key is no longer in the keychain; log in again")
	}
	return keys[name], nil
}

func (f fileChain) Set(name, key string) (string, error) {
	keys, err := f.read()
	if err != nil {
		return "", err
	}
	keys[name] = key
	return f.path, f.write(keys)
}

func (f fileChain) Delete(name string) error {
	keys, err := f.read()
	if err != nil {
		return err
	}
	if _, ok := keys[name]; !ok {
		return nil
	}
	delete(keys, name)
	return f.write(keys)
}

func (f fileChain) write(keys map[string]string) error {
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return WriteFile(f.path, append(text, '\n'))
}
