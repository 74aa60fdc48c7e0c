package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// Roster says who has which role: email addresses, and groups at the identity provider.
type Roster struct{ emails, groups map[string]Role }

// groupPrefix begins the name of a group in a roster.
const groupPrefix = "group:"

// ParseRoster reads a roster: entries such as ana@example.com=owner or group:support-team=support, separated by spaces,
// commas or line breaks. Lines that begin with # are comments.
func ParseRoster(text string) (Roster, error) {
	r := Roster{map[string]Role{}, map[string]Role{}}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, entry := range strings.FieldsFunc(line, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n' }) {
			if err := r.add(entry); err != nil {
				return Roster{}, err
			}
		}
	}
	return r, nil
}

func (r Roster) add(entry string) error {
	at := strings.LastIndex(entry, "=")
	if at < 0 {
		return fmt.Errorf("%q has no role: write it as ana@example.com=owner or group:support-team=support", entry)
	}
	name, role := entry[:at], Role(entry[at+1:])
	if !slices.Contains(Roles(), role) {
		return fmt.Errorf("%q has the role %q: use viewer, support, operator or owner", entry, role)
	}
	in := r.emails
	if group, ok := strings.CutPrefix(name, groupPrefix); ok && group != "" {
		name, in = group, r.groups
	} else if name, ok = member.CleanEmail(name); !ok {
		return fmt.Errorf("%q has no valid email address: write it as ana@example.com=owner or group:support-team=support", entry)
	}
	if _, twice := in[name]; twice {
		return fmt.Errorf("%q is there twice: remove one of them", name)
	}
	in[name] = role
	return nil
}

// Empty reports whether the roster has no entry.
func (r Roster) Empty() bool { return len(r.emails)+len(r.groups) == 0 }

// RoleOf returns the highest role of a person by their address, in the form of member.CleanEmail, and their groups; empty
// if they have none.
func (r Roster) RoleOf(email string, groups []string) Role {
	role := r.emails[email]
	for _, g := range groups {
		if other := r.groups[g]; slices.Index(Roles(), other) > slices.Index(Roles(), role) {
			role = other
		}
	}
	return role
}

// roleOf returns the current role of a person; empty if they are no operator.
func (o *Operators) roleOf(ctx context.Context, email string, groups []string) (Role, error) {
	text, err := read(o.deps.Config.RosterFile, o.deps.Config.Roster)
	if err != nil {
		return "", o.unreadable(ctx, err)
	}
	r, err := ParseRoster(text)
	if err != nil {
		return "", o.unreadable(ctx, err)
	}
	return r.RoleOf(email, groups), nil
}
