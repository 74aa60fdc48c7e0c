package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// identity are the commands about who is calling.
func identity(app *core.App) []*cobra.Command {
	return []*cobra.Command{login(app), logout(app), whoami(app), switchTo(app)}
}

func login(app *core.App) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use: "login", Short: "Keep an API key on this machine, as a profile", Args: cobra.NoArgs,
		Long: `Keep an API key on this machine, as a profile.

The key is asked for without being shown, or read from standard input; never from a flag, where other users could see it. It
is checked against the server and kept in the keychain of the system, or where there is none in a file that only you can read.`,
		Example: `  stagedoor login
  stagedoor login --url https://api.example.com --profile work
  pass show stagedoor/ci | stagedoor login`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLogin(cmd.Context(), app, url) },
	}
	cmd.Flags().StringVar(&url, "url", "", "the server (STAGEDOOR_URL, else "+profile.DefaultURL+")")
	return cmd
}

func runLogin(ctx context.Context, app *core.App, url string) error {
	if url == "" {
		url = app.BaseURL
	}
	if url == "" {
		url = app.DefaultURL()
	}
	base, err := core.CleanURL(url)
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	if app.Interactive() {
		app.Out.Say("Keys are made at %s/app/keys, or with stagedoor keys create.", base)
	}
	key, err := app.ReadSecret(ctx, "API key")
	if err != nil {
		return err
	}
	if strings.ContainsAny(key, " \t\n") {
		return core.Usage("that is more than an API key: a key is one word and begins with sd_")
	}
	p, err := app.Me(ctx, profile.Profile{BaseURL: base, Key: secret.New(key)})
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
	app.Out.Say("  Profile %s. The key is in %s.", p.Name, where)
	if app.Env["STAGEDOOR_API_KEY"] != "" {
		app.Out.Warn("STAGEDOOR_API_KEY is set and goes before profiles; unset it to use this one.")
	}
	if app.Out.JSON {
		return app.Out.Value(profileView(p, p.Name))
	}
	app.Out.Hint("Next: stagedoor connect")
	return nil
}

// profileName is the name that was asked for, else one made of organisation and environment that no other organisation has.
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

func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "org"
}

func logout(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout [profile]", Short: "Forget a profile and its key", Args: cobra.MaximumNArgs(1),
		Long: "Forget a profile and its key on this machine. The key itself goes on working; revoke it with stagedoor keys revoke.",
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
			if name == "" {
				name = current
			}
			if name == "" {
				app.Out.Say("No profile is in use; nothing to forget.")
				return nil
			}
			if err := store.Remove(name); errors.Is(err, profile.ErrNone) {
				return noProfile(name, profiles)
			} else if err != nil {
				return err
			}
			app.Out.Done("Forgot the profile %s and its key on this machine. The key itself still works.", name)
			for _, p := range profiles {
				if p.Name == name && p.KeyID != "" {
					app.Out.Hint("To end it, revoke it with another key: stagedoor keys revoke %s", p.KeyID)
				}
			}
			return nil
		},
	}
}

func noProfile(name string, profiles []profile.Profile) error {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	hint := out.DidYouMean(name, names)
	if hint == "" {
		hint = "List profiles: stagedoor switch"
	}
	return core.UsageHint(hint, "there is no profile %s", name)
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
		Use: "whoami", Short: "Who the key is, and what it may do", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := app.Identity()
			if err != nil {
				return err
			}
			var me struct {
				Key    *struct{ ID, Label string }
				Org    struct{ ID, Name, Plan, ContactEmail, Environment string }
				Scopes []string
			}
			reply, err := app.Get(cmd.Context(), "/v1/me", nil, &me)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			from := p.Name
			if from == "" {
				from = "none; the key is from STAGEDOOR_API_KEY"
			}
			fields := []out.Field{
				{Name: "organisation", Cell: out.Toned(out.Strong, me.Org.Name)}, {Name: "organisation id", Cell: out.Text(me.Org.ID)},
				{Name: "environment", Cell: out.Text(me.Org.Environment)}, {Name: "plan", Cell: out.Text(me.Org.Plan)},
			}
			if me.Key != nil {
				fields = append(fields, out.Field{Name: "key", Cell: out.Text(p.KeyPrefix + "…")},
					out.Field{Name: "key id", Cell: out.Text(me.Key.ID)}, out.Field{Name: "key label", Cell: out.Text(me.Key.Label)})
			}
			app.Out.Fields(append(fields, out.Field{Name: "scopes", Cell: out.Text(strings.Join(me.Scopes, " "))},
				out.Field{Name: "server", Cell: out.Text(p.BaseURL)}, out.Field{Name: "profile", Cell: out.Text(from)}))
			return nil
		},
	}
}

// view is a profile under --json.
type view struct {
	Profile     string `json:"profile"`
	Current     bool   `json:"current"`
	OrgID       string `json:"orgId"`
	OrgName     string `json:"orgName"`
	Environment string `json:"environment"`
	KeyID       string `json:"keyId"`
	KeyPrefix   string `json:"keyPrefix"`
	BaseURL     string `json:"baseUrl"`
}

func profileView(p profile.Profile, current string) view {
	return view{p.Name, p.Name == current, p.OrgID, p.OrgName, p.Env, p.KeyID, p.KeyPrefix, p.BaseURL}
}

func switchTo(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "switch [profile|organisation|environment]", Short: "List profiles, or use another one from now on", Args: cobra.MaximumNArgs(1),
		Long: `List profiles, or use another one from now on.

A profile is named by its own name, or by its organisation or environment where only one profile has it.
Columns in a pipe: in use (* or empty), profile, organisation, environment, key, server.`,
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
			p, err := find(args[0], profiles)
			if err != nil {
				return err
			}
			if err := store.Use(p.Name); err != nil {
				return err
			}
			app.Out.Done("Now using %s: %s", p.Name, core.Banner(p))
			if app.Env["STAGEDOOR_API_KEY"] != "" {
				app.Out.Warn("STAGEDOOR_API_KEY is set and goes before profiles; unset it to use this one.")
			}
			if app.Out.JSON {
				return app.Out.Value(profileView(p, p.Name))
			}
			return nil
		},
	}
}

func listProfiles(app *core.App, profiles []profile.Profile, current string) error {
	if app.Out.JSON {
		views := make([]view, len(profiles))
		for i, p := range profiles {
			views[i] = profileView(p, current)
		}
		return app.Out.Value(map[string]any{"profiles": views})
	}
	table := out.Table{Columns: out.Columns("", "profile", "organisation~", "environment", "key", "server"), Empty: "No profiles yet. Make one: stagedoor login"}
	for _, p := range profiles {
		mark := ""
		if p.Name == current {
			mark = "*"
		}
		table.Rows = append(table.Rows, []out.Cell{out.Toned(out.Good, mark), out.Text(p.Name), out.Text(p.OrgName), out.Text(p.Env), out.Text(p.KeyPrefix + "…"), out.Text(p.BaseURL)})
	}
	app.Out.Table(table)
	return nil
}

// find is the one profile that has this name, organisation or environment.
func find(word string, profiles []profile.Profile) (profile.Profile, error) {
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
		return profile.Profile{}, noProfile(word, profiles)
	case 1:
		return found[0], nil
	}
	return profile.Profile{}, core.UsageHint("Use a profile's own name: stagedoor switch", "several profiles match %s", word)
}
