package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// reference prints docs/reference/cli.md. TestTheReferenceIsCurrent compares the file with it.
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

Use the API from a terminal: ` + "`stagedoor`" + ` connects accounts, calls them, follows their events and manages
webhooks, keys and logs.

## Conventions

- Data goes to standard output, messages go to standard error. Output is a table on a terminal and tab-separated lines without a header in a pipe. With ` + "`--json`" + ` it is the API's response body; streams print one object per line.
- Commands prompt for secrets, or read them from standard input or a file, never from a flag.
- Commands that cannot be undone ask you to type a name, or require ` + "`--confirm=NAME`" + `.
- The key comes from ` + "`--profile`" + `, then ` + "`STAGEDOOR_API_KEY`" + ` (with ` + "`STAGEDOOR_URL`" + ` as its server), then ` + "`STAGEDOOR_PROFILE`" + `, then the current profile. Profile keys are stored in the system keychain, or in a file that only you can read if there is none or ` + "`STAGEDOOR_KEYCHAIN=off`" + ` is set.
- The commands in ` + "`stagedoor ops`" + ` are for the operators of the service and have tokens and profiles of their own.
- ` + "`NO_COLOR`" + ` disables colour. There is no telemetry and no update check.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | other error |
| 2 | invalid usage |
| 3 | the key is missing or invalid, or lacks a scope (401, 403) |
| 4 | not found |
| 5 | the input was rejected |
| 6 | rate limited; retry later |
| 7 | the platform, or the connection to it, failed |
| 8 | the creator has to sign in again (410) |
| 130 | interrupted |

An error looks like this. The last line has the request id and the command that explains the error:

` + "```text" + `
✗ 429 quota-exceeded: This account has used 20 of 20 writes of this minute.
  Retry in 21 s, or add --retry.
  req_01k9x5ahzre4bb3069xb2way0g   stagedoor explain quota-exceeded
` + "```" + `

`

// Reference returns the documentation of a command tree as Markdown: the head, the global flags, then one section per
// command in the order of the help.
func Reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("## Global flags\n\n")
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
	text := cmp.Or(cmd.Long, cmd.Short+".")
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

// prose writes the text of a help page. Indented lines keep their layout in a code block; other lines of
// a paragraph are joined.
func prose(b *strings.Builder, text string) {
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\t", "    "), "\n\n") {
		if strings.HasPrefix(part, "  ") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.TrimRight(part, "\n"))
			continue
		}
		if strings.Contains(part, "\n  ") { // a heading followed by indented lines, as in cobra's own texts
			head, rest, _ := strings.Cut(part, "\n")
			fmt.Fprintf(b, "%s\n\n```text\n%s\n```\n\n", escape(head), rest)
			continue
		}
		fmt.Fprintf(b, "%s\n\n", escape(strings.ReplaceAll(strings.TrimSpace(part), "\n", " ")))
	}
}

// escape keeps <account> and the like from being read as HTML tags.
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
