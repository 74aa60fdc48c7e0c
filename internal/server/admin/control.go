package admin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type switchesOutput struct {
	Body struct {
		Switches []switchBody `json:"switches"`
	}
}

type switchBody struct {
	Name   string      `json:"name" doc:"signups, connects, writes, webhooks, or region/ followed by a region."`
	On     bool        `json:"on"`
	About  string      `json:"about" doc:"What happens while it is off."`
	Reason string      `json:"reason" doc:"Why it is off. Customers do not see it."`
	By     string      `json:"by" doc:"Who switched it off."`
	Since  *stamp.Time `json:"since" doc:"Since when it is off."`
}

type setSwitchesInput struct {
	Body struct {
		Switches map[string]bool `json:"switches" minProperties:"1" maxProperties:"64" doc:"On (true) or off (false), by name. Omitted switches stay unchanged."`
		Reason   string          `json:"reason,omitempty" maxLength:"500" doc:"Required to switch something off. Customers do not see it."`
	}
}

type bannerOutput struct {
	Body struct {
		Banner *bannerBody `json:"banner" doc:"Null if there is none."`
	}
}

type bannerBody struct {
	Text  string      `json:"text"`
	Level string      `json:"level" enum:"info,warning,critical"`
	URL   *string     `json:"url" doc:"The address of more information."`
	Until *stamp.Time `json:"until" doc:"When the banner disappears automatically."`
	By    string      `json:"by"`
	Since stamp.Time  `json:"since"`
}

type setBannerInput struct {
	Body struct {
		Text  string     `json:"text" maxLength:"280" doc:"The text that all customers see in the dashboard. Empty to remove the banner."`
		Level string     `json:"level,omitempty" enum:"info,warning,critical" default:"info"`
		URL   string     `json:"url,omitempty" maxLength:"2048" doc:"The https address of more information."`
		Until *time.Time `json:"until,omitempty" doc:"When the banner disappears automatically."`
	}
}

func (a *Admin) controlRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope, o.Status = "Control", leastRole(o), http.StatusOK
		return o
	}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "getSwitches", Method: http.MethodGet, Path: "/admin/v1/switches", Summary: "List switches",
	}), a.getSwitches)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "setSwitches", Method: http.MethodPut, Path: "/admin/v1/switches", Audit: "switches.set", Summary: "Set switches",
		Description: "Applies on this node before the response, and on all others within seconds. Requests for what is off get 503 `service-unavailable`; " +
			"webhook deliveries are held back and not lost.",
		Example: map[string]any{"switches": map[string]bool{"connects": false}, "reason": "The platform has changed its sign-in."},
	}), a.setSwitches)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "getBanner", Method: http.MethodGet, Path: "/admin/v1/banner", Summary: "Get the banner",
	}), a.getBanner)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "setBanner", Method: http.MethodPut, Path: "/admin/v1/banner", Audit: "banner.set", Summary: "Set the banner",
		Example: map[string]any{"text": "Connecting accounts is slow right now. We are on it.", "level": "warning"},
	}), a.setBanner)
}

// switches returns all switches with what happens while they are off.
func (a *Admin) switches() []switchBody {
	list := []switchBody{
		{Name: string(switches.Signups), About: "No new organisations can be created. Members sign in as usual."},
		{Name: string(switches.Connects), About: "New connect attempts are refused; those in progress continue."},
		{Name: string(switches.Writes), About: "SDK methods that change something, and uploads, are refused; reads work."},
		{Name: string(switches.Webhooks), About: "Nothing is delivered; events wait in the store, in order."},
	}
	for _, region := range a.deps.Egress.Regions() {
		list = append(list, switchBody{
			Name: string(switches.Region(region)), About: "No traffic leaves through the region: calls on its accounts are refused, and its listeners disconnect.",
		})
	}
	return list
}

func (a *Admin) viewSwitches(s switches.State) *switchesOutput {
	out := &switchesOutput{}
	out.Body.Switches = a.switches()
	for i := range out.Body.Switches {
		b := &out.Body.Switches[i]
		d, off := s.Off[switches.Switch(b.Name)]
		b.On = !off
		if off {
			b.Reason, b.By, b.Since = d.Reason, d.By, stamp.Optional(d.At)
		}
	}
	return out
}

func (a *Admin) getSwitches(context.Context, *struct{}) (*switchesOutput, error) {
	return a.viewSwitches(a.deps.Control.State()), nil
}

func (a *Admin) setSwitches(ctx context.Context, in *setSwitchesInput) (*switchesOutput, error) {
	bad := problem.ValidationFailed.New("The switches have invalid values.")
	var turns []switches.Turn
	known := a.switches()
	reason := strings.TrimSpace(in.Body.Reason)
	for name, on := range in.Body.Switches {
		if !slices.ContainsFunc(known, func(b switchBody) bool { return b.Name == name }) {
			bad.At("/switches", "unknown", "must be names of switches, from GET /admin/v1/switches")
			break
		}
		turns = append(turns, switches.Turn{Switch: switches.Switch(name), On: on, Reason: reason})
	}
	if reason == "" && slices.ContainsFunc(turns, func(t switches.Turn) bool { return !t.On }) {
		bad.At("/reason", "required", "is required to switch something off")
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	s, err := a.deps.Control.Turn(ctx, endpoint.By(ctx), turns)
	if err != nil {
		return nil, err
	}
	return a.viewSwitches(s), nil
}

func viewBanner(b *switches.Banner) *bannerOutput {
	out := &bannerOutput{}
	if b != nil {
		out.Body.Banner = &bannerBody{b.Text, b.Level, endpoint.NilIfEmpty(b.URL), (*stamp.Time)(b.Until), b.By, stamp.Time(b.At)}
	}
	return out
}

func (a *Admin) getBanner(context.Context, *struct{}) (*bannerOutput, error) {
	return viewBanner(a.deps.Control.Banner()), nil
}

func (a *Admin) setBanner(ctx context.Context, in *setBannerInput) (*bannerOutput, error) {
	b := switches.Banner{Text: strings.TrimSpace(in.Body.Text), Level: in.Body.Level, URL: in.Body.URL, Until: in.Body.Until}
	bad := problem.ValidationFailed.New("The banner has invalid values.")
	if strings.ContainsFunc(b.Text, unicode.IsControl) {
		bad.At("/text", "character", "must not contain control characters")
	}
	if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		bad.At("/url", "format", "must be an https address")
	}
	if b.Until != nil {
		endpoint.CheckTimes(bad, map[string]time.Time{"/until": *b.Until})
		if !b.Until.After(a.deps.Now()) {
			bad.At("/until", "minimum", "must be in the future")
		}
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	if _, err := a.deps.Control.SetBanner(ctx, endpoint.By(ctx), b); err != nil {
		return nil, err
	}
	return viewBanner(a.deps.Control.Banner()), nil
}
