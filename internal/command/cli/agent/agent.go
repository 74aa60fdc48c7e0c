// Package agent has the command mcp, which serves an organisation's accounts to a language model.
//
// The tools are in package internal/command/mcp. This package gives them the user's key and decides where they are
// served and who may connect.
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

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/mcp"
	"github.com/stagedoor/stagedoor/version"
)

// serve holds the flags of mcp.
type serve struct {
	app *core.App
	// address is where to serve over HTTP. Default: standard input and output.
	address  string
	accounts []string
	writes   bool
	tools    []string
	// token is the path of the token file.
	token   string
	origins []string
}

// Commands returns mcp.
func Commands(app *core.App) []*cobra.Command {
	s := &serve{app: app}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve accounts to a language model over the Model Context Protocol",
		Long: `Serve accounts to a language model over the Model Context Protocol.

The server uses standard input and output, or HTTP with --http. Each SDK method that reads is a tool. Methods that write
are tools only with --allow-writes; without it, the tool preview_write can check such calls. With --account the model
can see and use only those accounts, and gets only the tools of their platforms. If several platforms have a method of
the same name, the names of its tools start with the platform, such as ghost_me_get.

HTTP is served on this machine only, unless clients must send a token: set it with --token-file or STAGEDOOR_MCP_TOKEN.
Requests from web pages of other origins are rejected.`,
		Example: `  stagedoor mcp
  stagedoor mcp --account Maya --tools 'messages.*,chats.*'
  stagedoor mcp --allow-writes --http 127.0.0.1:8765
  claude mcp add stagedoor -- stagedoor mcp --account Maya`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.address, "http", "", "serve over HTTP on this address, such as 127.0.0.1:8765")
	flags.StringSliceVarP(&s.accounts, "account", "a", nil, "only these accounts (ids, labels or user names)")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	flags.BoolVar(&s.writes, "allow-writes", false, "also serve methods that write")
	flags.StringSliceVar(&s.tools, "tools", nil, "only these methods, such as messages.*, *.list or ghost:members.*")
	flags.StringVar(&s.token, "token-file", "", "file with the token that HTTP clients must send")
	flags.StringSliceVar(&s.origins, "allow-origin", nil, "accept web pages of these origins over HTTP")
	return []*cobra.Command{cmd}
}

func (s *serve) run(ctx context.Context) error {
	for _, pattern := range s.tools {
		if err := mcp.CheckPattern(pattern); err != nil {
			return core.Usage("--tools: %v", err)
		}
	}
	token, err := s.bearerToken()
	if err != nil {
		return err
	}
	if err := s.checkAddress(token); err != nil {
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
	if server.Tools() == 0 && len(s.tools) == 0 {
		return core.Usage("neither the key nor the platforms of the accounts allow any method")
	}
	if server.Tools() == 0 {
		return core.UsageHint("List methods: stagedoor methods", "--tools %s matches no available method",
			strings.Join(s.tools, ","))
	}
	o := s.app.Out
	o.Say("%s", o.Err(output.Strong, core.Banner(p)))
	o.Say("%s", s.summary(server.Tools()))
	if s.address == "" {
		if s.app.StdinTTY {
			o.Hint("This command is meant to be started by an MCP client. Press Ctrl-C to stop.")
		}
		return server.ServeIO(ctx, io.NopCloser(s.app.Stdin), nopCloser{o.Stdout})
	}
	return s.serveHTTP(ctx, server, token)
}

// summary describes in a line what the model may do.
func (s *serve) summary(tools int) string {
	access, accounts := "read-only", "all accounts of the key"
	if s.writes {
		access = "read and write"
	}
	if len(s.accounts) > 0 {
		accounts = "only " + strings.Join(s.accounts, ", ")
	}
	return fmt.Sprintf("%d methods as tools, %s, %s", tools, access, accounts)
}

// nopCloser keeps the server from closing standard output, which the caller owns.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// bearerToken returns the token that HTTP clients must send, or an empty string if they need none.
func (s *serve) bearerToken() (string, error) {
	if s.token == "" {
		return strings.TrimSpace(s.app.Env["STAGEDOOR_MCP_TOKEN"]), nil
	}
	text, err := s.app.ReadFile(s.token)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", core.Usage("%s is empty", s.token)
	}
	return strings.TrimSpace(string(text)), nil
}

// checkAddress rejects an address that is not on the loopback interface, unless there is a token: every client acts
// with the user's key.
func (s *serve) checkAddress(token string) error {
	if s.address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return core.UsageHint("Use an address such as 127.0.0.1:8765.", "--http: %q is not an address to listen on",
			s.address)
	}
	if token == "" && !mcp.Loopback(host) {
		return core.UsageHint("Use 127.0.0.1, or set a token with --token-file or STAGEDOOR_MCP_TOKEN.",
			"without a token, anyone who can reach %s could use your key", s.address)
	}
	return nil
}

func (s *serve) serveHTTP(ctx context.Context, server *mcp.Server, token string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return &core.Fault{Code: core.ExitOther, Text: err.Error(), Hint: "Choose another port with --http.", Err: err}
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.Handler(token, s.origins))
	// Tools can be slow and streams stay open, so only the request header has a deadline.
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
		_ = web.Close() // clients keep their sessions open, so a graceful shutdown would never end
		return ctx.Err()
	}
}

// call sends a tool's request to the API. A write gets an idempotency key so that a retry by the
// client cannot repeat it.
func (s *serve) call(ctx context.Context, r mcp.Request) (mcp.Response, error) {
	request := stagedoor.Request{Method: r.Method, Path: r.Path, Query: r.Query, Header: http.Header{}}
	if len(r.Body) > 0 {
		request.Body = r.Body
	}
	if r.Once {
		request.IdempotencyKey = rand.Text()
	}
	if r.DryRun {
		request.Header.Set("X-Dry-Run", "true")
	}
	res, err := s.app.API().Request(ctx, request)
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok && p.Code != "" {
		return mcp.Response{Status: p.Status, Body: p.Raw}, nil
	}
	if err != nil {
		return mcp.Response{}, s.app.Explain(err)
	}
	return mcp.Response{Status: res.Status, Body: res.Body}, nil
}

// problemOf converts a RefusedError into a *stagedoor.Problem, so that this command reports it like the others.
func problemOf(err error) error {
	refused, ok := errors.AsType[*mcp.RefusedError](err)
	if !ok {
		return err
	}
	p := &stagedoor.Problem{Status: refused.Response.Status, Raw: refused.Response.Body}
	if json.Unmarshal(refused.Response.Body, p) != nil {
		return err
	}
	return p
}
