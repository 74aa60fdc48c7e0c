package connectpages

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
)

// Every page names the platform that it is about. A page whose platform is not known, such as that of a link that has
// expired, calls it "the platform".

// setPlace sets the platform of the page, and the creator's site on it.
func (v *visit) setPlace(platform, site string) {
	v.platform, _ = v.deps.Platforms.Get(platform)
	v.site = site
}

// setSessionPlace sets the platform of the session. It is not known if the org's environment has none.
func (v *visit) setSessionPlace() {
	v.platform, _ = v.deps.Platforms.Choose(v.org.Environment, v.session.Platform)
	v.site = v.session.Site
}

// offers reports whether the creator can use a connect method on this page.
func (v *visit) offers(kind string) bool {
	return v.platform.Catalog != nil && v.platform.Has(kind) && v.session.Offers(kind)
}

// stopIfUnavailable answers requests for the forms of a session in which no method can be used, and reports whether it
// did. A creator is never asked for a password that cannot be used.
func (v *visit) stopIfUnavailable() bool {
	if slices.ContainsFunc(link.Methods(), v.offers) {
		return false
	}
	v.showUnavailable()
	return true
}

// asksSite reports whether the creator has to name a site before signing in.
func (v *visit) asksSite() bool {
	return v.session != nil && v.session.Account == "" && v.session.Site == "" && v.platform.Catalog != nil && v.platform.Catalog.Site != nil
}

// siteName returns the site as people write it, without a scheme.
func (v *visit) siteName() string {
	_, name, _ := strings.Cut(v.site, "://")
	return name
}

// exampleSite returns the address of a site as an example.
func (v *visit) exampleSite() string {
	if v.platform.Catalog == nil || v.platform.Catalog.Site == nil {
		return ""
	}
	return v.platform.Catalog.Site.Example
}

// The variants of a text. Ids of platforms are in lower case, so no platform has one of these names.
const (
	// whenSite is for pages whose creator has a site, which the text may name.
	whenSite = "@hasSite"
	// whenNoPhone is for pages without the method mobile_app.
	whenNoPhone = "@noPhone"
)

// textKey returns the key of the variant of a text that fits the page: the one for its platform, such as
// can.read@ghost, or one of the variants above, or else the text itself.
func (v *visit) textKey(key string) string {
	var ends []string
	if v.platform.Catalog != nil {
		ends = append(ends, "@"+v.platform.ID)
	}
	if v.site != "" {
		ends = append(ends, whenSite)
	}
	if v.platform.Catalog != nil && !v.platform.Has(link.MobileApp) || v.session != nil && !v.session.Offers(link.MobileApp) {
		ends = append(ends, whenNoPhone)
	}
	for _, end := range ends {
		if _, ok := v.words.texts[key+end]; ok {
			return key + end
		}
	}
	return key
}

// fillIn adds what every text may name.
func (v *visit) fillIn(pairs []string) []string {
	inside := v.words.texts["platform"]
	first, size := utf8.DecodeRuneInString(inside)
	begins := string(unicode.ToUpper(first)) + inside[size:] // at the beginning of a sentence
	if c := v.platform.Catalog; c != nil {
		inside, begins = c.Name, c.Name
	}
	_, example, _ := strings.Cut(v.exampleSite(), "://")
	if c := v.platform.Catalog; c != nil && c.Session.JWT != nil {
		pairs = append(pairs, "key", c.Session.JWT.Name, "where", c.Session.JWT.Where)
	}
	return append(pairs, "org", v.org.Name, "platform", inside, "Platform", begins, "site", v.siteName(), "example", example)
}

// text returns a text of the page that is not escaped.
func (v *visit) text(key string, pairs ...string) (string, error) {
	return v.words.plain(v.textKey(key), v.fillIn(pairs)...)
}

// consentText returns the whole text that a creator agrees to.
func (v *visit) consentText() (string, error) {
	var all []string
	for _, key := range []string{"start.consent", "start.can", "can.read", "can.write", "can.money", "can.not"} {
		part, err := v.text(key)
		if err != nil {
			return "", err
		}
		all = append(all, part)
	}
	return strings.Join(all, "\n"), nil
}

// loadMarks adds the platforms' marks to the files.
func (h *Pages) loadMarks() error {
	for _, p := range h.deps.Platforms.All() {
		if p.Catalog == nil || p.Catalog.Logo == "" {
			continue
		}
		const svg = "data:image/svg+xml;base64,"
		content, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Catalog.Logo, svg))
		if err != nil {
			return fmt.Errorf("read the mark of %s: %w", p.ID, err)
		}
		h.assets[markFile(p.ID)] = newAsset(content, "image/svg+xml")
	}
	return nil
}

func markFile(platform string) string { return "platform/" + platform + ".svg" }

// PlatformName returns the name of the platform; empty if it is not known.
func (p *page) PlatformName() string {
	if p.platform.Catalog == nil {
		return ""
	}
	return p.platform.Catalog.Name
}

// PlatformMark returns the address of the platform's mark, which changes with the picture; empty if there is none.
func (p *page) PlatformMark() string {
	file, ok := p.assets[markFile(p.platform.ID)]
	if !ok {
		return ""
	}
	return "/connect/" + markFile(p.platform.ID) + "?v=" + strings.Trim(file.tag, `"`)
}

// PlatformInitial stands for a mark that is missing.
func (p *page) PlatformInitial() string { return initial(p.PlatformName()) }

func initial(name string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(name))
	return string(unicode.ToUpper(first))
}

// SiteName returns the creator's site as people write it; empty if there is none, or if it is not known yet.
func (p *page) SiteName() string { return p.siteName() }

// SiteURL returns the site that the creator has named, to be sent with the next form; empty if the session has it.
func (p *page) SiteURL() string {
	if !p.asksSite() {
		return ""
	}
	return p.site
}

// Example returns the address of a site as an example.
func (p *page) Example() string { return p.exampleSite() }

// Offers reports whether the creator can use a connect method.
func (p *page) Offers(kind string) bool { return p.offers(kind) }

// ChangeSite returns the address at which the creator names another site.
func (p *page) ChangeSite() string {
	query := url.Values{"again": {"1"}, "site": {p.siteName()}}
	if p.lang() != "" {
		query.Set("lang", p.words.lang)
	}
	return p.path + "?" + query.Encode()
}
