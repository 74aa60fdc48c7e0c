package ops

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// command is a row of the tables: a command and the request that it sends. Texts contain parameters as {name} and members
// of the response as {path.to.member}.
type command struct {
	// use is the name of the command, after its group if it has one.
	use string
	// operation is the id of the operation in the admin API, which has this method and path.
	operation, method, path string
	short, long, example    string
	params                  []param
	// body has members of the request that are always the same.
	body map[string]any
	// fields are the values of the response that are printed, and list and columns a table of it: see print.go.
	fields  []string
	list    string
	columns []string
	// empty is the message if the list, or the first field, is empty.
	empty string
	// done reports a completed change. data is a member of the response that goes to standard output alone. note is printed
	// after a table.
	done, data, note string
	// intact is a member of the response. If it is false, the command fails.
	intact string
	ask    *question
}

// question guards a command that interrupts customers or cannot be undone.
type question struct {
	// look is an address that has what the texts need. Empty if they need only parameters.
	look string
	// name must be typed, or given as --confirm. An id that is a path parameter is accepted too.
	name, consequence string
}

// kind is the form of a parameter.
type kind int

const (
	text kind = iota
	// yes is a flag without a value.
	yes
	// amount is a number. words is a list, limits a list of name=number.
	amount
	words
	limits
	// past is a time, or a duration before now; future is a time, or a duration from now.
	past
	future
	// on and off are the name of something that is switched, sent as {name: true} or {name: false}.
	on
	off
	// none is a flag without a value. It sends an empty object.
	none
)

// param is an argument or a flag.
type param struct {
	name string
	// to is where the request has it: path/…, query/… or body/….
	to   string
	kind kind
	// arg is an argument; all others are flags.
	arg      bool
	optional bool
	usage    string
	// values are completed. suggest is completed from the server.
	values  []string
	suggest *source
	// otherwise is sent if the flag is not set.
	otherwise string
}

// source is a list of the admin API from which arguments are completed.
type source struct{ path, list, value, about string }

