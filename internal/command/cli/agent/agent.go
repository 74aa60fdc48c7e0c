// Package agent holds the command that offers an organisation to a language model: mcp.
//
// The tools are in internal/command/mcp; here is how they get their key and who may reach them.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/mcp"
	"github.com/stagedoor/stagedoor/version"
)

// serve is one run of the command.
type serve struct {
	app      *core.App
	address  string
	accounts []string
	writes   bool
	tools    []string
	token    string
	origins  []string
}

// Commands is mcp.
func Commands(app *core.App) []*cobra.Command {
	s := &serve{app: app}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Offer accounts to a language model, over the Model Context Protocol",
		Long: `Offer accounts to a language model, over the Model Context Protocol.

It speaks on standard input and output, as programs with a model expect it, or over HTTP with --http. Each SDK method that reads is a
tool; methods that change something are tools only with --allow-writes, and can be checked with preview_write without. --account limits
it to some accounts: others cannot be seen or used.

Over HTTP it binds to this machine only. To bind to another address give a token that clients must send, by --token-file or
STAGEDOOR_MCP_TOKEN. Pages of other origins are refused.`,
		Example: `  stagedoor mcp
  stagedoor mcp --account Maya --tools 'messages.*,chats.*'
  stagedoor mcp --allow-writes --http 127.0.0.1:8765
  claude mcp add stagedoor -- stagedoor mcp --account Maya`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.address, "http", "", "serve over HTTP at this address, such as 127.0.0.1:8765, instead of standard input and output")
	flags.StringSliceVarP(&s.accounts, "account", "a", nil, "only these accounts: ids, labels or user names")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	flags.BoolVar(&s.writes, "allow-writes", false, "offer the methods that change something, too")
	flags.StringSliceVar(&s.tools, "tools", nil, "only these methods, such as messages.* or *.list")
	flags.StringVar(&s.token, "token-file", "", "file with the token that HTTP clients must send")
	flags.StringSliceVar(&s.origins, "allow-origin", nil, "pages of these origins may use it over HTTP")
	return []*cobra.Command{cmd}
}

func (s *serve) run(ctx context.Context) error {
	for _, pattern := range s.tools {
		if err := mcp.CheckPattern(pattern); err != nil {
			return core.Usage("--tools: %v", err)
		}
	}
	token, err := s.bearer()
	if err != nil {
		return err
	}
	if err := s.mayBind(token); err != nil {
		return err
	}
	for i, name := range s.accounts {
		account, err := s.app.Account(ctx, name)
		if err != nil {
			return err
		}
		s.accounts[i] = account.ID
	}
	p, err := s.app.Profile(ctx)
	if err != nil {
		return err
	}
	server, err := mcp.New(ctx, mcp.Deps{Call: s.call, Version: version.String(), Log: slog.New(slog.DiscardHandler)}, mcp.Options{
		Accounts: s.accounts, AllowWrites: s.writes, Tools: s.tools,
	})
	if err != nil {
		return problemOf(err)
	}
	if server.Tools() == 0 {
		return core.UsageHint("List methods: stagedoor methods", "--tools %s matches no method that may be offered", strings.Join(s.tools, ","))
	}
	o := s.app.Out
	o.Say("%s", o.Err(out.Strong, core.Banner(p)))
	o.Say("%s", s.offer(server.Tools()))
	if s.address == "" {
		if s.app.StdinTTY {
			o.Hint("A program with a model starts this command and speaks to it here. Ctrl-C ends it.")
		}
		return server.ServeIO(ctx, io.NopCloser(s.app.Stdin), whole{o.Stdout})
	}
	return s.overHTTP(ctx, server, token)
}

// offer says in a line what a model may do.
func (s *serve) offer(tools int) string {
	what, whom := "read-only", "all accounts of the key"
	if s.writes {
		what = "reading and writing"
	}
	if len(s.accounts) > 0 {
		whom = "only " + strings.Join(s.accounts, ", ")
	}
	return fmt.Sprintf("%d methods as tools, %s, %s", tools, what, whom)
}

// whole is a writer that is never closed: standard output is not ours.
type whole struct{ io.Writer }

func (whole) Close() error { return nil }

// bearer is the token that HTTP clients must send; none if empty.
func (s *serve) bearer() (string, error) {
	if s.token == "" {
		return strings.TrimSpace(s.app.Env["STAGEDOOR_MCP_TOKEN"]), nil
	}
	text, err := s.app.ReadFile(s.token)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", core.Usage("%s holds no token", s.token)
	}
	return strings.TrimSpace(string(text)), nil
}

// mayBind refuses an address that others can reach, unless there is a token.
func (s *serve) mayBind(token string) error {
	if s.address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return core.UsageHint("Write it like 127.0.0.1:8765.", "--http: %q is not an address to listen on", s.address)
	}
	if token == "" && !mcp.Loopback(host) {
		return core.UsageHint("Bind to 127.0.0.1, or give a token with --token-file or STAGEDOOR_MCP_TOKEN.", "%s can be reached by others, and whoever reaches it acts with your key", s.address)
	}
	return nil
}

func (s *serve) overHTTP(ctx context.Context, server *mcp.Server, token string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return &core.Fault{Code: core.ExitOther, Text: err.Error(), Hint: "Choose another port with --http.", Err: err}
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.Handler(token, s.origins))
	// Answers of tools can be slow and streams stay open, so only the head of a request has a deadline.
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	s.app.Out.Say("Serving at http://%s/mcp", listener.Addr())
	if s.app.Out.JSON {
		if err := s.app.Out.Line(map[string]string{"url": "http://" + listener.Addr().String() + "/mcp"}); err != nil {
			return err
		}
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve over HTTP: %w", err)
	case <-ctx.Done():
		_ = web.Close() // sessions stay open by themselves, so there is nothing to wait for
		return ctx.Err()
	}
}

// call asks the API for the tools. A write has a key of its own, so that a retry of the transport does not do it twice.
func (s *serve) call(ctx context.Context, r mcp.Request) (mcp.Answer, error) {
	c := core.Call{Method: r.Method, Path: r.Path, Query: r.Query, Header: http.Header{}}
	if len(r.Body) > 0 {
		c.Body = r.Body
	}
	if r.Once {
		c.IdempotencyKey = rand.Text()
	}
	if r.DryRun {
		c.Header.Set("X-Dry-Run", "true")
	}
	reply, err := s.app.Do(ctx, c, nil)
	if p, ok := errors.AsType[*core.Problem](err); ok {
		return mcp.Answer{Status: p.Status, Body: p.Raw}, nil
	}
	if err != nil {
		return mcp.Answer{}, err
	}
	return mcp.Answer{Status: reply.Status, Body: reply.Body}, nil
}

// problemOf is a refusal as other commands report it.
func problemOf(err error) error {
	refused, ok := errors.AsType[*mcp.RefusedError](err)
	if !ok {
		return err
	}
	p := &core.Problem{Status: refused.Answer.Status, Raw: refused.Answer.Body}
	if json.Unmarshal(refused.Answer.Body, p) != nil {
		return err
	}
	return p
}
