package manage

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// scopes are those that a key can be made with.
var scopes = []string{"accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write", "me:read", "me:write", "usage:read"}

// presets are sets of scopes by name.
var presets = map[string][]string{
	"read-only": {"accounts:read", "webhooks:read", "me:read", "usage:read"},
	"everyday":  {"accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write", "usage:read"},
	"webhooks":  {"webhooks:read", "webhooks:write"},
}

// key is an API key without its secret.
type key struct {
	ID         string     `json:"id"`
	Label      string     `json:"label"`
	Hint       string     `json:"hint"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	RevokedAt  *time.Time `json:"revokedAt"`
	Scopes     []string   `json:"scopes"`
	Accounts   []string   `json:"accountIds"`
	Methods    []string   `json:"methods"`
	Current    bool       `json:"current"`
}

func keys(app *core.App) *cobra.Command {
	return core.Group("keys", "API keys of the organisation: list, make, revoke", listKeys(app), createKey(app), revokeKey(app))
}

func listKeys(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List API keys", Args: cobra.NoArgs,
		Long: "List API keys. The key in use is marked.\n\nColumns in a pipe: id, label, beginning of the key, scopes, last used, made, current.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var got struct{ Keys []key }
			reply, err := app.Get(cmd.Context(), "/v1/me/keys", nil, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			table := out.Table{Columns: out.Columns("id", "label~", "key", "scopes~", "last used", "made", "")}
			for _, k := range got.Keys {
				current := out.Cell{Raw: strconv.FormatBool(k.Current)}
				if k.Current {
					current.Text, current.Tone = "← this one", out.Good
				}
				made := out.Cell{Text: strconv.Itoa(len(k.Scopes)) + " of " + strconv.Itoa(len(scopes)), Raw: strings.Join(k.Scopes, " ")}
				table.Rows = append(table.Rows, []out.Cell{out.Text(k.ID), out.Text(k.Label), out.Text(k.Hint + "…"), made, app.Out.When(core.Deref(k.LastUsedAt)), app.Out.When(k.CreatedAt), current})
			}
			app.Out.Table(table)
			return nil
		},
	}
}

// mint are the flags of keys create.
type mint struct {
	scopes, accounts, methods []string
	preset                    string
	expires                   time.Duration
}

func createKey(app *core.App) *cobra.Command {
	var m mint
	cmd := &cobra.Command{
		Use: "create <label>", Short: "Make an API key; it is shown once", Args: cobra.ExactArgs(1),
		Long: `Make an API key; it is shown once, on standard output.

Without --scopes or --preset it has the everyday ones. A key cannot be given more than the one that makes it has.

Presets: read-only, everyday, webhooks. Scopes: ` + strings.Join(scopes, ", ") + `.`,
		Example: "  stagedoor keys create ci --preset read-only\n  stagedoor keys create sender --scopes sdk:call --methods 'messages.*' --accounts Maya\n  stagedoor keys create ci -q | pass insert -m stagedoor/ci",
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := m.body(cmd, app, args[0])
			if err != nil {
				return err
			}
			var got struct {
				Key, ID, Label string
				Scopes         []string
			}
			reply, err := app.Do(cmd.Context(), core.Call{Method: http.MethodPost, Path: "/v1/me/keys", Body: body, IdempotencyKey: core.NewKey()}, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Done("Made %s (%s) with %s. Store the key now; it is not shown again:", got.Label, got.ID, strings.Join(got.Scopes, " "))
			app.Out.Data("%s", got.Key)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&m.scopes, "scopes", nil, "what it may do")
	cmd.Flags().StringVar(&m.preset, "preset", "", "read-only, everyday or webhooks")
	cmd.Flags().StringSliceVar(&m.accounts, "accounts", nil, "only on these accounts")
	cmd.Flags().StringSliceVar(&m.methods, "methods", nil, "only these SDK methods: 'chats.*', '!payouts.*'")
	cmd.Flags().DurationVar(&m.expires, "expires", 0, "ends after this time, such as 720h (never, if left out)")
	cmd.MarkFlagsMutuallyExclusive("scopes", "preset")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(scopes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions(out.SortedKeys(presets), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (m mint) body(cmd *cobra.Command, app *core.App, label string) (map[string]any, error) {
	chosen := m.scopes
	if m.preset != "" {
		if err := core.OneOf("preset", m.preset, out.SortedKeys(presets)); err != nil {
			return nil, err
		}
		chosen = presets[m.preset]
	}
	for _, s := range chosen {
		if err := core.OneOf("scope", s, scopes); err != nil {
			return nil, err
		}
	}
	if len(chosen) == 0 {
		chosen = presets["everyday"]
	}
	body := map[string]any{"label": label, "scopes": chosen}
	ids := []string{}
	for _, text := range m.accounts {
		id, err := app.AccountID(cmd.Context(), text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(ids) > 0 {
		body["accountIds"] = ids
	}
	if len(m.methods) > 0 {
		body["methods"] = m.methods
	}
	if m.expires > 0 {
		body["expiresAt"] = app.Now().Add(m.expires).UTC().Format(time.RFC3339)
	}
	return body, nil
}

func revokeKey(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "revoke <key>", Short: "End an API key at once", Args: cobra.ExactArgs(1),
		Long: "End an API key, named by its id or its label, at once and for good. It has to be confirmed by typing its label, or with --confirm.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var got struct{ Keys []key }
			if _, err := app.Get(ctx, "/v1/me/keys", nil, &got); err != nil {
				return err
			}
			k, err := findKey(args[0], got.Keys)
			if err != nil {
				return err
			}
			if confirmed == k.ID {
				confirmed = k.Label
			}
			if err := app.Confirm(ctx, "This ends the key "+k.Label+" ("+k.Hint+"…, "+lastUse(app, k)+") at once; what uses it stops working.", k.Label, confirmed); err != nil {
				return err
			}
			reply, err := app.Send(ctx, http.MethodDelete, "/v1/me/keys/"+url.PathEscape(k.ID), nil, nil)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
			}
			app.Out.Done("Revoked %s (%s).", k.Label, k.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the key's label or id, to do it without being asked")
	return cmd
}

func lastUse(app *core.App, k key) string {
	if k.LastUsedAt == nil {
		return "never used"
	}
	return "last used " + app.Out.Ago(*k.LastUsedAt)
}

func findKey(text string, list []key) (key, error) {
	var found []key
	names := []string{}
	for _, k := range list {
		names = append(names, k.Label)
		if k.ID == text {
			return k, nil
		}
		if k.Label == text {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := out.DidYouMean(text, names)
		if hint == "" {
			hint = "List them: stagedoor keys list"
		}
		return key{}, &core.Fault{Code: core.ExitNotFound, Text: "there is no key " + text, Hint: hint}
	}
	return key{}, core.UsageHint("Use its id: stagedoor keys list", "several keys are called %s", text)
}
