package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

type keyringOutput struct {
	Body struct {
		KMS      string       `json:"kms" enum:"up,down" doc:"Whether the key management service is available. While it is down, the progress is unknown."`
		WrapsNow *wrapBody    `json:"wrapsNow" doc:"The key that wraps new keys; null if unknown."`
		Root     *wrapBody    `json:"root" doc:"The key that wraps the root key; null before the first key is created."`
		OrgKeys  []orgKeyBody `json:"orgKeys" doc:"Keys of organisations by the key that wraps them."`
		Orgs     int          `json:"orgs" doc:"Organisations that have data keys."`
		DataKeys int          `json:"dataKeys"`
		Renewed  int          `json:"renewed" doc:"Data keys of a second or later generation."`
		Waiting  int          `json:"waiting" doc:"Keys that are still wrapped by an older key. The nodes rewrap them automatically."`
		Done     *int         `json:"percentDone" doc:"The progress of the rotation; null if unknown."`
		Holders  int          `json:"holders" doc:"Accounts and attempts that have a data key."`
		Shredded int          `json:"shredded" doc:"Accounts and attempts whose data key was destroyed recently."`
	}
}

// wrapBody identifies a version of a key of the key management service. It is not the key.
type wrapBody struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

type orgKeyBody struct {
	By      wrapBody `json:"by"`
	Keys    int      `json:"keys"`
	Current bool     `json:"current"`
}

func (a *Admin) keyringRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "getKeyring", Method: http.MethodGet, Path: "/admin/v1/keyring", Tag: "Keys", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary: "Get the progress of key rotation", Description: "The number of keys that encrypt sessions, by the key that wraps them. `stagedoord seal rotate` starts a rotation.",
	}, a.getKeyring)
}

func (a *Admin) getKeyring(ctx context.Context, _ *struct{}) (*keyringOutput, error) {
	s, err := a.deps.Seal.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := &keyringOutput{}
	b := &out.Body
	b.Orgs, b.DataKeys, b.Renewed, b.Holders, b.Shredded = s.Orgs, s.DataKeys, s.Renewed, s.Holders, s.Shredded
	b.KMS, b.WrapsNow, b.Root, b.Waiting = "up", viewRef(s.Newest), viewRef(s.Root), s.Waiting
	if s.KMSError != nil {
		b.KMS, b.WrapsNow = "down", nil
	}
	all := s.DataKeys
	b.OrgKeys = []orgKeyBody{}
	for _, k := range s.OrgKeys {
		current := s.KMSError == nil && k.By == s.Newest
		b.OrgKeys = append(b.OrgKeys, orgKeyBody{*viewRef(k.By), k.Keys, current})
		if all += k.Keys; !current {
			b.Waiting += k.Keys
		}
	}
	if s.KMSError == nil {
		done := 100
		if all > 0 {
			done = (all - b.Waiting) * 100 / all
		}
		b.Done = &done
	}
	return out, nil
}

func viewRef(r kms.Ref) *wrapBody {
	if r == (kms.Ref{}) {
		return nil
	}
	return &wrapBody{r.ID, int(r.Version)}
}
