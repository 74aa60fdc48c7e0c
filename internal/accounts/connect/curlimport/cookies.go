package curlimport

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	// maxHeader is how long a Cookie header may be, in bytes.
	maxHeader = 16 << 10
	// maxExport is how long an export may be: it tells much more of each cookie.
	maxExport = 64 << 10
	// maxCookies is how many an export may have; browsers keep 180 of one site.
	maxCookies = 1000
)

// Cookie is one of an export. When it ends is not read: the platform is asked whether the session lives.
type Cookie struct {
	Name  string        `json:"name"`
	Value secret.String `json:"value"`
	// Domain is empty if the export does not say; the cookie is then taken to be the platform's.
	Domain string `json:"domain"`
	Path   string `json:"path"`
	// HostOnly means that the cookie is not for hosts below its domain.
	HostOnly bool `json:"hostOnly"`
}

// fault says what keeps a cookie from being one; empty if nothing does.
func (c Cookie) fault() string {
	value := c.Value.Reveal()
	switch {
	case c.Name == "":
		return "has no name"
	case control(c.Name) || strings.ContainsAny(c.Name, "=; \t") || !utf8.ValidString(c.Name):
		return "has a name with a character that names cannot have"
	case control(value) || strings.Contains(value, ";") || !utf8.ValidString(value):
		return "has a value with a control character or a semicolon"
	}
	return ""
}

