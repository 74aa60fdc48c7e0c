package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// identityCommands manage the profiles on this machine.
func identityCommands(app *core.App) []*cobra.Command {
	return []*cobra.Command{login(app), logout(app), whoami(app), switchProfile(app)}
}

func login(app *core.App) *cobra.Command {
	var (
		url     string
		withKey bool
	)
	cmd := &cobra.Command{
		Use: "login", Short: "Sign in on this machine and save an API key as a profile", Args: cobra.NoArgs,
		Long: `Sign in on this machine and save an API key as a profile.

On a terminal, the command opens the browser, where you approve this machine. It gets a key that can do what your role can
do. With --with-key it prompts for an existing key without showing it, and in a pipe it reads one from standard input. It
never takes a key from a flag, where other users could see it.

The key is saved in the system keychain, or in a file that only you can read if there is no keychain.`,
		Example: `  stagedoor login
  stagedoor login --with-key
  stagedoor login --url https://api.example.com --profile work
  pass show stagedoor/ci | stagedoor login`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLogin(cmd.Context(), app, url, withKey) },
	}
	cmd.Flags().BoolVar(&withKey, "with-key", false, "prompt for an existing API key instead of opening the browser")
	cmd.Flags().StringVar(&url, "url", "", "server to log in to (default STAGEDOOR_URL or "+profile.DefaultURL+")")
	return cmd
}

func runLogin(ctx context.Context, app *core.App, url string, withKey bool) error {
	base, err := core.CleanURL(cmp.Or(url, app.BaseURL, app.DefaultURL()))
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	key, err := obtainKey(ctx, app, base, withKey)
	if err != nil {
		return err
	}
	p, err := app.Me(ctx, profile.Profile{BaseURL: base, Key: key})
	if err != nil {
		return err
	}
	if p.Name, err = profileName(app, store, p); err != nil {
		return err
	}
	where, err := store.Save(p)
	if err != nil {
		return err
	}
	app.Out.Done("Logged in to %s", core.Banner(p))
	app.Out.Say("  Profile %s. The key is stored in %s.", p.Name, where)
	warnEnvKey(app)
	if app.Out.JSON {
		return app.Out.Value(profileView(p, p.Name))
	}
	app.Out.Hint("Next: stagedoor connect")
	return nil
}

// obtainKey returns a new key that the user approves in the browser, or one that the user enters.
func obtainKey(ctx context.Context, app *core.App, base string, withKey bool) (secret.String, error) {
	if app.Interactive() && !withKey {
		return app.SignIn(ctx, base)
	}
	if app.Interactive() {
		app.Out.Say("Create a key at %s/app/keys, or with stagedoor keys create.", base)
	}
	key, err := app.ReadSecret(ctx, "API key")
	if err != nil {
		return secret.String{}, err
	}
	if strings.ContainsAny(key, " \t\n") {
		return secret.String{}, core.Usage("not an API key: a key has no spaces and starts with sd_")
	}
	return secret.New(key), nil
}

// warnEnvKey warns that the environment overrides the profile that the user has just chosen.
func warnEnvKey(app *core.App) {
	if app.Env["STAGEDOOR_API_KEY"] != "" {
		app.Out.Warn("STAGEDOOR_API_KEY is set and overrides profiles; unset it to use this one")
	}
}

// profileName returns the name given with --profile, or <organisation>-<environment>, with a number if another
// organisation has that name already. The same organisation keeps its name, so a new login replaces the old key.
func profileName(app *core.App, store *profile.Store, p profile.Profile) (string, error) {
	if app.ProfileName != "" {
		return app.ProfileName, nil
	}
	profiles, _, err := store.List()
	if err != nil {
		return "", err
	}
	taken := map[string]string{}
	for _, other := range profiles {
		taken[other.Name] = other.OrgID
	}
	base := slug(p.OrgName) + "-" + p.Env
	name := base
	for n := '2'; taken[name] != "" && taken[name] != p.OrgID; n++ {
		name = base + "-" + string(n)
	}
	return name, nil
}

// slug turns a name into lower-case letters, digits and single hyphens.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), "org")
}

