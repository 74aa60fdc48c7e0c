package connect

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// located is where a creator signs in, and the route to it.
type located struct {
	platform registry.Platform
	place    driver.Place
	// known is the account to reconnect; its zero value if there is none.
	known  account.Account
	region string
	// attempt is the id of the attempt. It identifies the traffic before there is an account.
	attempt id.Attempt
}

// Locate finds the platform and the place of an attempt before its Start, which then does not ask the site again. It is
// for callers that read a session of the platform.
func (c *Connects) Locate(ctx context.Context, s *Start) (registry.Platform, driver.Place, error) {
	found, err := c.locate(ctx, s)
	return found.platform, found.place, err
}

func (c *Connects) locate(ctx context.Context, s *Start) (located, error) {
	if s.found != nil {
		return *s.found, nil
	}
	found := located{attempt: id.New[id.Attempt]()}
	var err error
	if s.Account != "" {
		if found.known, err = c.deps.Accounts.Get(ctx, s.Org.ID, s.Account); err != nil {
			return located{}, err
		}
	}
	if found.platform, err = c.choosePlatform(*s, found.known); err != nil {
		return located{}, err
	}
	if s.Kind == attempt.Token {
		if err := readKey(found.platform.Catalog, s); err != nil {
			return located{}, err
		}
	}
	if err := checkKind(found.platform, s.Kind); err != nil {
		return located{}, err
	}
	found.region = cmp.Or(s.Region, found.known.Region, c.deps.Config.Regions()[0])
	if err := c.checkRegion(found.region); err != nil {
		return located{}, err
	}
	via := driver.Via{Region: found.region, Account: string(found.attempt)}
	if found.place, err = findPlace(ctx, found.platform, *s, found.known, via); err != nil {
		return located{}, err
	}
	s.found = &found
	return found, nil
}

// checkKind fails if the platform does not have a kind of sign-in that the caller chooses by auth_type.
func checkKind(p registry.Platform, kind attempt.Kind) error {
	names := map[attempt.Kind]string{attempt.Credentials: "with email and password", attempt.Mobile: "by phone", attempt.OAuth: "by OAuth on this server"}
	name, chosen := names[kind]
	if !chosen || p.Has(string(kind)) {
		return nil
	}
	var others []string
	for _, flow := range p.Flows() {
		if _, known := names[attempt.Kind(flow)]; known {
			others = append(others, flow)
		}
	}
	return problem.ValidationFailed.Newf("%s has no sign-in %s.", p.Catalog.Name, name).At("/auth_type", "unsupported",
		"must be "+strings.Join(others, " or ")+" on this platform")
}

// readKey makes the session of an attempt from its key. Errors are problems that do not contain the key.
func readKey(c *catalog.Catalog, s *Start) error {
	if c.Session.JWT == nil {
		return problem.ValidationFailed.Newf("%s issues no keys to programs.", c.Name).At("/platform", "unsupported",
			"must be a platform whose flows in GET /v1/platforms include token")
	}
	key, ok := c.Session.JWT.Parse(s.Token)
	if !ok {
		return problem.ValidationFailed.Newf("This is not %s of %s.", c.Describe(catalog.ByToken), c.Name).At("/token", "form",
			"must be the whole "+c.Session.JWT.Name+". "+c.Session.JWT.Where)
	}
	session := driver.NewTokenSession(key)
	s.Imported = &session
	return nil
}

// checkRegion fails if a region is unknown, switched off or without a working proxy.
func (c *Connects) checkRegion(region string) error {
	if !slices.Contains(c.deps.Config.Regions(), region) {
		return problem.ValidationFailed.New("The region is unknown.").At("/proxy_country", "enum",
			"must be one of "+strings.Join(c.deps.Config.Regions(), ", "))
	}
	if err := c.deps.Switches.Refuse(switches.Region(region)); err != nil {
		return err
	}
	if !c.deps.Egress.Available(region) {
		return problem.ConnectUnavailable.Newf(
			"No proxy of the region %s works right now, and other regions are not used.", region).After(5)
	}
	return nil
}

// choosePlatform returns the platform of the account to reconnect, or the one that the caller has chosen.
func (c *Connects) choosePlatform(s Start, known account.Account) (registry.Platform, error) {
	if known.ID == "" {
		return c.deps.Platforms.Choose(s.Org.Environment, s.Platform)
	}
	if s.Platform != "" && s.Platform != known.Place.Platform {
		return registry.Platform{}, problem.ValidationFailed.New("The account is on another platform.").At("/platform", "mismatch",
			"must be "+known.Place.Platform+", or be omitted")
	}
	p, ok := c.deps.Platforms.Get(known.Place.Platform)
	if !ok {
		return registry.Platform{}, registry.Unavailable(known.Place.Platform)
	}
	return p, nil
}

// findPlace returns where the creator signs in. On a platform with sites it asks the site whether it runs the platform's
// software, before anything secret is sent there. An account stays on its site.
func findPlace(ctx context.Context, p registry.Platform, s Start, known account.Account, via driver.Via) (driver.Place, error) {
	switch {
	case known.ID != "":
		if s.Site != "" && !sameSite(s.Site, known.Place.Site) {
			return driver.Place{}, badSite("mismatch", "must be the account's site, "+known.Place.Site+", or be omitted")
		}
		return known.Place, nil
	case p.Sites == nil && s.Site != "":
		return driver.Place{}, badSite("unexpected", "must be omitted: all creators of this platform sign in at the same address")
	case p.Sites == nil:
		return driver.Place{Platform: p.ID}, nil
	case s.Site == "":
		return driver.Place{}, badSite("required", "must be the address of the creator's site, such as "+p.Catalog.Site.Example)
	}
	return p.Sites.FindSite(ctx, via, s.Site)
}

func badSite(code, detail string) error {
	return problem.ValidationFailed.New("The site is not valid.").At("/site", code, detail)
}

// sameSite reports whether two addresses name the same site.
func sameSite(a, b string) bool {
	ours, err := url.Parse(egress.WithASCIIHost(strings.TrimSuffix(a, "/")))
	theirs, failed := url.Parse(strings.TrimSuffix(b, "/"))
	return err == nil && failed == nil && strings.EqualFold(ours.Host, theirs.Host) && ours.Scheme == theirs.Scheme && ours.Path == theirs.Path
}

// loginAt returns the namespace of a login: the same e-mail address on two platforms or two sites is two logins.
func loginAt(kind string, place driver.Place) string {
	return kind + " " + place.Platform + " " + place.SiteID
}

// importedLogin identifies the login of a copied session by its owner; nil if the cookies do not name one.
func (c *Connects) importedLogin(ctx context.Context, found located, s driver.Session) ([]byte, error) {
	owner := s.Owner(found.platform.Catalog)
	if owner == "" {
		return nil, nil
	}
	return c.loginHash(ctx, loginAt("owner", found.place), owner)
}
