package endpoint

import (
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// EventSchema is what the document says about a kind of event.
type EventSchema struct {
	// Data is the JSON Schema of the event's data, with everything that it refers to in $defs.
	Data json.RawMessage
	// Example is a recorded event; nil if there is none.
	Example json.RawMessage
}

// EventSchemas returns the kinds of events of a document.
func EventSchemas(document []byte) (map[string]EventSchema, error) {
	var doc struct {
		Webhooks map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							AllOf []struct {
								Properties struct{ Data json.RawMessage }
							}
						}
						Example json.RawMessage
					}
				}
			}
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("read the events of the document: %w", err)
	}
	found := map[string]EventSchema{}
	for kind, w := range doc.Webhooks {
		form := w.Post.RequestBody.Content["application/json"]
		for _, part := range form.Schema.AllOf {
			if part.Properties.Data == nil {
				continue
			}
			data := apimodel.Bundle(part.Properties.Data, schemaPrefix, doc.Components.Schemas)
			found[kind] = EventSchema{Data: data, Example: form.Example}
		}
	}
	return found, nil
}
