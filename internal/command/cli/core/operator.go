package core

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// defaultOperatorURL is the operators' listener of a server with the default settings.
const defaultOperatorURL = "http://127.0.0.1:8081"

// OperatorURL returns the operators' listener for a token that belongs to no profile: --base-url, STAGEDOOR_OPS_URL or the
// default.
func (a *App) OperatorURL() string {
	return cmp.Or(a.BaseURL, a.Env["STAGEDOOR_OPS_URL"], defaultOperatorURL)
}

// Operators returns the profiles of operators.
func (a *App) Operators() (*profile.Store, error) { return profile.OpenOperators(a.Env) }

// ActAsOperator makes the requests of this command go to the operators' listener with the operator token. The first of
// these decides: --profile, the file STAGEDOOR_OPS_TOKEN_FILE, the current profile of an operator.
func (a *App) ActAsOperator() error {
	a.operator = true // for the hints of errors
	p, err := a.identifyOperator()
	if err != nil {
		return err
	}
	if a.BaseURL != "" {
		p.BaseURL = a.BaseURL
	}
	if p.BaseURL, err = CleanURL(p.BaseURL); err != nil {
		return err
	}
	a.ActAs(p)
	return nil
}

// ActAs makes the requests of this command go to the operators' listener of a profile, with its token.
func (a *App) ActAs(p profile.Profile) { a.operator, a.profile = true, &p }

// identifyOperator chooses the identity. A token from a file goes to the listener in STAGEDOOR_OPS_URL; a profile's token
// only to the one it was saved with.
func (a *App) identifyOperator() (profile.Profile, error) {
	none := profile.Profile{}
	if file := a.Env["STAGEDOOR_OPS_TOKEN_FILE"]; file != "" && a.ProfileName == "" {
		token, err := readToken(file)
		return profile.Profile{BaseURL: a.OperatorURL(), Key: token}, err
	}
	store, err := a.Operators()
	if err != nil {
		return none, err
	}
	p, err := store.Get(a.ProfileName)
	switch {
	case errors.Is(err, profile.ErrNone) && a.ProfileName == "":
		return none, &Fault{Code: ExitKey, Text: "no operator token",
			Hint: "Log in with stagedoor ops login, or set STAGEDOOR_OPS_TOKEN_FILE and STAGEDOOR_OPS_URL."}
	case errors.Is(err, profile.ErrNone):
		return none, UsageHint("Create it: stagedoor ops login --profile "+Quote(a.ProfileName), "operator's profile %s not found", a.ProfileName)
	case err != nil:
		return none, &Fault{Code: ExitKey, Text: err.Error(), Hint: "Log in again: stagedoor ops login"}
	}
	return p, nil
}

// readToken returns the first token of a file that has one per line, as the server reads it.
func readToken(file string) (secret.String, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return secret.String{}, &Fault{Code: ExitKey, Text: "STAGEDOOR_OPS_TOKEN_FILE: " + err.Error(), Err: err}
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return secret.New(line), nil
		}
	}
	return secret.String{}, &Fault{Code: ExitKey, Text: "STAGEDOOR_OPS_TOKEN_FILE: " + file + " has no token"}
}
