// Package profile keeps who somebody is on this machine: named profiles, each with a server, an organisation and an API key.
//
// Keys are in the keychain of the operating system, or, where there is none, in a file that only their owner can read. Everything
// else is in config.json under the user's configuration. Start at Store.
package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// DefaultURL is the server when nothing names one: where `make up` and `stagedoor dev` run it.
const DefaultURL = "http://127.0.0.1:18080"

// Profile is an identity that commands act under.
type Profile struct {
	// Name is empty for a key that came from the environment.
	Name string `json:"-"`
	// BaseURL is the server's origin. A key is never sent to another one unless --base-url says so.
	BaseURL string `json:"baseUrl"`
	// OrgID and OrgName are the organisation, Env is sandbox or live.
	OrgID   string `json:"orgId"`
	OrgName string `json:"orgName"`
	Env     string `json:"environment"`
	// KeyID and KeyPrefix name the key without giving it away.
	KeyID     string `json:"keyId"`
	KeyPrefix string `json:"keyPrefix"`
	// Key is the API key itself; it is stored elsewhere.
	Key secret.String `json:"-"`
	// ConfigDir and StateDir are where this program keeps settings, and what it can lose.
	ConfigDir string `json:"-"`
	StateDir  string `json:"-"`
}

// ErrNone is returned when there is no such profile, or no key for it.
var ErrNone = errors.New("no such profile")

// Store is the profiles of a user.
type Store struct {
	// ConfigDir holds config.json and, without a keychain, credentials.json; StateDir holds cursors.
	ConfigDir, StateDir string
	// Keys is where keys are kept.
	Keys Keychain
}

// Open finds the user's profiles by their environment; nothing is read or made yet.
func Open(env map[string]string) (*Store, error) {
	config, state := env["XDG_CONFIG_HOME"], env["XDG_STATE_HOME"]
	if home := env["HOME"]; home != "" {
		if config == "" {
			config = filepath.Join(home, ".config")
		}
		if state == "" {
			state = filepath.Join(home, ".local", "state")
		}
	}
	if config == "" || state == "" {
		return nil, errors.New("neither HOME nor XDG_CONFIG_HOME and XDG_STATE_HOME are set, so there is no place for profiles")
	}
	s := &Store{ConfigDir: filepath.Join(config, "stagedoor"), StateDir: filepath.Join(state, "stagedoor")}
	file := fileChain{filepath.Join(s.ConfigDir, "credentials.json")}
	s.Keys = system{fallback: file}
	if env["STAGEDOOR_KEYCHAIN"] == "off" {
		s.Keys = file
	}
	return s, nil
}

// config is the file of profiles.
type config struct {
	Current  string             `json:"current"`
	Profiles map[string]Profile `json:"profiles"`
}

func (s *Store) read() (config, error) {
	c := config{Profiles: map[string]Profile{}}
	text, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read profiles: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s is not what this program wrote; move it away and log in again: %w", s.path(), err)
	}
	if c.Profiles == nil {
		c.Profiles = map[string]Profile{}
	}
	return c, nil
}

func (s *Store) path() string { return filepath.Join(s.ConfigDir, "config.json") }

// List returns all profiles by name, without their keys, and the name of the current one.
func (s *Store) List() (profiles []Profile, current string, err error) {
	c, err := s.read()
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p := c.Profiles[name]
		p.Name, p.ConfigDir, p.StateDir = name, s.ConfigDir, s.StateDir
		profiles = append(profiles, p)
	}
	return profiles, c.Current, nil
}

// Get reads a profile with its key; an empty name is the current one.
func (s *Store) Get(name string) (Profile, error) {
	c, err := s.read()
	if err != nil {
		return Profile{}, err
	}
	if name == "" {
		name = c.Current
	}
	p, ok := c.Profiles[name]
	if !ok {
		return Profile{}, ErrNone
	}
	key, err := s.Keys.Get(name)
	if err != nil {
		return Profile{}, fmt.Errorf("profile %s: %w", name, err)
	}
	p.Name, p.Key, p.ConfigDir, p.StateDir = name, secret.New(key), s.ConfigDir, s.StateDir
	return p, nil
}

// Save writes a profile and its key, and makes it the current one. It says where the key is kept.
func (s *Store) Save(p Profile) (where string, err error) {
	c, err := s.read()
	if err != nil {
		return "", err
	}
	if where, err = s.Keys.Set(p.Name, p.Key.Reveal()); err != nil {
		return "", fmt.Errorf("keep the key of %s: %w", p.Name, err)
	}
	c.Profiles[p.Name], c.Current = p, p.Name
	return where, s.write(c)
}

// Use makes a profile the current one.
func (s *Store) Use(name string) error {
	c, err := s.read()
	if err != nil {
		return err
	}
	if _, ok := c.Profiles[name]; !ok {
		return ErrNone
	}
	c.Current = name
	return s.write(c)
}

// Remove forgets a profile and its key. Another one does not become current by itself.
func (s *Store) Remove(name string) error {
	c, err := s.read()
	if err != nil {
		return err
	}
	if _, ok := c.Profiles[name]; !ok {
		return ErrNone
	}
	if err := s.Keys.Delete(name); err != nil {
		return fmt.Errorf("forget the key of %s: %w", name, err)
	}
	delete(c.Profiles, name)
	if c.Current == name {
		c.Current = ""
	}
	return s.write(c)
}

func (s *Store) write(c config) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write profiles: %w", err)
	}
	return WriteFile(s.path(), append(text, '\n'))
}

// WriteFile replaces a file as a whole, readable by its owner only: a crash leaves the old one or the new one.
func WriteFile(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // made with 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(text)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Prefix is the part of a key that may be shown: its kind and the first four letters.
func Prefix(key string) string {
	kind := strings.LastIndexByte(key, '_') + 1
	return key[:min(len(key), kind+4)]
}
