package curlimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	// maxHeader bounds a Cookie header, in bytes.
	maxHeader = 16 << 10
	// maxExport bounds an export, in bytes. It contains much more about each cookie than a header.
	maxExport = 64 << 10
	// maxCookies bounds the cookies of an export. Browsers keep 180 per site.
	maxCookies = 1000
)

// Cookie is a cookie of an export. Its expiry is not read: the platform decides whether the session is valid.
type Cookie struct {
	Name  string        `json:"name"`
	Value secret.String `json:"value"`
	// Domain is empty if the export does not contain it; the cookie then counts as the platform's.
	Domain string `json:"domain"`
	Path   string `json:"path"`
	// HostOnly means that the cookie is not sent to subdomains.
	HostOnly bool `json:"hostOnly"`
}

// invalidReason returns why the cookie is invalid, as the end of a sentence; empty if it is valid.
func (c Cookie) invalidReason() string {
	value := c.Value.Reveal()
	switch {
	case c.Name == "":
		return "has no name"
	case hasControl(c.Name) || strings.ContainsAny(c.Name, "=; \t") || !utf8.ValidString(c.Name):
		return "has a name with an invalid character"
	case hasControl(value) || strings.Contains(value, ";") || !utf8.ValidString(value):
		return "has a value with a control character or a semicolon"
	}
	return ""
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// Cookies reads a pasted text: a Cookie header, the JSON of a browser extension, or a cookies.txt in Netscape's
// format. It drops cookies of other hosts, so the result may be empty.
//
// If several cookies of an export have the same name, the one with the longest path counts, and of those the last. A
// header has no paths, but browsers write the longest path first, so the first one counts.
func Cookies(text secret.String, hosts []string) (map[string]secret.String, error) {
	plain := strings.TrimFunc(strings.TrimPrefix(text.Reveal(), "\ufeff"), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
	switch {
	case len(plain) > maxExport:
		return nil, invalidCookies("/cookie", "length", "must have at most 64 KiB")
	case plain == "":
		return nil, invalidCookies("/cookie", "required", "must not be empty")
	case !utf8.ValidString(plain):
		return nil, invalidCookies("/cookie", "encoding", "must be UTF-8 text")
	case plain[0] == '[' || plain[0] == '{':
		return fromJSON(plain, hosts)
	case isNetscape(plain):
		return fromNetscape(plain, hosts)
	}
	return fromHeader(plain)
}

// List is Cookies for an export that is already a list.
func List(list []Cookie, hosts []string) (map[string]secret.String, error) {
	if len(list) > maxCookies {
		return nil, invalidCookies("/cookies", "maxItems", "must have at most 1000 cookies")
	}
	bad := problem.ValidationFailed.New("A cookie cannot be used.")
	for i, one := range list {
		if fault := one.invalidReason(); fault != "" {
			bad.At(fmt.Sprintf("/cookies/%d", i), "character", fault)
		}
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	return selectCookies(list, hosts), nil
}

func invalidCookies(pointer, code, detail string) error {
	return problem.ValidationFailed.New("The cookies could not be read.").At(pointer, code, detail)
}

func fromHeader(text string) (map[string]secret.String, error) {
	if len(text) > maxHeader {
		return nil, invalidCookies("/cookie", "length", "must have at most 16 KiB")
	}
	if name, rest, ok := strings.Cut(text, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "cookie") {
		text = rest
	}
	if hasControl(text) {
		return nil, invalidCookies("/cookie", "character", "must be one line without control characters")
	}
	found := headerCookies(text)
	if len(found) == 0 {
		return nil, invalidCookies(
			"/cookie", "format", "must be a Cookie header such as name=value; name=value, a JSON export or a cookies.txt")
	}
	return found, nil
}

// headerCookies reads the pairs of a Cookie header. It skips what is not a pair: browsers send such cookies, but no
// platform keeps its session in one.
func headerCookies(text string) map[string]secret.String {
	found := map[string]secret.String{}
	for pair := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(pair, "=")
		one := Cookie{Name: strings.Trim(name, " \t"), Value: secret.New(strings.Trim(value, " \t"))}
		if _, taken := found[one.Name]; ok && !taken && one.invalidReason() == "" {
			found[one.Name] = one.Value
		}
	}
	return found
}

// jsonCookie is a cookie of a JSON export. Pointers distinguish a missing value from an empty one.
type jsonCookie struct {
	Name     *string `json:"name"`
	Value    *string `json:"value"`
	Domain   string  `json:"domain"`
	Host     string  `json:"host"`
	Path     string  `json:"path"`
	HostOnly bool    `json:"hostOnly"`
}

func fromJSON(text string, hosts []string) (map[string]secret.String, error) {
	var list []jsonCookie
	var err error
	if text[0] == '[' {
		err = json.Unmarshal([]byte(text), &list)
	} else {
		var wrapped struct {
			Cookies []jsonCookie `json:"cookies"`
		}
		err = json.Unmarshal([]byte(text), &wrapped)
		list = wrapped.Cookies
	}
	switch {
	case err != nil:
		// Do not use the decoder's error, which quotes the text.
		return nil, invalidCookies("/cookie", "format", "must be a JSON list of cookies, each with name and value as strings")
	case len(list) == 0:
		return nil, invalidCookies("/cookie", "minItems", "must have at least one cookie")
	case len(list) > maxCookies:
		return nil, invalidCookies("/cookie", "maxItems", "must have at most 1000 cookies")
	}
	cookies := make([]Cookie, 0, len(list))
	for i, e := range list {
		if e.Name == nil || e.Value == nil {
			return nil, invalidCookies("/cookie", "required",
				fmt.Sprintf("must have a name and a value for every cookie; number %d lacks one", i+1))
		}
		one := Cookie{Name: *e.Name, Value: secret.New(*e.Value), Domain: e.Domain, Path: e.Path, HostOnly: e.HostOnly}
		one.Domain = cmp.Or(one.Domain, e.Host)
		if fault := one.invalidReason(); fault != "" {
			return nil, invalidCookies("/cookie", "character", fmt.Sprintf("cookie number %d %s", i+1, fault))
		}
		cookies = append(cookies, one)
	}
	return selectCookies(cookies, hosts), nil
}

const httpOnly = "#HttpOnly_"

// isNetscape reports whether a text is a cookies.txt, by its first line.
func isNetscape(text string) bool {
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
			return nil, invalidCookies("/cookie", "format",
				fmt.Sprintf("line %d must have seven fields separated by tabs", number))
		}
		one := Cookie{Name: fields[5], Value: secret.New(fields[6]), Domain: fields[0], Path: fields[2], HostOnly: !strings.EqualFold(fields[1], "TRUE")}
		if fault := one.invalidReason(); fault != "" {
			return nil, invalidCookies("/cookie", "character", fmt.Sprintf("the cookie in line %d %s", number, fault))
		}
		cookies = append(cookies, one)
	}
	switch {
	case len(cookies) == 0:
		return nil, invalidCookies("/cookie", "minItems", "must have at least one cookie")
	case len(cookies) > maxCookies:
		return nil, invalidCookies("/cookie", "maxItems", "must have at most 1000 cookies")
	}
	return selectCookies(cookies, hosts), nil
}

// selectCookies returns the cookies of the hosts, one per name: the longest path wins, and the last of equal ones.
func selectCookies(list []Cookie, hosts []string) map[string]secret.String {
	chosen, paths := map[string]secret.String{}, map[string]int{}
	for _, one := range list {
		if !one.belongsTo(hosts) || paths[one.Name] > len(one.Path) {
			continue
		}
		chosen[one.Name], paths[one.Name] = one.Value, len(one.Path)
	}
	return chosen
}

// belongsTo reports whether a browser would send the cookie to one of the hosts. Cookies ignore ports.
func (c Cookie) belongsTo(hosts []string) bool {
	domain := strings.ToLower(strings.TrimPrefix(c.Domain, "."))
	for _, host := range hosts {
		name, _ := splitHostPort(host, "")
		below := !c.HostOnly && strings.Contains(domain, ".") && strings.HasSuffix(name, "."+domain)
		if domain == "" || domain == name || below {
			return true
		}
	}
	return false
}