func logout(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout [profile]", Short: "Delete a profile and its key from this machine", Args: cobra.MaximumNArgs(1),
		Long: `Delete a profile and its key from this machine. Default: the current profile.

The key itself stays valid. Revoke it with stagedoor keys revoke.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return profileNames(app), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := app.Store()
			if err != nil {
				return err
			}
			name := app.ProfileName
			if len(args) == 1 {
				name = args[0]
			}
			profiles, current, err := store.List()
			if err != nil {
				return err
			}
			name = cmp.Or(name, current)
			if name == "" {
				app.Out.Say("Not logged in; nothing to delete.")
				return nil
			}
			if err := store.Remove(name); errors.Is(err, profile.ErrNone) {
				return unknownProfile(name, profiles)
			} else if err != nil {
				return err
			}
			app.Out.Done("Deleted profile %s and its key from this machine. The key itself is still valid.", name)
			for _, p := range profiles {
				if p.Name == name && p.KeyID != "" {
					app.Out.Hint("Revoke it with another key: stagedoor keys revoke %s", p.KeyID)
				}
			}
			return nil
		},
	}
}

func unknownProfile(name string, profiles []profile.Profile) error {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	hint := cmp.Or(output.DidYouMean(name, names), "List profiles: stagedoor switch")
	return core.UsageHint(hint, "profile %s not found", name)
}

func profileNames(app *core.App) (names []cobra.Completion) {
	store, err := app.Store()
	if err != nil {
		return nil
	}
	profiles, _, err := store.List()
	if err != nil {
		return nil
	}
	for _, p := range profiles {
		names = append(names, cobra.CompletionWithDesc(p.Name, p.OrgName+" · "+p.Env))
	}
	return names
}

func whoami(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show the organisation and scopes of your key", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := app.Identity()
			if err != nil {
				return err
			}
			me, err := app.API().Me.Get(cmd.Context(), app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			from := p.Name
			if from == "" {
				from = "none (key from STAGEDOOR_API_KEY)"
			}
			fields := []output.Field{
				{Name: "organisation", Cell: output.Toned(output.Strong, me.Org.Name)},
				{Name: "organisation id", Cell: output.Text(me.Org.ID)},
				{Name: "environment", Cell: output.Text(me.Org.Environment)}, {Name: "plan", Cell: output.Text(me.Org.Plan)},
			}
			if me.Key.ID != "" {
				fields = append(fields, output.Field{Name: "key", Cell: output.Text(p.KeyPrefix + "…")},
					output.Field{Name: "key id", Cell: output.Text(me.Key.ID)},
					output.Field{Name: "key label", Cell: output.Text(me.Key.Label)})
			}
			app.Out.Fields(append(fields, output.Field{Name: "scopes", Cell: output.Text(strings.Join(me.Scopes, " "))},
				output.Field{Name: "server", Cell: output.Text(p.BaseURL)}, output.Field{Name: "profile", Cell: output.Text(from)}))
			return nil
		},
	}
}

// profileJSON is a profile as --json prints it.
type profileJSON struct {
	Profile     string `json:"profile"`
	Current     bool   `json:"current"`
	OrgID       string `json:"orgId"`
	OrgName     string `json:"orgName"`
	Environment string `json:"environment"`
	KeyID       string `json:"keyId"`
	KeyPrefix   string `json:"keyPrefix"`
	BaseURL     string `json:"baseUrl"`
}

func profileView(p profile.Profile, current string) profileJSON {
	return profileJSON{p.Name, p.Name == current, p.OrgID, p.OrgName, p.Env, p.KeyID, p.KeyPrefix, p.BaseURL}
}

func switchProfile(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "switch [profile|organisation|environment]", Short: "List profiles, or switch to another",
		Args: cobra.MaximumNArgs(1),
		Long: `List profiles, or switch to another.

Name a profile, or an organisation or environment that only one profile has.

Columns in a pipe: current (* or empty), profile, organisation, environment, key, server.`,
		Example: "  stagedoor switch\n  stagedoor switch live",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return profileNames(app), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := app.Store()
			if err != nil {
				return err
			}
			profiles, current, err := store.List()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listProfiles(app, profiles, current)
			}
			p, err := findProfile(args[0], profiles)
			if err != nil {
				return err
			}
			if err := store.Use(p.Name); err != nil {
				return err
			}
			app.Out.Done("Now using %s: %s", p.Name, core.Banner(p))
			warnEnvKey(app)
			if app.Out.JSON {
				return app.Out.Value(profileView(p, p.Name))
			}
			return nil
		},
	}
}

func listProfiles(app *core.App, profiles []profile.Profile, current string) error {
	if app.Out.JSON {
		views := make([]profileJSON, len(profiles))
		for i, p := range profiles {
			views[i] = profileView(p, current)
		}
		return app.Out.Value(map[string]any{"profiles": views})
	}
	table := output.Table{
		Columns: output.Columns("", "profile", "organisation~", "environment", "key", "server"),
		Empty:   "No profiles yet. Create one: stagedoor login",
	}
	for _, p := range profiles {
		mark := ""
		if p.Name == current {
			mark = "*"
		}
		table.Rows = append(table.Rows, []output.Cell{output.Toned(output.Good, mark), output.Text(p.Name),
			output.Text(p.OrgName), output.Text(p.Env), output.Text(p.KeyPrefix + "…"), output.Text(p.BaseURL)})
	}
	app.Out.Table(table)
	return nil
}

// findProfile returns the profile with this name, or the only one with this organisation or environment.
func findProfile(word string, profiles []profile.Profile) (profile.Profile, error) {
	var found []profile.Profile
	for _, p := range profiles {
		if p.Name == word {
			return p, nil
		}
		if strings.EqualFold(p.OrgName, word) || p.OrgID == word || p.Env == word {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return profile.Profile{}, unknownProfile(word, profiles)
	case 1:
		return found[0], nil
	}
	return profile.Profile{}, core.UsageHint("Use the profile's name: stagedoor switch", "several profiles match %s", word)
}
