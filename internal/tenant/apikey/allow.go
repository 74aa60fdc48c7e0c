package apikey

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Allow holds the limits of a key beyond its scopes. The zero value does not limit.
type Allow struct {
	// Methods are lists of patterns, all of which must allow a call. A key has the lists of the key that minted it,
	// followed by its own.
	Methods []Patterns
	// Accounts are the accounts that the key may use; nil means all of the org's.
	Accounts []id.Account
	// Networks are those from which the key may be used; nil means from anywhere.
	Networks []netip.Prefix
}

// Method is a method of a platform's catalogue.
type Method struct {
	Platform, Resource, Name string
	Sensitive                bool
}

// MayCall reports whether the key may call a method. It runs on every call and does not allocate.
func (a *Allow) MayCall(m Method) bool {
	for i := range a.Methods {
		if !a.Methods[i].allows(m) {
			return false
		}
	}
	return true
}

func (a *Allow) MayUse(account id.Account) bool {
	return a.Accounts == nil || slices.Contains(a.Accounts, account)
}

// Patterns is one list of method patterns. The zero value allows everything.
type Patterns struct {
	rules []rule
	// allowlist is true if at least one pattern allows. The list then denies every method that no pattern matches.
	allowlist bool
}

// rule is one parsed pattern. An empty platform, resource or method matches any.
type rule struct {
	platform, resource, method string
	sensitive, deny            bool
}

const (
	wildcard      = "*"
	sensitiveWord = "sensitive"
	denyPrefix    = "!"
	platformEnd   = ":"
)

// Bounds on the limits of a key.
const (
	MaxPatterns = 64
	MaxAccounts = 100
	// maxLists bounds how many lists of patterns a key can have, including inherited ones.
	maxLists = 8
)

// narrow returns the limits of a key that is minted by a key with limits a: a's limits and the given ones. It fails if
// accounts or networks contain one that a does not allow.
func (a *Allow) narrow(methods []string, accounts []id.Account, networks []string) (Allow, error) {
	allow := *a
	bad := problem.ValidationFailed.New("The limits of the key are invalid.")
	if methods != nil {
		allow.Methods = a.appendList(parsePatterns(bad, methods))
		if len(allow.Methods) > maxLists {
			bad.At("/methods", "inherited", "must be omitted: the calling key already has the maximum number of lists")
		}
	}
	if accounts != nil {
		allow.Accounts = slices.Compact(slices.Sorted(slices.Values(accounts)))
		if len(accounts) == 0 || len(accounts) > MaxAccounts {
			bad.At("/accountIds", "items", "must name 1 to 100 accounts; leave it out for all that the calling key may use")
		}
	}
	if networks != nil {
		allow.Networks = parseNetworks(bad, networks)
	}
	if len(bad.Fields) > 0 {
		return Allow{}, bad
	}
	for _, one := range allow.Accounts {
		if !a.MayUse(one) {
			return Allow{}, problem.ScopeEscalation.Newf("The calling key may not use %s, so it cannot give it to another key.", one).With("accountId", one)
		}
	}
	for _, one := range allow.Networks {
		if !a.containsNetwork(one) {
			return Allow{}, problem.ScopeEscalation.Newf("The calling key may not be used from all of %s, so it cannot allow that to another key.", one)
		}
	}
	return allow, nil
}

// covers reports whether a key with limits a could have minted one with limits b.
func (a *Allow) covers(b *Allow) bool {
	for _, list := range a.Methods {
		if !slices.ContainsFunc(b.Methods, list.equal) {
			return false
		}
	}
	if a.Accounts != nil && (b.Accounts == nil || !every(b.Accounts, a.MayUse)) {
		return false
	}
	return a.Networks == nil || b.Networks != nil && every(b.Networks, a.containsNetwork)
}

func every[T any](list []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(list, func(one T) bool { return !holds(one) })
}

// Equal reports whether two keys have the same limits.
func (a *Allow) Equal(b *Allow) bool {
	return slices.EqualFunc(a.Methods, b.Methods, Patterns.equal) &&
		(a.Accounts == nil) == (b.Accounts == nil) && slices.Equal(a.Accounts, b.Accounts) &&
		(a.Networks == nil) == (b.Networks == nil) && slices.Equal(a.Networks, b.Networks)
}

