package registry

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Source is an entry of STAGEDOOR_PLATFORMS: where a platform's manifest is, and its address.
type Source struct {
	ID string
	// Folder holds the manifest; empty for a manifest that is built in.
	Folder string
	// URL replaces the origin in the manifest; empty to keep it.
	URL string
}

// builtin is written instead of a folder for a manifest that is built in.
const builtin = "builtin"

// sandboxID is the id of our own sandbox platform.
const sandboxID = "sandbox"

func (s Source) isSandbox() bool { return s.ID == sandboxID && s.Folder == "" }

var slug = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// ParseSources parses the setting: entries of the form id=folder,url, separated by white space. The folder may be
// builtin, and the URL may be missing. An empty text means the sandbox. sandboxURL is the address of the sandbox if its
// entry names none.
func ParseSources(text, sandboxURL string) ([]Source, error) {
	var list []Source
	var bad []error
	for entry := range strings.FieldsSeq(text) {
		s, err := parseSource(entry)
		switch {
		case err != nil:
			bad = append(bad, err)
		case slices.ContainsFunc(list, func(other Source) bool { return other.ID == s.ID }):
			bad = append(bad, fmt.Errorf("%s is listed twice", s.ID))
		}
		if s.isSandbox() && s.URL == "" {
			s.URL = sandboxURL
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		list = []Source{{ID: sandboxID, URL: sandboxURL}}
	}
	return list, errors.Join(bad...)
}

func parseSource(entry string) (Source, error) {
	id, rest, found := strings.Cut(entry, "=")
	folder, address, _ := strings.Cut(rest, ",")
	switch {
	case !found || folder == "" || !slug.MatchString(id):
		return Source{}, fmt.Errorf("%q is not a platform: write it as id=folder,url or id=builtin", entry)
	case folder == builtin && !slices.Contains(catalog.BuiltinIDs(), id):
		return Source{}, fmt.Errorf("no platform %s is built in: use one of %s, or name a folder", id,
			strings.Join(catalog.BuiltinIDs(), ", "))
	}
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			return Source{}, fmt.Errorf("the address of %s is not an http or https origin: write it as https://platform.example", id)
		}
	}
	if folder == builtin {
		folder = ""
	}
	return Source{ID: id, Folder: folder, URL: address}, nil
}

// CallbackPath is the path of the connect pages to which platforms send creators back. With the address of the pages, it
// is the redirect URI that operators register.
const CallbackPath = "/connect/oauth/callback"

// ParseOAuthClients parses the setting: entries of the form id=client:secret, separated by white space, where id is that
// of a listed platform. The secret may be missing. Both are percent-encoded if they contain a colon, a percent sign or
// white space. No error contains a value. pages is the address of the connect pages.
func ParseOAuthClients(text secret.String, platforms []Source, pages string) (map[string]driver.OAuthClient, error) {
	list := map[string]driver.OAuthClient{}
	var bad []error
	for entry := range strings.FieldsSeq(text.Reveal()) {
		id, rest, _ := strings.Cut(entry, "=")
		client, password, _ := strings.Cut(rest, ":")
		name, err := url.PathUnescape(client)
		hidden, failed := url.PathUnescape(password)
		_, twice := list[id]
		switch {
		case !slug.MatchString(id) || name == "" || err != nil || failed != nil:
			bad = append(bad, fmt.Errorf("entry %d is not a client: write it as platform=client-id:client-secret", len(list)+len(bad)+1))
			continue
		case !slices.ContainsFunc(platforms, func(s Source) bool { return s.ID == id }):
			bad = append(bad, fmt.Errorf("there is no platform %s: list it in STAGEDOOR_PLATFORMS", id))
		case twice:
			bad = append(bad, fmt.Errorf("%s is listed twice", id))
		}
		list[id] = driver.OAuthClient{ID: name, Secret: secret.New(hidden), RedirectURI: pages + CallbackPath}
	}
	return list, errors.Join(bad...)
}

// Load reads and compiles the manifest. The error wraps catalog.Faults if the manifest has faults.
func (s Source) Load() (*catalog.Catalog, error) {
	if s.Folder == "" {
		return catalog.Builtin(s.ID)
	}
	info, err := os.Stat(s.Folder)
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder with a manifest", s.Folder)
	}
	c, err := catalog.Load(os.DirFS(s.Folder))
	if err != nil {
		return nil, err
	}
	if c.ID != s.ID {
		return nil, fmt.Errorf("the manifest in %s has the id %s: list it as %s=%s", s.Folder, c.ID, c.ID, s.Folder)
	}
	return c, nil
}
