package configfile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/engine/configfile"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture is a file whose content is refused if it contains "bad".
type fixture struct {
	*configfile.Files
	t        *testing.T
	path     string
	applied  []string
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newFixture(t *testing.T, content string) *fixture {
	t.Helper()
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "settings"), registry: prometheus.NewRegistry()}
	f.Files = configfile.New(configfile.Deps{Registry: f.registry, Log: slog.New(slog.NewTextHandler(&f.log, nil))})
	f.write(content)
	return f
}

func (f *fixture) add() error {
	return f.Add(f.t.Context(), configfile.File{Setting: "STAGEDOOR_TEST_FILE", Path: f.path, Apply: func(_ context.Context, content []byte) error {
		if strings.Contains(string(content), "bad") {
			return errors.New("it is bad")
		}
		f.applied = append(f.applied, string(content))
		return nil
	}})
}

func (f *fixture) write(content string) {
	f.t.Helper()
	must.OK(f.t, os.WriteFile(f.path, []byte(content), 0o600))
}

// expect reads the file and checks what was applied, the counters and the gauge.
func (f *fixture) expect(what, applied string, changes, refusals, refused int) {
	f.t.Helper()
	f.Reread(f.t.Context())
	if got := strings.Join(f.applied, " "); got != applied {
		f.t.Errorf("%s: applied %q, want %q", what, got, applied)
	}
	for name, want := range map[string]int{"applied": changes, "refused": refusals} {
		if got := f.metric("stagedoor_config_file_changes_total", name); got != want {
			f.t.Errorf("%s: %d changes %s, want %d", what, got, name, want)
		}
	}
	if got := f.metric("stagedoor_config_file_refused", ""); got != refused {
		f.t.Errorf("%s: refused is %d, want %d", what, got, refused)
	}
}

func (f *fixture) metric(name, outcome string) int {
	f.t.Helper()
	families, err := f.registry.Gather()
	must.OK(f.t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == name && (outcome == "" || label.GetValue() == outcome) {
					return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
				}
			}
		}
	}
	f.t.Fatalf("no metric %s %s", name, outcome)
	return 0
}

// A changed file is applied once. A file that is refused, empty or missing changes nothing, and is counted and logged
// once, until it is corrected.
func TestFileIsAppliedWhenItChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "1")
	must.OK(t, f.add())
	f.expect("unchanged", "1", 0, 0, 0)
	f.write("2")
	f.expect("changed", "1 2", 1, 0, 0)
	f.expect("unchanged again", "1 2", 1, 0, 0)
	f.write("bad")
	f.expect("refused", "1 2", 1, 1, 1)
	f.expect("refused for longer", "1 2", 1, 1, 1)
	f.write("2")
	f.expect("as it was", "1 2", 1, 1, 0)
	must.OK(t, os.Remove(f.path))
	f.expect("missing", "1 2", 1, 2, 1)
	f.expect("missing for longer", "1 2", 1, 2, 1)
	f.write(" \n")
	f.expect("empty", "1 2", 1, 3, 1)
	f.write("3")
	f.expect("corrected", "1 2 3", 2, 3, 0)
	if text := f.log.String(); strings.Count(text, "settings file refused") != 3 || !strings.Contains(text, "STAGEDOOR_TEST_FILE") || !strings.Contains(text, "it is bad") {
		t.Error(text)
	}
}

// A node does not start with a file that is missing, empty, too large or refused. The error names the setting.
func TestFileIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"bad": "it is bad", "": "is empty", strings.Repeat("x", configfile.MaxBytes+1): "has more than 1048576 bytes",
	} {
		err := newFixture(t, content).add()
		if err == nil || !strings.HasPrefix(err.Error(), "STAGEDOOR_TEST_FILE (") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v", content, err)
		}
	}
	f := newFixture(t, "1")
	must.OK(t, os.Remove(f.path))
	if err := f.add(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