// IsLimited reports whether there is a limit at all.
func (a *Allow) IsLimited() bool { return a.Methods != nil || a.Accounts != nil || a.Networks != nil }

// appendList returns a.Methods with the list appended, or unchanged if it already contains an equal list.
func (a *Allow) appendList(list Patterns) []Patterns {
	if slices.ContainsFunc(a.Methods, list.equal) {
		return a.Methods
	}
	return append(slices.Clone(a.Methods), list)
}

// Lists returns the key's own patterns and the inherited lists as text, nil if there are none. The last list counts as
// the key's own even if the key was minted without one.
func (a *Allow) Lists() (own []string, inherited [][]string) {
	for i, list := range a.Methods {
		if i == len(a.Methods)-1 {
			return list.Strings(), inherited
		}
		inherited = append(inherited, list.Strings())
	}
	return nil, nil
}

// parsePatterns parses a list of patterns and adds every error to bad.
func parsePatterns(bad *problem.Error, texts []string) (list Patterns) {
	if len(texts) == 0 || len(texts) > MaxPatterns {
		bad.At("/methods", "items", "must have 1 to 64 patterns; leave it out to limit nothing")
	}
	for i, text := range texts {
		r, ok := parseRule(text)
		if !ok {
			bad.At("/methods/"+itoa(i), "pattern", "must be resource.method, resource.*, * or sensitive, after platform: for one platform only, with ! in front to deny")
		}
		list.add(r)
	}
	return list
}

// parseStored parses the lists of a stored key. A list with a pattern that this version does not understand denies
// everything: a key must never gain permissions because an older or newer server reads it.
func parseStored(stored [][]string) []Patterns {
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
	p.allowlist = p.allowlist || !r.deny
}

// Named returns the platform, resource and method that a pattern names; an empty part matches any. ok is false if the
// text is not a pattern.
func Named(pattern string) (m Method, ok bool) {
	r, ok := parseRule(pattern)
	return Method{Platform: r.platform, Resource: r.resource, Name: r.method}, ok
}

func parseRule(text string) (r rule, ok bool) {
	text, r.deny = strings.CutPrefix(text, denyPrefix)
	if platform, rest, named := strings.Cut(text, platformEnd); named {
		if !platformPattern.MatchString(platform) {
			return rule{}, false
		}
		r.platform, text = platform, rest
	}
	switch text {
	case wildcard:
		return r, true
	case sensitiveWord:
		r.sensitive = true
		return r, true
	}
	resource, method, _ := strings.Cut(text, ".")
	if !namePattern.MatchString(resource) || (method != wildcard && !namePattern.MatchString(method)) {
		return rule{}, false
	}
	r.resource = resource
	if method != wildcard {
		r.method = method
	}
	return r, true
}

// platformPattern matches the ids of platforms.
var platformPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// namePattern matches the names of resources and methods in a catalogue.
var namePattern = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,39}$`)

// Strings returns the patterns as text.
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
		text = sensitiveWord
	case r.resource == "":
		text = wildcard
	case r.method == "":
		text = r.resource + "." + wildcard
	default:
		text = r.resource + "." + r.method
	}
	if r.platform != "" {
		text = r.platform + platformEnd + text
	}
	if r.deny {
		text = denyPrefix + text
	}
	return text
}

// allows reports whether the list allows a method. A pattern that denies wins over all that allow, whatever their
// order.
func (p *Patterns) allows(m Method) bool {
	allowed := !p.allowlist
	for i := range p.rules {
		r := &p.rules[i]
		if !r.matches(m) {
			continue
		}
		if r.deny {
			return false
		}
		allowed = true
	}
	return allowed
}

func (r *rule) matches(m Method) bool {
	if r.platform != "" && r.platform != m.Platform {
		return false
	}
	if r.sensitive {
		return m.Sensitive
	}
	return (r.resource == "" || r.resource == m.Resource) && (r.method == "" || r.method == m.Name)
}

func (p Patterns) equal(other Patterns) bool { return slices.Equal(p.rules, other.rules) }
