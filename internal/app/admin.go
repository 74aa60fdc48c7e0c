package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/operate/operator"
)

// admin returns the admin API as commands. They call it on the internal listener, so that their changes are checked and
// audited like any others.
func (c *commands) admin() *cobra.Command {
	admin := &cobra.Command{
		Use: "admin", Short: "Operate a running service through its admin API",
		Long: "Operates a running service through its admin API.\nSTAGEDOOR_INTERNAL_URL is its address, STAGEDOOR_ADMIN_TOKEN or the file STAGEDOOR_ADMIN_TOKEN_FILE has the operator token.",
	}
	org := &cobra.Command{Use: "org", Short: "Organisations"}
	key := &cobra.Command{Use: "key", Short: "API keys of an organisation"}
	org.AddCommand(c.orgCreate(), c.orgList(), c.orgShow(), c.orgUpdate(), c.orgInvite(), c.orgDelete(), c.orgRestore())
	key.AddCommand(c.keyIssue())
	letters := &cobra.Command{Use: "dead-letters", Short: "Events that could not be stored"}
	letters.AddCommand(c.lettersList(), c.letterChange("requeue", "Store one again", http.MethodPost, "/requeue"),
		c.letterChange("delete", "Delete one", http.MethodDelete, ""))
	admin.AddCommand(org, key, letters, c.plans(), c.nodes(), c.auditVerify())
	return admin
}

func (c *commands) orgCreate() *cobra.Command {
	var (
		name, plan, environment, email string
		limits                         []string
		printKey                       bool
	)
	cmd := &cobra.Command{
		Use: "create", Short: "Create an organisation and its first key", Args: cobra.NoArgs,
		Example: "  stagedoord admin org create --name Acme --plan starter --environment sandbox --email ops@acme.example",
		RunE: func(cmd *cobra.Command, _ []string) error {
			override, err := parseLimits(limits)
			if err != nil {
				return err
			}
			body := map[string]any{"name": name, "plan": plan, "environment": environment, "contactEmail": email}
			if override != nil {
				body["limits"] = override
			}
			answer, err := c.call(cmd.Context(), http.MethodPost, "/admin/v1/orgs", body)
			if err != nil {
				return err
			}
			if !printKey {
				return c.show(answer)
			}
			var made struct{ Key struct{ Key string } }
			if err := json.Unmarshal(answer, &made); err != nil {
				return fmt.Errorf("read response: %w", err)
			}
			fmt.Fprintln(c.out, made.Key.Key)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name of the organisation")
	f.StringVar(&plan, "plan", "starter", "one of those that stagedoord admin plans lists")
	f.StringVar(&environment, "environment", "live", "sandbox or live")
	f.StringVar(&email, "email", "", "contact address")
	f.StringArrayVar(&limits, "limit", nil, "override of a limit, for example callsPerMinute=50; repeatable")
	f.BoolVar(&printKey, "print-key", false, "print only the first key")
	must(cmd.MarkFlagRequired("name"))
	must(cmd.MarkFlagRequired("email"))
	return cmd
}

func (c *commands) orgList() *cobra.Command {
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List organisations", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{"limit": {strconv.Itoa(limit)}}
			if cursor != "" {
				q.Set("cursor", cursor)
			}
			return c.callAndShow(cmd.Context(), http.MethodGet, "/admin/v1/orgs?"+q.Encode(), nil)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of organisations, up to 100")
	cmd.Flags().StringVar(&cursor, "cursor", "", "nextCursor of the previous page")
	return cmd
}

func (c *commands) orgShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ORG", Short: "Show an organisation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.callAndShow(cmd.Context(), http.MethodGet, "/admin/v1/orgs/"+url.PathEscape(args[0]), nil)
		},
	}
}

