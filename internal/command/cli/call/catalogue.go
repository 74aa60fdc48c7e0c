package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// findMethod returns a method of a platform, or nil if neither the built-in catalogs nor the server have it. The server
// may be newer than this program, and may have platforms that are not built in. An empty platform is an unknown one.
func findMethod(ctx context.Context, app *core.App, platform, resource, verb string) *stagedoor.MethodInfo {
	if platform == "" {
		return nil
	}
	if cat, err := catalog.Builtin(platform); err == nil {
		if m, ok := cat.Method(resource, verb); ok {
			info := describe(m)
			return &info
		}
	}
	got, err := app.API().SDK.ListMethods(ctx, stagedoor.SdkListMethodsParams{Platform: platform, Resource: resource})
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(got.Methods, func(m stagedoor.MethodInfo) bool { return m.Method == verb })
	if i < 0 {
		return nil
	}
	return &got.Methods[i]
}

// describe returns a built-in method in the form in which the server lists methods.
func describe(m *catalog.Method) stagedoor.MethodInfo {
	info := stagedoor.MethodInfo{
		Resource: m.Resource, Method: m.Name, Description: m.Summary, Access: string(m.Access),
		Http: []string{http.MethodPost}, Positional: append([]string{}, m.Positional()...), Args: m.ArgsSchema(), Result: m.ResultSchema(), Example: m.Example,
		Idempotent: m.Idempotent, Destructive: m.Destructive, Async: m.Async, Sensitive: m.Sensitive, Paginated: m.Paginated,
		Emits: append([]string{}, m.Emits...), Cost: int64(m.Cost), TimeoutMs: m.Timeout.Milliseconds(), Since: m.Since,
	}
	if m.Access == catalog.Read {
		info.Http = []string{http.MethodGet, http.MethodPost}
	}
	if m.Deprecated != "" {
		info.Deprecated = &m.Deprecated
	}
	return info
}

// listMethods asks the server for methods, and returns them with the body of the response. A platform that the
// organisation does not have may be built in. Then the methods come from this program, so that a developer can read
// about a platform before using it.
func listMethods(
	ctx context.Context, app *core.App, params stagedoor.SdkListMethodsParams,
) (list []stagedoor.MethodInfo, body []byte, err error) {
	var res stagedoor.Response
	got, err := app.API().SDK.ListMethods(ctx, params, stagedoor.WithResponse(&res))
	if err == nil {
		return got.Methods, res.Body, nil
	}
	cat, missing := catalog.Builtin(params.Platform)
	if missing != nil || !isUnknownPlatform(err) {
		return nil, nil, err
	}
	list = []stagedoor.MethodInfo{}
	for _, m := range cat.Methods() {
		isWanted := params.Resource == "" || m.Resource == params.Resource
		if isWanted && (params.Access == "" || string(m.Access) == params.Access) {
			list = append(list, describe(m))
		}
	}
	if body, err = json.Marshal(map[string]any{"methods": list}); err != nil {
		return nil, nil, fmt.Errorf("write the methods of %s: %w", cat.ID, err)
	}
	app.Out.Warn("your organisation does not have the platform %s; this version of stagedoor knows these methods", cat.ID)
	return list, body, nil
}

// isUnknownPlatform reports whether the server refused a platform because the organisation does not have it.
func isUnknownPlatform(err error) bool {
	p, ok := errors.AsType[*stagedoor.Problem](err)
	return ok && p.Code == stagedoor.CodeInvalidRequest &&
		slices.ContainsFunc(p.Errors, func(e stagedoor.FieldError) bool { return e.Pointer == "query/platform" })
}

// builtins returns the built-in catalogs that an account of the organisation can have: those of the key's environment,
// or all if there is no key. It makes no request.
func builtins(app *core.App) []*catalog.Catalog {
	var list []*catalog.Catalog
	p, err := app.Identity()
	for _, id := range catalog.BuiltinIDs() {
		cat, broken := catalog.Builtin(id)
		if broken == nil && (err != nil || strings.HasPrefix(p.KeyPrefix, "sd_"+string(cat.Environment)+"_")) {
			list = append(list, cat)
		}
	}
	return list
}

// firstMethod returns the name of a method of a resource, or an empty string if no built-in catalog has the resource.
func firstMethod(app *core.App, resource string) string {
	for _, cat := range builtins(app) {
		if r, ok := cat.Resource(resource); ok {
			return r.Methods[0].ID()
		}
	}
	return ""
}

// flaggedPlatform returns the platform that the flags of a command line name, directly or by an account. It is empty if
// they name none.
func flaggedPlatform(app *core.App, cmd *cobra.Command) string {
	if platform, err := cmd.Flags().GetString("platform"); err == nil {
		return platform
	}
	account, err := cmd.Flags().GetString("account")
	if err != nil || account == "" {
		return ""
	}
	_, platform, err := app.AccountPlatform(cmd.Context(), account)
	if err != nil {
		return ""
	}
	return platform
}

// completeMethods completes method names: those of the platform that the flags name, or of all built-in catalogs. It
// asks the server only about an account, and for a platform that is not built in.
func completeMethods(app *core.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		add := func(name, summary string) {
			if strings.HasPrefix(name, begun) {
				names = append(names, cobra.CompletionWithDesc(name, summary))
			}
		}
		platform := flaggedPlatform(app, cmd)
		cat, err := catalog.Builtin(platform)
		known := []*catalog.Catalog{cat}
		switch {
		case platform == "":
			known = builtins(app)
		case err != nil:
			known = nil
			list, _, _ := listMethods(cmd.Context(), app, stagedoor.SdkListMethodsParams{Platform: platform})
			for _, m := range list {
				add(methodName(m), m.Description)
			}
		}
		for _, cat := range known {
			for _, m := range cat.Methods() {
				add(m.ID(), m.Summary)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCall completes a method, then the names of its arguments.
func completeCall(app *core.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeMethods(app)(cmd, args, begun)
		}
		for _, name := range argumentsOf(cmd.Context(), app, flaggedPlatform(app, cmd), args[0]) {
			if strings.HasPrefix(name, begun) {
				names = append(names, name+"=")
			}
		}
		if names == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// argumentsOf returns the arguments of a method: on a platform, or in the first built-in catalog that has it.
func argumentsOf(ctx context.Context, app *core.App, platform, name string) []string {
	resource, verb, _ := strings.Cut(name, ".")
	if m := findMethod(ctx, app, platform, resource, verb); m != nil {
		return m.Positional
	}
	if platform != "" {
		return nil
	}
	for _, cat := range builtins(app) {
		if m, ok := cat.Method(resource, verb); ok {
			return m.Positional()
		}
	}
	return nil
}
