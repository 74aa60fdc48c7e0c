package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxResult limits the result of a tool, in bytes. A larger one would not fit into a model's context, and
// JSON cannot be cut.
const maxResult = 1 << 20

// toolResult converts a response of the API into the result of a tool, with the unchanged body as
// structure and as text.
func toolResult(a Response) *sdk.CallToolResult {
	if a.Status >= http.StatusBadRequest {
		r := errorResult(describeProblem(a))
		if isObject(a.Body) {
			r.StructuredContent = json.RawMessage(a.Body)
		}
		return r
	}
	if len(a.Body) > maxResult {
		return errorResult(fmt.Sprintf("answer-too-large: the response has %d KB, too much for a model. "+
			"The call was carried out. Use a smaller limit, or request less.", len(a.Body)>>10))
	}
	return jsonResult(a.Body)
}

// jsonResult returns a JSON body as a successful result.
func jsonResult(body json.RawMessage) *sdk.CallToolResult {
	body = bytes.TrimSpace(body)
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}}
	if isObject(body) {
		r.StructuredContent = body
	}
	return r
}

// errorResult returns an error that the model can read and act on.
func errorResult(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// problem is the part of a problem document that describeProblem uses.
type problem struct {
	Title      string  `json:"title"`
	Status     int     `json:"status"`
	Detail     string  `json:"detail"`
	Code       string  `json:"code"`
	Instance   string  `json:"instance"`
	Hint       string  `json:"hint"`
	Outcome    string  `json:"outcome"`
	Retryable  bool    `json:"retryable"`
	RetryAfter float64 `json:"retryAfterSec"`
	Errors     []struct {
		Pointer string `json:"pointer"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

// describeProblem describes a problem for the model: what happened, what to do, and the request id.
func describeProblem(a Response) string {
	var p problem
	if json.Unmarshal(a.Body, &p) != nil || p.Code == "" {
		return fmt.Sprintf("%d: the response is not a problem document", a.Status)
	}
	lines := []string{fmt.Sprintf("%d %s: %s", a.Status, p.Code, cmp.Or(p.Detail, p.Title))}
	for _, e := range p.Errors {
		lines = append(lines, "  "+strings.TrimPrefix(e.Pointer+": "+e.Detail, ": "))
	}
	lines = append(lines, advise(a.Status, p))
	if id, ok := strings.CutPrefix(p.Instance, "urn:request:"); ok {
		lines = append(lines, "Request "+id+". For details call explain_problem with "+p.Code+".")
	}
	return strings.Join(lines, "\n")
}

// advise says what the model should do next.
func advise(status int, p problem) string {
	switch {
	case p.Hint != "":
		return p.Hint
	case p.Outcome == "unknown":
		return "The call may have taken effect. Check before you repeat it."
	case p.Retryable && p.RetryAfter > 0:
		return fmt.Sprintf("Retry in %.0f s.", p.RetryAfter)
	case p.Retryable:
		return "Retry in a moment."
	case status == http.StatusGone:
		return "The creator must connect this account again. Do not retry."
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "The server's key is not allowed to do this. Do not retry."
	case status == http.StatusUnprocessableEntity, status == http.StatusBadRequest:
		return "Correct the arguments. search_methods shows the arguments of a method."
	case status == http.StatusNotFound:
		return "Look up the id first. It belongs to another account or no longer exists."
	}
	return "Do not retry the same call."
}

func isObject(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && body[0] == '{' && json.Valid(body)
}

// mustEncode encodes a value as JSON. It panics on failure, so it is only for types that are known to encode.
func mustEncode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return text
}