func control(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// Cookies reads a pasted text: a Cookie header, the JSON of a browser extension, or a cookies.txt in Netscape's form. Cookies of
// other hosts are left out, and so may be all of them.
//
// Of several with one name an export gives the one with the longest path, and of those the last. A header has no paths; browsers
// write the longest first, so it gives the first.
func Cookies(text secret.String, hosts []string) (map[string]secret.String, error) {
	plain := strings.TrimFunc(strings.TrimPrefix(text.Reveal(), "\ufeff"), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
	switch {
	case len(plain) > maxExport:
		return nil, invalid("/cookie", "length", "must have at most 64 KiB")
	case plain == "":
		return nil, invalid("/cookie", "required", "must not be empty")
	case !utf8.ValidString(plain):
		return nil, invalid("/cookie", "encoding", "must be UTF-8 text")
	case plain[0] == '[' || plain[0] == '{':
		return fromJSON(plain, hosts)
	case netscape(plain):
		return fromNetscape(plain, hosts)
	}
	return fromHeader(plain)
}

// List is Cookies for an export that came as a list already.
func List(list []Cookie, hosts []string) (map[string]secret.String, error) {
	if len(list) > maxCookies {
		return nil, invalid("/cookies", "maxItems", "must have at most 1000 cookies")
	}
	bad := problem.ValidationFailed.New("A cookie cannot be used.")
	for i, one := range list {
		if fault := one.fault(); fault != "" {
			bad.At(fmt.Sprintf("/cookies/%d", i), "character", fault)
		}
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	return choose(list, hosts), nil
}

func invalid(pointer, code, detail string) error {
	return problem.ValidationFailed.New("The cookies could not be read.").At(pointer, code, detail)
}

func fromHeader(text string) (map[string]secret.String, error) {
	if len(text) > maxHeader {
		return nil, invalid("/cookie", "length", "must have at most 16 KiB")
	}
	if name, rest, ok := strings.Cut(text, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "cookie") {
		text = rest
	}
	if control(text) {
		return nil, invalid("/cookie", "character", "must be one line without control characters")
	}
	found := headerCookies(text)
	if len(found) == 0 {
		return nil, invalid("/cookie", "format", "must be a Cookie header such as name=value; name=value, a JSON export or a cookies.txt")
	}
	return found, nil
}

// headerCookies reads the pairs of a Cookie header. What is no pair is passed over: browsers send such cookies, and no platform
// keeps its session in one.
func headerCookies(text string) map[string]secret.String {
	found := map[string]secret.String{}
	for pair := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(pair, "=")
		one := Cookie{Name: strings.Trim(name, " \t"), Value: secret.New(strings.Trim(value, " \t"))}
		if _, taken := found[one.Name]; ok && !taken && one.fault() == "" {
			found[one.Name] = one.Value
		}
	}
	return found
}

// entry is a cookie of a JSON export. A pointer tells a missing text from an empty one.
type entry struct {
	Name     *string `json:"name"`
	Value    *string `json:"value"`
	Domain   string  `json:"domain"`
	Host     string  `json:"host"`
	Path     string  `json:"path"`
	HostOnly bool    `json:"hostOnly"`
}

func fromJSON(text string, hosts []string) (map[string]secret.String, error) {
	var list []entry
	var err error
	if text[0] == '[' {
		err = json.Unmarshal([]byte(text), &list)
	} else {
		var wrapped struct {
			Cookies []entry `json:"cookies"`
		}
		err = json.Unmarshal([]byte(text), &wrapped)
		list = wrapped.Cookies
	}
	switch {
	case err != nil:
		// The reader's own words quote the text.
		return nil, invalid("/cookie", "format", "must be a JSON list of cookies, each with name and value as texts")
	case len(list) == 0:
		return nil, invalid("/cookie", "minItems", "must have at least one cookie")
	case len(list) > maxCookies:
		return nil, invalid("/cookie", "maxItems", "must have at most 1000 cookies")
	}
	cookies := make([]Cookie, 0, len(list))
	for i, e := range list {
		if e.Name == nil || e.Value == nil {
			return nil, invalid("/cookie", "required", fmt.Sprintf("must give name and value of every cookie; number %d lacks one", i+1))
		}
		one := Cookie{Name: *e.Name, Value: secret.New(*e.Value), Domain: e.Domain, Path: e.Path, HostOnly: e.HostOnly}
		if one.Domain == "" {
			one.Domain = e.Host
		}
		if fault := one.fault(); fault != "" {
			return nil, invalid("/cookie", "character", fmt.Sprintf("cookie number %d %s", i+1, fault))
		}
		cookies = append(cookies, one)
	}
	return choose(cookies, hosts), nil
}

const httpOnly = "#HttpOnly_"

// netscape says whether a text is a cookies.txt: by its first line, or by the tabs of its first cookie.
func netscape(text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	return strings.HasPrefix(first, "#") || strings.Count(first, "\t") >= 5
}

func fromNetscape(text string, hosts []string) (map[string]secret.String, error) {
	var cookies []Cookie
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimPrefix(strings.TrimSuffix(line, "\r"), httpOnly)
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) == 6 {
			fields = append(fields, "") // the tab before an empty value is often lost
		}
		if len(fields) != 7 {
			return nil, invalid("/cookie", "format", fmt.Sprintf("line %d must have seven fields with tabs between them", number))
		}
		one := Cookie{Name: fields[5], Value: secret.New(fields[6]), Domain: fields[0], Path: fields[2], HostOnly: !strings.EqualFold(fields[1], "TRUE")}
		if fault := one.fault(); fault != "" {
			return nil, invalid("/cookie", "character", fmt.Sprintf("the cookie in line %d %s", number, fault))
		}
		cookies = append(cookies, one)
	}
	switch {
	case len(cookies) == 0:
		return nil, invalid("/cookie", "minItems", "must have at least one cookie")
	case len(cookies) > maxCookies:
		return nil, invalid("/cookie", "maxItems", "must have at most 1000 cookies")
	}
	return choose(cookies, hosts), nil
}

// choose keeps the cookies of the hosts, one of each name: the longest path wins, and the last of equals.
func choose(list []Cookie, hosts []string) map[string]secret.String {
	chosen, paths := map[string]secret.String{}, map[string]int{}
	for _, one := range list {
		if !one.belongs(hosts) || paths[one.Name] > len(one.Path) {
			continue
		}
		chosen[one.Name], paths[one.Name] = one.Value, len(one.Path)
	}
	return chosen
}

// belongs says whether a browser would send the cookie to one of the hosts. Ports do not matter to cookies.
func (c Cookie) belongs(hosts []string) bool {
	domain := strings.ToLower(strings.TrimPrefix(c.Domain, "."))
	for _, host := range hosts {
		name, _ := split(host, "")
		below := !c.HostOnly && strings.Contains(domain, ".") && strings.HasSuffix(name, "."+domain)
		if domain == "" || domain == name || below {
			return true
		}
	}
	return false
}
