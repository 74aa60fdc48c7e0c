package dev

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/lock"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// state is the file state.json of a data directory. It makes addresses, secrets and the key survive a restart.
type state struct {
	path string
	// Ports by name, as of the last run. A port that is taken now is replaced.
	Ports map[string]int `json:"ports"`
	// Secrets, created by the first run.
	AdminToken string `json:"adminToken"`
	IPHashKey  string `json:"ipHashKey"`
	ProxyPass  string `json:"proxyPassword"`
	// APIKey is the first key of the organisation; empty until it is created.
	APIKey string `json:"apiKey"`
}

// openState locks a data directory and reads its state. The lock is released when the process ends.
func openState(dir string) (*state, error) {
	for _, d := range []string{dir, filepath.Join(dir, "log")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("create %s: %w", d, err)
		}
	}
	err := lock.Path(filepath.Join(dir, "lock"))
	if err != nil && !errors.Is(err, lock.ErrTaken) {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err != nil {
		return nil, &core.Fault{
			Code: core.ExitOther, Text: "another stagedoor dev uses " + dir,
			Hint: "Use that one with --profile dev, or start another with --data DIR.",
		}
	}
	s := &state{path: filepath.Join(dir, "state.json"), Ports: map[string]int{}}
	text, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	for _, secret := range []*string{&s.AdminToken, &s.IPHashKey, &s.ProxyPass} {
		if *secret == "" {
			*secret = random()
		}
	}
	return s, s.save()
}

func (s *state) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return profile.WriteFile(s.path, append(text, '\n'))
}

func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// choosePorts finds a free port for each name: the one of the last run, else the preferred one, else any. A requested
// public port has no alternative. All ports stay bound until the last is found, so that no two are the same.
func (s *state) choosePorts(preferred map[string]int, requested int) error {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // it never accepted a connection
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(preferred)) {
		candidates := []int{s.Ports[name], preferred[name], 0}
		if name == public && requested > 0 {
			candidates = []int{requested}
		}
		s.Ports[name] = 0
		for i, port := range candidates {
			if port == 0 && i < len(candidates)-1 {
				continue
			}
			l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			if err != nil {
				continue
			}
			held = append(held, l)
			s.Ports[name] = l.Addr().(*net.TCPAddr).Port
			break
		}
		if s.Ports[name] == 0 {
			return &core.Fault{
				Code: core.ExitOther, Text: fmt.Sprintf("port %d is taken", candidates[0]),
				Hint: "Choose another port, or omit --port to use any free port.",
			}
		}
	}
	return s.save()
}

func (s *state) address(name string) string { return "127.0.0.1:" + strconv.Itoa(s.Ports[name]) }
