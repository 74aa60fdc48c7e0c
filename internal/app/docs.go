package app

import (
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/docs"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// buildDocs builds the documentation. It documents the platform of the sandbox, which every reader can try.
func (n *Node) buildDocs() (err error) {
	n.docs, err = docs.New(docs.Deps{
		PublicURL: n.cfg.PublicURL, OpenAPI: n.api.OpenAPI, Catalog: n.flows.catalogs[org.EnvSandbox],
		Events: event.NewKinds(n.flows.catalogs).List(org.EnvSandbox), Log: n.log, Now: clock.Now,
	})
	return err
}

// showDocs is a handler for the API, which is built before the documentation and links to it.
func (n *Node) showDocs(w http.ResponseWriter, r *http.Request) { n.docs.ServeHTTP(w, r) }
