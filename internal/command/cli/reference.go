package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// reference prints the page about all commands that the documentation has; a test keeps that page as this prints it.
func reference(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "docs-reference", Short: "Print the reference of all commands as Markdown", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app.Out.Bytes([]byte(Reference(cmd.Root())))
			return nil
		},
	}
}

const referenceHead = `# Command line

Everything that the API does, from a terminal: ` + "`stagedoor`" + ` connects accounts, calls them, follows their events and looks after webhooks, keys and logs.

## Rules that all commands keep

- Data goes to standard output, words to standard error. On a terminal output is a table; in a pipe it is tab-separated, whole and without a head; with ` + "`--json`" + ` it is the API's own body, and streams print one object a line.
- Secrets are asked for, or read from standard input or a file; never from a flag.
- What cannot be undone has to be confirmed: by typing a name, or with ` + "`--confirm=NAME`" + `.
- An account is named by its id, its label or its user name; left out, it is the only one.
- The key comes from ` + "`--profile`" + `, else ` + "`STAGEDOOR_API_KEY`" + ` (with ` + "`STAGEDOOR_URL`" + ` as its server), else ` + "`STAGEDOOR_PROFILE`" + `, else the profile used last. Keys of profiles are in the system's keychain, or where there is none (or with ` + "`STAGEDOOR_KEYCHAIN=off`" + `) in a file that only you can read.
- ` + "`NO_COLOR`" + ` turns colour off. There is no telemetry and no update check.

| exit code | means |
|---|---|
| 0 | done |
| 1 | something else went wrong |
| 2 | the command was written wrongly |
| 3 | the key is missing or invalid, or lacks a scope (401, 403) |
| 4 | not found |
| 5 | the input was refused |
| 6 | a rate limit; trying again later helps |
| 7 | the platform, or the way to it, fails |
| 8 | the creator has to sign in again (410) |
| 130 | interrupted |

A refusal looks like this; the last line has the request's id and how to read more:

` + "```text" + `
✗ 429 quota-exceeded: This account has used 20 of 20 writes of this minute.
  Try again in 21 s, or add --retry.
  req_01k9x5ahzre4bb3069xb2way0g   stagedoor explain quota-exceeded
` + "```" + `

`

// Reference is the documentation of a tree of commands in Markdown.
func Reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("## Flags of all commands\n\n")
	flagTable(&b, root.PersistentFlags())
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && cmd.IsAvailableCommand() && cmd.Name() != "help" {
				section(&b, cmd)
			}
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func section(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "### %s\n\n", cmd.CommandPath())
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	prose(b, text)
	if !cmd.HasAvailableSubCommands() || cmd.Name() == "methods" {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", cmd.UseLine())
	}
	flagTable(b, cmd.LocalNonPersistentFlags())
	if cmd.Example != "" {
		var lines []string
		for line := range strings.Lines(cmd.Example) {
			lines = append(lines, strings.TrimSpace(line))
		}
		fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.Join(lines, "\n"))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			section(b, sub)
		}
	}
}

// prose writes the text of a help page; indented lines are a list of words and what they mean, and stay as they are.
func prose(b *strings.Builder, text string) {
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\t", "    "), "\n\n") {
		if strings.HasPrefix(part, "  ") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.TrimRight(part, "\n"))
			continue
		}
		if strings.Contains(part, "\n  ") { // a heading with indented lines, as cobra's own pages have
			head, rest, _ := strings.Cut(part, "\n")
			fmt.Fprintf(b, "%s\n\n```text\n%s\n```\n\n", escape(head), rest)
			continue
		}
		fmt.Fprintf(b, "%s\n\n", escape(strings.ReplaceAll(strings.TrimSpace(part), "\n", " ")))
	}
}

// escape keeps what looks like a tag from being one.
func escape(text string) string { return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text) }

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if rows == 0 {
			b.WriteString("| flag | |\n|---|---|\n")
		}
		rows++
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(escape(f.Usage), "|", "\\|"))
	})
	if rows > 0 {
		b.WriteString("\n")
	}
}
