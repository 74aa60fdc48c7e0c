package dashboard

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// sessionBody is what the web application loads first: who is signed in, and which orgs they can open.
type sessionBody struct {
	SignedIn   bool         `json:"signedIn"`
	Person     *personBody  `json:"person,omitempty"`
	Orgs       []orgBody    `json:"orgs,omitempty"`
	CurrentOrg string       `json:"currentOrg,omitempty"`
	ExpiresAt  *stamp.Time  `json:"expiresAt,omitempty"`
	Support    *supportBody `json:"support,omitempty"`
	Banner     *Banner      `json:"banner"`
}

type personBody struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

type orgBody struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Environment string `json:"environment"`
	Role        string `json:"role"`
	Plan        string `json:"plan"`
	Suspended   bool   `json:"suspended"`
	// PurgeAt is present while the org is being deleted: until then it can be restored.
	PurgeAt *stamp.Time `json:"purgeAt,omitempty"`
}

// supportBody is present if an operator opened the org.
type supportBody struct {
	Reason string `json:"reason"`
}

// getSession returns the session. It answers 200 without a session too, so that the web application sees no error.
func (v *visit) getSession() {
	ctx, cancel := v.context()
	defer cancel()
	banner, err := v.deps.Banner(ctx)
	if err != nil {
		v.refuse(err)
		return
	}
	b, ok, err := v.signedIn(ctx)
	if err != nil {
		v.refuse(err)
		return
	}
	if !ok {
		v.json(http.StatusOK, sessionBody{Banner: banner})
		return
	}
	places, err := v.deps.Members.Places(ctx, b)
	if err != nil {
		v.refuse(err)
		return
	}
	body := viewSession(b, places)
	body.Banner = banner
	v.json(http.StatusOK, body)
}

func viewSession(b member.Session, places []member.Place) sessionBody {
	body := sessionBody{
		SignedIn: true, Person: &personBody{string(b.Person.ID), b.Person.Email, b.Person.Name}, Orgs: make([]orgBody, len(places)), ExpiresAt: (*stamp.Time)(&b.ExpiresAt),
	}
	if b.Support != "" {
		body.Person, body.Support = &personBody{"operator", b.OperatorLabel(), "Operator"}, &supportBody{b.Reason}
	}
	for i, at := range places {
		o := at.Org
		body.Orgs[i] = orgBody{
			string(o.ID), o.Name, string(o.Environment), string(at.Role), string(o.Plan), o.SuspendedAt != nil, nil,
		}
		if o.Deletion != nil {
			body.Orgs[i].PurgeAt = (*stamp.Time)(&o.Deletion.PurgeAt)
		}
		// The first org is current if the user has left the one that was open.
		if body.CurrentOrg == "" || o.ID == b.Org {
			body.CurrentOrg = string(o.ID)
		}
	}
	return body
}

// postOrg changes the current org of the browser.
func (v *visit) postOrg() {
	var body struct {
		Org string `json:"org"`
	}
	if kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		v.refuse(problem.UnsupportedMediaType.New("Send the body as application/json."))
		return
	}
	if err := json.NewDecoder(v.r.Body).Decode(&body); err != nil {
		v.refuse(problem.MalformedJSON.New("The body is not a JSON object."))
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	if err := v.deps.Members.Switch(ctx, v.cookie(), body.Org); err != nil {
		v.refuse(err)
		return
	}
	v.json(http.StatusOK, map[string]string{"currentOrg": body.Org})
}

func (v *visit) json(status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		v.fault = errors.Join(v.fault, err)
		status, text = http.StatusInternalServerError, []byte("{}")
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(text) // The browser may have disconnected.
}
