package profile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func open(t *testing.T) *profile.Store {
	t.Helper()
	s, err := profile.Open(map[string]string{"HOME": t.TempDir(), "STAGEDOOR_KEYCHAIN": "off"})
	must.OK(t, err)
	return s
}

// TestProfiles checks that a profile is read as saved, that only its owner can read its key, and that
// Remove leaves no key.
func TestProfiles(t *testing.T) {
	t.Parallel()
	s := open(t)
	if _, err := s.Get(""); !errors.Is(err, profile.ErrNone) {
		t.Fatalf("without a profile: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		where, err := s.Save(profile.Profile{Name: name, BaseURL: "http://127.0.0.1:1", OrgName: "Org " + name, Key: secret.New("sd_sandbox_" + name)})
		must.OK(t, err)
		info, err := os.Stat(where)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v %v", where, info.Mode(), err)
		}
	}
	if p, err := s.Get(""); err != nil || p.Name != "two" || p.Key.Reveal() != "sd_sandbox_two" {
		t.Fatalf("current profile: %v %v", p.Name, err)
	}
	must.OK(t, s.Use("one"))
	must.OK(t, s.Remove("one"))
	profiles, current, err := s.List()
	if err != nil || len(profiles) != 1 || current != "" {
		t.Fatalf("after removing the current profile: %v %q %v", profiles, current, err)
	}
	files, err := filepath.Glob(filepath.Join(s.ConfigDir, "*"))
	must.OK(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "sd_sandbox_one") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestKeyFileReadableByOthersIsRejected(t *testing.T) {
	t.Parallel()
	s := open(t)
	where, err := s.Save(profile.Profile{Name: "one", Key: secret.New("sd_sandbox_one")})
	must.OK(t, err)
	must.OK(t, os.Chmod(where, 0o644))
	if _, err := s.Get("one"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatalf("got %v", err)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"sd_sandbox_jnsVLaD33kT34": "sd_sandbox_jnsV", "sd_live_ab": "sd_live_ab", "": "", "short": "shor"} {
		if got := profile.Prefix(key); got != want {
			t.Errorf("%q: want %q, got %q", key, want, got)
		}
	}
}
