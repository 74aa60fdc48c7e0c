package sdk

import "github.com/stagedoor/stagedoor/internal/platform/catalog"

// Hint is what a language model learns about a method.
type Hint struct {
	Title                 string
	ReadOnly, Destructive bool
}

// Hints returns the hints of the tools for methods.
func Hints(methods []*catalog.Method) ([]Hint, error) {
	document, err := tools(methods)
	if err != nil {
		return nil, err
	}
	var hints []Hint
	for _, t := range document.(object)["tools"].([]tool) {
		hints = append(hints, Hint{t.Title, t.Annotations["readOnlyHint"], t.Annotations["destructiveHint"]})
	}
	return hints, nil
}
