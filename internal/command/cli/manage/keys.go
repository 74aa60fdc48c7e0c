package manage

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// scopes are the values of --scopes.
var scopes = []string{"accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write", "me:read", "me:write", "usage:read"}

// presets are the values of --preset and their scopes.
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
	return core.Group("keys", "Manage API keys", listKeys(app), createKey(app), revokeKey(app))
}

func listKeys(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List API keys", Args: cobra.NoArgs,
		Long: `List API keys. The current key is marked.

Columns in a pipe: id, label, key prefix, scopes, last used, created, current.`,
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
			table := output.Table{Columns: output.Columns("id", "label~", "key", "scopes~", "last used", "created", "")}
			for _, k := range got.Keys {
				current := output.Cell{Raw: strconv.FormatBool(k.Current)}
				if k.Current {
					current.Text, current.Tone = "← current", output.Good
				}
				held := output.Cell{Text: strconv.Itoa(len(k.Scopes)) + " of " + strconv.Itoa(len(scopes)),
					Raw: strings.Join(k.Scopes, " ")}
				table.Rows = append(table.Rows, []output.Cell{
					output.Text(k.ID), output.Text(k.Label), output.Text(k.Hint + "…"), held,
					app.Out.When(core.Deref(k.LastUsedAt)), app.Out.When(k.CreatedAt), current,
				})
			}
			app.Out.Table(table)
			return nil
		},
	}
}

// keyOptions are the flags of keys create.
type keyOptions struct {
	scopes, accounts, methods []string
	preset                    string
	expires                   time.Duration
}

func createKey(app *core.App) *cobra.Command {
	var o keyOptions
	cmd := &cobra.Command{
		Use: "create <label>", Short: "Create an API key", Args: cobra.ExactArgs(1),
		Long: `Create an API key. It is shown once, on standard output.

Default: the preset everyday. A new key cannot have scopes that your own key lacks.

Presets: read-only, everyday, webhooks. Scopes: ` + strings.Join(scopes, ", ") + `.`,
		Example: "  stagedoor keys create ci --preset read-only\n  stagedoor keys create sender --scopes sdk:call --methods 'messages.*' --accounts Maya\n  stagedoor keys create ci -q | pass insert -m stagedoor/ci",
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := o.requestBody(cmd, app, args[0])
			if err != nil {
				return err
			}
			var got struct {
				Key, ID, Label string
				Scopes         []string
			}
			request := core.Call{
				Method: http.MethodPost, Path: "/v1/me/keys", Body: body, IdempotencyKey: core.NewIdempotencyKey(),
			}
			reply, err := app.Do(cmd.Context(), request, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Done("Created %s (%s) with %s. Save the key now; it will not be shown again:", got.Label, got.ID,
				strings.Join(got.Scopes, " "))
			app.Out.Data("%s", got.Key)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&o.scopes, "scopes", nil, "scopes of the key")
	cmd.Flags().StringVar(&o.preset, "preset", "", "set of scopes: read-only, everyday or webhooks")
	cmd.Flags().StringSliceVar(&o.accounts, "accounts", nil, "restrict the key to these accounts")
	cmd.Flags().StringSliceVar(&o.methods, "methods", nil,
		"restrict the key to these SDK methods: 'chats.*', '!payouts.*'")
	cmd.Flags().DurationVar(&o.expires, "expires", 0, "lifetime of the key, such as 720h (default: unlimited)")
	cmd.MarkFlagsMutuallyExclusive("scopes", "preset")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(scopes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("preset",
		cobra.FixedCompletions(output.SortedKeys(presets), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o keyOptions) requestBody(cmd *cobra.Command, app *core.App, label string) (map[string]any, error) {
	chosen := o.scopes
	if o.preset != "" {
		if err := core.OneOf("preset", o.preset, output.SortedKeys(presets)); err != nil {
			return nil, err
		}
		chosen = presets[o.preset]
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
	for _, text := range o.accounts {
		id, err := app.AccountID(cmd.Context(), text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(ids) > 0 {
		body["accountIds"] = ids
	}
	if len(o.methods) > 0 {
		body["methods"] = o.methods
	}
	if o.expires > 0 {
		body["expiresAt"] = app.Now().Add(o.expires).UTC().Format(time.RFC3339)
	}
	return body, nil
}

func revokeKey(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "revoke <key>", Short: "Revoke an API key immediately", Args: cobra.ExactArgs(1),
		Long: `Revoke an API key immediately and permanently. Name it by its id or label.

Confirm by typing its label, or with --confirm.`,
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
			consequence := "This revokes the key " + k.Label + " (" + k.Hint + "…, " + lastUse(app,
				k) + ") immediately. Programs that use it stop working."
			if err := app.Confirm(ctx, consequence, k.Label, confirmed); err != nil {
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
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the key's label or id, to skip the prompt")
	return cmd
}

func lastUse(app *core.App, k key) string {
	if k.LastUsedAt == nil {
		return "never used"
	}
	return "last used " + app.Out.Ago(*k.LastUsedAt)
}

// findKey returns the key with this id, or the only one with this label.
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
		hint := output.DidYouMean(text, names)
		if hint == "" {
			hint = "List keys: stagedoor keys list"
		}
		return key{}, &core.Fault{Code: core.ExitNotFound, Text: "key " + text + " not found", Hint: hint}
	}
	return key{}, core.UsageHint("Use the id: stagedoor keys list", "several keys have the label %s", text)
}
