package core

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// Group is a command that only holds others. Alone it shows its help; with a word it does not know it says what was meant.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return Unknown(cmd, args[0])
	}}
	cmd.AddCommand(commands...)
	return cmd
}

// Unknown is the fault of a word that is none of a command's commands.
func Unknown(cmd *cobra.Command, word string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	hint := "See " + cmd.CommandPath() + " --help"
	if guesses := out.Suggest(word, known); len(guesses) > 0 {
		for i, g := range guesses {
			guesses[i] = cmd.CommandPath() + " " + g
		}
		hint = "Did you mean " + strings.Join(guesses, " or ") + "?"
	}
	return UsageHint(hint, "%s has no command %q", cmd.CommandPath(), word)
}

// Since reads a point in time: a duration back from now such as 90s, 15m, 1h or 2d, or a time in RFC 3339.
func (a *App) Since(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	days, isDays := strings.CutSuffix(text, "d")
	if isDays {
		text = days + "h"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, UsageHint("Write it like 15m, 1h or 2d, or as a time like 2026-11-16T09:00:00Z.", "%q is not a time", text)
	}
	if isDays {
		d *= 24
	}
	return a.Now().Add(-d), nil
}

// Deref is a value that may be missing.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// OneOf is the fault of a word that is none of the known ones; nil if it is one.
func OneOf(what, word string, known []string) error {
	if slices.Contains(known, word) {
		return nil
	}
	hint := out.DidYouMean(word, known)
	if hint == "" {
		hint = "Known are " + strings.Join(known, ", ") + "."
	}
	return UsageHint(hint, "there is no %s %q", what, word)
}
