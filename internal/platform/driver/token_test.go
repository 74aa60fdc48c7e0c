package driver_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	ghostKeyID     = "6afd1c494d03d63f75254f3d"
	ghostKeySecret = "00ff"
)

// byKey lets a request with a valid token pass, as Ghost does, and fails if it also has what belongs to a session.
func (g *fakeGhost) byKey(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if code, message := g.checkToken(r); code != "" {
		ghostError(w, http.StatusUnauthorized, "UnauthorizedError", code, message)
		return
	}
	if strings.Contains(r.URL.Path, "/emails/") {
		ghostError(w, http.StatusNotImplemented, "NotImplementedError", "", "The server does not support the functionality required to fulfill the request.")
		return
	}
	next(w, r)
}

// checkToken returns the code and message with which Ghost refuses a token.
func (g *fakeGhost) checkToken(r *http.Request) (code, message string) {
	if r.Header.Get("Cookie") != "" || r.Header.Get("Origin") != "" {
		return "TEST", "The request has a cookie or an origin."
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Ghost ")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		return "INVALID_AUTH_HEADER", `Authorization header format is "Authorization: Ghost [token]"`
	}
	var head struct{ Alg, Typ, Kid string }
	var claims struct {
		Iat, Exp int64
		Aud      string
	}
	for i, into := range []any{&head, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			return "INVALID_JWT", "Invalid token"
		}
	}
	g.mu.Lock()
	signer, known := g.keys[head.Kid]
	g.mu.Unlock()
	mac := hmac.New(sha256.New, signer)
	mac.Write([]byte(parts[0] + "." + parts[1]))
	now := g.now().Unix()
	switch {
	case !known:
		return "UNKNOWN_ADMIN_API_KEY", "Unknown Admin API Key"
	case head.Alg != "HS256" || head.Typ != "JWT" || base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) != parts[2]:
		return "INVALID_JWT", "Invalid token: invalid signature"
	case claims.Aud != "/admin/":
		return "INVALID_JWT", "Invalid token: jwt audience invalid"
	case claims.Iat > now || claims.Exp <= now || claims.Exp > claims.Iat+300:
		return "INVALID_JWT", "Invalid token: jwt expired"
	}
	return "", ""
}

// addKey adds the key to the site and returns its session.
func (r *ghostFixture) addKey() driver.Session {
	r.t.Helper()
	signer, err := hex.DecodeString(ghostKeySecret)
	must.OK(r.t, err)
	r.ghost.mu.Lock()
	defer r.ghost.mu.Unlock()
	r.ghost.keys[ghostKeyID] = signer
	return driver.NewTokenSession(catalog.Key{ID: ghostKeyID, Secret: secret.New(ghostKeySecret)})
}

// The identity of a key is the key, with the name of its site. Each request is signed separately, so a key works for
// long. The platform's cookies are not kept, and disconnecting sends nothing.
func TestAKeySignsEveryRequest(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "/blog")
	s := r.addKey()
	for range 3 {
		who, answer, err := r.driver.Probe(t.Context(), r.via(), s)
		must.OK(t, err)
		_, address, _ := strings.Cut(r.ghost.root(), "://")
		want := driver.Identity{ID: ghostKeyID, Username: address, Name: "Maya's letters", IsCreator: true}
		if who != want || len(answer.Changed) > 0 || !answer.Session.Encode().Equal(s.Encode()) {
			t.Errorf("%+v, want %+v; changed %v", who, want, answer.Changed)
		}
		r.clock.Advance(time.Hour)
	}
	files, err := r.driver.Files()
	must.OK(t, err)
	form, _ := r.catalog.Files.FormFor("image/png")
	args, err := form.Args()
	must.OK(t, err)
	_, err = files.SendForm(t.Context(), r.via(), s, driver.FormRequest{
		Form: form, Args: args, Name: "a.png", MediaType: "image/png", Body: bytes.NewReader([]byte("png")), Size: 3,
	})
	must.OK(t, err)
	r.ghost.Close() // SignOut would fail if it sent something
	must.OK(t, r.driver.SignOut(t.Context(), r.via(), s))
}

// A key that was deleted, regenerated or never valid is an ended session.
func TestARefusedKeyIsAnEndedSession(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.addKey()
	for name, key := range map[string]catalog.Key{
		"deleted":     {ID: "000000000000000000000000", Secret: secret.New(ghostKeySecret)},
		"regenerated": {ID: ghostKeyID, Secret: secret.New("0000")},
	} {
		_, _, err := r.driver.Probe(t.Context(), r.via(), driver.NewTokenSession(key))
		t.Log(name)
		wantRefusal(t, err, catalog.RefusedSession)
		_, err = r.driver.Poll(t.Context(), r.via(), driver.NewTokenSession(key), "")
		wantRefusal(t, err, catalog.RefusedSession)
	}
	_, _, err := r.driver.Probe(t.Context(), r.via(), s)
	must.OK(t, err)
}

// An account with a key polls the feeds that a key can read, and no other.
func TestAKeyPollsTheFeedsThatItCanRead(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.addKey()
	first, _ := r.poll(s, "")
	if first.Skipped > 0 || strings.Contains(first.Position, `"newsletters"`) || !strings.Contains(first.Position, `"activity"`) {
		t.Errorf("%d skipped, position %s", first.Skipped, first.Position)
	}
	id := r.ghost.happen("signup_event", r.clock.Now().Add(time.Minute))
	ids, _ := r.pollAll(s, first.Position)
	if want := []string{"activity:signup_event:" + id}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
}
