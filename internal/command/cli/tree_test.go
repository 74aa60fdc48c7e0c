package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	words "mvdan.cc/sh/v3/shell"

	"github.com/stagedoor/stagedoor/internal/command/cli"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// TestEveryCommandHasATranscript requires a transcript in a pipe and one on a terminal.
func TestEveryCommandHasATranscript(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	must.OK(t, err)
	root := cli.Root(blank())
	seen := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		for _, f := range txtar.Parse(text).Files {
			how, line, ok := strings.Cut(f.Name, "$ ")
			if !ok || strings.HasPrefix(how, "until") {
				continue
			}
			fields, err := words.Fields(line, func(string) string { return "x" })
			must.OK(t, err)
			cmd, _, err := root.Find(fields[1:])
			if err != nil {
				continue
			}
			seen[cmd.CommandPath()+" tty"] = seen[cmd.CommandPath()+" tty"] || strings.Contains(how, "tty")
			seen[cmd.CommandPath()+" pipe"] = seen[cmd.CommandPath()+" pipe"] || !strings.Contains(how, "tty")
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			for _, how := range []string{"pipe", "tty"} {
				if !seen[cmd.CommandPath()+" "+how] {
					t.Errorf("no transcript shows %s (%s)", cmd.CommandPath(), how)
				}
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

func blank() *core.App { return &core.App{Out: &output.Printer{}} }

// TestTheReferenceIsCurrent compares docs/reference/cli.md with the commands, or writes it with -update.
func TestTheReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	path := testenv.Path(t, "docs", "reference", "cli.md")
	want := cli.Reference(cli.Root(blank()))
	if *update {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date; run go test ./internal/command/cli -update\n%s", path, difference(string(got), want))
	}
}
