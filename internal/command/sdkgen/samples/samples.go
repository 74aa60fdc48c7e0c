// Package samples generates the code samples of the OpenAPI document and thus of the API reference. They are generated
// because only the generator knows the names in each library. Start at Files.
package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/golang"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/python"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/typescript"
)

// sample is an element of x-codeSamples.
type sample struct {
	Lang   string `json:"lang"`
	Source string `json:"source"`
}

// Files returns the code samples by operationId: every method and operation in every language, with arguments that work
// on the sandbox.
func Files(m *model.Model) (map[string][]byte, error) {
	out := map[string][]sample{}
	for _, r := range m.Resources {
		for _, method := range r.Methods {
			code, err := writeAll(m, ofMethod(method))
			if err != nil {
				return nil, err
			}
			out[method.ID()] = code
		}
	}
	for _, g := range m.Groups {
		for _, o := range g.Operations {
			if o.Form != model.JSON || byHand[o.ID] != nil {
				continue
			}
			code, err := writeAll(m, ofOperation(o))
			if err != nil {
				return nil, err
			}
			out[o.ID] = code
		}
	}
	maps.Copy(out, byHand)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	return map[string][]byte{"samples.json": text.Bytes()}, nil
}

// writeAll writes a sample in every language.
func writeAll(m *model.Model, s model.Sample) ([]sample, error) {
	code, err := golang.Sample(m, s)
	return []sample{{"TypeScript", typescript.Sample(s)}, {"Go", code}, {"Python", python.Sample(s)}}, err
}

func ofMethod(m *model.Method) model.Sample {
	return model.Sample{
		Account: true, Owner: m.Resource, Name: m.Name, Params: m.Params, Args: model.ParseObject(m.Example),
		Paged: m.Page != nil,
	}
}

func ofOperation(o *model.Operation) model.Sample {
	s := model.Sample{
		Owner: o.Group, Name: o.Name, HTTP: o.HTTP, Params: o.Params, Args: model.ParseObject(o.Example),
		Paged: o.Page != nil,
	}
	for _, p := range o.PathParams {
		s.Path = append(s.Path, pathSample(p.JSON))
	}
	if o.InQuery {
		s.Args = requiredArgs(o.Params)
	}
	return s
}

// pathSample returns an example value of a path parameter. A value that starts with $ is a variable
// that every sample has.
func pathSample(name string) string {
	switch name {
	case "accountId", "attemptId":
		return "$" + name
	case "eventId":
		return "evt_01k9x3m5v8e7rbq2n4t6w8y0zc"
	case "deliveryId":
		return "dlv_01k9x3m5v8e7rbq2n4t6w8y0zd"
	case "requestId":
		return "req_01k9x3m5v8e7rbq2n4t6w8y0ze"
	case "keyId":
		return "key_01k9x3m5v8e7rbq2n4t6w8y0zf"
	case "code":
		return "quota-exceeded"
	}
	return strings.TrimSuffix(python.Snake(name), "_id") + "_01k9x3m5v8e7rbq2n4t6w8y0zg"
}

// requiredArgs returns example values of the required members of a query, or nil if there are none.
func requiredArgs(t *model.Type) *model.Node {
	n := &model.Node{Member: map[string]*model.Node{}}
	for _, f := range t.Fields {
		if !f.Required {
			continue
		}
		value := strconv.Quote(pathSample(f.JSON))
		if len(f.Type.Enum) > 0 {
			value = strconv.Quote(f.Type.Enum[0])
		}
		given := &model.Node{Raw: json.RawMessage(value)}
		if f.Type.Kind == model.Array {
			given = &model.Node{Items: []*model.Node{{Raw: json.RawMessage(strconv.Quote(pathSample(f.JSON + "Id")))}}}
		}
		n.Keys, n.Member[f.JSON] = append(n.Keys, f.JSON), given
	}
	if len(n.Keys) == 0 {
		return nil
	}
	return n
}
