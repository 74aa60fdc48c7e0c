// Package core is what all commands share: the caller's identity, the API client, prompts, errors and exit codes.
//
// It contains no commands; those are in the packages next to it, each with a function Commands(app). Printing is in
// package output. Start at App.
package core

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// App holds the process environment and the global flags of one command. Tests replace its fields.
type App struct {
	// Env holds the environment variables by name.
	Env map[string]string
	// Stdin is standard input. StdinTTY reports whether it is a terminal.
	Stdin    io.Reader
	StdinTTY bool
	Out      *output.Printer
	Now      func() time.Time
	// HTTP sends requests. Default: an http.Transport that all requests share.
	HTTP http.RoundTripper
	// Browse opens a page in the user's browser.
	Browse func(ctx context.Context, url string) error

	// Global flags.
	ProfileName, BaseURL string
	NoInput, Debug       bool
	// Retry makes the client wait and retry when the API says that a retry can help.
	Retry bool

	input *bufio.Reader
	// response is that of the last call with Keep.
	response stagedoor.Response
	// profile is set once it is complete, organisation included.
	profile *profile.Profile
	// operator is set by ActAsOperator.
	operator bool
}

// Interactive reports whether commands may prompt: standard input is a terminal and --no-input is not set.
func (a *App) Interactive() bool { return a.StdinTTY && !a.NoInput }

func (a *App) Store() (*profile.Store, error) { return profile.Open(a.Env) }

// Identity returns key and server without a request. The first of these decides: --profile, STAGEDOOR_API_KEY,
// STAGEDOOR_PROFILE, the current profile. For a key from the environment the organisation is empty; use
// Profile to get it.
func (a *App) Identity() (profile.Profile, error) {
	if a.profile != nil {
		return *a.profile, nil
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

// identify chooses the identity. A key from the environment goes to the server in STAGEDOOR_URL; a profile's key only
// to the server it was saved with.
func (a *App) identify() (profile.Profile, error) {
	key := strings.TrimSpace(a.Env["STAGEDOOR_API_KEY"])
	store, err := a.Store()
	if key != "" && a.ProfileName == "" {
		p := profile.Profile{BaseURL: a.DefaultURL(), Key: secret.New(key), KeyPrefix: profile.Prefix(key)}
		if err == nil { // in a container there may be no home directory
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
	name := cmp.Or(a.ProfileName, a.Env["STAGEDOOR_PROFILE"])
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
	hint := cmp.Or(output.DidYouMean(name, names),
		"List profiles with stagedoor switch, or create it: stagedoor login --profile "+name)
	return &Fault{Code: ExitUsage, Text: "profile " + name + " not found", Hint: hint}
}

// DefaultURL returns the server for a key that belongs to no profile: STAGEDOOR_URL or profile.DefaultURL.
func (a *App) DefaultURL() string {
	return cmp.Or(a.Env["STAGEDOOR_URL"], profile.DefaultURL)
}

// Profile returns the identity with its organisation. It asks the server, once per command, if
// the organisation is unknown.
func (a *App) Profile(ctx context.Context) (profile.Profile, error) {
	p, err := a.Identity()
	if err != nil || p.OrgID != "" {
		return p, err
	}
	me, err := a.Me(ctx, p)
	if err != nil {
		return profile.Profile{}, err
	}
	a.profile = &me
	return me, nil
}

// Me asks the server for the organisation and id of p's key and returns p with both filled in.
func (a *App) Me(ctx context.Context, p profile.Profile) (profile.Profile, error) {
	me, err := a.withProfile(p).API().Me.Get(ctx)
	if err != nil {
		return profile.Profile{}, err
	}
	p.KeyID, p.KeyPrefix = me.Key.ID, profile.Prefix(p.Key.Reveal())
	p.OrgID, p.OrgName, p.Env = me.Org.ID, me.Org.Name, me.Org.Environment
	return p, nil
}

// withProfile returns a copy of the App that acts with another identity.
func (a *App) withProfile(p profile.Profile) *App {
	return &App{
		Env: a.Env, Stdin: a.Stdin, StdinTTY: a.StdinTTY, Out: a.Out, Now: a.Now, HTTP: a.HTTP, Browse: a.Browse,
		NoInput: a.NoInput, Debug: a.Debug, Retry: a.Retry, input: a.input, profile: &p,
	}
}

// Banner returns a line with organisation, environment and key prefix, which long-running commands print first.
func Banner(p profile.Profile) string {
	return p.OrgName + " · " + p.Env + " · key " + p.KeyPrefix + "…"
}

// Announce prints the banner of a long-running command. It warns if the organisation differs from the last time,
// because it is easy to work in the wrong one for hours.
func (a *App) Announce(ctx context.Context) (profile.Profile, error) {
	p, err := a.Profile(ctx)
	if err != nil {
		return p, err
	}
	a.Out.Say("%s", a.Out.Err(output.Strong, Banner(p)))
	file := filepath.Join(p.StateDir, "last-org")
	last, err := os.ReadFile(file)
	now := p.OrgID + " " + p.OrgName
	if err == nil && strings.TrimSpace(string(last)) != now {
		_, name, _ := strings.Cut(strings.TrimSpace(string(last)), " ")
		a.Out.Warn("switched organisation (previously %s)", name)
	}
	if err := profile.WriteFile(file, []byte(now+"\n")); err != nil {
		return p, fmt.Errorf("save the current organisation: %w", err)
	}
	return p, nil
}