func (c command) build(app *core.App) *cobra.Command {
	cmd := &cobra.Command{Use: c.use, Short: c.short, Long: c.help(), Example: c.example, RunE: func(cmd *cobra.Command, args []string) error {
		return c.run(cmd, app, args)
	}}
	need, most := 0, 0
	for _, p := range c.params {
		if !p.arg {
			p.flag(app, cmd)
			continue
		}
		most++
		if p.optional {
			cmd.Use += " [" + p.name + "]"
		} else {
			need++
			cmd.Use += " <" + p.name + ">"
		}
	}
	cmd.Args = cobra.RangeArgs(need, most)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := 0
		for _, p := range c.params {
			if !p.arg {
				continue
			}
			if at == len(args) {
				return p.complete(cmd.Context(), app, begun), cobra.ShellCompDirectiveNoFileComp
			}
			at++
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if c.ask != nil {
		cmd.Flags().String("confirm", "", "what you would have to type, to skip the prompt")
	}
	return cmd
}

// help returns the long description: what the command does, how it is confirmed, and its columns.
func (c command) help() string {
	parts := []string{cmp.Or(c.long, c.short+".")}
	if c.ask != nil {
		parts = append(parts, "Confirm by typing "+c.ask.word()+", or with --confirm.")
	}
	if c.list != "" {
		var names []string
		for _, col := range columnsOf(c.columns) {
			names = append(names, col.Name)
		}
		parts = append(parts, "Columns in a pipe: "+strings.Join(names, ", ")+".")
	}
	return strings.Join(parts, "\n\n")
}

// word says in the help what has to be typed.
func (q *question) word() string {
	if q.look != "" {
		return "the organisation's name"
	}
	return strings.NewReplacer("{", "<", "}", ">").Replace(q.name)
}

func (p param) flag(app *core.App, cmd *cobra.Command) {
	flags := cmd.Flags()
	switch p.kind {
	case yes, none:
		flags.Bool(p.name, false, p.usage)
	case amount:
		flags.Int(p.name, 0, p.usage)
	case words:
		flags.StringSlice(p.name, nil, p.usage)
	case limits:
		flags.StringToInt(p.name, nil, p.usage)
	case text, past, future, on, off:
		flags.String(p.name, p.otherwise, p.usage)
	}
	_ = cmd.RegisterFlagCompletionFunc(p.name, func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.complete(cmd.Context(), app, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

// complete returns the known values. It asks the server and returns nothing if that fails.
func (p param) complete(ctx context.Context, app *core.App, begun string) []cobra.Completion {
	if p.suggest == nil {
		return p.values
	}
	if app.ActAsOperator() != nil {
		return nil
	}
	res, err := app.API().Request(ctx, stagedoor.Request{Path: p.suggest.path})
	if err != nil {
		return nil
	}
	doc, err := decode(res.Body)
	if err != nil {
		return nil
	}
	var found []cobra.Completion
	for _, row := range rowsOf(doc, p.suggest.list) {
		if value := row.plain(p.suggest.value); strings.HasPrefix(value, begun) {
			found = append(found, cobra.CompletionWithDesc(value, row.plain(p.suggest.about)))
		}
	}
	return found
}

func (c command) run(cmd *cobra.Command, app *core.App, args []string) error {
	if err := app.ActAsOperator(); err != nil {
		return err
	}
	request, named, err := c.request(cmd, app, args)
	if err != nil {
		return err
	}
	if err := c.confirm(cmd, app, named); err != nil {
		return err
	}
	res, err := app.API().Request(cmd.Context(), request)
	if err != nil {
		return err
	}
	doc, err := decode(res.Body)
	if err != nil {
		return err
	}
	if app.Out.JSON {
		app.Out.Body(res.Body)
	} else {
		c.print(app, scope{named, doc})
	}
	if c.intact != "" && doc[c.intact] == false {
		return core.Silent(core.ExitOther)
	}
	return nil
}

// request returns the request, and the parameters by name for texts.
func (c command) request(cmd *cobra.Command, app *core.App, args []string) (stagedoor.Request, map[string]any, error) {
	r := stagedoor.Request{Method: c.method, Path: c.path, Query: url.Values{}}
	body, named := maps.Clone(c.body), map[string]any{}
	for _, p := range c.params {
		value, given, err := p.read(cmd.Flags(), app, &args)
		if err != nil {
			return r, nil, err
		}
		if !given {
			if p.arg || p.optional {
				continue
			}
			return r, nil, core.UsageHint("Usage: "+cmd.UseLine(), "%s requires --%s", cmd.CommandPath(), p.name)
		}
		named[p.name] = value
		where, member, _ := strings.Cut(p.to, "/")
		word, _ := value.(string)
		switch {
		case where == "path":
			r.Path = strings.Replace(r.Path, "{"+member+"}", url.PathEscape(word), 1)
		case where == "query" && p.kind == yes:
			r.Query.Set(member, "true")
		case where == "query":
			r.Query.Set(member, word)
		default:
			if body == nil {
				body = map[string]any{}
			}
			body[member] = value
			if p.kind == on || p.kind == off {
				body[member] = map[string]bool{word: p.kind == on}
			}
		}
	}
	if body != nil {
		r.Body = body
	} else if c.method == http.MethodPatch {
		return r, nil, core.UsageHint("See "+cmd.CommandPath()+" --help", "nothing to change")
	} else if c.takesBody() {
		r.Body = map[string]any{}
	}
	return r, named, nil
}

// takesBody reports whether the request has a body even if no parameter of it is given.
func (c command) takesBody() bool {
	for _, p := range c.params {
		if strings.HasPrefix(p.to, "body/") {
			return true
		}
	}
	return false
}

// read returns the value of a parameter and whether it is given. Arguments are taken from args.
func (p param) read(flags *pflag.FlagSet, app *core.App, args *[]string) (value any, given bool, err error) {
	var word string
	switch {
	case p.arg && len(*args) == 0:
		return nil, false, nil
	case p.arg:
		word, *args = (*args)[0], (*args)[1:]
	case !flags.Changed(p.name) && p.otherwise == "":
		return nil, false, nil
	default:
		word = flags.Lookup(p.name).Value.String()
	}
	switch p.kind {
	case yes:
		value, err = flags.GetBool(p.name)
	case none:
		value = map[string]any{}
	case amount:
		value, err = flags.GetInt(p.name)
	case words:
		value, err = flags.GetStringSlice(p.name)
	case limits:
		value, err = flags.GetStringToInt(p.name)
	case past:
		var at time.Time
		at, err = app.Since(word)
		value = at.UTC().Format(time.RFC3339)
	case future:
		value, err = ahead(app.Now(), word)
	case text, on, off:
		value = word
	}
	return value, err == nil, err
}

// ahead parses a time in RFC 3339, or a duration from now.
func ahead(now time.Time, word string) (string, error) {
	if _, err := time.Parse(time.RFC3339, word); err == nil {
		return word, nil
	}
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 {
		return "", core.UsageHint("Use a duration such as 30m or 2h, or a time such as 2026-11-16T09:00:00Z.", "%q is not a time", word)
	}
	return now.Add(d).UTC().Format(time.RFC3339), nil
}

// confirm asks the question of the command, if it has one. It shows the server, because the same organisation may be on
// several.
func (c command) confirm(cmd *cobra.Command, app *core.App, named map[string]any) error {
	if c.ask == nil {
		return nil
	}
	given, err := cmd.Flags().GetString("confirm")
	if err != nil {
		return err
	}
	at := scope{named}
	if c.ask.look != "" {
		address := placeholder.ReplaceAllStringFunc(c.ask.look, func(name string) string { return url.PathEscape(at.expand(name)) })
		res, err := app.API().Request(cmd.Context(), stagedoor.Request{Path: address})
		if err != nil {
			return err
		}
		doc, err := decode(res.Body)
		if err != nil {
			return err
		}
		at = append(at, doc)
	}
	name := at.expand(c.ask.name)
	for _, p := range c.params {
		if strings.HasPrefix(p.to, "path/") && c.ask.look != "" && given == named[p.name] {
			given = name
		}
	}
	server, err := app.Identity()
	if err != nil {
		return err
	}
	return app.Confirm(cmd.Context(), at.expand(c.ask.consequence)+" Server: "+server.BaseURL, name, given)
}
