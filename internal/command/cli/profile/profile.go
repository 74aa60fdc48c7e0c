// Package profile stores named profiles on the user's machine, each with a server, an organisation and an API key.
//
// Keys are in the system keychain, or in a file that only its owner can read. Everything else is in config.json in the
// user's configuration directory. It sends no requests; core.App decides which profile a command uses. Start at Store.
package profile

import (
	"cmp"
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

// DefaultURL is the server that `make up` and `stagedoor dev` start.
const DefaultURL = "http://127.0.0.1:18080"

// Profile is the identity of a command.
type Profile struct {
	// Name is empty for a key from the environment.
	Name string `json:"-"`
	// BaseURL is the server's origin. The key is sent to no other server unless --base-url is set.
	BaseURL string `json:"baseUrl"`
	// OrgID and OrgName identify the organisation. Env is sandbox or live.
	OrgID   string `json:"orgId"`
	OrgName string `json:"orgName"`
	Env     string `json:"environment"`
	// KeyID and KeyPrefix identify the key and may be shown.
	KeyID     string `json:"keyId"`
	KeyPrefix string `json:"keyPrefix"`
	// Key is the API key. It is stored in the keychain, not in config.json.
	Key secret.String `json:"-"`
	// ConfigDir holds settings, StateDir holds data that can be lost.
	ConfigDir string `json:"-"`
	StateDir  string `json:"-"`
}

// ErrNone means that there is no such profile.
var ErrNone = errors.New("no such profile")

// Store holds the profiles of a user.
type Store struct {
	// ConfigDir holds config.json and, without a keychain, credentials.json. StateDir holds checkpoints of listen.
	ConfigDir, StateDir string
	Keys                Keychain
}

// Open locates the user's profiles by HOME and the XDG variables. It neither reads nor creates files.
func Open(env map[string]string) (*Store, error) { return open(env, "stagedoor") }

// OpenOperators is Open for the profiles of operators, whose keys are operator tokens. They are stored apart, so that no
// command for customers can use one.
func OpenOperators(env map[string]string) (*Store, error) { return open(env, "stagedoor-ops") }

// open locates the profiles with this name of their directories and of their service in the keychain.
func open(env map[string]string, name string) (*Store, error) {
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
		return nil, errors.New("set HOME, or XDG_CONFIG_HOME and XDG_STATE_HOME, to store profiles")
	}
	s := &Store{ConfigDir: filepath.Join(config, name), StateDir: filepath.Join(state, name)}
	file := fileChain{filepath.Join(s.ConfigDir, "credentials.json")}
	s.Keys = system{service: name, fallback: file}
	if env["STAGEDOOR_KEYCHAIN"] == "off" {
		s.Keys = file
	}
	return s, nil
}

// config is the content of config.json.
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
		return c, fmt.Errorf("%s is damaged; move it away and log in again: %w", s.path(), err)
	}
	if c.Profiles == nil {
		c.Profiles = map[string]Profile{}
	}
	return c, nil
}

func (s *Store) path() string { return filepath.Join(s.ConfigDir, "config.json") }

// List returns all profiles in the order of their names, without their keys, and the name of the current one.
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

// Get returns a profile with its key. An empty name means the current one. It returns ErrNone if there
// is no such profile.
func (s *Store) Get(name string) (Profile, error) {
	c, err := s.read()
	if err != nil {
		return Profile{}, err
	}
	name = cmp.Or(name, c.Current)
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

// Save stores a profile and its key and makes it the current one. It returns where the key is stored.
func (s *Store) Save(p Profile) (where string, err error) {
	c, err := s.read()
	if err != nil {
		return "", err
	}
	if where, err = s.Keys.Set(p.Name, p.Key.Reveal()); err != nil {
		return "", fmt.Errorf("store the key of %s: %w", p.Name, err)
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

// Remove deletes a profile and its key. If it was the current one, there is no current profile afterwards.
func (s *Store) Remove(name string) error {
	c, err := s.read()
	if err != nil {
		return err
	}
	if _, ok := c.Profiles[name]; !ok {
		return ErrNone
	}
	if err := s.Keys.Delete(name); err != nil {
		return fmt.Errorf("delete the key of %s: %w", name, err)
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

// WriteFile replaces a file atomically: after a crash it has the old or the new content. Only its owner can read it.
// Missing directories are created.
func WriteFile(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // with mode 0600
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

// Prefix returns the part of a key that may be shown: its kind and the next four characters.
func Prefix(key string) string {
	kind := strings.LastIndexByte(key, '_') + 1
	return key[:min(len(key), kind+4)]
}
