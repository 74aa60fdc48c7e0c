package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zalando/go-keyring"
)

// Keychain stores API keys by profile name. The implementations are the system keychain and a file.
type Keychain interface {
	Get(name string) (string, error)
	// Set returns where the key is stored, for messages.
	Set(name, key string) (where string, err error)
	// Delete returns nil if there is no such key.
	Delete(name string) error
}

// system is the keychain of the operating system. Where that does not work, as on servers and in containers,
// it uses the fallback. The service is the name of this program in the keychain.
type system struct {
	service  string
	fallback fileChain
}

func (s system) Get(name string) (string, error) {
	key, err := keyring.Get(s.service, name)
	if err == nil {
		return key, nil
	}
	return s.fallback.Get(name)
}

func (s system) Set(name, key string) (string, error) {
	if err := keyring.Set(s.service, name, key); err != nil {
		return s.fallback.Set(name, key)
	}
	// Delete an older copy from the file.
	return "the system keychain", s.fallback.Delete(name)
}

func (s system) Delete(name string) error {
	_ = keyring.Delete(s.service, name) // fails if there is no keychain; then the key is in the file
	return s.fallback.Delete(name)
}

// fileChain is a JSON file of keys. It refuses to read a file that other users can read.
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
		return nil, fmt.Errorf("other users can read %s; run: chmod 600 %s", f.path, f.path)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("%s is damaged; move it away and log in again", f.path)
	}
	return keys, nil
}

func (f fileChain) Get(name string) (string, error) {
	keys, err := f.read()
	if err != nil {
		return "", err
	}
	if keys[name] == "" {
		return "", errors.New("the key is no longer in the keychain; log in again")
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
