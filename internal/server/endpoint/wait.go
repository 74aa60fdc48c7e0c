package endpoint

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// MaxWait is the longest that a caller may ask an answer to be held.
const MaxWait = 25 * time.Second

// WaitTimeout is the timeout of an operation that holds its answer.
const WaitTimeout = MaxWait + typedTimeout

// Prefer is a part of the input of an operation that can hold its answer. Wait reads it.
type Prefer struct {
	Prefer []string `header:"Prefer" doc:"wait=N holds the answer for up to N seconds (0 to 25), until there is something new."`
}

// PreferOrQuery is Prefer for an operation that reads, where a query parameter will do as well.
type PreferOrQuery struct {
	Prefer
	Wait int `query:"wait" minimum:"0" maximum:"25" doc:"The same as Prefer: wait=N."`
}

// Wait is how long the caller asks the answer to be held: the header Prefer: wait=N, or when reading ?wait=N, of 0 to 25 seconds;
// otherwise what the operation does by itself.
func Wait(ctx context.Context, unless time.Duration) (time.Duration, error) {
	call := From(ctx)
	if r := call.request; r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "wait=") {
		if query := r.URL.Query(); query.Has("wait") {
			return parseWait(query.Get("wait"), "query/wait")
		}
	}
	text, ok := preference(call.request.Header["Prefer"], "wait")
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
	return 0, problem.InvalidRequest.New("An answer can be held for 0 to 25 seconds.").At(pointer, "range", "wait must be a whole number from 0 to 25")
}

// preference finds one in the Prefer headers (RFC 7240). Of several of one name the first counts.
func preference(headers []string, name string) (value string, ok bool) {
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			one, _, _ = strings.Cut(one, ";") // parameters of a preference
			key, value, _ := strings.Cut(one, "=")
			if strings.EqualFold(strings.TrimSpace(key), name) {
				return strings.Trim(strings.TrimSpace(value), `"`), true
			}
		}
	}
	return "", false
}
