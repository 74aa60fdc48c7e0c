package call

import (
	"cmp"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func explainCommand(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain [code]", Short: "Explain an error code, offline", Args: cobra.MaximumNArgs(1),
		Long: `Explain an error code and how to fix the problem. The pages are built in, so this works offline. Without a
code, list all codes; with an HTTP status, list the codes with that status.

Columns of the list in a pipe: code, status, retryable, title.`,
		Example: "  stagedoor explain quota-exceeded\n  stagedoor explain upstream/timeout\n  stagedoor explain 429",
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) (codes []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, k := range problem.All() {
				if len(args) == 0 && strings.HasPrefix(k.Code, begun) {
					codes = append(codes, cobra.CompletionWithDesc(k.Code, k.Title))
				}
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listProblems(app, problem.All())
			}
			return runExplain(app, args[0])
		},
	}
}

func runExplain(app *core.App, word string) error {
	// Also accept the URI in a problem's member "type".
	if _, after, isURL := strings.Cut(word, "/problems/"); isURL {
		word = after
	}
	if status, err := strconv.Atoi(word); err == nil {
		var kinds []problem.Kind
		for _, k := range problem.All() {
			if k.Status == status {
				kinds = append(kinds, k)
			}
		}
		if len(kinds) == 0 {
			return core.UsageHint("List all codes: stagedoor explain", "no problem has the status %d", status)
		}
		return listProblems(app, kinds)
	}
	kind, ok := problem.Lookup(word)
	if !ok {
		kind, ok = problem.Lookup("upstream/" + word)
	}
	if !ok {
		codes := []string{}
		for _, k := range problem.All() {
			codes = append(codes, k.Code)
		}
		hint := cmp.Or(output.DidYouMean(word, codes), "List all codes: stagedoor explain")
		return &core.Fault{Code: core.ExitNotFound, Text: "unknown error code " + word, Hint: hint}
	}
	page, err := fs.ReadFile(docs.Problems, "problems/"+kind.Code+".md")
	if err != nil {
		return errors.New("this build has no page about " + kind.Code)
	}
	if app.Out.JSON {
		return app.Out.Value(map[string]any{
			"code": kind.Code, "status": kind.Status, "title": kind.Title, "retryable": kind.Retryable, "fix": kind.Fix, "page": string(page),
		})
	}
	printPage(app, kind, string(page))
	return nil
}

func listProblems(app *core.App, kinds []problem.Kind) error {
	if app.Out.JSON {
		views := []map[string]any{}
		for _, k := range kinds {
			views = append(views, map[string]any{"code": k.Code, "status": k.Status, "title": k.Title, "retryable": k.Retryable, "fix": k.Fix})
		}
		return app.Out.Value(map[string]any{"problems": views})
	}
	table := output.Table{Columns: output.Columns("code", ">status", "retry", "what happened~")}
	for _, k := range kinds {
		retry := output.Cell{Text: "–", Raw: "false", Tone: output.Faint}
		if k.Retryable {
			retry = output.Cell{Text: "yes", Raw: "true"}
		}
		table.Rows = append(table.Rows,
			[]output.Cell{output.Text(k.Code), output.Text(strconv.Itoa(k.Status)), retry, output.Text(k.Title)})
	}
	app.Out.Table(table)
	app.Out.Hint("Explain one: stagedoor explain %s", kinds[0].Code)
	return nil
}

// printPage prints a problem's page, laid out on a terminal and as Markdown in a pipe.
func printPage(app *core.App, kind problem.Kind, page string) {
	if !app.Out.TTY {
		app.Out.Bytes([]byte(page))
		return
	}
	retry := "not retryable"
	if kind.Retryable {
		retry = "retryable"
	}
	_, body, _ := strings.Cut(page, "\n")
	app.Out.Data("%s  %s", app.Out.Style(output.Strong, kind.Title),
		app.Out.Style(output.Faint, kind.Code+" · "+strconv.Itoa(kind.Status)+" · "+retry))
	app.Out.Bytes([]byte(output.Markdown(app.Out, body)))
}
