package endpoint

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// MaxWait is the longest time for which a caller can ask a response to be held.
const MaxWait = 25 * time.Second

// WaitTimeout is the timeout of an operation that can hold its response.
const WaitTimeout = MaxWait + typedTimeout

// Prefer is the part of the input of an operation that can hold its response. Wait reads it.
type Prefer struct {
	Prefer []string `header:"Prefer" doc:"wait=N holds the response for up to N seconds (0 to 25) until something changes."`
}

// PreferOrQuery is Prefer for an operation that reads, which also accepts the query parameter.
type PreferOrQuery struct {
	Prefer
	Wait int `query:"wait" minimum:"0" maximum:"25" doc:"Same as Prefer: wait=N."`
}

// Wait returns how long the caller asks the response to be held: the header Prefer: wait=N, or ?wait=N for a GET, of 0
// to 25 seconds. Without either it returns unless.
func Wait(ctx context.Context, unless time.Duration) (time.Duration, error) {
	call := From(ctx)
	if r := call.Origin.request; r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "wait=") {
		if query := r.URL.Query(); query.Has("wait") {
			return parseWait(query.Get("wait"), "query/wait")
		}
	}
	text, ok := preference(call.Origin.request.Header["Prefer"], "wait")
	if !ok {
		return unless, nil
	}
	d, err := parseWait(text, "header/Prefer")
	if err == nil {
		call.header.Set("Preference-Applied", "wait="+strconv.Itoa(int(d/time.Second)))
	}
	return d, err
}

func parseWait(text, pointer string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if d := time.Duration(n) * time.Second; err == nil && d <= MaxWait {
		return d, nil
	}
	return 0, problem.InvalidRequest.New("A response can be held for 0 to 25 seconds.").At(pointer, "range", "wait must be a whole number from 0 to 25")
}

// preference returns the value of a preference in the Prefer headers (RFC 7240). If it is given several times, the
// first counts.
func preference(headers []string, name string) (value string, ok bool) {
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			one, _, _ = strings.Cut(one, ";") // Drop the parameters of the preference.
			key, value, _ := strings.Cut(one, "=")
			if strings.EqualFold(strings.TrimSpace(key), name) {
				return strings.Trim(strings.TrimSpace(value), `"`), true
			}
		}
	}
	return "", false
}
