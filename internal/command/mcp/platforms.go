package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// platform is a platform as GET /v1/platforms returns it.
type platform struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// loadMethods fetches the methods that the key may call, of each platform on which the server may use accounts.
func (s *Server) loadMethods(ctx context.Context) error {
	var list struct {
		Platforms []platform `json:"platforms"`
	}
	if err := s.get(ctx, "/v1/platforms", nil, &list); err != nil {
		return err
	}
	s.platforms = list.Platforms
	if len(s.platforms) == 0 {
		s.platforms = []platform{{}} // the response to a request without a platform says why there is none
	} else if len(s.opts.Accounts) > 0 {
		s.platforms = slices.DeleteFunc(s.platforms, func(p platform) bool { return len(s.accountsOn(p.ID)) == 0 })
	}
	for _, p := range s.platforms {
		var found struct {
			Tools []method `json:"tools"`
		}
		query := url.Values{"format": {"mcp"}}
		setParam(query, "platform", p.ID)
		if err := s.get(ctx, "/v1/sdk/methods", query, &found); err != nil {
			return err
		}
		for _, m := range found.Tools {
			m.platform = p.ID
			if len(s.platforms) > 1 {
				m.Description += " For accounts on " + p.Name + "."
			}
			s.methods = append(s.methods, m)
		}
	}
	s.separate()
	return nil
}

// separate adds the platform to the names of tools that several platforms have.
func (s *Server) separate() {
	count := map[string]int{}
	for _, m := range s.methods {
		count[m.Name]++
	}
	for i := range s.methods {
		if m := &s.methods[i]; count[m.Name] > 1 {
			m.Name, m.isShared = m.platform+"_"+m.Name, true
		}
	}
}

// get sends a GET request and decodes the response. The error is a *RefusedError if the response is a problem.
func (s *Server) get(ctx context.Context, path string, query url.Values, into any) error {
	response, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return err
	}
	if response.Status != http.StatusOK {
		return &RefusedError{Response: response}
	}
	if err := json.Unmarshal(response.Body, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// knownPlatforms holds the platforms of accounts. An account never changes its platform.
type knownPlatforms struct {
	mu sync.Mutex
	by map[string]string
}

// platformOf returns the platform of an account. It asks the API once for each account.
func (s *Server) platformOf(ctx context.Context, account string) (string, error) {
	s.known.mu.Lock()
	platform, ok := s.known.by[account]
	s.known.mu.Unlock()
	if ok {
		return platform, nil
	}
	var got struct {
		Account struct {
			Platform string `json:"platform"`
		} `json:"account"`
	}
	if err := s.get(ctx, accountPath(account), nil, &got); err != nil {
		return "", err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.by == nil {
		s.known.by = map[string]string{}
	}
	s.known.by[account] = got.Account.Platform
	return got.Account.Platform, nil
}

// accountsOn returns the accounts in Options.Accounts that are on a platform. New has asked for all of them.
func (s *Server) accountsOn(platform string) []string {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.opts.Accounts), func(account string) bool { return s.known.by[account] != platform })
}

// checkPlatform returns an error for a tool whose method the account has too, but on another platform and with other
// arguments. The API rejects all other calls on the wrong platform. An account that cannot be read is not checked.
func (s *Server) checkPlatform(ctx context.Context, m *method, account string) error {
	if !m.isShared {
		return nil
	}
	platform, err := s.platformOf(ctx, account)
	if err != nil {
		return nil //nolint:nilerr // the API refuses what does not fit
	}
	other := s.findMethod(m.Title, platform)
	if platform == m.platform || other == nil {
		return nil
	}
	return fmt.Errorf("wrong-platform: %s is on %s, and %s is for accounts on %s. Nothing was done. Use %s", account, platform, m.Name,
		m.platform, other.Name)
}