func (c *commands) orgUpdate() *cobra.Command {
	var (
		name, plan, email, reason string
		limits                    []string
		suspend, resume           bool
	)
	cmd := &cobra.Command{
		Use: "update ORG", Short: "Change plan, limits, contact or suspension", Args: cobra.ExactArgs(1),
		Example: "  stagedoord admin org update org_… --plan growth --limit callsPerMinute=5000\n  stagedoord admin org update org_… --suspend --reason 'unpaid'",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			for flag, value := range map[string]string{"name": name, "plan": plan, "contactEmail": email, "suspendedReason": reason} {
				if value != "" {
					body[flag] = value
				}
			}
			if cmd.Flags().Changed("limit") {
				override, err := parseLimits(limits)
				if err != nil {
					return err
				}
				body["limits"] = override
			}
			if suspend || resume {
				body["suspended"] = suspend
			}
			return c.callAndShow(cmd.Context(), http.MethodPatch, "/admin/v1/orgs/"+url.PathEscape(args[0]), body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "new name")
	f.StringVar(&plan, "plan", "", "one of those that stagedoord admin plans lists")
	f.StringVar(&email, "email", "", "new contact address")
	f.StringArrayVar(&limits, "limit", nil, "override of a limit, for example callsPerMinute=50; replaces all overrides; repeatable")
	f.BoolVar(&suspend, "suspend", false, "suspend the organisation: all its keys stop working")
	f.BoolVar(&resume, "resume", false, "end the suspension")
	f.StringVar(&reason, "reason", "", "reason of the suspension")
	cmd.MarkFlagsMutuallyExclusive("suspend", "resume")
	return cmd
}

func (c *commands) orgInvite() *cobra.Command {
	var (
		email, role string
		again       bool
	)
	cmd := &cobra.Command{
		Use: "invite ORG", Short: "Invite a user to an organisation's dashboard", Args: cobra.ExactArgs(1),
		Example: "  stagedoord admin org invite org_… --email ada@acme.example --role owner",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"email": email, "role": role, "again": again}
			return c.callAndShow(cmd.Context(), http.MethodPost, "/admin/v1/orgs/"+url.PathEscape(args[0])+"/invitations", body)
		},
	}
	cmd.Flags().StringVar(&email, "email", "", "address to invite; only a user who signs in with it can accept")
	cmd.Flags().StringVar(&role, "role", "owner", "owner, admin, developer or support")
	cmd.Flags().BoolVar(&again, "again", false, "invite even if a member has the address, because the identity provider has changed")
	must(cmd.MarkFlagRequired("email"))
	return cmd
}

func (c *commands) orgDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete ORG", Short: "Suspend an organisation and destroy it after 7 days", Args: cobra.ExactArgs(1),
		Long: "Suspends an organisation immediately and destroys everything of it after 7 days, unless it is restored before.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.callAndShow(cmd.Context(), http.MethodDelete, "/admin/v1/orgs/"+url.PathEscape(args[0]), nil)
		},
	}
}

func (c *commands) orgRestore() *cobra.Command {
	return &cobra.Command{
		Use: "restore ORG", Short: "End the deletion of an organisation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.callAndShow(cmd.Context(), http.MethodPost, "/admin/v1/orgs/"+url.PathEscape(args[0])+"/restore", nil)
		},
	}
}

func (c *commands) keyIssue() *cobra.Command {
	var label string
	var scopes []string
	cmd := &cobra.Command{
		Use: "issue ORG", Short: "Issue a key for an organisation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"label": label}
			if len(scopes) > 0 {
				body["scopes"] = scopes
			}
			return c.callAndShow(cmd.Context(), http.MethodPost, "/admin/v1/orgs/"+url.PathEscape(args[0])+"/keys", body)
		},
	}
	cmd.Flags().StringVar(&label, "label", "Issued by an operator", "what the key is for")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "scopes; default: the default set")
	return cmd
}

