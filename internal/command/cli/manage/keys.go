package manage

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// scopes are the values of --scopes.
var scopes = scope.Everyday().Names()

// presets are the values of --preset and their scopes.
var presets = map[string][]string{
	"read-only": {"accounts:read", "webhooks:read", "me:read", "usage:read"},
	"everyday":  {"accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write", "usage:read"},
	"webhooks":  {"webhooks:read", "webhooks:write"},
}

func keys(app *core.App) *cobra.Command {
	return core.Group("keys", "Manage API keys", listKeys(app), createKey(app), updateKey(app), rotateKey(app), revokeKey(app))
}

func listKeys(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List API keys", Args: cobra.NoArgs,
		Long: `List API keys. The current key is marked.

Columns in a pipe: id, label, key prefix, scopes, last used, created, current.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := app.API().Keys.List(cmd.Context(), app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
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

type keyOptions struct {
	scopes, accounts, methods, networks []string
	preset                              string
	expires                             time.Duration
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
			params, err := o.params(cmd, app, args[0])
			if err != nil {
				return err
			}
			got, err := app.API().Keys.Create(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
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
	cmd.Flags().StringSliceVar(&o.networks, "allowed-ips", nil,
		"restrict the key to calls from these networks: 203.0.113.0/24")
	cmd.Flags().DurationVar(&o.expires, "expires", 0, "lifetime of the key, such as 720h (default: unlimited)")
	cmd.MarkFlagsMutuallyExclusive("scopes", "preset")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(scopes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("preset",
		cobra.FixedCompletions(output.SortedKeys(presets), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o keyOptions) params(cmd *cobra.Command, app *core.App, label string) (stagedoor.KeysCreateParams, error) {
	none := stagedoor.KeysCreateParams{}
	chosen := o.scopes
	if o.preset != "" {
		if err := core.OneOf("preset", o.preset, output.SortedKeys(presets)); err != nil {
			return none, err
		}
		chosen = presets[o.preset]
	}
	for _, s := range chosen {
		if err := core.OneOf("scope", s, scopes); err != nil {
			return none, err
		}
	}
	if len(chosen) == 0 {
		chosen = presets["everyday"]
	}
	params := stagedoor.KeysCreateParams{Label: label, Scopes: chosen, Methods: o.methods, AllowedIPs: o.networks}
	var err error
	if params.AccountIDs, err = accountIDs(cmd.Context(), app, o.accounts); err != nil {
		return none, err
	}
	if o.expires > 0 {
		params.ExpiresAt = app.Now().Add(o.expires).UTC().Truncate(time.Second)
	}
	return params, nil
}

func updateKey(app *core.App) *cobra.Command {
	var (
		o     keyOptions
		label string
	)
	cmd := &cobra.Command{
		Use: "update <key>", Short: "Change an API key", Args: cobra.ExactArgs(1),
		Long: `Change an API key. Name it by its id or label. What you do not name stays as it is.

Scopes can only be taken away. A key can never be given more than your own key has.`,
		Example: "  stagedoor keys update ci --allowed-ips 203.0.113.0/24\n  stagedoor keys update sender --methods 'messages.*' --expires 720h",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			k, err := lookUpKey(ctx, app, args[0])
			if err != nil {
				return err
			}
			params := stagedoor.KeysUpdateParams{
				Scopes: o.scopes, Methods: o.methods, AllowedIPs: o.networks,
			}
			if label != "" {
				params.Label = &label
			}
			if params.AccountIDs, err = accountIDs(ctx, app, o.accounts); err != nil {
				return err
			}
			if o.expires > 0 {
				params.ExpiresAt = app.Now().Add(o.expires).UTC().Truncate(time.Second)
			}
			got, err := app.API().Keys.Update(ctx, k.ID, params, app.Keep())
			if app.PrintResponse(err) != nil {
				return err
			}
			app.Out.Done("Changed %s (%s).", got.Label, got.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "new label")
	cmd.Flags().StringSliceVar(&o.scopes, "scopes", nil, "scopes to keep")
	cmd.Flags().StringSliceVar(&o.accounts, "accounts", nil, "restrict the key to these accounts")
	cmd.Flags().StringSliceVar(&o.methods, "methods", nil, "restrict the key to these SDK methods")
	cmd.Flags().StringSliceVar(&o.networks, "allowed-ips", nil, "restrict the key to calls from these networks")
	cmd.Flags().DurationVar(&o.expires, "expires", 0, "let the key end after this time, such as 720h")
	cmd.MarkFlagsOneRequired("label", "scopes", "accounts", "methods", "allowed-ips", "expires")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(scopes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func rotateKey(app *core.App) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate <key>", Short: "Replace an API key by a new one with the same rights", Args: cobra.ExactArgs(1),
		Long: `Replace an API key by a new one with the same rights. Name it by its id or label.

The new key is shown once, on standard output. The old one works until the overlap is over; with --overlap 0s it is
revoked immediately.`,
		Example: "  stagedoor keys rotate ci --overlap 10m\n  stagedoor keys rotate ci -q | pass insert -m stagedoor/ci",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			k, err := lookUpKey(ctx, app, args[0])
			if err != nil {
				return err
			}
			got, err := app.API().Keys.Rotate(ctx, k.ID, stagedoor.KeysRotateParams{
				OverlapSec: new(int64(overlap / time.Second)),
			}, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Done("Rotated %s: %s ends %s. Save the new key (%s) now; it will not be shown again:", got.Label, k.ID,
				endOf(app, overlap, got.Replaces.EndsAt), got.ID)
			app.Out.Data("%s", got.Key)
			return nil
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", time.Hour, "how long the old key keeps working")
	return cmd
}

func endOf(app *core.App, overlap time.Duration, at time.Time) string {
	if overlap == 0 {
		return "now"
	}
	return app.Out.Ago(at)
}

func accountIDs(ctx context.Context, app *core.App, texts []string) ([]string, error) {
	var ids []string
	for _, text := range texts {
		id, err := app.AccountID(ctx, text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// lookUpKey returns the key with this id or label.
func lookUpKey(ctx context.Context, app *core.App, text string) (stagedoor.Key, error) {
	got, err := app.API().Keys.List(ctx)
	if err != nil {
		return stagedoor.Key{}, err
	}
	return findKey(text, got.Keys)
}

func revokeKey(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "revoke <key>", Short: "Revoke an API key immediately", Args: cobra.ExactArgs(1),
		Long: `Revoke an API key immediately and permanently. Name it by its id or label.

Confirm by typing its label, or with --confirm.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			k, err := lookUpKey(ctx, app, args[0])
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
			_, err = app.API().Keys.Revoke(ctx, k.ID, app.Keep())
			if app.PrintResponse(err) != nil {
				return err
			}
			app.Out.Done("Revoked %s (%s).", k.Label, k.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the key's label or id, to skip the prompt")
	return cmd
}

func lastUse(app *core.App, k stagedoor.Key) string {
	if k.LastUsedAt == nil {
		return "never used"
	}
	return "last used " + app.Out.Ago(*k.LastUsedAt)
}

// findKey returns the key with this id, or the only one with this label. Keys that were revoked or replaced do not count
// if there is another one with the label.
func findKey(text string, list []stagedoor.Key) (stagedoor.Key, error) {
	var found, ended []stagedoor.Key
	names := []string{}
	for _, k := range list {
		if k.ID == text {
			return k, nil
		}
		current := k.ReplacedBy == "" && k.RevokedAt.IsZero()
		if current {
			names = append(names, k.Label)
		}
		switch {
		case k.Label != text:
		case current:
			found = append(found, k)
		default:
			ended = append(ended, k)
		}
	}
	if len(found) == 0 {
		found = ended
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := cmp.Or(output.DidYouMean(text, names), "List keys: stagedoor keys list")
		return stagedoor.Key{}, &core.Fault{Code: core.ExitNotFound, Text: "key " + text + " not found", Hint: hint}
	}
	return stagedoor.Key{}, core.UsageHint("Use the id: stagedoor keys list", "several keys have the label %s", text)
}
