package org

import (
	"bytes"
	_ "embed" // plans.json
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stagedoor/stagedoor/internal/base/suggest"
)

// builtIn are the plans of an installation without a file of plans, in the format of that file.
//
//go:embed plans.json
var builtIn []byte

// PlanLimits is a plan with its limits.
type PlanLimits struct {
	Name   Plan
	Limits Limits
}

// List returns all limits of the plan, in the order of LimitNames.
func (p PlanLimits) List() []Limit {
	list := make([]Limit, len(limitFields))
	for i, n := range limitFields {
		list[i] = Limit{Name: n.name, Value: *n.field(&p.Limits)}
	}
	return list
}

// Plans are the plans that orgs can have. They can be replaced while the node runs. A Plans is safe for concurrent use.
type Plans struct {
	// current is never nil. Its list is not modified.
	current atomic.Pointer[planList]
}

type planList struct {
	plans []PlanLimits
	// version grows with each replacement.
	version int64
}

// NewPlans returns the built-in plans.
func NewPlans() *Plans {
	p := &Plans{}
	p.current.Store(&planList{})
	if err := p.Replace(builtIn); err != nil {
		panic(fmt.Sprintf("the built-in plans: %v", err)) // TestBuiltInPlans
	}
	return p
}

// Replace replaces all plans by those in a file. If it returns an error, the plans are as before.
func (p *Plans) Replace(file []byte) error {
	list, err := parsePlans(file)
	if err != nil {
		return err
	}
	p.current.Store(&planList{list, p.current.Load().version + 1})
	return nil
}

// All returns the plans in the order of the file, and a number that is different after each replacement.
func (p *Plans) All() (plans []PlanLimits, version int64) {
	current := p.current.Load()
	return current.plans, current.version
}

// Has reports whether there is a plan.
func (p *Plans) Has(plan Plan) bool { return p.find(plan) != nil }

// Limits returns the limits of a plan. A plan that is no longer in the file has the limits of Sandbox, so that its orgs
// keep working, except that nothing is deleted earlier than the service itself does: a plan that is missing by mistake
// must not cost data.
func (p *Plans) Limits(plan Plan) Limits {
	if found := p.find(plan); found != nil {
		return found.Limits
	}
	l := p.find(Sandbox).Limits
	l.EventRetentionDays, l.DeliveryRetentionDays = MaxRetentionDays, MaxRetentionDays
	return l
}

func (p *Plans) resolve(plan Plan, o Override) Limits { return o.apply(p.Limits(plan)) }

func (p *Plans) find(plan Plan) *PlanLimits {
	list := p.current.Load().plans
	if i := slices.IndexFunc(list, func(one PlanLimits) bool { return one.Name == plan }); i >= 0 {
		return &list[i]
	}
	return nil
}

// names returns the names of all plans, for a message.
func (p *Plans) names() string {
	var names []string
	for _, one := range p.current.Load().plans {
		names = append(names, string(one.Name))
	}
	return strings.Join(names, ", ")
}

var planName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

const maxPlans = 100

// parsePlans parses a file of plans. Every plan must have every limit, and nothing else.
func parsePlans(file []byte) ([]PlanLimits, error) {
	if err := checkNames(file); err != nil {
		return nil, err
	}
	var in struct {
		Plans []struct {
			Name   Plan                       `json:"name"`
			Limits map[string]json.RawMessage `json:"limits"`
		} `json:"plans"`
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return nil, fmt.Errorf("the plans are not valid: %w", err)
	}
	if len(in.Plans) == 0 || len(in.Plans) > maxPlans {
		return nil, fmt.Errorf("there are %d plans: list 1 to %d in \"plans\"", len(in.Plans), maxPlans)
	}
	list := make([]PlanLimits, 0, len(in.Plans))
	for i, one := range in.Plans {
		if !planName.MatchString(string(one.Name)) {
			return nil, fmt.Errorf("plan %d has the name %q: use up to 32 lower-case letters, digits, - and _, a letter first", i+1, one.Name)
		}
		if slices.ContainsFunc(list, func(other PlanLimits) bool { return other.Name == one.Name }) {
			return nil, fmt.Errorf("plan %s is listed twice", one.Name)
		}
		limits, err := parseLimits(one.Limits)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", one.Name, err)
		}
		list = append(list, PlanLimits{one.Name, limits})
	}
	if !slices.ContainsFunc(list, func(one PlanLimits) bool { return one.Name == Sandbox }) {
		return nil, fmt.Errorf("there is no plan %s, which new organisations get", Sandbox)
	}
	return list, nil
}

// parseLimits returns one error that lists everything that is wrong.
func parseLimits(in map[string]json.RawMessage) (Limits, error) {
	var (
		l   Limits
		out []error
		bad = func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	)
	for _, n := range limitFields {
		text, ok := in[n.name]
		if !ok {
			bad("limits.%s is missing", n.name)
			continue
		}
		value, err := strconv.Atoi(string(text))
		switch {
		case err != nil || value < 1:
			bad("limits.%s is %s: use a whole number of at least 1", n.name, text)
		case strings.HasSuffix(n.name, "RetentionDays") && value > MaxRetentionDays:
			bad("limits.%s is %d: use at most %d, because nothing is stored for longer", n.name, value, MaxRetentionDays)
		}
		*n.field(&l) = value
	}
	names := LimitNames()
	for name := range in {
		if !slices.Contains(names, name) {
			nearest := slices.MinFunc(names, func(a, b string) int { return suggest.Distance(name, a) - suggest.Distance(name, b) })
			bad("limits.%s is not a limit; did you mean %s?", name, nearest)
		}
	}
	slices.SortFunc(out, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return l, errors.Join(out...)
}

// checkNames fails if an object of a JSON text has two members with the same name, of which a decoder would silently use
// the last, or if the text does not end after its first value.
func checkNames(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := checkValue(decoder, ""); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the end of the plans")
	}
	return nil
}

// checkValue reads one value. A decoder matches names regardless of case, so two that differ only in it are the same.
func checkValue(decoder *json.Decoder, path string) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("the plans are not JSON: %w", err)
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; decoder.More(); i++ {
		member := path + "[" + strconv.Itoa(i) + "]"
		if open == '{' {
			if token, err = decoder.Token(); err != nil {
				return fmt.Errorf("the plans are not JSON: %w", err)
			}
			name := fmt.Sprint(token)
			member = strings.TrimPrefix(path+"."+name, ".")
			if seen[strings.ToLower(name)] {
				return fmt.Errorf("%s is there twice", member)
			}
			seen[strings.ToLower(name)] = true
		}
		if err := checkValue(decoder, member); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing delimiter
		return fmt.Errorf("the plans are not JSON: %w", err)
	}
	return nil
}
