// Package platforms has the operation of the public API that lists the creator platforms of an organisation.
package platforms

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type operations struct {
	platforms registry.Registry
	regions   func() []string
}

type platformBody struct {
	_            struct{} `schema:"Platform" doc:"A creator platform."`
	ID           string   `json:"id" doc:"The id of the platform."`
	Name         string   `json:"name" doc:"The name to show to people."`
	Environment  string   `json:"environment" enum:"sandbox,live" doc:"The environment whose accounts are on it."`
	SiteRequired bool     `json:"siteRequired" doc:"Whether each creator has a site of their own, which a connect must name in site."`
	SiteExample  *string  `json:"siteExample" doc:"An example of such a site; null if siteRequired is false."`
	HomeURL      *string  `json:"homeUrl" doc:"The platform's own page; null if there is none."`
	Logo         *string  `json:"logo" doc:"A mark of the platform as a data: URL of an SVG; null if there is none."`
	Flows        []string `json:"flows" doc:"The connect methods, what the platform recommends to programs first: token, oauth, credentials, mobile_app, cookie, curl. The set may grow."`
	Regions      []string `json:"regions" doc:"The regions that an account can have."`
	Resources    int      `json:"resources" doc:"The number of resources in the catalogue."`
	Methods      int      `json:"methods" doc:"The number of methods in the catalogue."`
	EventSource  *string  `json:"eventSource" enum:"socket,poll" doc:"How events are received: socket, immediately; poll, within seconds to minutes. Null for a platform without events."`
	Version      string   `json:"version" doc:"The version of the catalogue."`
}

type platformsOutput struct {
	Body struct {
		_         struct{}       `schema:"PlatformList" doc:"The creator platforms of an environment."`
		Platforms []platformBody `json:"platforms" doc:"The default platform first."`
	}
}

// Routes adds the operation.
func Routes(t *endpoint.Table, platforms registry.Registry, regions func() []string) {
	a := &operations{platforms, regions}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listPlatforms", Method: http.MethodGet, Path: "/v1/platforms", Tag: "Connect", Status: http.StatusOK, Quota: admission.Free,
		Summary: "List platforms", Description: "The creator platforms of the key's environment. The first one is the default: a connect that names no `platform` uses it. " +
			"The list is empty if none is configured.",
	}, a.list)
}

func (a *operations) list(ctx context.Context, _ *struct{}) (*platformsOutput, error) {
	out := &platformsOutput{}
	out.Body.Platforms = []platformBody{}
	for _, p := range a.platforms.In(endpoint.Caller(ctx).Org.Environment) {
		out.Body.Platforms = append(out.Body.Platforms, a.view(p))
	}
	return out, nil
}

func (a *operations) view(p registry.Platform) platformBody {
	c := p.Catalog
	body := platformBody{
		ID: p.ID, Name: c.Name, Environment: string(p.Environment), SiteRequired: c.Site != nil, HomeURL: textOrNil(c.Home), Logo: textOrNil(c.Logo),
		Flows: p.Flows(), Regions: a.regions(), Resources: len(c.Resources()), Methods: len(c.Methods()), Version: c.Version,
	}
	if c.Site != nil {
		body.SiteExample = &c.Site.Example
	}
	switch {
	case c.Socket != nil:
		body.EventSource = textOrNil("socket")
	case c.Poll != nil:
		body.EventSource = textOrNil("poll")
	}
	return body
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