func (c *commands) lettersList() *cobra.Command {
	var limit, before int
	cmd := &cobra.Command{
		Use: "list", Short: "List them, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{"limit": {strconv.Itoa(limit)}}
			if before > 0 {
				q.Set("before", strconv.Itoa(before))
			}
			return c.callAndShow(cmd.Context(), http.MethodGet, "/admin/v1/dead-letters?"+q.Encode(), nil)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of dead letters, up to 100")
	cmd.Flags().IntVar(&before, "before", 0, "last id of the previous page")
	return cmd
}

func (c *commands) letterChange(name, short, method, path string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.callAndShow(cmd.Context(), method, "/admin/v1/dead-letters/"+url.PathEscape(args[0])+path, nil)
		},
	}
}

func (c *commands) plans() *cobra.Command {
	return &cobra.Command{
		Use: "plans", Short: "List the plans that organisations can have", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.callAndShow(cmd.Context(), http.MethodGet, "/admin/v1/plans", nil)
		},
	}
}

func (c *commands) nodes() *cobra.Command {
	return &cobra.Command{
		Use: "nodes", Short: "List the nodes that are alive", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.callAndShow(cmd.Context(), http.MethodGet, "/admin/v1/nodes", nil)
		},
	}
}

// parseLimits parses name=number pairs.
func parseLimits(pairs []string) (map[string]int, error) {
	if pairs == nil {
		return nil, nil //nolint:nilnil // nil means no overrides
	}
	out := map[string]int{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil {
			return nil, fmt.Errorf("--limit %s: write it as name=number, for example callsPerMinute=50", pair)
		}
		out[name] = n
	}
	return out, nil
}

func (c *commands) callAndShow(ctx context.Context, method, path string, body any) error {
	answer, err := c.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	return c.show(answer)
}

// call sends a request to the admin API and turns a problem into an error message.
func (c *commands) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	base, ok := variable(c.environ, "STAGEDOOR_INTERNAL_URL")
	if !ok {
		base = "http://127.0.0.1:8081"
	}
	token, err := c.adminToken()
	if err != nil {
		return nil, err
	}
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	status, answer, err := ask(ctx, method, strings.TrimSuffix(base, "/")+path, token, payload)
	if err != nil {
		return nil, fmt.Errorf("%w (STAGEDOOR_INTERNAL_URL is %s)", err, base)
	}
	if status >= http.StatusBadRequest {
		var p struct {
			Code, Detail string
			Errors       []struct{ Pointer, Detail string }
		}
		if err := json.Unmarshal(answer, &p); err != nil || p.Code == "" {
			return nil, fmt.Errorf("the service returned status %d", status)
		}
		text := p.Code + ": " + p.Detail
		for _, e := range p.Errors {
			text += "\n  " + e.Pointer + " " + e.Detail
		}
		return nil, errors.New(text)
	}
	return answer, nil
}

// adminToken returns the first operator token of STAGEDOOR_ADMIN_TOKEN or of the file that STAGEDOOR_ADMIN_TOKEN_FILE names.
func (c *commands) adminToken() (string, error) {
	text, ok := variable(c.environ, "STAGEDOOR_ADMIN_TOKEN")
	if file, given := variable(c.environ, "STAGEDOOR_ADMIN_TOKEN_FILE"); !ok && given {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("STAGEDOOR_ADMIN_TOKEN_FILE: %w", err)
		}
		text, ok = string(content), true
	}
	if !ok {
		return "", errors.New("STAGEDOOR_ADMIN_TOKEN is not set: set it to an operator token of the service")
	}
	list, err := operator.ParseTokens(text)
	if err != nil {
		return "", fmt.Errorf("STAGEDOOR_ADMIN_TOKEN: %w", err)
	}
	return list[0].Reveal(), nil
}

func (c *commands) show(answer []byte) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, answer, "", "  "); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	fmt.Fprintln(c.out, strings.TrimSpace(pretty.String()))
	return nil
}

// ask sends one request to our own service. It follows no redirects and uses no proxies.
func ask(ctx context.Context, method, address, token string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, fmt.Errorf("reach the service: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("read response: %w", err)
	}
	return res.StatusCode, answer, nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
