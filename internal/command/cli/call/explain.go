package call

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

func explain(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain [code]", Short: "What a problem means and what to do about it, without a network", Args: cobra.MaximumNArgs(1),
		Long: `What a problem means and what to do about it, from pages that are built in; without a code, a list of all problems.

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
	// A type URI, as problems carry it, is fine too.
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
			return core.UsageHint("All of them: stagedoor explain", "no problem has the status %d", status)
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
		hint := out.DidYouMean(word, codes)
		if hint == "" {
			hint = "All of them: stagedoor explain"
		}
		return &core.Fault{Code: core.ExitNotFound, Text: "there is no problem " + word, Hint: hint}
	}
	page, err := fs.ReadFile(docs.Problems, "problems/"+kind.Code+".md")
	if err != nil {
		return errors.New("the page of " + kind.Code + " is not in this build")
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
	table := out.Table{Columns: out.Columns("code", ">status", "retry", "what happened~")}
	for _, k := range kinds {
		retry := out.Cell{Text: "–", Raw: "false", Tone: out.Faint}
		if k.Retryable {
			retry = out.Cell{Text: "yes", Raw: "true"}
		}
		table.Rows = append(table.Rows, []out.Cell{out.Text(k.Code), out.Text(strconv.Itoa(k.Status)), retry, out.Text(k.Title)})
	}
	app.Out.Table(table)
	app.Out.Hint("Read one: stagedoor explain %s", kinds[0].Code)
	return nil
}

// printPage writes a problem's page: as Markdown into a pipe, laid out for a person.
func printPage(app *core.App, kind problem.Kind, page string) {
	if !app.Out.TTY {
		app.Out.Bytes([]byte(page))
		return
	}
	retry := "trying again does not help"
	if kind.Retryable {
		retry = "trying again later can help"
	}
	_, body, _ := strings.Cut(page, "\n")
	app.Out.Data("%s  %s", app.Out.Style(out.Strong, kind.Title), app.Out.Style(out.Faint, kind.Code+" · "+strconv.Itoa(kind.Status)+" · "+retry))
	app.Out.Bytes([]byte(out.Markdown(app.Out, body)))
}
