package apikey

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Allow is what a key is limited to, beyond its scopes. The zero value limits nothing.
type Allow struct {
	// Methods are lists of patterns; every one of them must allow a call. A key has the lists of the key that minted it, then its own.
	Methods []Patterns
	// Accounts are the accounts that the key may use; nil means all of them.
	Accounts []id.Account
}

// MayCall says whether the key may call a method of the catalogue.
func (a *Allow) MayCall(resource, method string, sensitive bool) bool {
	for i := range a.Methods {
		if !a.Methods[i].allow(resource, method, sensitive) {
			return false
		}
	}
	return true
}

// MayUse says whether the key may use an account.
func (a *Allow) MayUse(account id.Account) bool {
	return a.Accounts == nil || slices.Contains(a.Accounts, account)
}

// Patterns is one list of patterns of methods. The zero value allows everything.
type Patterns struct {
	rules []rule
	// closed means that at least one pattern allows, so that what none allows is refused.
	closed bool
}

// rule is one pattern. An empty part stands for any.
type rule struct {
	resource, method string
	sensitive, deny  bool
}

const (
	anything      = "*"
	sensitiveOnes = "sensitive"
	denying       = "!"
)

// Bounds of what a key can be limited to.
const (
	MaxPatterns = 64
	MaxAccounts = 100
	// maxLists is how many lists of patterns a key can have, its own and those that it inherits.
	maxLists = 8
)

// narrowed is what a key may do that is made by one with these limits: all of them hold for it, and its own as well.
func (a *Allow) narrowed(methods []string, accounts []id.Account) (Allow, error) {
	allow := *a
	bad := problem.ValidationFailed.New("The key cannot be limited like this.")
	if methods != nil {
		allow.Methods = a.and(checkPatterns(bad, methods))
		if len(allow.Methods) > maxLists {
			bad.At("/methods", "inherited", "must be left out: the calling key inherits as many lists as a key can have")
		}
	}
	if accounts != nil {
		allow.Accounts = slices.Compact(slices.Sorted(slices.Values(accounts)))
		if len(accounts) == 0 || len(accounts) > MaxAccounts {
			bad.At("/accountIds", "items", "must name 1 to 100 accounts; leave it out for all that the calling key may use")
		}
	}
	if len(bad.Fields) > 0 {
		return Allow{}, bad
	}
	for _, one := range allow.Accounts {
		if !a.MayUse(one) {
			return Allow{}, problem.ScopeEscalation.Newf("The calling key may not use %s, so it cannot give it to another key.", one).With("accountId", one)
		}
	}
	return allow, nil
}

// and adds a list to those that must allow a call. One that is there already adds nothing.
func (a *Allow) and(list Patterns) []Patterns {
	if slices.ContainsFunc(a.Methods, list.equal) {
		return a.Methods
	}
	return append(slices.Clone(a.Methods), list)
}

// Lists are the key's own patterns and those that it inherits, as they are written; nil if there are none. Of lists that are
// all inherited, the last one counts as its own.
func (a *Allow) Lists() (own []string, inherited [][]string) {
	for i, list := range a.Methods {
		if i == len(a.Methods)-1 {
			return list.Strings(), inherited
		}
		inherited = append(inherited, list.Strings())
	}
	return nil, nil
}

// checkPatterns reads a list, or says what is wrong with it.
func checkPatterns(bad *problem.Error, texts []string) (list Patterns) {
	if len(texts) == 0 || len(texts) > MaxPatterns {
		bad.At("/methods", "items", "must have 1 to 64 patterns; leave it out to limit nothing")
	}
	for i, text := range texts {
		r, ok := parseRule(text)
		if !ok {
			bad.At("/methods/"+itoa(i), "pattern", "must be resource.method, resource.*, * or sensitive, with ! in front to deny")
		}
		list.add(r)
	}
	return list
}

// restored reads the lists of a stored key. One that this version does not understand allows nothing: a key never gains a power
// by being read by an older or a newer server.
func restored(stored [][]string) []Patterns {
	var lists []Patterns
	for _, texts := range stored {
		var list Patterns
		for _, text := range texts {
			r, ok := parseRule(text)
			if !ok {
				r = rule{deny: true}
			}
			list.add(r)
		}
		lists = append(lists, list)
	}
	return lists
}

func (p *Patterns) add(r rule) {
	if slices.Contains(p.rules, r) {
		return
	}
	p.rules = append(p.rules, r)
	p.closed = p.closed || !r.deny
}

// Named reads what a pattern names in the catalogue; empty parts stand for any. It is not ok if the text is no pattern.
func Named(pattern string) (resource, method string, ok bool) {
	r, ok := parseRule(pattern)
	return r.resource, r.method, ok
}

func parseRule(text string) (r rule, ok bool) {
	text, r.deny = strings.CutPrefix(text, denying)
	switch text {
	case anything:
		return r, true
	case sensitiveOnes:
		r.sensitive = true
		return r, true
	}
	resource, method, _ := strings.Cut(text, ".")
	if !name.MatchString(resource) || (method != anything && !name.MatchString(method)) {
		return rule{}, false
	}
	r.resource = resource
	if method != anything {
		r.method = method
	}
	return r, true
}

// name is how a catalogue names resources and methods.
var name = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,39}$`)

// Strings lists the patterns as they are written.
func (p Patterns) Strings() []string {
	texts := make([]string, len(p.rules))
	for i, r := range p.rules {
		texts[i] = r.text()
	}
	return texts
}

func (r rule) text() string {
	var text string
	switch {
	case r.sensitive:
		text = sensitiveOnes
	case r.resource == "":
		text = anything
	case r.method == "":
		text = r.resource + "." + anything
	default:
		text = r.resource + "." + r.method
	}
	if r.deny {
		text = denying + text
	}
	return text
}

// allow says whether the list lets a method pass. A pattern that denies wins over all that allow, wherever it stands.
func (p *Patterns) allow(resource, method string, sensitive bool) bool {
	allowed := !p.closed
	for i := range p.rules {
		r := &p.rules[i]
		if !r.matches(resource, method, sensitive) {
			continue
		}
		if r.deny {
			return false
		}
		allowed = true
	}
	return allowed
}

func (r *rule) matches(resource, method string, sensitive bool) bool {
	if r.sensitive {
		return sensitive
	}
	return (r.resource == "" || r.resource == resource) && (r.method == "" || r.method == method)
}

func (p Patterns) equal(other Patterns) bool { return slices.Equal(p.rules, other.rules) }
