package docs

import (
	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
	"github.com/stagedoor/stagedoor/internal/server/docs/reference"
)

// steps are what the landing page shows, as Markdown.
var steps = []struct{ title, text string }{
	{"Connect", "A creator signs in once, on a page that we host or in your own product: with a password and a second factor, a cookie, or a QR code. You never hold the session.\n\n" +
		"```sh\nPOST /v1/connect/sessions\n\n{\"label\": \"Luna\",\n \"reference_id\": \"crm-42\"}\n```"},
	{"Call", "Every method of the platform is one call. Each account leaves through its own region, within the limits that you set.\n\n" +
		"```sh\nPOST /v1/accounts/{id}/messages/send\n\n{\"chatId\": \"3438…\",\n \"text\": \"Welcome!\"}\n```"},
	{"Receive", "Events arrive in order, at least once and signed: on one endpoint for all accounts, or on a stream.\n\n" +
		"```sh\nPOST /v1/webhook-endpoints\n\n{\"url\": \"https://…\",\n \"events\": [\"message*\"]}\n```"},
}

// renderLanding makes the page at the address of the service.
func (s *Docs) renderLanding() (*staticResponse, error) {
	v := view{
		Title: "One API for connected creator accounts", Path: "/",
		Description: "Connect a creator's account once, act on it over HTTP, and receive its events.",
	}
	for _, step := range steps {
		doc, err := markdown.Render([]byte(step.text), markdown.Options{Link: nil, Prefix: "", Plain: false})
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, itemView{Item: reference.Item{Title: step.title}, Body: doc.HTML})
	}
	return s.executeTemplate("landing.html", v)
}
