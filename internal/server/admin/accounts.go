package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type findAccountsInput struct {
	Text   string `query:"q" maxLength:"120" doc:"An account's id. With names also the creator's id on the platform, or the start of the user name or label."`
	Names  bool   `query:"names" doc:"Show the names of the accounts of org, which has granted you access."`
	Org    string `query:"org" maxLength:"64" doc:"Only accounts of this organisation."`
	State  string `query:"state" enum:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused"`
	Region string `query:"region" maxLength:"8"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type findAccountsOutput struct {
	Body struct {
		Accounts   []accountBody `json:"accounts" doc:"Newest first."`
		NextCursor *string       `json:"nextCursor"`
	}
}

// accountBody has the state of an account and, with the consent of its org, its names. Operators must not see its session,
// its credentials, or the customer's notes about it.
type accountBody struct {
	ID             string            `json:"id"`
	Org            orgRef            `json:"org"`
	OfUserID       *string           `json:"ofUserId" doc:"The creator's id on the platform; null without names."`
	Username       *string           `json:"username" doc:"Null without names."`
	Label          *string           `json:"label" doc:"Null without names."`
	State          string            `json:"state"`
	StateReason    *string           `json:"stateReason"`
	StateChangedAt stamp.Time        `json:"stateChangedAt"`
	Region         string            `json:"region" doc:"The region through which the account's traffic leaves."`
	CreatedAt      stamp.Time        `json:"createdAt"`
	LastSeenAt     *stamp.Time       `json:"lastSeenAt" doc:"When the platform last accepted the session."`
	LastCheckedAt  *stamp.Time       `json:"lastCheckedAt" doc:"When the session was last checked."`
	Listener       knownListenerBody `json:"listener"`
}

type knownListenerBody struct {
	State string      `json:"state" enum:"off,connecting,up,down"`
	Since *stamp.Time `json:"since"`
	Shard int         `json:"shard" doc:"The shard of the account; see the leases."`
}

type orgRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (a *Admin) accountRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "findAccounts", Method: http.MethodGet, Path: "/admin/v1/accounts", Tag: "Accounts", Status: http.StatusOK, Scope: scope.AdminViewer,
		Problems: []problem.Kind{problem.ConsentRequired},
		Summary:  "Find accounts", Description: "Accounts of all organisations with their states. Sessions, credentials, events and the customers' metadata are not shown. " +
			"Names are shown only of an organisation that has granted you access, and its audit log has an entry about that.",
	}, a.findAccounts)
}

func (a *Admin) findAccounts(ctx context.Context, in *findAccountsInput) (*findAccountsOutput, error) {
	f := account.Find{Text: in.Text, State: account.State(in.State), Region: in.Region}
	var err error
	if f.Org, err = optional[id.Org](in.Org, "query/org"); err != nil {
		return nil, err
	}
	if f.Before, err = optional[id.Account](in.Cursor, "query/cursor"); err != nil {
		return nil, err
	}
	if in.Names {
		if f.Org == "" {
			return nil, problem.InvalidRequest.New("A query parameter is missing.").At("query/org", "required", "is required for names")
		}
		if err := a.deps.Members.UseAccess(ctx, endpoint.By(ctx), f.Org, "findAccounts"); err != nil {
			return nil, err
		}
	} else if f.Text != "" {
		if _, err := optional[id.Account](f.Text, "query/q"); err != nil {
			return nil, err
		}
	}
	list, err := a.deps.Accounts.Find(ctx, f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &findAccountsOutput{}
	if len(list) > in.Limit {
		list = list[:in.Limit]
		out.Body.NextCursor = endpoint.NilIfEmpty(string(list[in.Limit-1].ID))
	}
	names, err := a.names(ctx, len(list), func(i int) id.Org { return list[i].Org })
	if err != nil {
		return nil, err
	}
	out.Body.Accounts = make([]accountBody, len(list))
	for i, k := range list {
		out.Body.Accounts[i] = accountBody{
			ID: string(k.ID), Org: orgRef{string(k.Org), names[k.Org]}, State: string(k.State),
			StateReason: endpoint.NilIfEmpty(k.Reason), StateChangedAt: stamp.Time(k.StateChangedAt), Region: k.Region, CreatedAt: stamp.Time(k.CreatedAt), LastSeenAt: (*stamp.Time)(k.LastSeenAt),
			LastCheckedAt: (*stamp.Time)(k.LastCheckedAt), Listener: knownListenerBody{string(k.Listener), (*stamp.Time)(k.ListenerSince), k.Shard},
		}
		if in.Names {
			out.Body.Accounts[i].OfUserID, out.Body.Accounts[i].Username, out.Body.Accounts[i].Label = &k.UpstreamID, &k.Username, &k.Label
		}
	}
	return out, nil
}
