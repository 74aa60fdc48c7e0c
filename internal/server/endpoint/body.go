package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Limits of a JSON body: size in bytes, levels of nesting, and members of one object or array.
const (
	maxBody    = 1 << 20
	maxDepth   = 32
	maxMembers = 2000
)

// readJSON reads the body of a request whose Content-Type must be JSON.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err != nil || media != "application/json" || charset != "" && charset != "utf-8" {
		return nil, problem.UnsupportedMediaType.New("Send the body with the header Content-Type: application/json.")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, problem.UnsupportedMediaType.New("Send the body as it is, without a Content-Encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, problem.PayloadTooLarge.Newf("The body is larger than %d bytes.", maxBody).With("limit", maxBody)
		}
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return nil, problem.RequestTimeout.New("The body did not arrive in time.").Because(err)
		}
		return nil, problem.InvalidRequest.New("The body could not be read completely.").Because(err)
	}
	return body, nil
}

// checkJSON rejects bodies that two parsers could read differently, or that are made to exhaust one: repeated names,
// invalid UTF-8, text after the value, deep nesting, endless lists.
func checkJSON(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return problem.MalformedJSON.New("The body is empty; send a JSON object.")
	}
	if !utf8.Valid(body) {
		return problem.MalformedJSON.New("The body is not UTF-8.")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := checkValue(dec, "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return problem.MalformedJSON.New("The body has text after the JSON value.")
	}
	return nil
}

// checkValue checks one value and everything in it.
func checkValue(dec *json.Decoder, pointer string, depth int) error {
	token, err := dec.Token()
	if err != nil {
		return malformed(dec, err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		if text, ok := token.(string); ok && strings.ContainsRune(text, 0) {
			return problem.ValidationFailed.New("A string contains the character NUL.").At(pointer, "character", "must not contain the character NUL")
		}
		return nil
	}
	if depth >= maxDepth {
		return problem.MalformedJSON.Newf("The body is nested more than %d levels deep.", maxDepth)
	}
	names := map[string]bool{}
	for n := 0; dec.More(); n++ {
		if n >= maxMembers {
			return problem.MalformedJSON.Newf("%s has more than %d members.", orRoot(pointer), maxMembers)
		}
		next := pointer + "/" + strconv.Itoa(n)
		if delim == '{' {
			name, err := dec.Token()
			if err != nil {
				return malformed(dec, err)
			}
			text, _ := name.(string)
			next = pointer + "/" + escape.Replace(text)
			if names[text] {
				return problem.MalformedJSON.New("A name is repeated within one object.").At(next, "repeated", "appears twice")
			}
			names[text] = true
		}
		if err := checkValue(dec, next, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return malformed(dec, err)
	}
	return nil
}

// escape encodes a name for a JSON pointer (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")

func malformed(dec *json.Decoder, err error) error {
	return problem.MalformedJSON.Newf("The body is not valid JSON: error or early end at byte %d.", dec.InputOffset()).Because(err)
}

func orRoot(pointer string) string {
	return cmp.Or(pointer, "The body")
}
