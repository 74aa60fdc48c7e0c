package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/version"
)

// selfCommands are the commands about this program.
func selfCommands(app *core.App) []*cobra.Command {
	return []*cobra.Command{completion(app), versionCommand(app), reference(app)}
}

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completion(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "completion <shell>", Short: "Print a shell completion script", Args: cobra.ExactArgs(1), ValidArgs: shells,
		Long: `Print a script that completes commands, flags, accounts, methods and problem codes in your shell.

  bash         source <(stagedoor completion bash)
  zsh          stagedoor completion zsh > "${fpath[1]}/_stagedoor"
  fish         stagedoor completion fish > ~/.config/fish/completions/stagedoor.fish
  powershell   stagedoor completion powershell | Out-String | Invoke-Expression`,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), app.Out.Stdout
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return core.OneOf("shell", args[0], shells)
		},
	}
}

func versionCommand(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			build := version.Get()
			if app.Out.JSON {
				return app.Out.Value(map[string]string{
					"version": build.Version, "commit": build.Commit, "commitTime": build.Time, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			app.Out.Data("stagedoor %s", build.Version)
			if build.Commit != "" {
				app.Out.Say("commit %s of %s, %s, %s/%s", build.Commit, build.Time, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			}
			return nil
		},
	}
}

// browser returns a function that opens a page with the program in BROWSER, or with the system's default.
func browser(env map[string]string) func(ctx context.Context, url string) error {
	name, args := "xdg-open", []string{}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	if env["BROWSER"] != "" {
		name, args = env["BROWSER"], nil
	}
	return func(ctx context.Context, url string) error {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("cannot open a browser: %s not found", name)
		}
		if err := exec.CommandContext(ctx, path, append(args, url)...).Run(); err != nil {
			return fmt.Errorf("cannot open a browser with %s: %w", name, err)
		}
		return nil
	}
}
