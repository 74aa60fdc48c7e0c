package library

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// URLs outside the API carry their expiry and a signature, made with a key of the creator.

// grant returns the query of a URL that is valid until the given time, for one object and one use.
func grant(c *world.Creator, until time.Time, use string, id int64, detail string) string {
	if c.Profile.SignKey == "" {
		c.Profile.SignKey = rand.Text()
		c.SaveProfile()
	}
	end := strconv.FormatInt(until.Unix(), 10)
	return url.Values{"exp": {end}, "sig": {signature(c, end, use, id, detail)}}.Encode()
}

func signature(c *world.Creator, end, use string, id int64, detail string) string {
	mac := hmac.New(sha256.New, []byte(c.Profile.SignKey))
	_, _ = fmt.Fprintf(mac, "%s\n%d\n%s\n%s", use, id, detail, end)
	return hex.EncodeToString(mac.Sum(nil))
}

// checkGrant returns a refusal unless the query is one that grant made and has not expired.
func checkGrant(c *world.Creator, query url.Values, use string, id int64, detail string) error {
	end := query.Get("exp")
	if c.Profile.SignKey == "" || !hmac.Equal([]byte(query.Get("sig")), []byte(signature(c, end, use, id, detail))) {
		return wire.Forbidden("The signature of this URL is not valid.")
	}
	if seconds, err := strconv.ParseInt(end, 10, 64); err != nil || !c.Now().Before(time.Unix(seconds, 0)) {
		return wire.Forbidden("This URL has expired. Request a new one.")
	}
	return nil
}

// refuse writes an error in the format of the API.
func refuse(w http.ResponseWriter, err error) {
	refusal, ok := errors.AsType[*wire.Refusal](err)
	switch {
	case ok:
	case errors.Is(err, world.ErrNoLogin):
		refusal = &wire.Refusal{Status: http.StatusNotFound, Code: 2002, Name: "not_found", Message: "There is nothing here."}
	default:
		refusal = &wire.Refusal{Status: http.StatusInternalServerError, Code: 5000, Name: "server_error", Message: "Something went wrong on our side."}
	}
	body, _ := json.Marshal(map[string]any{"error": refusal}) // cannot fail: only strings and numbers
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(body)
}
