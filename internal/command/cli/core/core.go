// Package core is what every command is given: who is calling, the API, where to print, what to ask, and how failures end.
//
// It owns the exit codes and the words of an error. Commands are in packages next to it, and each package offers
// Commands(app). Start at App.
package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// App is the world of one command.
type App struct {
	// Env is the environment by name.
	Env map[string]string
	// Stdin is what a command reads. StdinTTY is true when a person types it.
	Stdin    io.Reader
	StdinTTY bool
	// Out prints.
	Out *out.Printer
	// Now is the clock.
	Now func() time.Time
	// HTTP makes requests; the system's own transport if nil.
	HTTP http.RoundTripper
	// Browse opens a page in the user's browser.
	Browse func(ctx context.Context, url string) error

	// ProfileName, BaseURL, NoInput and Debug are the flags that all commands have.
	ProfileName, BaseURL string
	NoInput, Debug       bool
	// Retry makes the client wait and try again where the API says that this can help.
	Retry bool

	input *bufio.Reader
	// known is the profile once it was asked for.
	known *profile.Profile
}

// Interactive is true when somebody is there to answer.
func (a *App) Interactive() bool { return a.StdinTTY && !a.NoInput }

// Store is the user's profiles.
func (a *App) Store() (*profile.Store, error) { return profile.Open(a.Env) }

// Identity finds key and server without asking the server: --profile, else STAGEDOOR_API_KEY, else STAGEDOOR_PROFILE, else the
// profile that was used last. What the server knows about a key from the environment is empty here; Profile fills it.
func (a *App) Identity() (profile.Profile, error) {
	if a.known != nil {
		return *a.known, nil
	}
	p, err := a.identify()
	if err != nil {
		return profile.Profile{}, err
	}
	if a.BaseURL != "" {
		p.BaseURL = a.BaseURL
	}
	if p.BaseURL, err = CleanURL(p.BaseURL); err != nil {
		return profile.Profile{}, err
	}
	return p, nil
}

func (a *App) identify() (profile.Profile, error) {
	key := strings.TrimSpace(a.Env["STAGEDOOR_API_KEY"])
	store, err := a.Store()
	if key != "" && a.ProfileName == "" {
		p := profile.Profile{BaseURL: a.DefaultURL(), Key: secret.New(key), KeyPrefix: profile.Prefix(key)}
		if err == nil { // a container may have no home
			p.ConfigDir, p.StateDir = store.ConfigDir, store.StateDir
		} else {
			p.StateDir = filepath.Join(os.TempDir(), "stagedoor")
			p.ConfigDir = p.StateDir
		}
		return p, nil
	}
	if err != nil {
		return profile.Profile{}, err
	}
	name := a.ProfileName
	if name == "" {
		name = a.Env["STAGEDOOR_PROFILE"]
	}
	p, err := store.Get(name)
	if errors.Is(err, profile.ErrNone) {
		return profile.Profile{}, a.unknownProfile(store, name)
	}
	if err != nil {
		return profile.Profile{}, &Fault{Code: ExitKey, Text: err.Error(), Hint: "Log in again: stagedoor login --profile " + name}
	}
	return p, nil
}

func (a *App) unknownProfile(store *profile.Store, name string) error {
	if name == "" {
		return &Fault{Code: ExitKey, Text: "no API key", Hint: "Log in with stagedoor login, or set STAGEDOOR_API_KEY."}
	}
	profiles, _, err := store.List()
	if err != nil {
		return err
	}
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	hint := out.DidYouMean(name, names)
	if hint == "" {
		hint = "List profiles with stagedoor switch, or make it: stagedoor login --profile " + name
	}
	return &Fault{Code: ExitUsage, Text: "there is no profile " + name, Hint: hint}
}

// DefaultURL is the server for a key that no profile ties to one.
func (a *App) DefaultURL() string {
	if url := a.Env["STAGEDOOR_URL"]; url != "" {
		return url
	}
	return profile.DefaultURL
}

// Profile is the identity with its organisation, which is asked of the server once if it is not known.
func (a *App) Profile(ctx context.Context) (profile.Profile, error) {
	p, err := a.Identity()
	if err != nil || p.OrgID != "" {
		return p, err
	}
	me, err := a.Me(ctx, p)
	if err != nil {
		return profile.Profile{}, err
	}
	a.known = &me
	return me, nil
}

// Me asks the server who a key is, and returns the profile with the answer.
func (a *App) Me(ctx context.Context, p profile.Profile) (profile.Profile, error) {
	var me struct {
		Key *struct{ ID string }
		Org struct{ ID, Name, Environment string }
	}
	if _, err := a.as(p).Get(ctx, "/v1/me", nil, &me); err != nil {
		return profile.Profile{}, err
	}
	if me.Key != nil {
		p.KeyID = me.Key.ID
	}
	p.OrgID, p.OrgName, p.Env, p.KeyPrefix = me.Org.ID, me.Org.Name, me.Org.Environment, profile.Prefix(p.Key.Reveal())
	return p, nil
}

// as is the same world under another identity.
func (a *App) as(p profile.Profile) *App {
	other := &App{
		Env: a.Env, Stdin: a.Stdin, StdinTTY: a.StdinTTY, Out: a.Out, Now: a.Now, HTTP: a.HTTP, Browse: a.Browse,
		NoInput: a.NoInput, Debug: a.Debug, Retry: a.Retry, input: a.input, known: &p,
	}
	return other
}

// Banner is the line that tells under which organisation, environment and key a long command runs.
func Banner(p profile.Profile) string {
	return p.OrgName + " · " + p.Env + " · key " + p.KeyPrefix + "…"
}

// Announce says the banner, and warns when the organisation is another one than the last time a long command ran here: people have
// worked in the wrong one for hours.
func (a *App) Announce(ctx context.Context) (profile.Profile, error) {
	p, err := a.Profile(ctx)
	if err != nil {
		return p, err
	}
	a.Out.Say("%s", a.Out.Err(out.Strong, Banner(p)))
	file := filepath.Join(p.StateDir, "last-org")
	last, err := os.ReadFile(file)
	now := p.OrgID + " " + p.OrgName
	if err == nil && strings.TrimSpace(string(last)) != now {
		_, name, _ := strings.Cut(strings.TrimSpace(string(last)), " ")
		a.Out.Warn("this is not the organisation of last time, which was %s", name)
	}
	if err := profile.WriteFile(file, []byte(now+"\n")); err != nil {
		return p, fmt.Errorf("remember the organisation: %w", err)
	}
	return p, nil
}
