package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Examples are bodies that a server has sent, for the document.
type Examples struct {
	// Responses holds the bodies of successful responses, by operationId and status.
	Responses map[string]map[string]json.RawMessage
	// Problems holds problems by their codes, Events whole events by their kinds.
	Problems, Events map[string]json.RawMessage
}

// Show adds examples to the document.
func (t *Table) Show(e Examples) { t.examples = e }

// exampleName names the component with the example of a problem. A slash is not allowed in such names.
func exampleName(code string) string { return "Problem." + strings.ReplaceAll(code, "/", ".") }

type rawObject = map[string]json.RawMessage

// addTo adds the examples to the responses of a document.
func (e Examples) addTo(doc []byte) ([]byte, error) {
	var root struct {
		Paths      map[string]map[string]rawObject
		Components struct{ Responses map[string]rawObject }
	}
	if err := json.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	for _, item := range root.Paths {
		for _, op := range item {
			if err := e.addToOperation(op); err != nil {
				return nil, err
			}
		}
	}
	for _, response := range root.Components.Responses {
		if err := e.addProblems(response, codesOf(response), ""); err != nil {
			return nil, err
		}
	}
	components := object{}
	for code, body := range e.Problems {
		if name := exampleName(code); bytes.Contains(doc, []byte(`"`+code+`"`)) { // An operation of this document names it.
			components[name] = object{"value": body}
		}
	}
	var whole, parts rawObject
	if err := json.Unmarshal(doc, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["components"], &parts); err != nil {
		return nil, err
	}
	for _, put := range []struct {
		into  rawObject
		name  string
		value any
	}{
		{parts, "responses", root.Components.Responses}, {parts, "examples", components}, {whole, "components", parts}, {whole, "paths", root.Paths},
	} {
		text, err := json.Marshal(put.value)
		if err != nil {
			return nil, err
		}
		put.into[put.name] = text
	}
	return json.Marshal(whole)
}

func (e Examples) addToOperation(op rawObject) error {
	var (
		id        string
		responses map[string]rawObject
	)
	if err := json.Unmarshal(op["operationId"], &id); err != nil {
		return err
	}
	if err := json.Unmarshal(op["responses"], &responses); err != nil {
		return err
	}
	codes := codesOf(op)
	for status, response := range responses {
		if err := e.addProblems(response, codes, status); err != nil {
			return fmt.Errorf("%s %s: %w", id, status, err)
		}
		if body := e.Responses[id][status]; body != nil {
			if err := setInContent(response, "application/json", "example", body); err != nil {
				return fmt.Errorf("%s %s: %w", id, status, err)
			}
		}
	}
	text, err := json.Marshal(responses)
	op["responses"] = text
	return err
}

// codesOf returns the problems that an operation or a response names.
func codesOf(owner rawObject) (codes []string) {
	if json.Unmarshal(owner["x-problems"], &codes) != nil {
		return nil
	}
	return codes
}

// addProblems adds the examples of those problems that have the status of the response; of all if status is empty.
func (e Examples) addProblems(response rawObject, codes []string, status string) error {
	found := object{}
	for _, code := range codes {
		kind, ok := problem.Lookup(code)
		if ok && e.Problems[code] != nil && (status == "" || status == fmt.Sprint(kind.Status)) {
			found[code] = object{"$ref": "#/components/examples/" + exampleName(code)}
		}
	}
	if len(found) == 0 {
		return nil
	}
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	return setInContent(response, problem.ContentType, "examples", text)
}

// setInContent sets a member of one form of a response, if the response has that form.
func setInContent(response rawObject, media, name string, value json.RawMessage) error {
	var content map[string]rawObject
	if response["content"] == nil {
		return nil
	}
	if err := json.Unmarshal(response["content"], &content); err != nil {
		return err
	}
	if content[media] == nil {
		return nil
	}
	content[media][name] = value
	text, err := json.Marshal(content)
	response["content"] = text
	return err
}
