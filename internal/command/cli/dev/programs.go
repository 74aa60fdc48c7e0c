package dev

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// programs holds the paths of the programs to run.
type programs struct {
	server, sandbox string
	// postgres is the directory that has initdb and postgres.
	postgres    string
	redis, nats string
}

// required lists the programs and how to get them, in the order that findPrograms checks.
var required = []struct{ name, get string }{
	{"stagedoord", "comes with stagedoor: put it next to stagedoor or on PATH"},
	{"sandboxd", "comes with stagedoor: put it next to stagedoor or on PATH"},
	{"postgres", "PostgreSQL 15 or newer: apt install postgresql, or brew install postgresql"},
	{"redis-server", "Redis or Valkey: apt install redis-server, or brew install valkey"},
	{"nats-server", "https://github.com/nats-io/nats-server/releases, or brew install nats-server"},
}

// findPrograms finds all required programs, or returns a fault that lists what is missing.
func findPrograms() (programs, error) {
	p := programs{
		server: findProgram("stagedoord"), sandbox: findProgram("sandboxd"), postgres: findPostgres(),
		redis: findProgram("valkey-server"), nats: findProgram("nats-server"),
	}
	if p.redis == "" {
		p.redis = findProgram("redis-server")
	}
	var missing []string
	for i, path := range []string{p.server, p.sandbox, p.postgres, p.redis, p.nats} {
		if path == "" {
			missing = append(missing, fmt.Sprintf("  %-14s%s", required[i].name, required[i].get))
		}
	}
	if len(missing) > 0 {
		return programs{}, &core.Fault{
			Code: core.ExitOther,
			Text: "stagedoor dev requires programs that are not installed:\n" + strings.Join(missing, "\n"),
			Hint: "Or run it in a clone of the repository, where scripts/up installs and builds them.",
		}
	}
	return p, nil
}

// findProgram looks in the directory of this program first, for the version that was installed with it,
// and then on PATH.
func findProgram(name string) string {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			path := filepath.Join(filepath.Dir(self), name)
			if isProgram(path) {
				return path
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// findPostgres also looks where Debian, Homebrew and Red Hat packages install the server, because they
// leave it off PATH.
func findPostgres() string {
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", "/usr/pgsql-*/bin"} {
		found, _ := filepath.Glob(pattern) // fails only for a malformed pattern
		dirs = append(dirs, found...)
	}
	slices.SortFunc(dirs, newestFirst)
	if path := findProgram("initdb"); path != "" {
		if path, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append([]string{filepath.Dir(path)}, dirs...)
		}
	}
	for _, dir := range dirs {
		if isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres")) {
			return dir
		}
	}
	return ""
}

// newestFirst orders directories by the version in their path. The longer path is newer: 16 sorts before 9.
func newestFirst(a, b string) int {
	if len(a) != len(b) {
		return len(b) - len(a)
	}
	return strings.Compare(b, a)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
