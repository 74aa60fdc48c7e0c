package auth

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	qrShelf  = "qr"
	qrLife   = 10 * time.Minute
	qrRotate = time.Minute
)

// qr is a sign-in that waits for approval on the creator's phone.
type qr struct {
	ID     string    `json:"id"`
	Secret string    `json:"secret"`
	Seed   string    `json:"seed"` // source of the tokens in the URL
	Device string    `json:"device"`
	Agent  string    `json:"agent"`
	Egress string    `json:"egress"`
	Status string    `json:"status"` // pending, scanned, accepted, rejected
	Login  string    `json:"login"`  // who approved
	At     time.Time `json:"at"`
	Used   bool      `json:"used"`
	// Scanned is the part of the token after the id, from the URL that a phone opened.
	Scanned string `json:"scanned,omitempty"`
}

// QR describes a QR sign-in to the sandbox's page and control API.
type QR struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Status string `json:"status"`
	Login  string `json:"login,omitempty"`
	Ends   string `json:"ends_at"`
}

// status returns the state that the platform reports at the given time.
func (s *qr) status(now time.Time) string {
	if s.Status != "accepted" && s.Status != "rejected" && now.After(s.At.Add(qrLife)) {
		return "expired"
	}
	return s.Status
}

// turn returns the number of the current URL, which changes every minute.
func (s *qr) turn(now time.Time) int { return int(now.Sub(s.At) / qrRotate) }

func (a *Auth) qrURL(s *qr, now time.Time) string {
	return a.Origin() + "/qr/" + s.ID + "." + strconv.Itoa(s.turn(now)) + s.Seed[:seedShown]
}

func (a *Auth) openQR(q *request) (any, error) {
	if a.Gate.Trouble(q.w, q.Request, "", &q.status) {
		return nil, errAnswered
	}
	device := q.Request.Header.Get("X-Device")
	if device == "" {
		return nil, errDevice
	}
	s := &qr{
		ID: token()[:16], Secret: token(), Seed: token(), Device: device, Agent: q.Request.UserAgent(),
		Egress: a.Gate.Egress(q.Request), Status: "pending", At: a.World.Now(),
	}
	if err := a.sweep(); err != nil {
		return nil, err
	}
	if err := a.World.Keep(qrShelf, s.ID, s); err != nil {
		return nil, err
	}
	shown := a.shown(s)
	shown["poll_secret"] = s.Secret
	return map[string]any{"qr": shown}, nil
}

func (a *Auth) shown(s *qr) map[string]any {
	now := a.World.Now()
	next := s.At.Add(time.Duration(s.turn(now)+1) * qrRotate)
	return map[string]any{
		"id": s.ID, "url": a.qrURL(s, now), "status": s.status(now), "expires_at": view.Stamp(next), "ends_at": view.Stamp(s.At.Add(qrLife)),
	}
}

// approver returns the login that approved a QR sign-in, or "" before the approval.
func (a *Auth) approver(q *request) (string, error) {
	s, err := a.findQR(q.Request.PathValue("id"))
	if err != nil {
		return "", err
	}
	return s.Login, nil
}

func (a *Auth) checkQR(q *request) (any, error) {
	s, err := a.findQR(q.Request.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(q.Request.Header.Get("X-Qr-Secret")), []byte(s.Secret)) != 1 {
		return nil, errNoQR
	}
	switch s.status(a.World.Now()) {
	case "rejected":
		return nil, errDenied
	case "expired":
		return nil, errNoQR
	case "accepted":
		if s.Used {
			return nil, errNoQR
		}
		s.Used = true
		if err := a.World.Keep(qrShelf, s.ID, s); err != nil {
			return nil, err
		}
		answer, err := a.signIn(q, s.Login, s.Device, s.Egress)
		if err != nil {
			return nil, err
		}
		answer.(map[string]any)["qr"] = a.shown(s)
		return answer, nil
	}
	return map[string]any{"qr": a.shown(s)}, nil
}

func (a *Auth) findQR(id string) (*qr, error) {
	var s qr
	ok, err := a.World.Recall(qrShelf, id, &s)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoQR
	}
	return &s, nil
}

// AnswerQR performs an action of the creator's phone: scan, approve (as a login) or deny.
func (a *Auth) AnswerQR(id, action, login string) (QR, error) {
	a.steps.Lock()
	defer a.steps.Unlock()
	s, err := a.findQR(id)
	if err != nil {
		return QR{}, err
	}
	now := a.World.Now()
	if current := s.status(now); current != "pending" && current != "scanned" {
		return QR{}, errNoQR
	}
	switch action {
	case "scan":
		s.Status = "scanned"
	case "approve":
		if login == "" {
			login = a.seen(s).Proposed()
		}
		if _, err := world.Persona(login); err != nil {
			return QR{}, fmt.Errorf("login must end in @%s", world.Domain)
		}
		s.Status, s.Login = "accepted", login
	case "deny":
		s.Status = "rejected"
	default:
		return QR{}, fmt.Errorf("action must be scan, approve or deny, not %q", action)
	}
	if err := a.World.Keep(qrShelf, s.ID, s); err != nil {
		return QR{}, err
	}
	return a.seen(s), nil
}

func (a *Auth) seen(s *qr) QR {
	now := a.World.Now()
	return QR{ID: s.ID, URL: a.qrURL(s, now), Status: s.status(now), Login: s.Login, Ends: s.At.Add(qrLife).Format(time.RFC3339)}
}

// QRs lists the QR sign-ins that were not answered yet.
func (a *Auth) QRs() ([]QR, error) {
	now := a.World.Now()
	list := []QR{}
	err := kept(a.World, qrShelf, func(s *qr) {
		if status := s.status(now); status == "pending" || status == "scanned" {
			list = append(list, a.seen(s))
		}
	})
	return list, err
}

// kept calls visit with every value of a shelf.
func kept[T any](w *world.World, shelf string, visit func(*T)) error {
	return w.Kept(shelf, func(_ string, value json.RawMessage) error {
		var one T
		if err := json.Unmarshal(value, &one); err != nil {
			return fmt.Errorf("read %s: %w", shelf, err)
		}
		visit(&one)
		return nil
	})
}
