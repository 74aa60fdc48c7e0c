package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// Group returns a command that only holds subcommands. Without an argument it prints its help; an unknown subcommand is
// a usage fault with suggestions.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return UnknownCommand(cmd, args[0])
	}}
	cmd.AddCommand(commands...)
	return cmd
}

// UnknownCommand returns the usage fault for a word that is no subcommand of cmd, with suggestions.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	hint := "See " + cmd.CommandPath() + " --help"
	if guesses := output.Suggest(word, known); len(guesses) > 0 {
		for i, g := range guesses {
			guesses[i] = cmd.CommandPath() + " " + g
		}
		hint = "Did you mean " + strings.Join(guesses, " or ") + "?"
	}
	return UsageHint(hint, "unknown command %q for %s", word, cmd.CommandPath())
}

// Since parses a point in time: a duration before now such as 90s, 15m, 1h or 2d, or a time in RFC 3339. Days are 24 h.
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
		return time.Time{}, UsageHint("Use a duration such as 15m, 1h or 2d, or a time such as 2026-11-16T09:00:00Z.",
			"%q is not a time", text)
	}
	if isDays {
		d *= 24
	}
	return a.Now().Add(-d), nil
}

// Deref returns *p, or the zero value if p is nil.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// OneOf returns nil if word is one of the known ones, and a usage fault with suggestions otherwise.
func OneOf(what, word string, known []string) error {
	if slices.Contains(known, word) {
		return nil
	}
	hint := cmp.Or(output.DidYouMean(word, known), "Choose one of: "+strings.Join(known, ", "))
	return UsageHint(hint, "unknown %s %q", what, word)
}
