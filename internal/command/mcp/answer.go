package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// largest is how much a model is given at once. More would not fit into its context, and half of a JSON text is none.
const largest = 1 << 20

// result turns an answer of the API into one of a tool: the body as it came, both as structure and as text.
func result(a Answer) *sdk.CallToolResult {
	if a.Status >= http.StatusBadRequest {
		r := failed(tell(a))
		if isObject(a.Body) {
			r.StructuredContent = json.RawMessage(a.Body)
		}
		return r
	}
	if len(a.Body) > largest {
		return failed(fmt.Sprintf("answer-too-large: the answer has %d KB, more than a model can use. The call was carried out; ask for less with limit, or for a smaller part.", len(a.Body)>>10))
	}
	return succeeded(a.Body)
}

// succeeded is a JSON object as a result.
func succeeded(body json.RawMessage) *sdk.CallToolResult {
	body = bytes.TrimSpace(body)
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}}
	if isObject(body) {
		r.StructuredContent = body
	}
	return r
}

// failed is an error that the model is meant to read and act on.
func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// problem is what is told of a Problem document.
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

// tell puts a problem into words: what happened, what to do, and how to find it again.
func tell(a Answer) string {
	var p problem
	if json.Unmarshal(a.Body, &p) != nil || p.Code == "" {
		return fmt.Sprintf("%d: the service answered with something that is not a problem document", a.Status)
	}
	lines := []string{fmt.Sprintf("%d %s: %s", a.Status, p.Code, orElse(p.Detail, p.Title))}
	for _, e := range p.Errors {
		lines = append(lines, "  "+strings.TrimPrefix(e.Pointer+": "+e.Detail, ": "))
	}
	lines = append(lines, advise(a.Status, p))
	if id, ok := strings.CutPrefix(p.Instance, "urn:request:"); ok {
		lines = append(lines, "Request "+id+". explain_problem tells more about "+p.Code+".")
	}
	return strings.Join(lines, "\n")
}

// advise says what to do next.
func advise(status int, p problem) string {
	switch {
	case p.Hint != "":
		return p.Hint
	case p.Outcome == "unknown":
		return "It is not known whether the call was carried out: look before you repeat it."
	case p.Retryable && p.RetryAfter > 0:
		return fmt.Sprintf("Try again in %.0f s.", p.RetryAfter)
	case p.Retryable:
		return "Try again in a moment."
	case status == http.StatusGone:
		return "The creator must connect this account again; repeating the call does not help."
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "The key of this server may not do that; repeating the call does not help."
	case status == http.StatusUnprocessableEntity, status == http.StatusBadRequest:
		return "Correct the arguments; search_methods shows what a method takes."
	case status == http.StatusNotFound:
		return "Look the id up first: it is of another account, or gone."
	}
	return "Repeating the same call does not help."
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func isObject(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && body[0] == '{' && json.Valid(body)
}

// raw encodes what is known to be encodable.
func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return text
}
