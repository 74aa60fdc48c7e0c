package dev

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// programs are where everything is that has to run.
type programs struct {
	server, sandbox string
	// postgres is the directory of PostgreSQL's programs: initdb, postgres.
	postgres    string
	redis, nats string
}

// needed says of each program how to get it.
var needed = []struct{ name, get string }{
	{"stagedoord", "comes with stagedoor: put it beside this program or on PATH"},
	{"sandboxd", "comes with stagedoor: put it beside this program or on PATH"},
	{"postgres", "PostgreSQL 15 or newer: apt install postgresql, or brew install postgresql"},
	{"redis-server", "Redis or Valkey: apt install redis-server, or brew install valkey"},
	{"nats-server", "https://github.com/nats-io/nats-server/releases, or brew install nats-server"},
}

// findPrograms finds all of them, or says exactly what is missing.
func findPrograms() (programs, error) {
	p := programs{
		server: find("stagedoord"), sandbox: find("sandboxd"), postgres: findPostgres(),
		redis: find("valkey-server"), nats: find("nats-server"),
	}
	if p.redis == "" {
		p.redis = find("redis-server")
	}
	var missing []string
	for i, path := range []string{p.server, p.sandbox, p.postgres, p.redis, p.nats} {
		if path == "" {
			missing = append(missing, "  "+needed[i].name+strings.Repeat(" ", 14-len(needed[i].name))+needed[i].get)
		}
	}
	if len(missing) > 0 {
		return programs{}, &core.Fault{
			Code: core.ExitOther, Text: "stagedoor dev needs programs that are not here:\n" + strings.Join(missing, "\n"),
			Hint: "Or run it in a clone of the repository, where scripts/up installs and builds them.",
		}
	}
	return p, nil
}

// find looks beside this program first: what comes together fits together.
func find(name string) string {
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

// findPostgres looks where Debian and Homebrew keep it, too: they leave the server off PATH.
func findPostgres() string {
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", "/usr/pgsql-*/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are good
		dirs = append(dirs, found...)
	}
	slices.SortFunc(dirs, newestFirst)
	if path := find("initdb"); path != "" {
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

// newestFirst sorts directories by the version in them: 16 before 9.
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
